//! A hit written straight as a record, where the rings are all that want it: the common case.
//!
//! Each value is written where it belongs as it is shown, and nothing in between: no slots, no second pass
//! over the kinds. So values have to come in the order of the fields, as `tracing`'s macros show them; a
//! hit whose values do not is taken once more, as slots.

use std::fmt::{self, Write as _};

use super::{Number, Values, formatted, texts};
use crate::emit::{Buffer, MARKS, TEXT_BYTES};
use crate::ring::Writer;

/// A record in the making.
pub(super) struct Record {
    writer: Writer,
    /// The index of the value that comes next.
    next: usize,
    values: usize,
    /// Bytes that texts may still take.
    free: usize,
    /// Values still to come, at most.
    left: usize,
    panics: u32,
    is_disordered: bool,
}

impl Record {
    /// One with so many words, which are still to be written, and so many values.
    #[inline(always)]
    pub(super) fn new(words: usize, values: usize) -> Record {
        Record {
            writer: Writer::new(words + values),
            next: 0,
            values,
            free: TEXT_BYTES,
            left: values,
            panics: 0,
            is_disordered: false,
        }
    }

    /// Writes a word of the tracepoint's own, so many bytes wide.
    #[inline(always)]
    pub(super) fn word(&mut self, word: u64, width: usize) {
        self.writer.number(word, width);
    }

    /// The whole record but for its header, and how many panics were caught. `None` where values came in
    /// another order than fields are in.
    #[inline(always)]
    pub(super) fn finish(&mut self) -> Option<(&mut Writer, u32)> {
        if self.is_disordered {
            return None;
        }
        while self.next < self.values {
            self.writer.absent();
            self.next += 1;
        }
        Some((&mut self.writer, self.panics))
    }

    /// Goes on to the value at `index`; whether there is one.
    #[inline(always)]
    fn reach(&mut self, index: usize) -> bool {
        if index >= self.values {
            return false;
        }
        if index < self.next {
            self.is_disordered = true;
            return false;
        }
        while self.next < index {
            self.writer.absent();
            self.next += 1;
        }
        self.next += 1;
        true
    }

    #[inline(always)]
    fn put(&mut self, text: &str) {
        self.writer.any_text(text);
        self.free = self.free.saturating_sub(text.len());
        self.left = self.left.saturating_sub(1);
    }
}

impl Values for Record {
    #[inline(always)]
    fn number(&mut self, index: usize, number: Number) {
        if !self.reach(index) {
            return;
        }
        let (kind, [low, high]) = (number.kind(), number.slots());
        let (width, high) = match number {
            Number::Bool(_) => (1, None),
            Number::Unsigned(_) | Number::Signed(_) | Number::Float(_) => (8, None),
            Number::Unsigned128(_) | Number::Signed128(_) => (8, Some(high)),
        };
        self.writer.any_number(kind, low, width, high);
        self.left = self.left.saturating_sub(1);
    }

    #[inline]
    fn text(&mut self, index: usize, text: &str) {
        let share = text.len().saturating_add(MARKS);
        if share.saturating_mul(self.left.max(1)) > self.free {
            // It is cut.
            self.write(index, |out| out.write_str(text));
        } else if self.reach(index) {
            self.put(text);
        }
    }

    #[inline(never)]
    fn write(&mut self, index: usize, write: impl FnOnce(&mut Buffer<'_>) -> fmt::Result) {
        if !self.reach(index) {
            return;
        }
        let mut room = texts();
        let out = Buffer::new(&mut room[..self.free], self.left);
        let (text, _, panicked) = formatted(out, write);
        self.panics += u32::from(panicked);
        self.put(text);
    }
}
