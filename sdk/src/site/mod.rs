//! What an expansion leaves in the program.
//!
//! The proc macros emit no assembly of their own: they call the macros here. [`gate`] and [`point`] say
//! what there is; a platform's file has the instructions.

#[cfg(all(tracebraid_keys, target_arch = "aarch64"))]
mod aarch64;
mod absent;
mod gate;
mod point;
#[cfg(all(tracebraid_keys, target_arch = "x86_64"))]
mod x86_64;
