//! What the functions of the tracing code write: `__print_flags`, `__print_symbolic`, `__print_array`.

use super::expression::Datum;
use crate::event::Value;
use crate::print::hexadecimal;
use crate::tracefs::c_type::Scalar;

/// Pairs of a number and its name.
pub(super) type Table = Box<[(u64, Box<[u8]>)]>;

/// The names of the bits that are set, and what is left as a number. As in the kernel, an entry whose
/// mask is 0 matches whenever any bit is left.
pub(super) fn flags(mut bits: u64, delimiter: &[u8], table: &Table, out: &mut Vec<u8>) {
    let mut first = true;
    for (mask, name) in table {
        if bits == 0 {
            break;
        }
        if bits & mask == *mask {
            bits &= !mask;
            if !std::mem::take(&mut first) {
                out.extend_from_slice(delimiter);
            }
            out.extend_from_slice(name);
        }
    }
    if bits != 0 {
        if !first {
            out.extend_from_slice(delimiter);
        }
        hexadecimal(bits, out);
    }
}

pub(super) fn symbolic(bits: u64, table: &Table, out: &mut Vec<u8>) {
    match table.iter().find(|(value, _)| *value == bits) {
        Some((_, name)) => out.extend_from_slice(name),
        None => hexadecimal(bits, out),
    }
}

/// `{0x1,0x2}`
pub(super) fn array(of: Datum<'_>, count: u64, size: u8) -> Vec<u8> {
    let mut out = vec![b'{'];
    let mut put = |index: usize, bits: u64| {
        if index > 0 {
            out.push(b',');
        }
        hexadecimal(
            Scalar {
                size,
                signed: false,
            }
            .wrap(bits),
            &mut out,
        );
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    match of {
        Datum::Array(values, _) => {
            for (index, value) in values.iter().take(count).enumerate() {
                match value {
                    Value::Unsigned(bits) => put(index, *bits),
                    Value::Signed(number) => put(index, *number as u64),
                    _ => {}
                }
            }
        }
        Datum::Bytes(bytes) => {
            let elements = bytes.chunks_exact(usize::from(size.max(1))).take(count);
            for (index, element) in elements.enumerate() {
                let mut word = [0; 8];
                let length = element.len().min(8);
                word[..length].copy_from_slice(&element[..length]);
                put(index, u64::from_le_bytes(word));
            }
        }
        Datum::Number(..) | Datum::Missing(_) => {}
    }
    out.push(b'}');
    out
}
