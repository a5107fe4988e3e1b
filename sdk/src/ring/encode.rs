//! From slots to a record's bytes (`wire::record`).
//!
//! One pass over the kinds, into a buffer on the stack: what a record needs is known before the append,
//! which is one restartable sequence and must only copy.

use std::mem::MaybeUninit;
use std::ptr;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::record::HEADER;

/// Words of the buffer: the longest record that the SDK writes.
pub(crate) const WORDS: usize = 160;

/// The words of a record in the making. Word 0 and 1, the header, are the append's business.
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

    /// Writes the fields of these kinds. Text is cut where the buffer ends; a field that finds no room at
    /// all ends the record.
    ///
    /// # Safety
    /// The slots are those of a hit with these kinds, and the addresses in them are alive.
    #[inline]
    pub(crate) unsafe fn fields(&mut self, kinds: &[u8], mut slots: *const u64) {
        for &byte in kinds {
            let Some(field) = FieldKind::from_byte(byte) else {
                return;
            };
            // SAFETY: the hit has as many slots as the kinds say.
            let slot = |index: usize| unsafe { slots.add(index).read() };
            let first = usize::from(field.has_presence_slot());
            if field.optional {
                let present = slot(0) != 0;
                self.put(u64::from(present), 1);
                if !present {
                    // SAFETY: as above.
                    slots = unsafe { slots.add(field.slot_count()) };
                    continue;
                }
            }
            match field.kind {
                Kind::Str | Kind::Bytes | Kind::Formatted => {
                    // SAFETY: address and length of live bytes.
                    unsafe { self.text(slot(0) as usize as *const u8, slot(1) as usize) };
                }
                Kind::U128 | Kind::I128 => {
                    self.put(slot(first), 8);
                    self.put(slot(first + 1), 8);
                }
                Kind::Duration => {
                    self.put(slot(first), 8);
                    self.put(slot(first + 1), 4);
                }
                _ => self.put(slot(first), field.kind.slots()[0].unsigned_abs().into()),
            }
            // SAFETY: as above.
            slots = unsafe { slots.add(field.slot_count()) };
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
    /// zero or already written: no byte of a finished word is left as it was on the stack.
    #[inline(always)]
    fn put(&mut self, value: u64, width: usize) {
        let start = self.bytes.next_multiple_of(width);
        if start + width > WORDS * 8 {
            return;
        }
        let word = self.words[start / 8].as_mut_ptr();
        let place = start % 8;
        let mask = u64::MAX >> (64 - 8 * width);
        // SAFETY: a word of the buffer, written before where the place is not its beginning.
        unsafe {
            let before = if place == 0 { 0 } else { word.read() };
            word.write(before | (value & mask) << (8 * place));
        }
        self.bytes = start + width;
    }

    /// # Safety
    /// `length` bytes at `address` are alive.
    #[inline]
    unsafe fn text(&mut self, address: *const u8, length: usize) {
        let start = self.bytes.next_multiple_of(4) + 8;
        let kept = length.min((WORDS * 8).saturating_sub(start));
        self.put(kept as u64, 4);
        self.put(u64::from(u32::try_from(length).unwrap_or(u32::MAX)), 4);
        if kept == 0 || self.bytes != start {
            return;
        }
        let end = start + kept;
        // The text may not fill its last word.
        let last = (end - 1) / 8;
        if last * 8 >= start {
            self.words[last].write(0);
        }
        // SAFETY: `kept` bytes are alive at the address, and fit the buffer from `start` on.
        unsafe {
            copy(
                self.words.as_mut_ptr().cast::<u8>().add(start),
                address,
                kept,
            )
        };
        self.bytes = end;
    }
}

/// Copies `length` bytes, short ones without a call: two loads and stores that may overlap.
///
/// # Safety
/// Both places have that many bytes and do not overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: every access is within the first or the last bytes of both.
    unsafe {
        match length {
            8..=16 => {
                let (first, last) = (
                    from.cast::<u64>().read_unaligned(),
                    from.add(length - 8).cast::<u64>().read_unaligned(),
                );
                to.cast::<u64>().write_unaligned(first);
                to.add(length - 8).cast::<u64>().write_unaligned(last);
            }
            4..=7 => {
                let (first, last) = (
                    from.cast::<u32>().read_unaligned(),
                    from.add(length - 4).cast::<u32>().read_unaligned(),
                );
                to.cast::<u32>().write_unaligned(first);
                to.add(length - 4).cast::<u32>().write_unaligned(last);
            }
            _ => ptr::copy_nonoverlapping(from, to, length),
        }
    }
}
