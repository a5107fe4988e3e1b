//! The rings of this process: one region, found by a bridge through its memfd.
//!
//! ```text
//! init ──▶ region, directory of tracepoints        (memory is taken as rings are written)
//! emit ──▶ encode ──▶ append on this CPU's ring: rseq, else a locked ring ──▶ else a loss, counted
//! ```
//! The pointer to it all lives in a page that the kernel wipes in a child of fork: a child has no rings,
//! at no cost, until its first event makes it a region of its own.

#![allow(unsafe_code)]

mod clock;
mod directory;
mod drain;
mod encode;
mod listing;
mod rings;
pub(crate) mod service;

pub use drain::{drain, lost};
pub(crate) use listing::Listing;
pub(crate) use rings::{Setup, current, start};

use std::slice;
use std::sync::atomic::Ordering;

use tracebraid_wire::record::Header;
use tracebraid_wire::table::POINT_WORDS;

use crate::fields::HEADER_WORDS;
use crate::state::{HotRow, State};
use encode::Encoder;
use rings::Rings;

/// Appends an event to the ring.
///
/// # Safety
/// `slots` are those of a hit of `row`, with all text made; where every field is a word, the two words
/// in front of them are free.
#[inline(always)]
pub(crate) unsafe fn append(row: HotRow, state: &State, slots: *mut u64) {
    let Some(rings) = current() else { return };
    let event = state.event.load(Ordering::Relaxed) as u16;
    let thread = rings::thread_id();
    let schema = row.schema();
    // SAFETY: the schema has its number of fields at byte 7.
    let count = unsafe { schema.add(7).read() };
    // SAFETY: the caller's promise.
    unsafe {
        if row.flags() & POINT_WORDS != 0 {
            let words = HEADER_WORDS + usize::from(count);
            let record = slots.sub(HEADER_WORDS);
            record.write(Header::word(words as u16, event, thread));
            rings.append(slice::from_raw_parts(record, words), event, thread);
        } else {
            let kinds = slice::from_raw_parts(schema.add(8), count.into());
            encode_and_append(rings, kinds, slots, event, thread);
        }
    }
}

/// # Safety
/// `slots` are those of a hit with these kinds.
#[inline(never)]
unsafe fn encode_and_append(
    rings: &Rings,
    kinds: &[u8],
    slots: *const u64,
    event: u16,
    thread: u32,
) {
    let mut record = Encoder::new();
    // SAFETY: the caller's promise.
    unsafe { record.fields(kinds, slots) };
    rings.append(
        record.finish(|words| Header::word(words, event, thread)),
        event,
        thread,
    );
}
