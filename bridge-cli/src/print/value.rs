//! One value as text.
//!
//! | value | text |
//! | --- | --- |
//! | integers | decimal; hexadecimal or octal where the field says so ([`Base`]) |
//! | `bool`, `char` | `true`, `x` |
//! | floats | the shortest decimal that reads back as the same bits: `0.1`, `1e300`, `-0.0`, `NaN`, `inf` |
//! | text | as it is; in quotes where it is empty, holds a blank, `"` or `=`, or could be taken for another value of this table; a backslash is then and otherwise `\\` |
//! | bytes | hexadecimal digits, `""` when empty |
//! | pointer | `0x7ffe12` |
//! | duration | exact, in the largest unit that is not below 1: `16.152702ms`, `1.5s` |
//! | array | `[1,2,3]` |
//! | absent | `None` |
//! | unreadable memory | `<fault>` |
//! | no reader can reach it | `<unsupported>` |
//! | beyond the probe's slots | `<not captured>` |
//!
//! Text and bytes that were cut end in `…` and, where it is known, the true length: `abc…(300 bytes)`.

use std::io::Write;

use super::escape::{escape, escape_with};
use crate::event::{Base, UNKNOWN_LENGTH, Value};

/// Whether text is put in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// Where it could not be told from what stands around it.
    WhereNeeded,
    /// Never: the template says what stands around it.
    Never,
}

/// Appends one value.
pub fn value(value: &Value, base: Base, quotes: Quotes, out: &mut Vec<u8>) {
    match value {
        Value::Unsigned(number) => unsigned(*number, base, out),
        Value::Signed(number) => signed(*number, base, out),
        Value::Unsigned128(number) => decimal(*number, out),
        Value::Signed128(number) => decimal(*number, out),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Char(character) => {
            let mut buffer = [0; 4];
            text(character.encode_utf8(&mut buffer).as_bytes(), quotes, out);
        }
        Value::F32(number) => display(format_args!("{number:?}"), out),
        Value::F64(number) => display(format_args!("{number:?}"), out),
        Value::Text { bytes, full_length } => {
            let cut = *full_length > bytes.len() as u64;
            text(
                if cut { whole_characters(bytes) } else { bytes },
                quotes,
                out,
            );
            cut_mark(bytes.len(), *full_length, out);
        }
        Value::Bytes { bytes, full_length } => {
            if bytes.is_empty() && quotes == Quotes::WhereNeeded {
                out.extend_from_slice(b"\"\"");
            }
            hex(bytes, out);
            cut_mark(bytes.len(), *full_length, out);
        }
        Value::Pointer(address) => hexadecimal(*address, out),
        Value::Duration(duration) => display(format_args!("{duration:?}"), out),
        Value::Array(values) => {
            out.push(b'[');
            for (index, element) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                self::value(element, base, quotes, out);
            }
            out.push(b']');
        }
        Value::Absent => out.extend_from_slice(b"None"),
        Value::Fault => out.extend_from_slice(b"<fault>"),
        Value::Unsupported => out.extend_from_slice(b"<unsupported>"),
        Value::NotCaptured => out.extend_from_slice(b"<not captured>"),
    }
}

pub(super) fn display(arguments: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    // A Vec takes every write.
    let _ = out.write_fmt(arguments);
}

/// Appends an integer in decimal.
pub fn decimal(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn unsigned(number: u64, base: Base, out: &mut Vec<u8>) {
    match base {
        Base::Decimal => decimal(number, out),
        Base::Hexadecimal => hexadecimal(number, out),
        Base::Octal if number == 0 => out.push(b'0'),
        Base::Octal => display(format_args!("0{number:o}"), out),
    }
}

fn signed(number: i64, base: Base, out: &mut Vec<u8>) {
    if base == Base::Decimal || number < 0 {
        decimal(number, out);
    } else {
        unsigned(number as u64, base, out);
    }
}

/// Appends `0x…`.
pub fn hexadecimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0x");
    let digits = (64 - (number | 1).leading_zeros() as usize).div_ceil(4);
    for place in (0..digits).rev() {
        out.push(DIGITS[(number >> (4 * place)) as usize & 15]);
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends two digits a byte.
pub fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.extend_from_slice(&[DIGITS[byte as usize >> 4], DIGITS[byte as usize & 15]]);
    }
}

pub(super) fn cut_mark(kept: usize, full_length: u64, out: &mut Vec<u8>) {
    if full_length <= kept as u64 {
        return;
    }
    out.extend_from_slice("…".as_bytes());
    if full_length != UNKNOWN_LENGTH {
        out.push(b'(');
        decimal(full_length, out);
        out.extend_from_slice(b" bytes)");
    }
}

