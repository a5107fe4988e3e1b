//! Lists of kinds at compile time: where each field's slots are.

#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::table::POINT_FORMATS;

use crate::value::{Lowered, Value};

/// USDT readers see this many slots of an event.
pub(crate) const NOTE_SLOTS: usize = 12;

/// A tracepoint has at most this many fields.
#[cfg(tracebraid_keys)]
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
    /// How many slots they take together.
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

/// The byte of a field's kind.
#[must_use]
pub const fn kind<L: Lowered>() -> u8 {
    L::KIND.byte()
}

/// The width of a field's slot, for the note: negative when signed.
#[must_use]
pub const fn width<L: Lowered>(slot: usize) -> i32 {
    L::KIND.slot_width(slot) as i32
}

const fn first_slot<F: Fields>(field: usize) -> usize {
    let (mut slot, mut at) = (0, 0);
    while at < field {
        slot += F::KINDS[at].slot_count();
        at += 1;
    }
    slot
}

/// The offset of a field's slot, bytes.
#[must_use]
pub const fn offset<F: Fields>(field: usize, slot: usize) -> u32 {
    ((first_slot::<F>(field) + slot) * 8) as u32
}

/// How many of a field's slots the note describes: all or none.
#[must_use]
pub const fn note_slots_of<F: Fields>(field: usize) -> u32 {
    let count = F::KINDS[field].slot_count();
    if first_slot::<F>(field) + count <= NOTE_SLOTS {
        count as u32
    } else {
        0
    }
}

/// How many slots the note describes.
#[must_use]
pub const fn note_slots<F: Fields>() -> u32 {
    let (mut slots, mut at) = (0, 0);
    while at < F::KINDS.len() {
        slots += note_slots_of::<F>(at);
        at += 1;
    }
    slots
}

/// The flags of the point's row.
#[must_use]
pub const fn point_flags<F: Fields>() -> u32 {
    let (mut flags, mut at) = (0, 0);
    while at < F::KINDS.len() {
        if matches!(F::KINDS[at].kind, Kind::Formatted) {
            flags = POINT_FORMATS;
        }
        at += 1;
    }
    flags
}

/// Writes a field's words into its slots.
#[inline(always)]
pub fn put<F: Fields, const FIELD: usize, L: Lowered>(slots: &mut [MaybeUninit<u64>], value: L) {
    value.put(&mut slots[const { first_slot::<F>(FIELD) }..]);
}

/// Lowers a field.
#[inline(always)]
pub fn lower<T: Value + ?Sized>(value: &T) -> T::Lowered {
    value.lower()
}
