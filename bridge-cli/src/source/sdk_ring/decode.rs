//! From a record's words to an event's values.

#![allow(unsafe_code)]

use std::slice;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::record::{FieldRef, Fields};

use crate::event::Value;
use crate::source::slots::slot_value;

/// Appends the values of a record with fields of these kinds, from the words behind its header. Fields that
/// found no room in the record are [`Value::NotCaptured`]. `since` says how many nanoseconds before the
/// record's own time a moment of the region's clock is.
#[inline]
pub(super) fn append(
    kinds: &[FieldKind],
    body: &[u64],
    mut since: impl FnMut(u64) -> u64,
    values: &mut Vec<Value>,
) {
    let mut fields = Fields::new(bytes(body));
    values.extend(kinds.iter().map(|&kind| {
        fields
            .next(kind)
            .map_or(Value::NotCaptured, |(kind, field)| {
                value(kind, field, &mut since)
            })
    }));
}

/// Words in the order in which their bytes stand in memory: this machine's, which is the target's.
fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: the same memory, for as long; any bytes are valid, and bytes need no alignment.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[inline]
fn value(kind: FieldKind, field: FieldRef<'_>, since: impl FnOnce(u64) -> u64) -> Value {
    let required = FieldKind {
        optional: false,
        ..kind
    };
    match field {
        FieldRef::Absent => Value::Absent,
        FieldRef::Word(word) => slot_value(required, &[word]),
        FieldRef::Elapsed(elapsed) => slot_value(required, &[elapsed.nanoseconds(since)]),
        FieldRef::Wide(low, high) => slot_value(required, &[low, high]),
        FieldRef::Duration(seconds, fraction) => slot_value(required, &[seconds, fraction.into()]),
        FieldRef::Bytes(bytes, full_length) => {
            // A length that says less than there is, is none.
            let full_length = u64::from(full_length).max(bytes.len() as u64);
            let bytes = bytes.into();
            match kind.kind {
                Kind::Bytes => Value::Bytes { bytes, full_length },
                _ => Value::Text { bytes, full_length },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_words_give_a_value_for_each_field(
            kinds in prop::collection::vec(any::<u8>(), 0..40),
            body in prop::collection::vec(any::<u64>(), 0..60),
        ) {
            let kinds: Vec<_> = kinds.into_iter().filter_map(FieldKind::from_byte).collect();
            let mut values = Vec::new();
            append(&kinds, &body, |ticks| ticks, &mut values);
            prop_assert_eq!(values.len(), kinds.len());
        }
    }
}
