//! A hit as slots, for whoever looks at its values: filters, callbacks, children that share our memory.

#![allow(unsafe_code)]

use std::fmt::{self, Write as _};
use std::mem::{self, MaybeUninit};

use tracebraid_wire::kind::Kind;

use super::{MOST_VALUES, MOST_WORDS, Number, Texts, Values, formatted};
use crate::emit::Buffer;
use crate::fields::HEADER_WORDS;

/// Slots of a value.
const VALUE_SLOTS: usize = 3;

/// A hit in the making: words first, then values.
pub(super) struct Slots<'a> {
    slots: [MaybeUninit<u64>; HEADER_WORDS + MOST_WORDS + VALUE_SLOTS * MOST_VALUES],
    words: usize,
    values: usize,
    /// Room for texts, as far as it is left.
    free: &'a mut [MaybeUninit<u8>],
    /// Values still to come, at most.
    left: usize,
    panics: u32,
}

impl<'a> Slots<'a> {
    /// One with these words and as many values, of which none is there yet.
    pub(super) fn new<const WORDS: usize>(
        words: [u64; WORDS],
        values: usize,
        texts: &'a mut Texts,
    ) -> Slots<'a> {
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
        Slots {
            slots,
            words: WORDS,
            values,
            free: texts,
            left: values,
            panics: 0,
        }
    }

    /// The slots, with [`HEADER_WORDS`] free ones in front; texts they lead to live as long as the room for
    /// texts. And how many panics were caught.
    pub(super) fn finish(&mut self) -> (*mut u64, u32) {
        // SAFETY: within the array.
        let slots = unsafe { self.slots.as_mut_ptr().cast::<u64>().add(HEADER_WORDS) };
        (slots, self.panics)
    }

    fn put(&mut self, index: usize, kind: Kind, slots: [u64; 2]) {
        self.left = self.left.saturating_sub(1);
        let at = HEADER_WORDS + self.words + VALUE_SLOTS * index;
        for (slot, word) in self.slots[at..]
            .iter_mut()
            .zip([kind as u64, slots[0], slots[1]])
        {
            slot.write(word);
        }
    }
}

impl Values for Slots<'_> {
    fn number(&mut self, index: usize, number: Number) {
        if index < self.values {
            self.put(index, number.kind(), number.slots());
        }
    }

    fn text(&mut self, index: usize, text: &str) {
        // It is cut where it is too long.
        self.write(index, |out| out.write_str(text));
    }

    fn write(&mut self, index: usize, write: impl FnOnce(&mut Buffer<'_>) -> fmt::Result) {
        if index >= self.values {
            return;
        }
        let out = Buffer::new(mem::take(&mut self.free), self.left);
        let (text, free, panicked) = formatted(out, write);
        self.free = free;
        self.panics += u32::from(panicked);
        let slots = [text.as_ptr().expose_provenance() as u64, text.len() as u64];
        self.put(index, Kind::Str, slots);
    }
}
