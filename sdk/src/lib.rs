//! Static tracepoints that cost one NOP while nobody looks.
//!
//! ```text
//! #[tracepoint] / event! ─▶ gate (a NOP in your function) ─▶ cold block ─▶ in-process probes
//!                                                                      └▶ USDT probe: bridge-cli,
//!                                                                         perf, bpftrace, gdb, …
//! ```
//! A tracepoint has a provider (the crate), a name and typed fields. It is off until somebody wants
//! it: a tool from outside, through the semaphore of its USDT probe, or the program itself, through
//! [`enable`] or [`Tracepoint::attach`]. Switching it on patches one byte of each of its sites.
//!
//! ```
//! use tracebraid::{event, tracepoint};
//!
//! #[tracepoint]
//! fn charge(order_id: u64, cents: i64) -> Result<(), String> {
//!     event!(cache_miss, key = order_id, size = 3_u32);
//!     Ok(())
//! }
//!
//! tracebraid::init();
//! let all = tracebraid::tracepoints();
//! let charge_entry = all.iter().find(|tracepoint| tracepoint.name() == "charge").unwrap();
//! let attachment = charge_entry.attach(|event| println!("{event}"));
//! charge(17, 4200).unwrap();
//! drop(attachment);
//! ```
//!
//! On x86-64 Linux all of it works, on aarch64 Linux with a gate of that architecture; elsewhere
//! tracepoints expand to nothing, but their fields are still type-checked.

#![cfg_attr(docsrs, feature(doc_cfg))]

// Tracepoints of the SDK's own expand as everybody's.
#[cfg(all(feature = "tracing", tracebraid_keys))]
extern crate self as tracebraid;

#[cfg(not(tracebraid_keys))]
mod absent;
#[cfg(tracebraid_keys)]
mod clock;
#[cfg(tracebraid_keys)]
mod control;
#[cfg(tracebraid_keys)]
mod dso;
#[cfg(tracebraid_keys)]
mod emit;
#[cfg(tracebraid_keys)]
mod environment;
mod error;
#[cfg(tracebraid_keys)]
mod event;
mod field_value;
mod fields;
#[cfg(tracebraid_keys)]
mod gate;
mod held;
#[cfg(feature = "tracing")]
mod interop;
#[cfg(tracebraid_keys)]
mod lock;
#[cfg(all(feature = "tracing", tracebraid_keys))]
mod made;
mod options;
#[cfg(tracebraid_keys)]
mod probe;
#[cfg(tracebraid_keys)]
mod recorded;
#[cfg(tracebraid_keys)]
mod registry;
#[cfg(tracebraid_keys)]
mod ring;
mod site;
mod stamp;
#[cfg(tracebraid_keys)]
mod state;
mod status;
mod traced;
mod tracepoint;
pub mod value;

#[doc(hidden)]
pub mod __private;

#[cfg(not(tracebraid_keys))]
pub use absent::{
    Attachment, BeforeVfork, Event, Recorded, Tracepoint, before_vfork, disable, drain, enable,
    init, init_with, is_enabled, lost, settle, snapshot, status, tracepoints,
};
#[cfg(tracebraid_keys)]
pub use control::{init, init_with, settle, status};
pub use error::{Error, ErrorKind, Result};
#[cfg(tracebraid_keys)]
pub use event::Event;
pub use field_value::FieldValue;
#[cfg(feature = "tracing")]
pub use interop::tracing;
pub use options::{Appending, Options, Patching};
#[cfg(tracebraid_keys)]
pub use probe::Attachment;
#[cfg(tracebraid_keys)]
pub use recorded::Recorded;
#[cfg(tracebraid_keys)]
pub use registry::{Tracepoint, disable, enable, is_enabled, tracepoints};
#[cfg(tracebraid_keys)]
pub use ring::{BeforeVfork, before_vfork, drain, lost, snapshot};
pub use status::Status;
pub use tracebraid_macros::{event, tracepoint};
pub use tracebraid_wire::kind::{FieldKind, Kind};
pub use tracepoint::{Field, Site};
pub use value::Value;
