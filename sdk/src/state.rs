//! What is wanted of a tracepoint, as data in the object that holds it.
//!
//! Two places, both led to by the point's row:
//!
//! ```text
//! semaphore word   u16 raised by the kernel for USDT readers   u16 1 while the process wants it
//! state            callbacks, enables counted, callback readers
//! ```
//! A tracepoint is on when the semaphore is not 0, or somebody enabled it, or it has callbacks. The
//! text is made equal to that by `gate::reconcile`, however often and by whomever it is called.
//! All copies of the SDK in a process share this, so its layout belongs to the wire version.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, Ordering};

use tracebraid_wire::table::{PointRow, SEMAPHORE_WORD, STATE_SIZE, relative};

use crate::probe::Callbacks;
use crate::ring::PointFilter;

/// The semaphore word.
#[repr(C, align(4))]
pub(crate) struct Semaphore {
    /// How many USDT readers there are. Only the kernel writes it.
    pub(crate) readers: AtomicU16,
    /// 1 while the process itself wants the tracepoint.
    pub(crate) wanted: AtomicU16,
}

/// The writable state.
#[repr(C, align(8))]
pub(crate) struct State {
    /// The callbacks, or null.
    pub(crate) callbacks: AtomicPtr<Callbacks>,
    /// Enables minus disables.
    pub(crate) enabled: AtomicU32,
    /// Which of the two `reading` counters newcomers use.
    pub(crate) phase: AtomicU32,
    /// How many threads are going through the callbacks, by the phase they began in.
    pub(crate) reading: [AtomicU32; 2],
    /// Panics caught in formatters and callbacks.
    pub(crate) panics: AtomicU32,
    /// Hits that skipped the callbacks, since they came from within one of this very tracepoint.
    pub(crate) nested: AtomicU32,
    /// Its event id in the rings' directory; 0 where it has none.
    pub(crate) event: AtomicU32,
    /// Whether a reader of the rings wants it: `ring::OFF`, `ALL`, `FILTERED` or `COUNTED`.
    pub(crate) ring: AtomicU32,
    /// Which hits go to the rings while `ring` is `FILTERED`; else null.
    pub(crate) filter: AtomicPtr<PointFilter>,
}

const _: () = assert!(size_of::<Semaphore>() == SEMAPHORE_WORD);
const _: () = assert!(size_of::<State>() == STATE_SIZE);

/// A point of a loaded object.
#[derive(Clone, Copy)]
pub(crate) struct Point<'a> {
    pub(crate) semaphore: &'a Semaphore,
    pub(crate) state: &'a State,
}

impl Point<'_> {
    /// # Safety
    /// The row is of an object that is loaded and stays so for `'a`.
    pub(crate) unsafe fn of<'a>(row: &PointRow) -> Point<'a> {
        // SAFETY: the row leads to zeroed, aligned places of these sizes in writable sections of the
        // object, mapped by the caller's promise; both hold atomics only.
        unsafe {
            Point {
                semaphore: &*ptr::with_exposed_provenance(row.semaphore as usize),
                state: &*ptr::with_exposed_provenance(row.state as usize),
            }
        }
    }

    /// Whether the process itself wants the tracepoint.
    pub(crate) fn wanted_here(&self) -> bool {
        self.state.enabled.load(Ordering::Relaxed) != 0
            || self.state.ring.load(Ordering::Relaxed) != 0
            || !self.state.callbacks.load(Ordering::Relaxed).is_null()
    }

    /// Whether anybody wants it.
    pub(crate) fn wanted(&self) -> bool {
        self.semaphore.readers.load(Ordering::Relaxed) != 0 || self.wanted_here()
    }
}

/// The row of a point as the machine code of its object sees it, for the way of an event.
#[derive(Clone, Copy)]
pub(crate) struct HotRow(*const u8);

impl HotRow {
    /// # Safety
    /// `address` is that of a point row in an object that stays loaded while this is used.
    pub(crate) const unsafe fn at(address: *const u8) -> HotRow {
        HotRow(address)
    }

    fn word(self, at: usize) -> u32 {
        // SAFETY: the row has 32 bytes and is 8-aligned (`of`'s promise).
        unsafe { self.0.add(at).cast::<u32>().read() }
    }

    fn leads_to<T>(self, at: usize) -> *const T {
        let from = self.0.addr() as u64 + at as u64;
        ptr::with_exposed_provenance(relative(from, self.word(at) as i32) as usize)
    }

    pub(crate) fn address(self) -> u64 {
        self.0.addr() as u64
    }

    pub(crate) fn schema(self) -> *const u8 {
        self.leads_to(0)
    }

    pub(crate) fn semaphore(self) -> *const Semaphore {
        self.leads_to(4)
    }

    pub(crate) fn stub(self) -> *const () {
        self.leads_to(8)
    }

    pub(crate) fn state(self) -> *const State {
        self.leads_to(16)
    }

    /// How many fields there are.
    pub(crate) fn fields(self) -> usize {
        self.word(28) as usize
    }

    pub(crate) fn flags(self) -> u32 {
        self.word(24)
    }
}
