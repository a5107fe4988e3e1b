//! The kernel side of tracebraid: BPF programs, what attaches them, and the rings they fill. The only
//! user of libbpf.
//!
//! # Model
//!
//! A [`Spec`](spec::Spec) says what to probe, as plain data. [`Session::start`] attaches all of it.
//! From then on every CPU writes records into a ring of its own, without waking anybody; whoever holds
//! the session looks after the rings by a timer:
//!
//! ```no_run
//! use tracebraid_bpf::{Session, spec::*};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Spec {
//!     kernel: vec![KernelProbe { id: ProbeId(0), event: KernelEvent::SchedSwitch }],
//!     filter: Filter { processes: vec![4242], ..Filter::default() },
//!     ..Spec::default()
//! };
//! let mut session = Session::start(&spec)?;
//! let (mut records, mut lost) = (Vec::new(), Vec::new());
//! for _ in 0..100 {
//!     std::thread::sleep(std::time::Duration::from_millis(10));
//!     let mut complete = u64::MAX;
//!     for cpu in session.cpus().to_vec() {
//!         complete = complete.min(session.drain(cpu, &mut records)?.until);
//!     }
//!     session.losses(&mut lost)?;
//!     // Everything with a time below `complete` is here: sort, and hand it on.
//!     records.sort_by_key(|record| record.time);
//! }
//! session.finish(&mut records, &mut lost)?;
//! for count in session.counts() {
//!     assert_eq!(count.hits, count.delivered + count.filtered + count.lost);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What holds
//!
//! - **Time.** Programs read the clock after they have reserved room in the ring. So once the
//!   producer's position has been read, every record with an earlier time is known to stand before
//!   it: [`Drained::until`] is exact on every kernel.
//! - **Counts.** Every hit is one record, one that its probe's filter refused, or one count of a loss, by
//!   probe and CPU: these sum up after [`Session::finish`]. What the kernel's recursion guard drops before a program runs is
//!   counted by the kernel, and reported as [`LostReason::Recursion`](record::LostReason).
//! - **Filters go by role.** A switch is wanted for who leaves or who comes, a wake for who is woken;
//!   everything else for whom it happens in. Processes and threads are numbered as in this process's
//!   pid namespace; what is not in it, no event is of.
//! - **Nothing stays behind.** Every probe is a file descriptor. `kill -9` included.
//!
//! # Places
//!
//! `spec`, `hit_filter` and `record` build without clang (`default-features = false`). `plan` turns a spec
//! into what the kernel side knows: numbered entries, locations, places of arguments. `filter_code` makes
//! instructions of filters and `fetch_code` of what definitions fetch, with `assembler`; they stand in a `room`
//! of their object. `maps` and `load` make the maps and load the programs of `bpf/*.bpf.c`, `mechanism` chooses
//! how a kernel function is reached, `attach/` links them (by `kernel`'s links, else by a `perf_event`), `ring`,
//! `solo_ring` (of tracepoints) and `counters` read what they write, `cpu_rings` makes one stream of a CPU's
//! rings, `decode` makes records of it. `cost` asks
//! what programs took, `misses` what they were kept from. `family` keeps the set of processes where children are
//! followed, `mappings` knows what processes map. `bpf/abi.h` and `bpf/scratch.h` are all that C and Rust share.
//! [`capability`] knows what this machine allows.

pub mod hit_filter;
pub mod record;
pub mod spec;

#[cfg(feature = "load")]
mod abi;
#[cfg(feature = "load")]
mod assembler;
#[cfg(feature = "load")]
mod attach;
#[cfg(feature = "load")]
pub mod capability;
#[cfg(feature = "load")]
mod cost;
#[cfg(feature = "load")]
mod counters;
#[cfg(feature = "load")]
mod cpu_rings;
#[cfg(feature = "load")]
mod cpus;
#[cfg(feature = "load")]
mod decode;
#[cfg(feature = "load")]
mod error;
#[cfg(feature = "load")]
mod family;
#[cfg(feature = "load")]
mod fetch_code;
#[cfg(feature = "load")]
mod fetching;
#[cfg(feature = "load")]
mod filter_code;
#[cfg(feature = "load")]
mod kernel;
#[cfg(feature = "load")]
mod load;
#[cfg(feature = "load")]
pub mod mappings;
#[cfg(feature = "load")]
mod maps;
#[cfg(feature = "load")]
mod mechanism;
#[cfg(feature = "load")]
mod memory;
#[cfg(feature = "load")]
mod misses;
#[cfg(feature = "load")]
mod namespace;
#[cfg(feature = "load")]
mod patience;
#[cfg(feature = "load")]
mod perf_event;
mod plan;
#[cfg(feature = "load")]
mod registers;
#[cfg(feature = "load")]
mod rights;
#[cfg(feature = "load")]
mod ring;
#[cfg(feature = "load")]
mod room;
#[cfg(feature = "load")]
mod session;
#[cfg(feature = "load")]
mod solo_ring;
#[cfg(feature = "load")]
mod stacks;

#[cfg(feature = "load")]
pub use cost::{Cost, Metering};
#[cfg(feature = "load")]
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "load")]
pub use family::Family;
#[cfg(feature = "load")]
pub use fetching::{FetchBy, Fetching};
#[cfg(feature = "load")]
pub use mechanism::{Chosen, Mechanism};
#[cfg(feature = "load")]
pub use memory::now;
#[cfg(feature = "load")]
pub use session::{Count, Drained, Options, Session};
