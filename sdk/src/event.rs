//! An event as callbacks see it: borrowed from the place that was hit.

#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::time::Duration;

use tracebraid_wire::kind::{FieldKind, Kind};

use crate::clock;
use crate::field_value::FieldValue;
use crate::registry::Description;

/// A hit of a tracepoint, for as long as the callback runs.
pub struct Event<'a> {
    tracepoint: &'a Description,
    slots: *const u64,
}

impl<'a> Event<'a> {
    /// # Safety
    /// `slots` are those of a hit of this tracepoint, and its values are alive for `'a`.
    pub(crate) unsafe fn new(tracepoint: &'a Description, slots: *const u64) -> Event<'a> {
        Event { tracepoint, slots }
    }

    /// Who declares the tracepoint.
    #[must_use]
    pub fn provider(&self) -> &'a str {
        &self.tracepoint.provider
    }

    /// The tracepoint's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.tracepoint.name
    }

    /// The time now: nanoseconds of CLOCK_MONOTONIC, the clock of the bridge's stream.
    #[must_use]
    pub fn time(&self) -> u64 {
        clock::now()
    }

    /// The fields in order: name and value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, FieldValue<'a>)> + use<'a> {
        let mut slots = self.slots;
        self.tracepoint.fields.iter().map(move |field| {
            let mut words = [0u64; 3];
            let count = field.kind.slot_count();
            // SAFETY: the hit has as many slots as its fields' kinds say, and this walks them in order.
            unsafe {
                ptr::copy_nonoverlapping(slots, words.as_mut_ptr(), count);
                slots = slots.add(count);
            }
            // SAFETY: addresses in slots lead to values that are alive for `'a` (`new`).
            (field.name.as_str(), unsafe { read(field.kind, words) })
        })
    }

    /// The value of the field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.fields()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// # Safety
/// The words are a hit's slots of a field of this kind; text they lead to is alive for `'a`.
unsafe fn read<'a>(kind: FieldKind, words: [u64; 3]) -> FieldValue<'a> {
    let [first, second] = match kind.has_presence_slot() {
        true if words[0] == 0 => return FieldValue::None,
        true => [words[1], words[2]],
        false => [words[0], words[1]],
    };
    let wide = u128::from(first) | u128::from(second) << 64;
    match kind.kind {
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Elapsed => FieldValue::Unsigned(first),
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => FieldValue::Signed(first as i64),
        Kind::U128 => FieldValue::Unsigned128(wide),
        Kind::I128 => FieldValue::Signed128(wide as i128),
        Kind::Bool => FieldValue::Bool(first != 0),
        Kind::Char => {
            FieldValue::Char(char::from_u32(first as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
        }
        Kind::F32 => FieldValue::F32(f32::from_bits(first as u32)),
        Kind::F64 => FieldValue::F64(f64::from_bits(first)),
        Kind::Pointer => FieldValue::Pointer(first as usize),
        Kind::Duration => FieldValue::Duration(Duration::new(first, second as u32)),
        Kind::Any => FieldKind::of_any(first as u8).map_or(FieldValue::None, |kind| {
            // SAFETY: the caller's promise: the slots of a value of that kind follow.
            unsafe { read(kind, [words[1], words[2], 0]) }
        }),
        Kind::Str | Kind::Bytes | Kind::Formatted if first == 0 => FieldValue::None,
        Kind::Str | Kind::Bytes | Kind::Formatted => {
            // SAFETY: the caller's promise: address and length of a live `str` or byte slice.
            let bytes =
                unsafe { std::slice::from_raw_parts(first as usize as *const u8, second as usize) };
            match std::str::from_utf8(bytes) {
                Ok(text) if kind.kind != Kind::Bytes => FieldValue::Str(text),
                _ => FieldValue::Bytes(bytes),
            }
        }
    }
}

/// `provider:name: field=value field=value …`, with control characters escaped.
impl fmt::Display for Event<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tracepoint.write_hit(self.fields(), out)
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
