//! Tracepoints made at run time, for places that no macro of ours describes.
//!
//! One allocation holds what a macro's assembly leaves in its object, with a row of the same form in front,
//! so that everything behind the gate (registry, directory, callbacks, filters, rings) takes both alike:
//!
//! ```text
//! row │ semaphore word │ state │ schema
//! ```
//! There is no site, since whoever made it has a gate of his own and asks [`Made::is_on`]; and no USDT
//! probe, which has to be in a file. Like code it stays until the process ends.
//!
//! The fields are words, whose kinds are known when it is made, and after them values, whose kinds are
//! known when it is hit ([`Kind::Any`]).
//!
//! ```text
//! only rings want it, all of it:  values ──▶ Record, as they are shown ──▶ ring
//! otherwise:                      values ──▶ Slots ──▶ emit: callbacks, filter, ring
//! ```

#![allow(unsafe_code)]

mod record;
mod slots;

use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::schema::{self, FLAG_MADE};
use tracebraid_wire::table::{POINT_ROW, POINT_WORDS, SEMAPHORE_WORD, STATE_SIZE};

use crate::emit::{self, Buffer, TEXT_BYTES};
use crate::fields::HEADER_WORDS;
use crate::ring::{self, MOST_FIELDS};
use crate::stamp::Stamp;
use crate::state::{HotRow, Semaphore, State};
use record::Record;
use slots::Slots;

/// The most words of a tracepoint.
pub(crate) const MOST_WORDS: usize = 4;
/// The most values of one.
pub(crate) const MOST_VALUES: usize = MOST_FIELDS - MOST_WORDS;
const SEMAPHORE: usize = POINT_ROW;
const STATE: usize = (SEMAPHORE + SEMAPHORE_WORD).next_multiple_of(8);
const SCHEMA: usize = STATE + STATE_SIZE;

/// What a tracepoint is to be.
pub(crate) struct Description<'a> {
    pub(crate) provider: &'a str,
    pub(crate) name: &'a str,
    /// Name and kind, which takes one slot.
    pub(crate) words: &'a [(&'a str, Kind)],
    pub(crate) values: &'a [&'a str],
    /// `FILE:LINE`, or nothing.
    pub(crate) place: &'a str,
}

/// A tracepoint that was made.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    row: HotRow,
    words: u8,
    values: u8,
    /// How many bytes wide the words are.
    widths: [u8; MOST_WORDS],
}

// SAFETY: it leads to an allocation that is never freed, whose row and schema are never written again and
// whose semaphore word and state are atomics.
unsafe impl Send for Made {}
// SAFETY: as above.
unsafe impl Sync for Made {}

impl Made {
    /// Makes a tracepoint, which nobody knows of yet. `None` where it has more fields than there may be, or a
    /// text with a NUL.
    pub(crate) fn new(description: &Description<'_>) -> Option<Made> {
        let schema = schema_of(description)?;
        let bytes = (SCHEMA + schema.len()).next_multiple_of(8);
        let start = Box::leak(vec![0_u64; bytes / 8].into_boxed_slice()).as_mut_ptr();
        let all_words = description.values.is_empty()
            && description
                .words
                .iter()
                .all(|(_, kind)| kind.slots() == [8]);
        let fields = (description.words.len() + description.values.len()) as u32;
        let flags = if all_words { POINT_WORDS } else { 0 };
        // Offsets from their own place; the stub and the USDT probe are nowhere. Then shown slots, flags, fields.
        let leads = |from: usize, to: usize| (to - from) as u32;
        let row = [
            leads(0, SCHEMA),
            leads(4, SEMAPHORE),
            0,
            0,
            leads(16, STATE),
            0,
            flags,
            fields,
        ];
        // SAFETY: the allocation is large enough for both, 8-aligned and ours alone.
        unsafe {
            start.cast::<[u32; POINT_ROW / 4]>().write(row);
            let place = start.cast::<u8>().add(SCHEMA);
            ptr::copy_nonoverlapping(schema.as_ptr(), place, schema.len());
        }
        start.expose_provenance();
        let mut widths = [0; MOST_WORDS];
        for (width, (_, kind)) in widths.iter_mut().zip(description.words) {
            *width = kind.slots()[0].unsigned_abs();
        }
        Some(Made {
            widths,
            // SAFETY: a whole row, which stays.
            row: unsafe { HotRow::at(start.cast()) },
            words: description.words.len() as u8,
            values: description.values.len() as u8,
        })
    }

