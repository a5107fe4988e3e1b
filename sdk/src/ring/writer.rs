//! A record that is written field by field, as their values come: what is made at run time knows its kinds
//! no sooner.
//!
//! A text may take what leaves room for the fields behind it, if they are of fixed size.

#![allow(unsafe_code)]

use std::slice;

use tracebraid_wire::kind::Kind;
use tracebraid_wire::record::HEADER;

use super::encode::{Cursor, Encoder, FIXED, MOST_FIELDS, WORDS, text_start};

/// The words of a record in the making, and how far it is written.
pub(crate) struct Writer {
    encoder: Encoder,
    cursor: Cursor,
    /// Fields that still come.
    left: usize,
}

impl Writer {
    /// A record with so many fields.
    #[inline(always)]
    pub(crate) fn new(fields: usize) -> Writer {
        Writer {
            encoder: Encoder::new(),
            cursor: Cursor::behind_header(),
            left: fields.min(MOST_FIELDS),
        }
    }

    /// Counts a field. Whether there is to be one, for which the others have left room.
    #[inline(always)]
    fn begin(&mut self) -> bool {
        let has_room = self.left > 0;
        self.left -= usize::from(has_room);
        has_room
    }

    /// A field of one slot: the low `width` (1, 2, 4 or 8) bytes of a number.
    #[inline(always)]
    pub(crate) fn number(&mut self, number: u64, width: usize) {
        if self.begin() {
            // SAFETY: the field has room.
            self.cursor = unsafe { self.encoder.put(self.cursor, number, width) };
        }
    }

    /// A field of any kind that has no value.
    #[inline(always)]
    pub(crate) fn absent(&mut self) {
        self.number(0, 1);
    }

    /// A field of any kind: a value of so many bytes (1 or 8), and 8 more where it is wider.
    #[inline(always)]
    pub(crate) fn any_number(&mut self, kind: Kind, low: u64, width: usize, high: Option<u64>) {
        if self.begin() {
            // SAFETY: the field has room: it takes no more than three slots.
            unsafe {
                let mut cursor = self.encoder.put(self.cursor, kind as u64, 1);
                cursor = self.encoder.put(cursor, low, width);
                if let Some(high) = high {
                    cursor = self.encoder.put(cursor, high, 8);
                }
                self.cursor = cursor;
            }
        }
    }

    /// A field of any kind that is a text: as much of it as there is room for.
    #[inline(always)]
    pub(crate) fn any_text(&mut self, text: &str) {
        if self.begin() {
            // SAFETY: the field has room: the byte of the kind, the two lengths, and so much text. The text
            // is alive.
            unsafe {
                let cursor = self.encoder.put(self.cursor, Kind::Str as u64, 1);
                let room = WORDS * 8 - FIXED * self.left - text_start(cursor.at());
                let length = text.len().min(room);
                let full = text.len().min(u32::MAX as usize);
                self.cursor = self.encoder.text(cursor, text.as_ptr(), length, full);
            }
        }
    }

    /// The record. Its header is not written but zero.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> &mut [u64] {
        let words = self.cursor.at().div_ceil(8);
        let start = self.encoder.start();
        // SAFETY: the words behind the header are written, up to the one that the cursor is in; the header's
        // are now.
        unsafe {
            for word in 0..HEADER / 8 {
                start.add(word).write(0);
            }
            slice::from_raw_parts_mut(start, words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_room_however_many_and_long_come() {
        let long = "x".repeat(4000);
        let mut writer = Writer::new(usize::MAX);
        for _ in 0..2 * MOST_FIELDS {
            writer.any_text(&long);
            writer.any_number(Kind::U128, u64::MAX, 8, Some(u64::MAX));
            writer.number(1, 1);
        }
        assert!(writer.finish().len() <= WORDS);
    }

    #[test]
    fn what_is_written_field_by_field_is_what_the_encoder_writes() {
        let text = "a text";
        let mut writer = Writer::new(7);
        writer.number(3, 1);
        writer.number(17, 8);
        writer.any_number(Kind::U64, 5, 8, None);
        writer.any_text(text);
        writer.absent();
        writer.any_number(Kind::Bool, 1, 1, None);
        writer.any_number(Kind::I128, 6, 8, Some(7));
        let kinds = [Kind::U8, Kind::U64]
            .into_iter()
            .chain([Kind::Any; 5])
            .map(|kind| kind as u8);
        let address = text.as_ptr().expose_provenance() as u64;
        let number = |kind: Kind, low, high| [kind as u64, low, high];
        let mut slots = vec![3, 17];
        slots.extend(number(Kind::U64, 5, 0));
        slots.extend(number(Kind::Str, address, text.len() as u64));
        slots.extend([0; 3]);
        slots.extend(number(Kind::Bool, 1, 0));
        slots.extend(number(Kind::I128, 6, 7));
        let mut encoder = Encoder::new();
        let kinds: Vec<u8> = kinds.collect();
        // SAFETY: the slots are of these kinds.
        let words = unsafe {
            let (record, words) = encoder.cut(&kinds, slots.as_ptr()).expect("it fits");
            slice::from_raw_parts(record.add(HEADER / 8), words - HEADER / 8)
        };
        assert_eq!(&writer.finish()[HEADER / 8..], words);
    }
}
