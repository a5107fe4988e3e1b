//! From a cold block to everybody who wants the event.
//!
//! ```text
//! cold block: words ──fire──▶ trampoline: slots ──▶ emit ──▶ straight: encode, append on the CPU's ring
//! body's end: stamp ────────────────────────────▶ leave ─┤
//!                                                        └─▶ otherwise: format ──▶ in-process probes
//!                                                                               ├──▶ filter, ring
//!                                                                               └──▶ USDT stub
//! ```
//! A hit of which nobody wants more than that it is counted goes no further than that.
//! Straight is the way where the rings are all that is wanted, and it needs nothing else: it is one piece of
//! code without a call. What it hands back is the time of the record, the stamp for the event's return.
//! Nothing here allocates, locks or makes a system call, so that tracepoints may stand in signal
//! handlers and destructors of thread-locals.

#![allow(unsafe_code)]

mod format;
mod trampoline;

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use tracebraid_wire::record::Elapsed;
use tracebraid_wire::table::{POINT_FORMATS, POINT_RETURN, POINT_WORDS};

#[cfg(feature = "tracing")]
pub(crate) use format::{Buffer, MARKS, TEXT_BYTES};
pub use trampoline::fire;
use trampoline::reach_usdt;

use crate::fields::{HEADER_WORDS, lower, put};
use crate::probe;
use crate::ring::{self, Straight};
use crate::stamp::Stamp;
use crate::state::{HotRow, State};
use crate::traced::{End, Return};

/// Takes a hit. Called by trampolines only; never unwinds. The stamp for its return, where it is in the
/// rings.
///
/// # Safety
/// `point` is the address of a point's row in a loaded object, and `slots` are those of a hit of it, with
/// [`HEADER_WORDS`] free words in front of them.
pub(crate) unsafe extern "C" fn emit(point: *const u8, slots: *mut u64) -> Option<Stamp> {
    // SAFETY: the trampoline passes on what the site's cold block gave it.
    unsafe {
        let row = HotRow::at(point);
        let state = &*row.state();
        if let Some(straight) = straight(row, state) {
            let flags = row.flags();
            if flags == POINT_WORDS {
                let record = slots.sub(HEADER_WORDS);
                return straight.append(state, record, HEADER_WORDS + row.fields());
            }
            let is_in_ticks = || {
                Stamp::of_word(slots.read())
                    .and_then(Stamp::in_ticks)
                    .is_some()
            };
            if flags == 0 || flags == POINT_RETURN && is_in_ticks() {
                return straight.encode(row, state, slots);
            }
        }
        emit_otherwise(row, slots)
    }
}

/// Takes the hit of a return that has no other fields, of what began at `start`.
///
/// # Safety
/// `point` is the address of a point's row in a loaded object, whose fields are of the kinds [`Return`].
#[inline(never)]
pub(crate) unsafe fn leave(point: *const u8, start: Stamp, end: End) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = HotRow::at(point);
        let state = &*row.state();
        if let (Some(ticks), None) = (start.in_ticks(), end)
            && let Some(straight) = straight(row, state)
        {
            // The stamp, and a byte that says that there is no `end`.
            let mut record = [MaybeUninit::<u64>::uninit(); HEADER_WORDS + 2];
            record[HEADER_WORDS].write(ticks);
            record[HEADER_WORDS + 1].write(0);
            straight.append(state, record.as_mut_ptr().cast(), HEADER_WORDS + 2);
        } else {
            leave_otherwise(row, start, end);
        }
    }
}

/// # Safety
/// As for [`leave`].
#[cold]
#[inline(never)]
unsafe fn leave_otherwise(row: HotRow, start: Stamp, end: End) {
    let mut slots = [MaybeUninit::<u64>::uninit(); HEADER_WORDS + 3];
    put::<Return, 0, _>(&mut slots, lower(&start));
    put::<Return, 1, _>(&mut slots, lower(&end));
    // SAFETY: the slots are of the kinds `Return`, as is the point.
    unsafe { emit_otherwise(row, slots.as_mut_ptr().add(HEADER_WORDS).cast()) };
}

