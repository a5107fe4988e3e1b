//! From slots to a record's bytes (`wire::record`).
//!
//! One pass over the kinds, into a buffer on the stack: what a record needs is known before the append,
//! which is one restartable sequence and must only copy. A text may take what the other fields leave,
//! and is cut there; fields of fixed size always find room.
//!
//! The append reads the buffer word by word, so it is written by whole words only: a processor hands a load
//! the data of one earlier store, and one that needs two of them waits until both are in the cache. So the
//! word that is begun is kept in a register, and stored anew whenever something was added to it.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use tracebraid_wire::kind::{FieldKind, Kind, MAX_SLOTS, OPTIONAL};
use tracebraid_wire::record::HEADER;

use crate::fields::MAX_FIELDS;

/// Words of the buffer: the longest record that the SDK writes.
pub(crate) const WORDS: usize = 160;
/// The most bytes that a field takes besides its text: presence, padding, two words.
pub(super) const FIXED: usize = 8 * MAX_SLOTS;

/// Fields of a record at most: of a tracepoint made at run time, some more than macros take.
pub(crate) const MOST_FIELDS: usize = MAX_FIELDS + 8;

/// Up to here texts need no look at what has to find room behind them.
const NEAR: usize = WORDS * 8 - MOST_FIELDS * FIXED;

const _: () = assert!(HEADER < NEAR);

/// What to do with a field: how many bytes wide its (last) slot is, or [`TEXT`].
type Form = u8;

/// The bits of a form that are a width.
const WIDTH: Form = 15;
/// A slot of 8 bytes goes before.
const TWO: Form = 16;
/// Address and length.
const TEXT: Form = 32;
/// The byte of a kind, then its slots: three in all.
const ANY: Form = 64;

/// By the byte of a kind, without [`OPTIONAL`]. Forms are told apart bit by bit: as a `match` on kinds this
/// was a jump through a table, which cost an event with one text 2 ns of 22.
static FORMS: [Form; OPTIONAL as usize] = {
    let mut forms = [0; OPTIONAL as usize];
    let mut kinds = Kind::ALL;
    while let [kind, rest @ ..] = kinds {
        forms[*kind as usize] = form(*kind);
        kinds = rest;
    }
    forms
};

const fn form(kind: Kind) -> Form {
    let field = FieldKind {
        kind,
        optional: false,
    };
    if field.is_text_or_bytes() {
        return TEXT;
    }
    if matches!(kind, Kind::Any) {
        return ANY;
    }
    match *kind.slots() {
        [width] => width.unsigned_abs(),
        [8 | -8, width] => TWO | width.unsigned_abs(),
        _ => panic!("a form for each kind"),
    }
}

/// How far a record is written.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// Bytes, header included.
    at: usize,
    /// The word that `at` is in, as far as it is written.
    begun: u64,
}

impl Cursor {
    /// Where the fields begin.
    #[inline(always)]
    pub(super) fn behind_header() -> Cursor {
        Cursor {
            at: HEADER,
            begun: 0,
        }
    }

    /// Bytes that are written, header included.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(super) fn at(self) -> usize {
        self.at
    }
}

/// The words of a record in the making. Word 0 and 1 are the header.
pub(crate) struct Encoder {
    words: [MaybeUninit<u64>; WORDS],
}

impl Encoder {
    #[inline(always)]
    pub(crate) fn new() -> Encoder {
        Encoder {
            words: [MaybeUninit::uninit(); WORDS],
        }
    }

    /// Writes the fields of these kinds: the record, and how many words it has. Those of the header are not
    /// written. `None` where the record becomes a long one, for which there is [`cut`](Self::cut).
    ///
    /// # Safety
    /// Each byte is that of a kind, with or without [`OPTIONAL`]; the slots are those of a hit with these
    /// kinds, at most [`MOST_FIELDS`], and the addresses in them are alive.
    #[inline(always)]
    pub(crate) unsafe fn whole(
        &mut self,
        kinds: &[u8],
        slots: *const u64,
    ) -> Option<(*mut u64, usize)> {
        // SAFETY: the caller's promise.
        unsafe { self.fields::<false>(kinds, slots) }
    }

