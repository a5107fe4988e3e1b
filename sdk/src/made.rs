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

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::schema::{self, FLAG_MADE};
use tracebraid_wire::table::{POINT_ROW, POINT_WORDS, SEMAPHORE_WORD, STATE_SIZE};

use crate::emit;
use crate::fields::HEADER_WORDS;
use crate::registry;
use crate::ring::MOST_FIELDS;
use crate::state::{HotRow, Semaphore, State};

/// The most words of a tracepoint.
pub(crate) const MOST_WORDS: usize = 4;
/// The most values of one.
pub(crate) const MOST_VALUES: usize = MOST_FIELDS - MOST_WORDS;
/// Slots of a value.
const VALUE_SLOTS: usize = 3;

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
        Some(Made {
            // SAFETY: a whole row, which stays.
            row: unsafe { HotRow::at(start.cast()) },
            words: description.words.len() as u8,
            values: description.values.len() as u8,
        })
    }

    /// Makes it known, once: what is wished of such names holds for it from now on.
    pub(crate) fn adopt(&self) {
        registry::adopt_made(self.row.address());
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

    /// Counts panics that were caught while a value was formatted.
    pub(crate) fn count_panics(&self, panics: u32) {
        self.state().panics.fetch_add(panics, Ordering::Relaxed);
    }

    /// Counts a hit that was left out, since it came from deep within another.
    pub(crate) fn count_nested(&self) {
        self.state().nested.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a hit, whose words and values are those of the tracepoint; one with others is none.
    #[inline]
    pub(crate) fn take(&self, hit: &mut Hit<'_>) {
        if hit.words != self.words || hit.values != self.values {
            return;
        }
        // SAFETY: the slots are as many as the schema's fields have, each of one kind: words, then values.
        // Texts they lead to are alive (`'a`), and there are the free words in front.
        unsafe {
            let slots = hit.slots.as_mut_ptr().cast::<u64>().add(HEADER_WORDS);
            emit::emit(self.row.address() as usize as *const u8, slots);
        }
    }
}

/// A hit in the making: words first, then values.
pub(crate) struct Hit<'a> {
    slots: [MaybeUninit<u64>; HEADER_WORDS + MOST_WORDS + VALUE_SLOTS * MOST_VALUES],
    words: u8,
    values: u8,
    texts: PhantomData<&'a str>,
}

impl<'a> Hit<'a> {
    /// One with these words and as many values, of which none is there yet.
    #[inline]
    pub(crate) fn new<const WORDS: usize>(words: [u64; WORDS], values: usize) -> Hit<'a> {
        const { assert!(WORDS <= MOST_WORDS) };
        let values = values.min(MOST_VALUES);
        let mut slots = [MaybeUninit::uninit(); _];
        for (slot, word) in slots[HEADER_WORDS..].iter_mut().zip(words) {
            slot.write(word);
        }
        for slot in slots[HEADER_WORDS + WORDS..]
            .iter_mut()
            .take(values * VALUE_SLOTS)
        {
            slot.write(0);
        }
        Hit {
            slots,
            words: WORDS as u8,
            values: values as u8,
            texts: PhantomData,
        }
    }

    /// Sets the value at `index`. One beyond the last is left out.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: Value<'a>) {
        if index >= usize::from(self.values) {
            return;
        }
        let at = HEADER_WORDS + usize::from(self.words) + VALUE_SLOTS * index;
        let wide = |value: u128| [value as u64, (value >> 64) as u64];
        let (kind, slots) = match value {
            Value::Unsigned(value) => (Kind::U64, [value, 0]),
            Value::Signed(value) => (Kind::I64, [value as u64, 0]),
            Value::Unsigned128(value) => (Kind::U128, wide(value)),
            Value::Signed128(value) => (Kind::I128, wide(value as u128)),
            Value::Bool(value) => (Kind::Bool, [value.into(), 0]),
            Value::Float(value) => (Kind::F64, [value.to_bits(), 0]),
            Value::Text(text) => (
                Kind::Str,
                [text.as_ptr().expose_provenance() as u64, text.len() as u64],
            ),
        };
        for (slot, word) in self.slots[at..]
            .iter_mut()
            .zip([kind as u64, slots[0], slots[1]])
        {
            slot.write(word);
        }
    }
}

/// A value of a hit.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Unsigned128(u128),
    Signed128(i128),
    Bool(bool),
    Float(f64),
    Text(&'a str),
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
