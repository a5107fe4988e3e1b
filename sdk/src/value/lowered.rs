//! The plain words that values become, one type a kind.

use core::fmt::{self, Write};
use core::mem::MaybeUninit;

use tracebraid_wire::kind::{FieldKind, Kind, OPTIONAL};

/// Words of one kind. Closed: the bridge has to know each.
pub trait Lowered: Copy + sealed::Sealed {
    /// What the words are.
    const KIND: FieldKind;
    /// The kind of a field that may lack this one.
    type Optional: Lowered;
    /// Writes the words into the first `KIND.slot_count()` places.
    fn put(self, slots: &mut [MaybeUninit<u64>]);
    /// Words that may be absent. What could be absent already is absent in the same way.
    fn optional(words: Option<Self>) -> Self::Optional;
}

pub(crate) mod sealed {
    /// Keeps [`Lowered`](super::Lowered) closed.
    pub trait Sealed {}
}

const fn required(kind: u8) -> FieldKind {
    match FieldKind::from_byte(kind) {
        Some(kind) => kind,
        None => panic!("a kind's byte"),
    }
}

macro_rules! lowered {
    (
        $name:ident [$($generic:ident)*],
        $kind:expr,
        |$this:ident, $slots:ident| $put:block,
        $optional:ty, |$words:ident| $lift:expr
    ) => {
        impl<$(const $generic: u8),*> sealed::Sealed for $name<$($generic),*> {}
        impl<$(const $generic: u8),*> Lowered for $name<$($generic),*> {
            const KIND: FieldKind = $kind;
            #[inline(always)]
            fn put(self, $slots: &mut [MaybeUninit<u64>]) {
                let $this = self;
                $put
            }
            type Optional = $optional;
            #[inline]
            fn optional($words: Option<Self>) -> $optional {
                $lift
            }
        }
    };
}

/// One word: an integer (extended to 64 bits by its sign), bool, char, float bits, an address.
#[derive(Clone, Copy)]
pub struct Bits<const KIND: u8>(pub u64);

/// One word that may be absent.
#[derive(Clone, Copy)]
pub struct OptionalWord<const KIND: u8>(pub Option<u64>);

/// A 128-bit integer.
#[derive(Clone, Copy)]
pub struct Halves<const KIND: u8>(pub u128);

/// Address and length of text or bytes.
#[derive(Clone, Copy)]
pub struct Text<const KIND: u8>(pub *const u8, pub usize);

/// Text or bytes that may be absent: a null address.
#[derive(Clone, Copy)]
pub struct OptionalText<const KIND: u8>(pub *const u8, pub usize);

/// A [`Duration`](core::time::Duration): seconds and nanoseconds.
#[derive(Clone, Copy)]
pub struct Span(pub u64, pub Fraction);

/// Nanoseconds below one second.
pub type Fraction = u32;

/// Two words that may be absent: 128-bit integers and durations.
#[derive(Clone, Copy)]
pub struct Presence<const KIND: u8>(pub Option<(u64, u64)>);

lowered!(
    Bits[KIND],
    required(KIND),
    |this, slots| {
        slots[0].write(this.0);
    },
    OptionalWord<KIND>,
    |words| OptionalWord(words.map(|words| words.0))
);
lowered!(
    OptionalWord[KIND],
    required(KIND | OPTIONAL),
    |this, slots| {
        slots[0].write(this.0.is_some() as u64);
        slots[1].write(this.0.unwrap_or(0));
    },
    OptionalWord<KIND>,
    |words| words.unwrap_or(OptionalWord(None))
);
lowered!(
    Halves[KIND],
    required(KIND),
    |this, slots| {
        slots[0].write(this.0 as u64);
        slots[1].write((this.0 >> 64) as u64);
    },
    Presence<KIND>,
    |words| Presence(words.map(|words| (words.0 as u64, (words.0 >> 64) as u64)))
);
lowered!(
    Text[KIND],
    required(KIND),
    |this, slots| {
        slots[0].write(this.0.expose_provenance() as u64);
        slots[1].write(this.1 as u64);
    },
    OptionalText<KIND>,
    |words| words.map_or(OptionalText(core::ptr::null(), 0), |words| OptionalText(
        words.0, words.1
    ))
);
lowered!(
    OptionalText[KIND],
    required(KIND | OPTIONAL),
    |this, slots| {
        slots[0].write(this.0.expose_provenance() as u64);
        slots[1].write(this.1 as u64);
    },
    OptionalText<KIND>,
    |words| words.unwrap_or(OptionalText(core::ptr::null(), 0))
);
lowered!(
    Presence[KIND],
    required(KIND | OPTIONAL),
    |this, slots| {
        slots[0].write(this.0.is_some() as u64);
        let (first, second) = this.0.unwrap_or((0, 0));
        slots[1].write(first);
        slots[2].write(second);
    },
    Presence<KIND>,
    |words| words.unwrap_or(Presence(None))
);
lowered!(
    Span[],
    required(Kind::Duration as u8),
    |this, slots| {
        slots[0].write(this.0);
        slots[1].write(this.1 as u64);
    },
    Presence<{ Kind::Duration as u8 }>,
    |words| Presence(words.map(|words| (words.0, u64::from(words.1))))
);

/// A value that is formatted when the event is emitted: its address, and what formats it.
#[derive(Clone, Copy)]
pub struct Formatted(pub *const (), pub Formatter);

/// Writes the value at the address.
pub type Formatter = unsafe fn(*const (), &mut dyn Write) -> fmt::Result;

lowered!(
    Formatted[],
    required(Kind::Formatted as u8),
    |this, slots| {
        slots[0].write(this.0.expose_provenance() as u64);
        slots[1].write((this.1 as *const ()).expose_provenance() as u64);
    },
    OptionalFormatted,
    |words| OptionalFormatted(words)
);

/// A value that is formatted when the event is emitted, if there is one: a null address is none.
#[derive(Clone, Copy)]
pub struct OptionalFormatted(pub Option<Formatted>);

lowered!(
    OptionalFormatted[],
    required(Kind::Formatted as u8 | OPTIONAL),
    |this, slots| {
        match this.0 {
            Some(words) => words.put(slots),
            None => {
                slots[0].write(0);
                slots[1].write(0);
            }
        }
    },
    OptionalFormatted,
    |words| words.unwrap_or(OptionalFormatted(None))
);