    /// The same for records of any length: texts that do not fit are cut.
    ///
    /// # Safety
    /// As for [`whole`](Self::whole).
    pub(crate) unsafe fn cut(
        &mut self,
        kinds: &[u8],
        slots: *const u64,
    ) -> Option<(*mut u64, usize)> {
        // SAFETY: the caller's promise.
        unsafe { self.fields::<true>(kinds, slots) }
    }

    /// # Safety
    /// As for [`whole`](Self::whole).
    #[inline(always)]
    unsafe fn fields<const CUTS: bool>(
        &mut self,
        kinds: &[u8],
        mut slots: *const u64,
    ) -> Option<(*mut u64, usize)> {
        let mut cursor = Cursor::behind_header();
        let mut kinds = kinds.iter();
        while let Some(&byte) = kinds.next() {
            // SAFETY: the hit has as many slots as the kinds say; a field of fixed size has room, since
            // texts leave it.
            unsafe {
                let mut form = FORMS[usize::from(byte & !OPTIONAL)];
                // Slots behind the value's own.
                let mut unused = 0;
                if byte & OPTIONAL != 0 {
                    // A presence slot, or an address that is null without a value.
                    let present = slots.read() != 0;
                    cursor = self.put(cursor, present.into(), 1);
                    slots = slots.add(usize::from(form & TEXT == 0));
                    if !present {
                        slots = slots.add(if form & (TEXT | TWO) == 0 { 1 } else { 2 });
                        continue;
                    }
                }
                if form & ANY != 0 {
                    let byte = slots.read() as u8;
                    cursor = self.put(cursor, byte.into(), 1);
                    let Some(of) = FieldKind::of_any(byte) else {
                        slots = slots.add(3);
                        continue;
                    };
                    form = FORMS[of.kind as usize];
                    slots = slots.add(1);
                    unused = usize::from(form & (TEXT | TWO) == 0);
                }
                if form & TEXT != 0 {
                    let address = slots.read() as usize as *const u8;
                    let length = slots.add(1).read() as usize;
                    if CUTS {
                        let room = WORDS * 8 - FIXED * kinds.len() - text_start(cursor.at);
                        let full = length.min(u32::MAX as usize);
                        cursor = self.text(cursor, address, length.min(room), full);
                    } else if cursor.at + length <= NEAR {
                        cursor = self.text(cursor, address, length, length);
                    } else {
                        return None;
                    }
                    slots = slots.add(2);
                    continue;
                }
                if form & TWO != 0 {
                    cursor = self.put(cursor, slots.read(), 8);
                    slots = slots.add(1);
                }
                let width = usize::from(form & WIDTH);
                cursor = match width {
                    8 => self.put(cursor, slots.read(), 8),
                    _ => self.put(cursor, slots.read(), width),
                };
                slots = slots.add(1 + unused);
            }
        }
        Some((self.start(), cursor.at.div_ceil(8)))
    }

    /// The record's first word.
    #[inline(always)]
    pub(super) fn start(&mut self) -> *mut u64 {
        self.words.as_mut_ptr().cast()
    }

    /// Writes the low `width` bytes (1, 2, 4, 8) at their alignment. The rest of the word they are in is
    /// zero or already written, so that no byte of a record is left as it was on the stack.
    ///
    /// # Safety
    /// There is room.
    #[inline(always)]
    pub(super) unsafe fn put(&mut self, cursor: Cursor, value: u64, width: usize) -> Cursor {
        let start = (cursor.at + width - 1) & !(width - 1);
        let value = value & (u64::MAX >> (64 - 8 * width));
        let begun = match start % 8 {
            0 => value,
            before => cursor.begun | value << (8 * before),
        };
        // SAFETY: the caller's promise.
        unsafe { self.store(start, begun) };
        Cursor {
            at: start + width,
            begun,
        }
    }

