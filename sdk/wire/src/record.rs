//! A record in a ring: header, then fields.
//!
//! ```text
//! word 0   bits 0–15   length in 64-bit words, header included (2 … MAX_WORDS)
//!          bits 16–31  event id (0: padding, to be skipped)
//!          bits 32–63  thread id
//! word 1   time: ticks of the region's clock
//! then     fields in the schema's order, each aligned to its own width (at most 8), little-endian:
//!            one-slot kinds       their width (1, 2, 4 or 8 bytes)
//!            u128, i128           16 bytes, aligned to 8
//!            duration             u64 seconds, u32 nanoseconds
//!            str, bytes, text     u32 length, u32 full length, then the bytes
//!            elapsed              u64: when it began, in ticks of the region's clock; or, with the highest
//!                                 bit set, how many nanoseconds it took ([`Elapsed`])
//!          an optional field: a byte, 1 with a value, then the value; 0 without, and nothing more
//!          a field of any kind: the byte of its kind, then the value; 0 without, and nothing more
//!          zeros up to a whole word
//! ```
//! A text whose length is smaller than its full length was cut.
//!
//! A thread introduces itself before its first event, with a record of the id [`INTRODUCTION`]: what it
//! is called and which process it belongs to, which nobody can look up any more once it has ended.

use crate::kind::{FieldKind, Kind};

/// Bytes of a record's header.
pub const HEADER: usize = 16;
/// The longest record, in 64-bit words.
pub const MAX_WORDS: usize = 1024;
/// The id of padding.
pub const PADDING: u16 = 0;
/// The id of introductions.
pub const INTRODUCTION: u16 = u16::MAX;

/// A record's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length in words, header included.
    pub words: u16,
    /// Which event.
    pub event: u16,
    /// Which thread.
    pub tid: u32,
    /// When, in ticks of the region's clock.
    pub time: u64,
}

impl Header {
    /// The first word.
    #[inline]
    pub const fn word(words: u16, event: u16, tid: u32) -> u64 {
        words as u64 | (event as u64) << 16 | (tid as u64) << 32
    }

    /// Reads a header; `None` where its length is impossible.
    #[inline]
    pub const fn parse(first: u64, time: u64) -> Option<Header> {
        let header = Header {
            words: first as u16,
            event: (first >> 16) as u16,
            tid: (first >> 32) as u32,
            time,
        };
        if header.words < 2 || header.words as usize > MAX_WORDS {
            None
        } else {
            Some(header)
        }
    }
}

/// The body of an introduction: `u32` process id, `u32` 1 where the process has made a region of its own,
/// then 16 bytes of name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The thread's process, as its namespace numbers it.
    pub process: u32,
    /// The process records in a region of its own from here on.
    pub has_region: bool,
    /// The thread's name, filled up with NULs.
    pub name: [u8; 16],
}

impl Introduction {
    /// Words of the whole record.
    pub const WORDS: usize = 5;

    /// The words behind the header.
    pub const fn encode(&self) -> [u64; Introduction::WORDS - 2] {
        let (first, last) = self.name.split_at(8);
        [
            self.process as u64 | (self.has_region as u64) << 32,
            word_of(first),
            word_of(last),
        ]
    }

    /// Reads them; `None` where there are too few.
    pub fn parse(body: &[u64]) -> Option<Introduction> {
        let &[first, low, high, ..] = body else {
            return None;
        };
        let mut name = [0; 16];
        name[..8].copy_from_slice(&low.to_le_bytes());
        name[8..].copy_from_slice(&high.to_le_bytes());
        Some(Introduction {
            process: first as u32,
            has_region: first >> 32 & 1 != 0,
            name,
        })
    }
}

const fn word_of(bytes: &[u8]) -> u64 {
    let mut word = 0;
    let mut at = 0;
    while at < 8 && at < bytes.len() {
        word |= (bytes[at] as u64) << (8 * at);
        at += 1;
    }
    word
}

/// How long something took, as a record says it.
///
/// A return's record carries the stamp of its entry's, so that whoever writes the two reads the clock
/// twice, and whoever reads the return subtracts. Where the entry has no stamp of the region's clock, or
/// somebody in the process had to know the duration already, the record says that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elapsed {
    /// From this moment, in ticks of the region's clock, to the record's own time.
    Since(u64),
    /// So many nanoseconds.
    Nanoseconds(u64),
}

impl Elapsed {
    /// Set where the rest of the word is nanoseconds: neither they nor ticks get that far in a century.
    const KNOWN: u64 = 1 << 63;