/// Takes the hit of a tracepoint made at run time, whose slot at `place` is a [`Kind::Elapsed`] of what began
/// at `start`, and may be anything yet.
///
/// # Safety
/// As for [`emit`]; all fields are of one slot.
///
/// [`Kind::Elapsed`]: tracebraid_wire::kind::Kind::Elapsed
#[cfg(feature = "tracing")]
pub(crate) unsafe fn end(row: HotRow, slots: *mut u64, place: usize, start: Stamp) {
    // SAFETY: the caller's promise. Nothing that is made at run time has a USDT probe.
    unsafe {
        let state = &*row.state();
        if let Some(ticks) = start.in_ticks()
            && let Some(straight) = straight(row, state)
        {
            slots.add(place).write(ticks);
            straight.append(state, slots.sub(HEADER_WORDS), HEADER_WORDS + row.fields());
        } else {
            deliver_return(row, state, start, slots, place, false);
        }
    }
}

/// The straight way, where rings are all that is wanted, of every hit, and they can be gone to so.
///
/// # Safety
/// The row is of a loaded object.
#[inline(always)]
unsafe fn straight(row: HotRow, state: &State) -> Option<Straight> {
    // SAFETY: the row leads to the point's semaphore word.
    let semaphore = unsafe { &*row.semaphore() };
    let rings_alone = semaphore.readers.load(Ordering::Relaxed) == 0 && is_for_rings_alone(state);
    if rings_alone { ring::straight() } else { None }
}

/// Whether, USDT readers aside, every hit is wanted by the rings and by nobody else.
#[inline(always)]
pub(crate) fn is_for_rings_alone(state: &State) -> bool {
    state.callbacks.load(Ordering::Relaxed).is_null()
        && state.ring.load(Ordering::Relaxed) == ring::ALL
}

/// Whether, USDT readers aside, nobody wants more of it than how often it is hit.
#[inline(always)]
fn is_only_counted(state: &State) -> bool {
    state.callbacks.load(Ordering::Relaxed).is_null()
        && state.ring.load(Ordering::Relaxed) == ring::COUNTED
}

/// # Safety
/// As for [`emit`].
#[inline(never)]
unsafe fn emit_otherwise(row: HotRow, slots: *mut u64) -> Option<Stamp> {
    // SAFETY: the row leads to the point's semaphore word.
    let semaphore = unsafe { &*row.semaphore() };
    let readers = semaphore.readers.load(Ordering::Relaxed);
    // A gate that serves an entry and its return opens for both when either is wanted.
    if readers == 0 && semaphore.wanted.load(Ordering::Relaxed) == 0 {
        return None;
    }
    if readers == 0 {
        // SAFETY: the row leads to the point's state.
        let state = unsafe { &*row.state() };
        // What nobody looks at need not be formatted.
        if is_only_counted(state) {
            ring::count(state);
            return None;
        }
    }
    // SAFETY: the caller's promise; formatting replaces the slots that need it.
    unsafe {
        if row.flags() & POINT_FORMATS == 0 {
            deliver(row, slots, readers != 0)
        } else {
            format::with_text(row, slots, |slots| deliver(row, slots, readers != 0))
        }
    }
}

/// # Safety
/// `slots` are those of a hit of `row`, with all text made.
unsafe fn deliver(row: HotRow, slots: *mut u64, usdt: bool) -> Option<Stamp> {
    // SAFETY: the caller's promise.
    unsafe {
        let state = &*row.state();
        if row.flags() & POINT_RETURN != 0
            && let Some(start) = Stamp::of_word(slots.read())
        {
            return deliver_return(row, state, start, slots, 0, usdt);
        }
        probe::call(row, slots);
        let stamp = match ring::passes(state, slots) {
            true => ring::append(row, state, slots),
            false => None,
        };
        if usdt {
            reach_usdt(row, slots);
        }
        stamp
    }
}

/// The same for a return: whoever looks at the slots sees how many nanoseconds it took, and then the record
/// says no other number.
///
/// # Safety
/// As for [`deliver`]; the slot at `place` is `start`.
unsafe fn deliver_return(
    row: HotRow,
    state: &State,
    start: Stamp,
    slots: *mut u64,
    place: usize,
    usdt: bool,
) -> Option<Stamp> {
    // SAFETY: the caller's promise.
    unsafe {
        let elapsed = slots.add(place);
        if !usdt && is_for_rings_alone(state) {
            elapsed.write(ring::elapsed_since(start).word());
            return ring::append(row, state, slots);
        }
        let nanoseconds = start.nanoseconds();
        elapsed.write(nanoseconds);
        probe::call(row, slots);
        if ring::passes(state, slots) {
            elapsed.write(Elapsed::Nanoseconds(nanoseconds).word());
            ring::append(row, state, slots);
            elapsed.write(nanoseconds);
        }
        if usdt {
            reach_usdt(row, slots);
        }
        None
    }
}
