//! From slots to a record's bytes (`wire::record`).
//!
//! One pass over the kinds, into a buffer on the stack: what a record needs is known before the append,
//! which is one restartable sequence and must only copy. A text may take what the other fields leave,
//! and is cut there; fields of fixed size always find room.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use tracebraid_wire::kind::{FieldKind, Kind, MAX_SLOTS};
use tracebraid_wire::record::HEADER;

use crate::fields::MAX_FIELDS;

/// Words of the buffer: the longest record that the SDK writes.
pub(crate) const WORDS: usize = 160;
/// The most bytes that a field takes besides its text: presence, padding, two words.
const FIXED: usize = 8 * MAX_SLOTS;

/// Fields of a record at most: of a tracepoint made at run time, some more than macros take.
pub(crate) const MOST_FIELDS: usize = MAX_FIELDS + 8;

const _: () = assert!(HEADER + MOST_FIELDS * FIXED < WORDS * 8);

/// What to do with a field of some kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One slot, so many bytes wide.
    Word(u8),
    /// Two slots of 8 bytes.
    Wide,
    /// Seconds and nanoseconds.
    Duration,
    /// Address and length.
    Text,
    /// Perhaps nothing: a byte, then the required form.
    Optional,
    /// The byte of a kind, then its form.
    Any,
    /// No kind.
    None,
}

/// By the byte of a kind.
static FORMS: [Form; 256] = {
    let mut forms = [Form::None; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Some(field) = FieldKind::from_byte(byte as u8) {
            forms[byte] = if field.optional {
                Form::Optional
            } else {
                required(field.kind)
            };
        }
        byte += 1;
    }
    forms
};

const fn required(kind: Kind) -> Form {
    match kind {
        Kind::Str | Kind::Bytes | Kind::Formatted => Form::Text,
        Kind::U128 | Kind::I128 => Form::Wide,
        Kind::Duration => Form::Duration,
        Kind::Any => Form::Any,
        _ => Form::Word(kind.slots()[0].unsigned_abs()),
    }
}

/// The words of a record in the making. Word 0 and 1 are the header.
pub(crate) struct Encoder {
    words: [MaybeUninit<u64>; WORDS],
    /// Bytes written, header included.
    bytes: usize,
}

impl Encoder {
    #[inline(always)]
    pub(crate) fn new() -> Encoder {
        Encoder {
            words: [MaybeUninit::uninit(); WORDS],
            bytes: HEADER,
        }
    }

    /// Writes the fields of these kinds.
    ///
    /// # Safety
    /// The slots are those of a hit with these kinds, at most [`MOST_FIELDS`], and the addresses in them
    /// are alive.
    #[inline(always)]
    pub(crate) unsafe fn fields(&mut self, kinds: &[u8], mut slots: *const u64) {
        let mut left = kinds.len();
        for &byte in kinds {
            left -= 1;
            // SAFETY: the hit has as many slots as the kinds say; a field of fixed size has room, since
            // texts leave it.
            unsafe {
                slots = match FORMS[usize::from(byte)] {
                    Form::Optional => self.optional(byte, slots, left),
                    Form::Any => self.any(slots, left),
                    form => self.field(form, slots, left),
                };
            }
        }
    }

