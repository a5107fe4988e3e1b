//! Field kinds: one row a kind, and what the compiler then asks for.
//!
//! A field travels as one to three *slots* of 64 bits. Kinds are the vocabulary between the macros
//! (which write them into the schema), the SDK (which fills the slots), USDT readers (which see the
//! slots through the note's argument string) and the bridge (which prints them).

/// How a slot is described to USDT readers: its width in bytes, negative when signed.
/// The same convention as in a `stapsdt` argument (`-4@…` is a signed 32-bit value).
pub type SlotWidth = i8;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $text:literal, $slots:expr;)*) => {
        /// What a field is. The discriminant is the byte in a schema.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $name = $id,)* }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            /// The kind with this byte, if there is one. The [`OPTIONAL`] bit must be taken off first.
            #[inline]
    pub const fn from_byte(byte: u8) -> Option<Kind> {
                match byte { $($id => Some(Kind::$name),)* _ => None }
            }

            /// The name that listings print, such as `u64` or `str`.
            #[inline]
    pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => $text,)* }
            }

            /// The widths of the slots that a field of this kind takes.
            #[inline]
    pub const fn slots(self) -> &'static [SlotWidth] {
                match self { $(Kind::$name => &$slots,)* }
            }
        }
    };
}

kinds! {
    /// `u8`.
    U8 = 1, "u8", [1];
    /// `u16`.
    U16 = 2, "u16", [2];
    /// `u32`.
    U32 = 3, "u32", [4];
    /// `u64` and, on 64-bit targets, `usize`.
    U64 = 4, "u64", [8];
    /// `i8`, sign-extended in its slot.
    I8 = 5, "i8", [-1];
    /// `i16`, sign-extended in its slot.
    I16 = 6, "i16", [-2];
    /// `i32`, sign-extended in its slot.
    I32 = 7, "i32", [-4];
    /// `i64` and, on 64-bit targets, `isize`.
    I64 = 8, "i64", [-8];
    /// `u128`: low half, then high half.
    U128 = 9, "u128", [8, 8];
    /// `i128`: low half, then (signed) high half.
    I128 = 10, "i128", [8, -8];
    /// `bool`: 0 or 1.
    Bool = 11, "bool", [1];
    /// `char`: its Unicode scalar value.
    Char = 12, "char", [4];
    /// `f32`: its bits, never an `f` argument, which makes libbpf refuse the whole probe.
    F32 = 13, "f32", [4];
    /// `f64`: its bits.
    F64 = 14, "f64", [8];
    /// UTF-8 text: address, length in bytes.
    Str = 15, "str", [8, 8];
    /// Bytes: address, length.
    Bytes = 16, "bytes", [8, 8];
    /// An address, printed in hex and never followed.
    Pointer = 17, "ptr", [8];
    /// A span of time: seconds, nanoseconds (below 1,000,000,000).
    Duration = 18, "duration", [8, 4];
    /// Text that a formatter writes (`%` and `?` fields). In the SDK the slots are the value's
    /// address and its formatter until the text is made; for readers they are those of [`Kind::Str`].
    Formatted = 19, "fmt", [8, 8];
    /// A value whose kind is known only when the tracepoint is hit: the byte of that kind, then its
    /// slots; byte 0 is no value. Never optional, since it may be absent anyway.
    Any = 20, "any", [1, 8, 8];
    /// How long something took, in nanoseconds: a `u64` for whoever reads slots. A record says it as
    /// [`Elapsed`](crate::record::Elapsed). In the SDK the slot is the moment at which it began, until
    /// somebody in the process asks how long that is ago.
    Elapsed = 21, "u64", [8];
}

/// The bit in a kind's byte that says the field is an `Option`.
///
/// An optional field is preceded by one slot of width 1: 1 when there is a value, 0 when not. Kinds
/// that travel as address and length have no such slot: a null address is `None`.
pub const OPTIONAL: u8 = 0x80;

/// Slots that a field can take at most: presence and two halves.
pub const MAX_SLOTS: usize = 3;

/// A kind, and whether the field is an `Option` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldKind {
    /// What the value is.
    pub kind: Kind,
    /// Whether it may be absent.
    pub optional: bool,
}

impl FieldKind {
    /// Reads the byte of a schema.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<FieldKind> {
        match Kind::from_byte(byte & !OPTIONAL) {
            Some(Kind::Any) if byte & OPTIONAL != 0 => None,
            Some(kind) => Some(FieldKind {
                kind,
                optional: byte & OPTIONAL != 0,
            }),
            None => None,
        }
    }

    /// The byte for a schema.
    #[inline]
    pub const fn byte(self) -> u8 {
        self.kind as u8 | if self.optional { OPTIONAL } else { 0 }
    }

    /// Whether the field travels as an address and a length.
    #[inline]
    pub const fn is_text_or_bytes(self) -> bool {
        matches!(self.kind, Kind::Str | Kind::Bytes | Kind::Formatted)
    }

    /// What a value of [`Kind::Any`] is that says it is of this byte's kind; `None` where it has no value,
    /// or says that it is something no value can be.
    #[inline]
    pub const fn of_any(byte: u8) -> Option<FieldKind> {
        match FieldKind::from_byte(byte) {
            Some(field) if !field.optional && !matches!(field.kind, Kind::Any) => Some(field),
            _ => None,
        }
    }

    /// Whether a presence slot stands before the value.
    #[inline]
    pub const fn has_presence_slot(self) -> bool {
        self.optional && !self.is_text_or_bytes()
    }

    /// How many slots the field takes, 1 to [`MAX_SLOTS`].
    #[inline]
    pub const fn slot_count(self) -> usize {
        self.kind.slots().len() + self.has_presence_slot() as usize
    }

    /// The width of slot `index` of the field; 0 past the last one.
    #[inline]
    pub const fn slot_width(self, index: usize) -> SlotWidth {
        if self.has_presence_slot() {
            if index == 0 {
                return 1;
            }
            return width_at(self.kind.slots(), index - 1);
        }
        width_at(self.kind.slots(), index)
    }
}

#[inline]
const fn width_at(slots: &[SlotWidth], index: usize) -> SlotWidth {
    if index < slots.len() { slots[index] } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_kind_or_none_and_comes_back_as_itself() {
        for byte in 0..=u8::MAX {
            if let Some(kind) = FieldKind::from_byte(byte) {
                assert_eq!(kind.byte(), byte);
                assert!((1..=MAX_SLOTS).contains(&kind.slot_count()));
                assert_ne!(kind.slot_width(kind.slot_count() - 1), 0);
                assert_eq!(kind.slot_width(kind.slot_count()), 0);
            }
        }
    }

    #[test]
    fn an_optional_number_takes_a_presence_slot_and_an_optional_string_does_not() {
        let number = FieldKind {
            kind: Kind::U64,
            optional: true,
        };
        assert_eq!(
            (
                number.slot_count(),
                number.slot_width(0),
                number.slot_width(1)
            ),
            (2, 1, 8)
        );
        let text = FieldKind {
            kind: Kind::Str,
            optional: true,
        };
        assert_eq!((text.slot_count(), text.slot_width(0)), (2, 8));
    }
}