    /// The address of its row, by which the registry takes it in.
    pub(crate) fn row(&self) -> u64 {
        self.row.address()
    }

    fn semaphore(&self) -> &Semaphore {
        // SAFETY: the row leads to it, 4-aligned and zeroed; it is atomics only.
        unsafe { &*self.row.semaphore() }
    }

    fn state(&self) -> &State {
        // SAFETY: the row leads to it, 8-aligned and zeroed; it is atomics only.
        unsafe { &*self.row.state() }
    }

    /// Whether anybody wants its hits.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.semaphore().wanted.load(Ordering::Relaxed) != 0
    }

    /// Counts a hit that was left out, since it came from deep within another.
    pub(crate) fn count_nested(&self) {
        self.state().nested.fetch_add(1, Ordering::Relaxed);
    }

    fn count_panics(&self, panics: u32) {
        if panics > 0 {
            self.state().panics.fetch_add(panics, Ordering::Relaxed);
        }
    }

    /// Takes a hit with these words and the values that `source` shows. Its stamp, where it is in the rings.
    #[inline]
    pub(crate) fn take<const WORDS: usize>(
        &self,
        words: [u64; WORDS],
        source: &impl Source,
    ) -> Option<Stamp> {
        if WORDS != usize::from(self.words) {
            return None;
        }
        if emit::is_for_rings_alone(self.state()) && ring::takes_written() {
            let mut record = Record::new(WORDS, usize::from(self.values));
            for (word, width) in words.into_iter().zip(self.widths) {
                record.word(word, usize::from(width));
            }
            source.show(&mut record);
            if let Some((record, panics)) = record.finish() {
                self.count_panics(panics);
                return ring::append_written(self.state(), record);
            }
        }
        self.take_slots(words, source)
    }

    #[inline(never)]
    fn take_slots<const WORDS: usize>(
        &self,
        words: [u64; WORDS],
        source: &impl Source,
    ) -> Option<Stamp> {
        let mut texts = texts();
        let mut slots = Slots::new(words, usize::from(self.values), &mut texts);
        source.show(&mut slots);
        let (slots, panics) = slots.finish();
        self.count_panics(panics);
        // SAFETY: the slots are as many as the schema's fields have, each of one kind: words, then values.
        // Texts they lead to are alive, and there are the free words in front.
        unsafe { emit::emit(self.row.address() as usize as *const u8, slots) }
    }

    /// Takes a hit of a tracepoint that has words alone.
    #[inline]
    pub(crate) fn take_words<const WORDS: usize>(&self, words: [u64; WORDS]) {
        if self.has(WORDS) {
            let mut slots = slots_of(words);
            // SAFETY: the slots are as many as the schema's fields, with the free words in front.
            unsafe {
                let slots = slots.as_mut_ptr().cast::<u64>().add(HEADER_WORDS);
                emit::emit(self.row.address() as usize as *const u8, slots);
            }
        }
    }

    /// Takes a hit of a tracepoint that has a word and then a [`Kind::Elapsed`] of what began at `start`.
    #[inline]
    pub(crate) fn take_end(&self, word: u64, start: Stamp) {
        if self.has(2) {
            let mut slots = slots_of([word, 0]);
            // SAFETY: as in `take_words`.
            unsafe {
                let slots = slots.as_mut_ptr().cast::<u64>().add(HEADER_WORDS);
                emit::end(self.row, slots, 1, start);
            }
        }
    }

    /// Whether so many words are all it has.
    #[inline(always)]
    fn has(&self, words: usize) -> bool {
        words == usize::from(self.words) && self.values == 0
    }
}

