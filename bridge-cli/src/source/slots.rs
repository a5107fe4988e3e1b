//! The slots of a tracebraid tracepoint's hit, and what they mean.
//!
//! Slots are 64-bit words in memory, laid out by [`FieldKind::slot_count`]; a text is an address and a
//! length there, and its bytes are fetched beside. Nothing of them is believed: only the low bytes that
//! a kind has count, and what is no value of its kind is shown as what it is.

use std::time::Duration;

use tracebraid_bpf::record::Text;
use tracebraid_wire::kind::{FieldKind, Kind};

use crate::event::Value;

/// `Option<u64>`, `str`.
pub fn type_name(kind: FieldKind) -> String {
    match (kind.kind, kind.optional) {
        (Kind::Formatted, _) => "str".to_owned(),
        (Kind::Elapsed, false) => Kind::U64.name().to_owned(),
        (kind, true) => format!("Option<{}>", kind.name()),
        (kind, false) => kind.name().to_owned(),
    }
}

/// Appends the values of fields of these kinds.
pub(super) fn append(
    kinds: &[FieldKind],
    slots: Option<Vec<u64>>,
    texts: Vec<Text>,
    values: &mut Vec<Value>,
) {
    let Some(slots) = slots else {
        values.extend(kinds.iter().map(|_| Value::Fault));
        return;
    };
    let mut rest = slots.as_slice();
    let mut texts = texts.into_iter();
    let value = |kind: &FieldKind| {
        let Some((own, after)) = rest.split_at_checked(kind.slot_count()) else {
            // Fields behind it are not captured either, even where they would need fewer slots.
            rest = &[];
            return Value::NotCaptured;
        };
        rest = after;
        if kind.is_text_or_bytes() {
            text_value(kind.kind, texts.next())
        } else {
            slot_value(*kind, own)
        }
    };
    values.extend(kinds.iter().map(value));
}

/// The value of a text or bytes field.
pub(super) fn text_value(kind: Kind, text: Option<Text>) -> Value {
    match text {
        None => Value::NotCaptured,
        Some(Text::Null) => Value::Absent,
        Some(Text::Fault) => Value::Fault,
        Some(Text::Bytes { bytes, full_length }) => {
            let bytes = bytes.into_boxed_slice();
            if kind == Kind::Bytes {
                Value::Bytes { bytes, full_length }
            } else {
                Value::Text { bytes, full_length }
            }
        }
    }
}

/// The value of a field that is no text, from as many slots as its kind has.
#[inline]
pub(super) fn slot_value(kind: FieldKind, slots: &[u64]) -> Value {
    let slots = match slots {
        [0, ..] if kind.has_presence_slot() => return Value::Absent,
        [_, value @ ..] if kind.has_presence_slot() => value,
        all => all,
    };
    let low = slots.first().copied().unwrap_or(0);
    let high = slots.get(1).copied().unwrap_or(0);
    match kind.kind {
        Kind::U8 => Value::Unsigned(u64::from(low as u8)),
        Kind::U16 => Value::Unsigned(u64::from(low as u16)),
        Kind::U32 => Value::Unsigned(u64::from(low as u32)),
        Kind::U64 | Kind::Elapsed => Value::Unsigned(low),
        Kind::I8 => Value::Signed(i64::from(low as i8)),
        Kind::I16 => Value::Signed(i64::from(low as i16)),
        Kind::I32 => Value::Signed(i64::from(low as i32)),
        Kind::I64 => Value::Signed(low as i64),
        Kind::U128 => Value::Unsigned128(u128::from(high) << 64 | u128::from(low)),
        Kind::I128 => Value::Signed128((u128::from(high) << 64 | u128::from(low)) as i128),
        Kind::Bool => Value::Bool(low as u8 != 0),
        // No char: the number, which is then plainly none.
        Kind::Char => match char::from_u32(low as u32) {
            Some(character) => Value::Char(character),
            None => Value::Unsigned(u64::from(low as u32)),
        },
        Kind::F32 => Value::F32(f32::from_bits(low as u32)),
        Kind::F64 => Value::F64(f64::from_bits(low)),
        Kind::Pointer => Value::Pointer(low),
        Kind::Duration => {
            let nanoseconds = Duration::from_nanos(u64::from(high as u32));
            Value::Duration(Duration::from_secs(low).saturating_add(nanoseconds))
        }
        // Their slots are an address and a length; the text itself travels beside.
        Kind::Str | Kind::Bytes | Kind::Formatted => Value::Pointer(low),
        Kind::Any => match (FieldKind::of_any(low as u8), slots) {
            (Some(kind), [_, value @ ..]) => slot_value(kind, value),
            _ => Value::Absent,
        },
    }
}
