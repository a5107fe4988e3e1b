//! A raw record of a kernel tracepoint into values, as its `format` says.
//!
//! The bytes come from a ring and are taken for hostile: a field or an array that lies outside of
//! them becomes [`Value::Fault`], whatever its descriptor says.

use super::format::{Element, Format, FormatField, Location, Shape};
use crate::event::Value;

/// The values of `format.fields`, in their order.
pub fn values(format: &Format, record: &[u8]) -> Vec<Value> {
    let mut values = Vec::with_capacity(format.fields.len());
    append(format, record, &mut values);
    values
}

/// Appends them.
pub fn append(format: &Format, record: &[u8], values: &mut Vec<Value>) {
    values.extend(format.fields.iter().map(|field| value(field, record)));
}

/// The value of one field.
pub fn value(field: &FormatField, record: &[u8]) -> Value {
    let offset = field.offset as usize;
    let Some(bytes) = record.get(offset..offset.saturating_add(field.size as usize)) else {
        return Value::Fault;
    };
    match field.shape {
        Shape::Integer { signed } => number(bytes, signed),
        Shape::Bool => Value::Bool(bytes.iter().any(|&byte| byte != 0)),
        Shape::Pointer => Value::Pointer(word(bytes)),
        Shape::Text => text(bytes),
        Shape::Bytes => Value::bytes(bytes),
        Shape::Numbers(element) => numbers(bytes, element),
        Shape::DynamicText(location) => {
            dynamic(record, bytes, offset, location).map_or(Value::Fault, text)
        }
        Shape::DynamicBytes(location) => {
            dynamic(record, bytes, offset, location).map_or(Value::Fault, Value::bytes)
        }
        Shape::DynamicNumbers(location, element) => dynamic(record, bytes, offset, location)
            .map_or(Value::Fault, |bytes| numbers(bytes, element)),
    }
}

/// The bytes that a descriptor leads to.
fn dynamic<'a>(
    record: &'a [u8],
    descriptor: &[u8],
    offset: usize,
    location: Location,
) -> Option<&'a [u8]> {
    let descriptor = u32::from_le_bytes(descriptor.try_into().ok()?);
    let base = match location {
        Location::Record => 0,
        Location::Descriptor => offset + 4,
    };
    let start = base + (descriptor & 0xffff) as usize;
    record.get(start..start + (descriptor >> 16) as usize)
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

fn number(bytes: &[u8], signed: bool) -> Value {
    let scalar = super::c_type::Scalar {
        size: bytes.len() as u8,
        signed,
    };
    let bits = scalar.wrap(word(bytes));
    if signed {
        Value::Signed(bits as i64)
    } else {
        Value::Unsigned(bits)
    }
}

fn numbers(bytes: &[u8], element: Element) -> Value {
    let elements = bytes.chunks_exact(usize::from(element.size.max(1)));
    Value::Array(
        elements
            .map(|bytes| number(bytes, element.signed))
            .collect(),
    )
}

fn text(bytes: &[u8]) -> Value {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    Value::text(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(fields: &str) -> Format {
        Format::parse(&format!(
            "name: x\nID: 1\nformat:\n{fields}\nprint fmt: \"\""
        ))
        .unwrap()
    }

    #[test]
    fn numbers_text_and_arrays_are_read_at_their_offsets() {
        let format = format(
            "field:short a;offset:8;size:2;signed:1;\nfield:char c[4];offset:10;size:4;signed:0;\n\
             field:u32 n[2];offset:16;size:8;signed:0;\nfield:void * p;offset:24;size:8;signed:0;",
        );
        let mut record = vec![0xaa; 8];
        record.extend_from_slice(&(-2_i16).to_le_bytes());
        record.extend_from_slice(b"ab\0z\0\0");
        record.extend_from_slice(&[1, 0, 0, 0, 255, 255, 255, 255]);
        record.extend_from_slice(&0xffff_8000_0000_0001_u64.to_le_bytes());
        assert_eq!(
            values(&format, &record),
            [
                Value::Signed(-2),
                Value::text(*b"ab"),
                Value::Array(vec![Value::Unsigned(1), Value::Unsigned(u32::MAX.into())]),
                Value::Pointer(0xffff_8000_0000_0001),
            ]
        );
    }

    #[test]
    fn both_kinds_of_descriptor_lead_to_their_array() {
        let data = format("field:__data_loc char[] s;offset:8;size:4;signed:0;");
        let relative = format("field:__rel_loc char[] s;offset:8;size:4;signed:0;");
        let mut record = vec![0; 8];
        record.extend_from_slice(&(4_u32 << 16 | 16).to_le_bytes());
        record.extend_from_slice(b"----abc\0");
        assert_eq!(values(&data, &record), [Value::text(*b"abc")]);
        record[8..12].copy_from_slice(&(4_u32 << 16 | 4).to_le_bytes());
        assert_eq!(values(&relative, &record), [Value::text(*b"abc")]);
    }

    #[test]
    fn whatever_a_record_says_nothing_outside_of_it_is_read() {
        let format = format(
            "field:__data_loc char[] s;offset:8;size:4;signed:0;\n\
             field:__rel_loc u64[] n;offset:12;size:4;signed:0;",
        );
        let record = [0xff; 16];
        assert_eq!(values(&format, &record), [Value::Fault, Value::Fault]);
        for length in 0..16 {
            assert_eq!(values(&format, &record[..length]).len(), 2);
        }
    }
}