/// Text that was cut at a byte count, without the character that the cut went through.
pub fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn text(bytes: &[u8], quotes: Quotes, out: &mut Vec<u8>) {
    if quotes == Quotes::Never {
        return escape(bytes, out);
    }
    let mistakable = bytes.is_empty()
        || bytes == b"None"
        || bytes[0] == b'<'
        || bytes.iter().any(|byte| matches!(byte, b' ' | b'"' | b'='));
    if mistakable {
        out.push(b'"');
        escape_with(bytes, b"\"\\", out);
        out.push(b'"');
    } else {
        escape_with(bytes, b"\\", out);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::print) fn shown(value_: Value) -> String {
        let mut out = Vec::new();
        value(&value_, Base::Decimal, Quotes::WhereNeeded, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_print_exactly_at_their_limits() {
        assert_eq!(shown(Value::Unsigned(u64::MAX)), "18446744073709551615");
        assert_eq!(shown(Value::Signed(i64::MIN)), "-9223372036854775808");
        assert_eq!(shown(Value::Unsigned128(u128::MAX)), u128::MAX.to_string());
        assert_eq!(shown(Value::Signed128(i128::MIN)), i128::MIN.to_string());
        assert_eq!(shown(Value::Pointer(0)), "0x0");
        assert_eq!(shown(Value::Pointer(u64::MAX)), "0xffffffffffffffff");
    }

    #[test]
    fn a_base_changes_how_a_number_is_written_and_nothing_else() {
        let mut out = Vec::new();
        value(
            &Value::Unsigned(0o644),
            Base::Octal,
            Quotes::Never,
            &mut out,
        );
        value(
            &Value::Signed(-100),
            Base::Hexadecimal,
            Quotes::Never,
            &mut out,
        );
        value(
            &Value::Signed(16),
            Base::Hexadecimal,
            Quotes::Never,
            &mut out,
        );
        assert_eq!(out, b"0644-1000x10");
    }

    #[test]
    fn floats_read_back_as_the_same_bits() {
        for number in [
            0.1,
            -0.0,
            1e300,
            f64::MIN_POSITIVE,
            f64::MAX,
            1.0 / 3.0,
            5e-324,
        ] {
            let text = shown(Value::F64(number));
            assert_eq!(
                text.parse::<f64>().unwrap().to_bits(),
                number.to_bits(),
                "{text}"
            );
        }
        assert_eq!(shown(Value::F32(0.1)), "0.1");
        assert_eq!(shown(Value::F64(f64::NAN)), "NaN");
        assert_eq!(shown(Value::F32(f32::NEG_INFINITY)), "-inf");
    }

    #[test]
    fn durations_are_readable_and_exact() {
        let duration = |s, n| Value::Duration(std::time::Duration::new(s, n));
        assert_eq!(shown(duration(0, 16_152_702)), "16.152702ms");
        assert_eq!(shown(duration(1, 500_000_000)), "1.5s");
        assert_eq!(shown(duration(0, 0)), "0ns");
        assert_eq!(
            shown(duration(u64::MAX, 999_999_999)),
            "18446744073709551615.999999999s"
        );
    }

    #[test]
    fn text_is_bare_where_it_is_plain_and_quoted_where_it_could_mislead() {
        assert_eq!(shown(Value::text(*b"alice")), "alice");
        assert_eq!(shown(Value::text(*b"")), "\"\"");
        assert_eq!(shown(Value::text(*b"two words")), "\"two words\"");
        assert_eq!(shown(Value::text(*b"None")), "\"None\"");
        assert_eq!(shown(Value::text(*b"<fault>")), "\"<fault>\"");
        assert_eq!(shown(Value::text(*b"q\"t\\")), r#""q\"t\\""#);
        assert_eq!(shown(Value::text(*b"a\\n")), r"a\\n");
        assert_eq!(shown(Value::text("café".as_bytes())), "café");
    }

    #[test]
    fn cut_text_says_so_and_how_long_it_was() {
        let cut = |bytes: &[u8], full_length| Value::Text {
            bytes: bytes.into(),
            full_length,
        };
        assert_eq!(shown(cut(b"abc", 300)), "abc…(300 bytes)");
        assert_eq!(shown(cut(b"a c", 300)), "\"a c\"…(300 bytes)");
        assert_eq!(shown(cut(b"abc", UNKNOWN_LENGTH)), "abc…");
        assert_eq!(
            shown(cut("aé".as_bytes().split_last().unwrap().1, 9)),
            "a…(9 bytes)"
        );
        assert_eq!(
            shown(Value::Bytes {
                bytes: [1, 255].into(),
                full_length: 3
            }),
            "01ff…(3 bytes)"
        );
    }

    #[test]
    fn what_has_no_value_says_why() {
        assert_eq!(shown(Value::Absent), "None");
        assert_eq!(shown(Value::Fault), "<fault>");
        assert_eq!(shown(Value::Unsupported), "<unsupported>");
        assert_eq!(shown(Value::NotCaptured), "<not captured>");
        assert_eq!(shown(Value::bytes(*b"")), "\"\"");
        assert_eq!(
            shown(Value::Array(vec![Value::Unsigned(1), Value::Pointer(2)])),
            "[1,0x2]"
        );
    }
}
