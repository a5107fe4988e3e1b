//! A field's value as callbacks see it.

use std::fmt;
use std::time::Duration;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldValue<'a> {
    /// `u8` to `u64`, `usize`.
    Unsigned(u64),
    /// `i8` to `i64`, `isize`.
    Signed(i64),
    /// `u128`.
    Unsigned128(u128),
    /// `i128`.
    Signed128(i128),
    /// `bool`.
    Bool(bool),
    /// `char`.
    Char(char),
    /// `f32`.
    F32(f32),
    /// `f64`.
    F64(f64),
    /// Text, also what `%` and `?` fields became.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An address.
    Pointer(usize),
    /// A span of time.
    Duration(Duration),
    /// The `None` of an optional field.
    None,
}

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldValue::Unsigned(value) => value.fmt(out),
            FieldValue::Signed(value) => value.fmt(out),
            FieldValue::Unsigned128(value) => value.fmt(out),
            FieldValue::Signed128(value) => value.fmt(out),
            FieldValue::Bool(value) => value.fmt(out),
            FieldValue::Char(value) => value.escape_debug().fmt(out),
            FieldValue::F32(value) => write!(out, "{value:?}"),
            FieldValue::F64(value) => write!(out, "{value:?}"),
            FieldValue::Str(text) => text.escape_debug().fmt(out),
            FieldValue::Bytes(bytes) => bytes.escape_ascii().fmt(out),
            FieldValue::Pointer(address) => write!(out, "{address:#x}"),
            FieldValue::Duration(span) => write!(out, "{span:?}"),
            FieldValue::None => out.write_str("None"),
        }
    }
}