    /// As it stands in a record.
    #[inline]
    pub const fn word(self) -> u64 {
        match self {
            Elapsed::Since(ticks) => ticks & !Elapsed::KNOWN,
            Elapsed::Nanoseconds(nanoseconds) => nanoseconds | Elapsed::KNOWN,
        }
    }

    /// Reads the word of a record.
    #[inline]
    pub const fn of_word(word: u64) -> Elapsed {
        match word & Elapsed::KNOWN {
            0 => Elapsed::Since(word),
            _ => Elapsed::Nanoseconds(word & !Elapsed::KNOWN),
        }
    }

    /// In nanoseconds. `since` says how long before the record's own time a moment of the region's clock is.
    #[inline]
    pub fn nanoseconds(self, since: impl FnOnce(u64) -> u64) -> u64 {
        match self {
            Elapsed::Since(ticks) => since(ticks),
            Elapsed::Nanoseconds(nanoseconds) => nanoseconds,
        }
    }
}

/// A field's value, borrowed from a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldRef<'a> {
    /// A kind of one slot: its bits, sign-extended where it is signed.
    Word(u64),
    /// A 128-bit kind: its low bits and its high ones.
    Wide(u64, u64),
    /// Seconds and nanoseconds.
    Duration(u64, u32),
    /// Text or bytes, and their true length.
    Bytes(&'a [u8], u32),
    /// How long something took.
    Elapsed(Elapsed),
    /// An optional field without a value.
    Absent,
}

/// Walks the fields of a record's body.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Over the bytes that follow the header.
    pub const fn new(body: &'a [u8]) -> Fields<'a> {
        Fields { body, at: 0 }
    }

    /// The next field, which is of this kind, and what kind it turned out to be where it may be any; `None`
    /// where the record ends too soon, or says what cannot be.
    #[inline]
    pub fn next(&mut self, field: FieldKind) -> Option<(FieldKind, FieldRef<'a>)> {
        if !matches!(field.kind, Kind::Any) {
            return Some((field, self.value(field)?));
        }
        match *self.take(1, 1)?.first()? {
            0 => Some((field, FieldRef::Absent)),
            byte => {
                let field = FieldKind::of_any(byte)?;
                Some((field, self.value(field)?))
            }
        }
    }

    #[inline]
    fn value(&mut self, field: FieldKind) -> Option<FieldRef<'a>> {
        if field.optional && *self.take(1, 1)?.first()? == 0 {
            return Some(FieldRef::Absent);
        }
        Some(match field.kind {
            Kind::U128 | Kind::I128 => {
                let low = self.word(8)?;
                FieldRef::Wide(low, self.word(8)?)
            }
            Kind::Duration => {
                let seconds = self.word(8)?;
                FieldRef::Duration(seconds, self.word(4)? as u32)
            }
            Kind::Str | Kind::Bytes | Kind::Formatted => {
                let length = self.word(4)? as usize;
                let full = self.word(4)? as u32;
                FieldRef::Bytes(self.take(length, 1)?, full)
            }
            Kind::Elapsed => FieldRef::Elapsed(Elapsed::of_word(self.word(8)?)),
            Kind::U8
            | Kind::U16
            | Kind::U32
            | Kind::U64
            | Kind::Bool
            | Kind::Char
            | Kind::F32
            | Kind::F64
            | Kind::Pointer => {
                FieldRef::Word(self.word(field.kind.slots()[0].unsigned_abs() as usize)?)
            }
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => {
                let width = field.kind.slots()[0].unsigned_abs() as usize;
                let unused = 64 - 8 * width as u32;
                FieldRef::Word(((self.word(width)? << unused) as i64 >> unused) as u64)
            }
            Kind::Any => return None,
        })
    }

    #[inline]
    fn take(&mut self, count: usize, align: usize) -> Option<&'a [u8]> {
        let start = self.at.next_multiple_of(align);
        let bytes = self.body.get(start..start.checked_add(count)?)?;
        self.at = start + count;
        Some(bytes)
    }

    #[inline]
    fn word(&mut self, width: usize) -> Option<u64> {
        let bytes = self.take(width, width)?;
        // Of each width by itself: a copy of any length is a call.
        Some(match width {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            _ => u64::from_le_bytes(bytes.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_reads_back() {
        let introduction = Introduction {
            process: 4242,
            has_region: true,
            name: *b"a thread's name\0",
        };
        assert_eq!(
            Introduction::parse(&introduction.encode()),
            Some(introduction)
        );
        assert_eq!(Introduction::parse(&introduction.encode()[..2]), None);
    }
}