    /// # Safety
    /// As for [`fields`](Self::fields): `slots` are those of the field, `left` follow it.
    #[inline(always)]
    unsafe fn field(&mut self, form: Form, slots: *const u64, left: usize) -> *const u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match form {
                Form::Word(width) => {
                    self.put(slots.read(), width.into());
                    slots.add(1)
                }
                Form::Text => {
                    self.text(
                        slots.read() as usize as *const u8,
                        slots.add(1).read() as usize,
                        left,
                    );
                    slots.add(2)
                }
                Form::Wide => {
                    self.put(slots.read(), 8);
                    self.put(slots.add(1).read(), 8);
                    slots.add(2)
                }
                Form::Duration => {
                    self.put(slots.read(), 8);
                    self.put(slots.add(1).read(), 4);
                    slots.add(2)
                }
                Form::Optional | Form::Any | Form::None => slots,
            }
        }
    }

    /// # Safety
    /// As for [`field`](Self::field).
    #[inline(always)]
    unsafe fn any(&mut self, slots: *const u64, left: usize) -> *const u64 {
        // SAFETY: three slots: the byte of a kind, and the slots of a value of it.
        unsafe {
            let byte = slots.read() as u8;
            self.put(byte.into(), 1);
            self.field(FORMS[usize::from(byte)], slots.add(1), left);
            slots.add(3)
        }
    }

    /// # Safety
    /// As for [`field`](Self::field).
    unsafe fn optional(&mut self, byte: u8, slots: *const u64, left: usize) -> *const u64 {
        let Some(field) = FieldKind::from_byte(byte) else {
            return slots;
        };
        // SAFETY: an optional field has a presence slot, or an address that is null without a value; the
        // field's slots follow or are these.
        unsafe {
            let present = slots.read() != 0;
            self.put(present.into(), 1);
            if present {
                self.field(
                    required(field.kind),
                    slots.add(field.has_presence_slot().into()),
                    left,
                );
            }
            slots.add(field.slot_count())
        }
    }

    /// The finished words.
    #[inline(always)]
    pub(crate) fn finish(&mut self, header: impl FnOnce(u16) -> u64) -> &[u64] {
        let words = self.bytes.div_ceil(8);
        self.words[0].write(header(words as u16));
        self.words[1].write(0);
        // SAFETY: the header and every word up to `bytes` were written.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), words) }
    }

    /// Writes the low `width` bytes (1, 2, 4, 8) at their alignment. The rest of the word they are in is
    /// zero or already written, so that no byte of a record is left as it was on the stack.
    ///
    /// # Safety
    /// There is room.
    #[inline(always)]
    unsafe fn put(&mut self, value: u64, width: usize) {
        let start = (self.bytes + width - 1) & !(width - 1);
        self.bytes = start + width;
        debug_assert!(self.bytes <= WORDS * 8);
        // SAFETY: within the buffer; a word that is begun was written whole, as was its beginning.
        unsafe {
            let buffer = self.words.as_mut_ptr();
            let word = buffer.add(start / 8).cast::<u64>();
            if start.is_multiple_of(8) {
                let mask = u64::MAX >> (64 - 8 * width);
                word.write(value & mask);
                return;
            }
            let place = buffer.cast::<u8>().add(start);
            match width {
                1 => place.write(value as u8),
                2 => place.cast::<u16>().write(value as u16),
                _ => place.cast::<u32>().write(value as u32),
            }
        }
    }

    /// Writes two numbers of 4 bytes; by one store where they are a word, which is read back as one.
    ///
    /// # Safety
    /// There is room.
    #[inline(always)]
    unsafe fn lengths(&mut self, both: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            if (self.bytes + 3) & 4 == 0 {
                self.put(both, 8);
            } else {
                self.put(both & u64::from(u32::MAX), 4);
                self.put(both >> 32, 4);
            }
        }
    }

    /// # Safety
    /// `length` bytes at `address` are alive; `left` fields follow.
    #[inline(always)]
    unsafe fn text(&mut self, address: *const u8, length: usize, left: usize) {
        let start = ((self.bytes + 3) & !3) + 8;
        let room = WORDS * 8 - FIXED * left - start;
        let kept = length.min(room);
        let full = length.min(u32::MAX as usize);
        // SAFETY: there is room for the two lengths and what is kept: every field before left `FIXED`
        // bytes for this one.
        unsafe {
            self.lengths(kept as u64 | (full as u64) << 32);
            let place = self.words.as_mut_ptr().cast::<u8>().add(start);
            if kept > 0 {
                // The text may not fill its last word.
                let last = (start + kept - 1) & !7;
                if last >= start {
                    self.words
                        .as_mut_ptr()
                        .cast::<u8>()
                        .add(last)
                        .cast::<u64>()
                        .write(0);
                }
                copy(place, address, kept);
            }
        }
        self.bytes = start + kept;
    }
}

/// Copies `length` bytes, not 0, short ones without a call: loads and stores that may overlap.
///
/// # Safety
/// Both places have that many bytes and do not overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    /// Two of `T`, one at each end.
    #[inline(always)]
    unsafe fn ends<T>(to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller has `length >= size_of::<T>()` bytes in both places.
        unsafe {
            let at = length - size_of::<T>();
            let (first, last) = (
                from.cast::<T>().read_unaligned(),
                from.add(at).cast::<T>().read_unaligned(),
            );
            to.cast::<T>().write_unaligned(first);
            to.add(at).cast::<T>().write_unaligned(last);
        }
    }
    // SAFETY: every access is within the first or the last bytes of both.
    unsafe {
        match length {
            17..=32 => ends::<[u64; 2]>(to, from, length),
            8..=16 => ends::<u64>(to, from, length),
            4..=7 => ends::<u32>(to, from, length),
            2..=3 => ends::<u16>(to, from, length),
            1 => to.write(from.read()),
            _ => ptr::copy_nonoverlapping(from, to, length),
        }
    }
}
