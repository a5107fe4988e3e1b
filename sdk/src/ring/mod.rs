//! The rings of this process: one region, found by a bridge through its memfd.
//!
//! ```text
//! init ──▶ region, directory of tracepoints        (memory is taken as rings are written)
//! emit ──▶ encode ──▶ append on this CPU's ring: rseq, else a locked ring ──▶ else a loss, counted
//! ```
//! The pointer to it all lives in a page that the kernel wipes in a child of fork: a child has no rings
//! of its own, at no cost. What it records goes to rings that its parent's region has for children, and
//! only where a bridge follows them.

#![allow(unsafe_code)]

mod clock;
mod directory;
mod drain;
mod encode;
mod filter;
mod listing;
mod page;
mod rings;
pub(crate) mod service;
mod sharing;
mod snapshot;

pub use drain::{drain, lost};
#[cfg(feature = "tracing")]
pub(crate) use encode::MOST_FIELDS;
pub(crate) use filter::{ALL, PointFilter, forget_readers, passes};
pub(crate) use listing::Listing;
pub(crate) use page::{Setup, current, start};
pub use sharing::{BeforeVfork, before_vfork};
pub use snapshot::snapshot;

use std::io;
use std::slice;
use std::sync::atomic::Ordering;

use tracebraid_ring::thread;
use tracebraid_wire::record::{Header, INTRODUCTION, Introduction};
use tracebraid_wire::table::POINT_WORDS;

use crate::fields::HEADER_WORDS;
use crate::state::{HotRow, State};
use encode::Encoder;
use rings::Rings;

/// Appends an event whose fields are all words, where that needs nothing else to be done. Whether it was
/// taken care of: what finds its ring full is lost and counted.
///
/// # Safety
/// `slots` are those of a hit of `row`; the two words in front of them are free.
#[inline(always)]
pub(crate) unsafe fn append_straight(row: HotRow, state: &State, slots: *mut u64) -> bool {
    let thread = thread::known();
    let Some(rings) = page::straight().filter(|_| row.flags() == POINT_WORDS && thread != 0) else {
        return false;
    };
    let words = HEADER_WORDS + row.fields();
    let event = state.event.load(Ordering::Relaxed) as u16;
    // SAFETY: the caller's promise; a hit has at most `MAX_FIELDS` fields.
    unsafe {
        let record = slots.sub(HEADER_WORDS);
        record.write(Header::word(words as u16, event, thread));
        rings.append_straight(record, words);
    }
    true
}

/// Appends an event.
///
/// # Safety
/// `slots` are those of a hit of `row`, with all text made.
#[inline(never)]
pub(crate) unsafe fn append(row: HotRow, state: &State, slots: *const u64) {
    if thread::known() == 0 && thread::is_shared() {
        // SAFETY: the caller's promise.
        return unsafe { sharing::append(row, state, slots) };
    }
    let event = state.event.load(Ordering::Relaxed) as u16;
    let Some(rings) = page::of_event(event) else {
        return;
    };
    let thread = match thread::known() {
        0 => introduce(rings, false),
        id => id,
    };
    let mut record = Encoder::new();
    // SAFETY: the schema has one byte a kind from byte 8 on; the slots are those of such fields. A record
    // of the encoder has no more than `encode::WORDS` words.
    unsafe {
        record.fields(
            slice::from_raw_parts(row.schema().add(8), row.fields()),
            slots,
        );
        rings.append(record.finish(|words| Header::word(words, event, thread)));
    }
}

const _: () = assert!(encode::WORDS <= 256);

/// Takes the memory that this process's events will be in, and makes this thread known.
pub(crate) fn take_memory(rings: &Rings) -> io::Result<()> {
    rings.take_memory()?;
    if thread::known() == 0 {
        introduce(rings, false);
    }
    Ok(())
}

/// A thread's first record says who it is: nobody can look that up once it has ended. Its id.
#[cold]
#[inline(never)]
fn introduce(rings: &Rings, has_region: bool) -> u32 {
    let thread = thread::id();
    // SAFETY: it has five words. A record that finds no room is no event: it is not counted.
    unsafe { rings.append(&introduction(thread, has_region)) };
    thread
}

/// The record by which a thread says who it is.
fn introduction(thread: u32, has_region: bool) -> [u64; 5] {
    let mut name = [0; 16];
    // SAFETY: the call writes at most 16 bytes, NUL included.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let introduction = Introduction {
        process: std::process::id(),
        has_region,
        name,
    };
    let header = Header::word(Introduction::WORDS as u16, INTRODUCTION, thread);
    let mut record = [header, 0, 0, 0, 0];
    record[2..].copy_from_slice(&introduction.encode());
    record
}
