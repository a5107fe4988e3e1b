//! Lists of kinds at compile time: where each field's slots are.

#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::table::POINT_FORMATS;

use crate::value::{Lowered, Value};

/// Words in front of the slots of a hit, free for a record's header: what is one word a field goes to the
/// ring as it stands, and is never copied.
pub const HEADER_WORDS: usize = 2;

/// A tracepoint has at most this many fields.
pub(crate) const MAX_FIELDS: usize = 32;

/// The kinds of a point's fields: a variable of this type ties the gate of a site to its values,
/// whose types only inference knows.
///
/// It holds nothing, so futures and closures with one are as `Send` as without.
pub struct Kinds<F>(PhantomData<fn() -> F>);

impl<F> Clone for Kinds<F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<F> Copy for Kinds<F> {}

/// Kinds yet to be inferred.
#[inline(always)]
#[must_use]
pub const fn kinds<F>() -> Kinds<F> {
    Kinds(PhantomData)
}

/// A tuple of lowered types.
pub trait Fields: Sized {
    /// Their kinds.
    const KINDS: &'static [FieldKind];
    /// What the assembler has to know of them ([`code`]). Evaluated once for each list of kinds.
    const CODES: [u64; MAX_FIELDS.div_ceil(CODE_FIELDS)] = codes::<Self>();
    /// How many slots they take together. USDT readers see the first twelve (`__note_arguments!`).
    const SLOTS: usize = first_slot::<Self>(Self::KINDS.len());
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Lowered),*> Fields for ($($name,)*) {
            const KINDS: &'static [FieldKind] = &[$($name::KIND),*];
        }
        tuples!(@shorter $($name)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($name:ident)*) => { tuples!($($name)*); };
}
tuples!(L31 L30 L29 L28 L27 L26 L25 L24 L23 L22 L21 L20 L19 L18 L17 L16 L15 L14 L13 L12 L11 L10 L9 L8 L7 L6 L5 L4 L3 L2 L1 L0);

/// Fields that a code describes.
const CODE_FIELDS: usize = 3;

/// Bits of a field in a code.
const CODE_BITS: usize = 20;

/// What the assembler has to know of three fields, from `3 * chunk` on; so is the point's symbol made
/// another one by other kinds.
///
/// ```text
/// bit 0   kind byte
///     8   number of slots
///    10   for each of up to three slots: log2 of its width, 2 bits; 1 where it is signed
///    19   whether it is formatted
///    20   the next field
/// ```
#[must_use]
pub const fn code<F: Fields>(chunk: usize) -> u64 {
    F::CODES[chunk]
}

const fn codes<F: Fields>() -> [u64; MAX_FIELDS.div_ceil(CODE_FIELDS)] {
    let mut codes = [0; MAX_FIELDS.div_ceil(CODE_FIELDS)];
    let mut at = 0;
    while at < F::KINDS.len() {
        codes[at / CODE_FIELDS] |= code_of(F::KINDS[at]) << (at % CODE_FIELDS * CODE_BITS);
        at += 1;
    }
    codes
}

const fn code_of(kind: FieldKind) -> u64 {
    let mut code = kind.byte() as u64 | (kind.slot_count() as u64) << 8;
    let mut slot = 0;
    while slot < kind.slot_count() {
        let width = kind.slot_width(slot);
        let log2 = width.unsigned_abs().trailing_zeros() as u64;
        code |= (log2 | ((width < 0) as u64) << 2) << (10 + 3 * slot);
        slot += 1;
    }
    if matches!(kind.kind, Kind::Formatted) {
        code |= (POINT_FORMATS as u64) << 19;
    }
    code
}

const fn first_slot<F: Fields>(field: usize) -> usize {
    let (mut slot, mut at) = (0, 0);
    while at < field {
        slot += F::KINDS[at].slot_count();
        at += 1;
    }
    slot
}

/// Writes a field's words into its slots.
#[inline(always)]
pub fn put<F: Fields, const FIELD: usize, L: Lowered>(slots: &mut [MaybeUninit<u64>], value: L) {
    value.put(&mut slots[const { HEADER_WORDS + first_slot::<F>(FIELD) }..]);
}

/// Lowers a field.
#[inline(always)]
pub fn lower<T: Value + ?Sized>(value: &T) -> T::Lowered {
    value.lower()
}
