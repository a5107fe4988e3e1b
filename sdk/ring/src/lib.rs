//! Per-CPU rings in shared memory. Knows bytes, no records.
//!
//! ```text
//! region (one memfd)   header area │ control blocks, one a ring │ data areas, one a ring
//!
//! producer: any thread of the program, on the ring of the CPU it runs on
//!   head ──▶ append: space check, time, copy, commit: one restartable sequence (rseq)
//! consumer: one reader, in this process or another
//!   tail ──▶ copies [tail, head) out, checks, gives the room back
//! ```
//! What an append promises: no lock prefix, no system call; it may happen in a signal handler; in one
//! ring time never goes backwards; a record is there whole or not at all, also when the process dies in
//! the middle. Where there is no rseq, appends take a lock, in rings of their own: the two kinds never
//! share a ring.
//!
//! An append is a slice of 64-bit words. Word 1 is the time, written by the append itself; the low 16
//! bits of word 0 are the length in words. All else is the caller's.

pub mod consumer;
pub mod geometry;
pub mod locked;
pub mod region;
pub mod requests;
#[cfg(target_arch = "x86_64")]
pub mod rseq;
mod sync;
pub mod thread;

pub use consumer::{Consumer, Damage};
pub use geometry::{Control, Geometry};
pub use region::Region;

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the ring, and this is its time.
    Yes(u64),
    /// The ring was full: nothing was written. The caller counts it.
    Full,
    /// This thread cannot append here (no rseq, a CPU without a ring): use the locked rings.
    Elsewhere,
}

impl Appended {
    /// The time of the record, where there is one.
    #[inline]
    pub fn time(self) -> Option<u64> {
        match self {
            Appended::Yes(time) => Some(time),
            Appended::Full | Appended::Elsewhere => None,
        }
    }
}

/// What happens when a ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// New records are refused.
    Discard,
    /// The oldest records are overwritten (flight recorder).
    Overwrite,
}

/// Where time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time stamp counter, read inside the append.
    Tsc,
    /// The caller reads the time before the append; a ring never goes backwards all the same.
    Given,
}