/// Slots of words, with free ones in front.
#[inline(always)]
fn slots_of<const WORDS: usize>(
    words: [u64; WORDS],
) -> [MaybeUninit<u64>; HEADER_WORDS + MOST_WORDS] {
    const { assert!(WORDS <= MOST_WORDS) };
    let mut slots = [MaybeUninit::uninit(); _];
    for (slot, word) in slots[HEADER_WORDS..].iter_mut().zip(words) {
        slot.write(word);
    }
    slots
}

/// Whatever has a hit's values.
pub(crate) trait Source {
    /// Shows each value that there is. It may be asked twice, where it does not keep to the fields' order.
    fn show(&self, values: &mut impl Values);
}

/// What takes a hit's values, each at the index of its field; one beyond the last is left out.
pub(crate) trait Values {
    /// A value that is no text.
    fn number(&mut self, index: usize, number: Number);
    /// A text, which is cut where it is too long.
    fn text(&mut self, index: usize, text: &str);
    /// A text that is to be written. Where that panics, what was written is marked.
    fn write(&mut self, index: usize, write: impl FnOnce(&mut Buffer<'_>) -> fmt::Result);
}

/// A value that is no text.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Unsigned(u64),
    Signed(i64),
    Unsigned128(u128),
    Signed128(i128),
    Bool(bool),
    Float(f64),
}

impl Number {
    #[inline(always)]
    fn kind(self) -> Kind {
        match self {
            Number::Unsigned(_) => Kind::U64,
            Number::Signed(_) => Kind::I64,
            Number::Unsigned128(_) => Kind::U128,
            Number::Signed128(_) => Kind::I128,
            Number::Bool(_) => Kind::Bool,
            Number::Float(_) => Kind::F64,
        }
    }

    #[inline(always)]
    fn slots(self) -> [u64; 2] {
        let wide = |value: u128| [value as u64, (value >> 64) as u64];
        match self {
            Number::Unsigned(value) => [value, 0],
            Number::Signed(value) => [value as u64, 0],
            Number::Unsigned128(value) => wide(value),
            Number::Signed128(value) => wide(value as u128),
            Number::Bool(value) => [value.into(), 0],
            Number::Float(value) => [value.to_bits(), 0],
        }
    }
}

/// Where texts are made.
pub(crate) type Texts = [MaybeUninit<u8>; TEXT_BYTES];

/// Room for texts.
#[inline]
pub(crate) const fn texts() -> Texts {
    [MaybeUninit::uninit(); TEXT_BYTES]
}

/// The text that `write` writes, the room that is left, and whether it panicked.
fn formatted<'a>(
    mut out: Buffer<'a>,
    write: impl FnOnce(&mut Buffer<'_>) -> fmt::Result,
) -> (&'a str, &'a mut [MaybeUninit<u8>], bool) {
    // An error means that the buffer is full or that the type has nothing more to say.
    let panicked = catch_unwind(AssertUnwindSafe(|| write(&mut out))).is_err();
    let (text, free) = out.finish(panicked);
    (text, free, panicked)
}

/// The schema's bytes (`wire::schema`).
fn schema_of(description: &Description<'_>) -> Option<Vec<u8>> {
    let Description {
        words,
        values,
        place,
        ..
    } = description;
    if words.len() > MOST_WORDS || values.len() > MOST_VALUES {
        return None;
    }
    let kind = |kind: Kind| {
        let field = FieldKind {
            kind,
            optional: false,
        };
        (field.slot_count() == 1).then_some(field.byte())
    };
    let mut bytes = vec![0; schema::HEADER];
    for (_, of) in *words {
        bytes.push(kind(*of)?);
    }
    bytes.extend(values.iter().map(|_| Kind::Any as u8));
    let texts = [description.provider, description.name, ""]
        .into_iter()
        .chain(words.iter().map(|(name, _)| *name))
        .chain(values.iter().copied())
        .chain([*place]);
    for text in texts {
        if text.contains('\0') {
            return None;
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    let length = u32::try_from(bytes.len()).ok()?;
    if bytes.len() > schema::MAX_LENGTH {
        return None;
    }
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..6].copy_from_slice(&schema::VERSION.to_le_bytes());
    bytes[6] = FLAG_MADE;
    bytes[7] = (words.len() + values.len()) as u8;
    Some(bytes)
}