    /// Stores the word that byte `at` is in.
    ///
    /// # Safety
    /// It is in the buffer.
    #[inline(always)]
    unsafe fn store(&mut self, at: usize, word: u64) {
        debug_assert!(at < WORDS * 8);
        // SAFETY: the caller's promise.
        unsafe {
            self.words
                .as_mut_ptr()
                .add(at / 8)
                .cast::<u64>()
                .write(word)
        };
    }

    /// # Safety
    /// `length` bytes at `address` are alive, and there is room for them.
    #[inline(always)]
    pub(super) unsafe fn text(
        &mut self,
        cursor: Cursor,
        mut address: *const u8,
        length: usize,
        full: usize,
    ) -> Cursor {
        let start = text_start(cursor.at);
        let end = start + length;
        let (mut at, mut left) = (start, length);
        let mut begun = 0;
        // SAFETY: there is room for the two lengths and the text, which is read within its length.
        unsafe {
            if start.is_multiple_of(8) {
                self.store(start - 8, length as u64 | (full as u64) << 32);
            } else {
                let cursor = self.put(cursor, length as u64, 4);
                let cursor = self.put(cursor, full as u64, 4);
                // Up to the next word, and on from there.
                let first = length.min(4);
                begun = cursor.begun | short(address, first) << 32;
                self.store(start, begun);
                address = address.add(first);
                at += 4;
                left -= first;
            }
            if left > 0 {
                begun = self.bytes(at, address, left);
            }
        }
        Cursor { at: end, begun }
    }

    /// Writes bytes from the beginning of a word on. The last word, where it is not full.
    ///
    /// # Safety
    /// There are so many, and there is room.
    #[inline(always)]
    unsafe fn bytes(&mut self, at: usize, from: *const u8, length: usize) -> u64 {
        let whole = length & !7;
        // SAFETY: within both, as the length says.
        unsafe {
            let to = self.words.as_mut_ptr().add(at / 8).cast::<u8>();
            let copy = |at: usize| copy::<[u64; 2]>(to.add(at), from.add(at));
            let mut done = 0;
            while done + 32 <= whole {
                copy(done);
                copy(done + 16);
                done += 32;
            }
            if whole & 16 != 0 {
                copy(done);
                done += 16;
            }
            if whole & 8 != 0 {
                self::copy::<u64>(to.add(done), from.add(done));
            }
            if length == whole {
                return 0;
            }
            let last = match whole {
                0 => short(from, length),
                // The last eight bytes, without those that were copied.
                _ => {
                    let last = from.add(length - 8).cast::<u64>().read_unaligned();
                    last >> (8 * (8 - length % 8))
                }
            };
            to.add(whole).cast::<u64>().write(last);
            last
        }
    }
}

/// Where a text's bytes begin, if the record is written up to `at`: behind two lengths of four bytes.
pub(super) const fn text_start(at: usize) -> usize {
    ((at + 3) & !3) + 8
}

/// Copies a `T`.
///
/// # Safety
/// Both places have that many bytes.
#[inline(always)]
unsafe fn copy<T>(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<T>()
            .write_unaligned(from.cast::<T>().read_unaligned())
    };
}

/// Fewer than eight bytes as a word, the first one lowest, zeros above.
///
/// # Safety
/// There are so many.
#[inline(always)]
unsafe fn short(from: *const u8, length: usize) -> u64 {
    // SAFETY: every access is within the first or the last bytes; where two overlap they agree.
    unsafe {
        match length {
            0 => 0,
            1 => from.read().into(),
            2..=3 => {
                let last = u64::from(from.add(length - 2).cast::<u16>().read_unaligned());
                u64::from(from.cast::<u16>().read_unaligned()) | last << (8 * (length - 2))
            }
            _ => {
                let last = u64::from(from.add(length - 4).cast::<u32>().read_unaligned());
                u64::from(from.cast::<u32>().read_unaligned()) | last << (8 * (length - 4))
            }
        }
    }
}
