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
//! On x86-64 Linux all of it works; elsewhere tracepoints expand to nothing, but their fields are
//! still type-checked.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod control;
mod dso;
mod emit;
mod error;
mod event;
mod fields;
mod gate;
mod probe;
mod registry;
mod site;
mod state;
mod status;
pub mod value;

#[doc(hidden)]
pub mod __private;

pub use control::{Options, init, init_with, settle};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, FieldValue};
pub use gate::text::Patching;
pub use probe::Attachment;
pub use registry::{Field, Site, Tracepoint, disable, enable, is_enabled, tracepoints};
pub use status::{Status, status};
pub use tracebraid_wire::kind::{FieldKind, Kind};
pub use value::Value;
