//! An event that was read back from a ring.

use std::fmt;
use std::time::Duration;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::record::{FieldRef, Fields};

use crate::field_value::FieldValue;
use crate::registry::Description;
use crate::ring::Line;

/// An event from the rings of this process.
pub struct Recorded<'a> {
    tracepoint: &'a Description,
    time: u64,
    thread: u32,
    body: Vec<u8>,
    /// On which the times in the body lie.
    line: Line,
}

impl<'a> Recorded<'a> {
    pub(crate) fn new(
        tracepoint: &'a Description,
        time: u64,
        thread: u32,
        body: &[u64],
        line: Line,
    ) -> Recorded<'a> {
        let body = body.iter().flat_map(|word| word.to_le_bytes()).collect();
        Recorded {
            tracepoint,
            time,
            thread,
            body,
            line,
        }
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

    /// When it happened: nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The thread it happened in.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// The fields in order: name and value. A field that found no room in the record ends them.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, FieldValue<'_>)> + use<'_, 'a> {
        let mut left = Fields::new(&self.body);
        self.tracepoint.fields.iter().map_while(move |field| {
            let (kind, value) = left.next(field.kind)?;
            Some((field.name.as_str(), self.value_of(kind, value)))
        })
    }

    /// The value of the field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        self.fields()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    fn value_of<'b>(&self, field: FieldKind, value: FieldRef<'b>) -> FieldValue<'b> {
        let bits = match value {
            FieldRef::Absent => return FieldValue::None,
            FieldRef::Wide(low, high) => {
                let bits = u128::from(high) << 64 | u128::from(low);
                return match field.kind {
                    Kind::I128 => FieldValue::Signed128(bits as i128),
                    _ => FieldValue::Unsigned128(bits),
                };
            }
            FieldRef::Duration(seconds, fraction) => {
                return FieldValue::Duration(Duration::new(seconds, fraction.min(999_999_999)));
            }
            FieldRef::Bytes(bytes, _) => {
                return match std::str::from_utf8(bytes) {
                    Ok(text) if field.kind != Kind::Bytes => FieldValue::Str(text),
                    _ => FieldValue::Bytes(bytes),
                };
            }
            FieldRef::Elapsed(elapsed) => {
                elapsed.nanoseconds(|begin| self.time.saturating_sub(self.line.at(begin)))
            }
            FieldRef::Word(bits) => bits,
        };
        match field.kind {
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => FieldValue::Signed(bits as i64),
            Kind::Bool => FieldValue::Bool(bits != 0),
            Kind::Char => {
                FieldValue::Char(char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            Kind::F32 => FieldValue::F32(f32::from_bits(bits as u32)),
            Kind::F64 => FieldValue::F64(f64::from_bits(bits)),
            Kind::Pointer => FieldValue::Pointer(bits as usize),
            _ => FieldValue::Unsigned(bits),
        }
    }
}

/// `provider:name: field=value field=value …`, with control characters escaped.
impl fmt::Display for Recorded<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tracepoint.write_hit(self.fields(), out)
    }
}

impl fmt::Debug for Recorded<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
