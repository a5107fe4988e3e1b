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
#[cfg(feature = "tracing")]
mod writer;

pub(crate) use clock::{Line, known as clock_known, nanoseconds_since, ticks};
pub use drain::{drain, lost};
#[cfg(feature = "tracing")]
pub(crate) use encode::MOST_FIELDS;
pub(crate) use filter::{ALL, COUNTED, PointFilter, count, forget_readers, passes};
pub(crate) use listing::Listing;
pub(crate) use page::{Setup, current, start};
pub use sharing::{BeforeVfork, before_vfork};
pub use snapshot::snapshot;
#[cfg(feature = "tracing")]
pub(crate) use writer::Writer;

use std::io;
use std::slice;
use std::sync::atomic::Ordering;

use tracebraid_ring::{Clock, thread};
use tracebraid_wire::record::{Elapsed, Header, INTRODUCTION, Introduction};

use crate::stamp::Stamp;
use crate::state::{HotRow, State};
use encode::Encoder;
use rings::Rings;

/// The process's own rings, where an append is one sequence that reads the counter and refuses when full,
/// and nothing else is to be done.
#[derive(Clone, Copy)]
pub(crate) struct Straight {
    rings: &'static Rings,
    thread: u32,
}

/// The straight way, where it goes: not before a thread's first event, and not for every kind of rings.
#[inline(always)]
pub(crate) fn straight() -> Option<Straight> {
    let thread = thread::known();
    let rings = page::straight()?;
    (thread != 0).then_some(Straight { rings, thread })
}

impl Straight {
    /// Appends a record that is written but for its header; where it finds its ring full it is lost, and
    /// counted. Its stamp.
    ///
    /// # Safety
    /// It has `words` words, 2 to 256.
    #[inline(always)]
    pub(crate) unsafe fn append(
        self,
        state: &State,
        record: *mut u64,
        words: usize,
    ) -> Option<Stamp> {
        // SAFETY: the caller's promise.
        unsafe {
            record.write(self.header(state) | words as u64);
            self.rings.append_straight(record, words)
        }
    }

    /// The first word of a record of 0 words.
    #[inline(always)]
    fn header(self, state: &State) -> u64 {
        Header::word(0, state.event.load(Ordering::Relaxed) as u16, self.thread)
    }

    /// Appends an event of any kinds of fields.
    ///
    /// # Safety
    /// `slots` are those of a hit of `row`, with all text made; the first one of a return is in ticks.
    #[inline(never)]
    pub(crate) unsafe fn encode(
        self,
        row: HotRow,
        state: &State,
        slots: *const u64,
    ) -> Option<Stamp> {
        let header = self.header(state);
        let mut record = Encoder::new();
        // SAFETY: the schema has one byte a kind from byte 8 on, which the expansion of this SDK has written;
        // the slots are those of such fields. A record of the encoder has no more than `encode::WORDS` words.
        unsafe {
            let kinds = slice::from_raw_parts(row.schema().add(8), row.fields());
            let Some((record, words)) = record.whole(kinds, slots) else {
                return append(row, state, slots);
            };
            record.write(header | words as u64);
            self.rings.append_straight(record, words)
        }
    }
}

/// What a record in this process's rings says of how long ago something began.
pub(crate) fn elapsed_since(start: Stamp) -> Elapsed {
    start.elapsed(clock::known().unwrap_or(Clock::Given))
}

/// Appends an event. Its stamp, where it found room.
///
/// # Safety
/// `slots` are those of a hit of `row`, with all text made and the word of a record in a return's first.
#[inline(never)]
pub(crate) unsafe fn append(row: HotRow, state: &State, slots: *const u64) -> Option<Stamp> {
    if thread::known() == 0 && thread::is_shared() {
        // SAFETY: the caller's promise.
        return unsafe { sharing::append(row, state, slots) };
    }
    let mut record = Encoder::new();
    // SAFETY: the schema has one byte a kind from byte 8 on; the slots are those of such fields.
    let record = unsafe {
        let kinds = slice::from_raw_parts(row.schema().add(8), row.fields());
        let (record, words) = record.cut(kinds, slots)?;
        // The time is written by the append.
        record.add(1).write(0);
        slice::from_raw_parts_mut(record, words)
    };
    append_record(state, record)
}

/// Appends a record that is written but for its header. Its stamp, where it found room.
#[inline(never)]
fn append_record(state: &State, record: &mut [u64]) -> Option<Stamp> {
    let event = state.event.load(Ordering::Relaxed) as u16;
    let rings = page::of_event(event)?;
    let thread = match thread::known() {
        0 => introduce(rings, false),
        id => id,
    };
    *record.first_mut()? = Header::word(record.len() as u16, event, thread);
    // SAFETY: a record of the encoder has no more than `encode::WORDS` words.
    unsafe { rings.append(record) }
}

/// Whether this thread's records can be written before it is known where they go: not where a child may run
/// in its place, which is seen first then.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn takes_written() -> bool {
    thread::known() != 0 || !thread::is_shared()
}

/// Appends a record that is written but for its header, where [`takes_written`]. Its stamp, where it found
/// room.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn append_written(state: &State, record: &mut Writer) -> Option<Stamp> {
    let record = record.finish();
    match straight() {
        // SAFETY: it has so many words, two of them at least and no more than `encode::WORDS`.
        Some(straight) => unsafe { straight.append(state, record.as_mut_ptr(), record.len()) },
        None => append_record(state, record),
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
