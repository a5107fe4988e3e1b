//! The way out of a cold block.
//!
//! Words go to a trampoline in registers; it lays them out as slots in its own frame and calls
//! [`emit`](super::emit). More words than there are registers go through an array.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::fire;
#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::reach_usdt;
#[cfg(target_arch = "x86_64")]
pub use x86_64::fire;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::reach_usdt;
