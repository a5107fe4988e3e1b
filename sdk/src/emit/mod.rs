//! From a cold block to everybody who wants the event.
//!
//! ```text
//! cold block: words ──fire──▶ trampoline: slots ──▶ emit ──▶ format ──▶ in-process probes
//!                                                                  └──▶ USDT stub
//! ```
//! Nothing here allocates, locks or makes a system call, so that tracepoints may stand in signal
//! handlers and destructors of thread-locals. The per-CPU ring will stand last in this row.

#![allow(unsafe_code)]

mod format;
mod trampoline;

use std::sync::atomic::Ordering;

use tracebraid_wire::table::POINT_FORMATS;

#[cfg(feature = "tracing")]
pub(crate) use format::{Buffer, TEXT_BYTES};
pub use trampoline::fire;
use trampoline::reach_usdt;

use crate::probe;
use crate::ring;
use crate::state::HotRow;

/// Takes a hit. Called by trampolines only; never unwinds.
///
/// Where all that is wanted is words in a ring, the way is straight and needs no register that would
/// have to be saved; everything else goes the other way.
///
/// # Safety
/// `point` is the address of a point's row in a loaded object, and `slots` are those of a hit of it.
pub(crate) unsafe extern "C" fn emit(point: *const u8, slots: *mut u64) {
    // SAFETY: the trampoline passes on what the site's cold block gave it.
    unsafe {
        let row = HotRow::at(point);
        let (semaphore, state) = (&*row.semaphore(), &*row.state());
        let only_ring = semaphore.readers.load(Ordering::Relaxed) == 0
            && state.callbacks.load(Ordering::Relaxed).is_null()
            && state.ring.load(Ordering::Relaxed) == ring::ALL;
        if !only_ring {
            emit_otherwise(row, slots);
        } else if !ring::append_straight(row, state, slots) {
            if row.flags() & POINT_FORMATS == 0 {
                ring::append(row, state, slots);
            } else {
                emit_otherwise(row, slots);
            }
        }
    }
}

/// # Safety
/// As for [`emit`].
#[inline(never)]
unsafe fn emit_otherwise(row: HotRow, slots: *mut u64) {
    // SAFETY: the row leads to the point's semaphore word.
    let semaphore = unsafe { &*row.semaphore() };
    let readers = semaphore.readers.load(Ordering::Relaxed);
    // A gate that serves an entry and its return opens for both when either is wanted.
    if readers == 0 && semaphore.wanted.load(Ordering::Relaxed) == 0 {
        return;
    }
    // SAFETY: the caller's promise; formatting replaces the slots that need it.
    unsafe {
        if row.flags() & POINT_FORMATS == 0 {
            deliver(row, slots, readers != 0);
        } else {
            format::with_text(row, slots, |slots| deliver(row, slots, readers != 0));
        }
    }
}

/// # Safety
/// `slots` are those of a hit of `row`, with all text made.
unsafe fn deliver(row: HotRow, slots: *mut u64, usdt: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        probe::call(row, slots);
        let state = &*row.state();
        if ring::passes(state, slots) {
            ring::append(row, state, slots);
        }
        if usdt {
            reach_usdt(row, slots);
        }
    }
}
