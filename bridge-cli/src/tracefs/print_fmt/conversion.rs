//! printf conversions as the kernel's `vsnprintf` understands them.

use super::UnknownForm;
use super::pointer::PointerForm;
use crate::print::decimal;
use crate::tracefs::c_type::Scalar;

/// A format text, split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// To be copied.
    Literal(Box<[u8]>),
    /// To be replaced by arguments.
    Conversion(Conversion),
}

/// One conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversion {
    pub flags: Flags,
    pub width: Size,
    pub precision: Size,
    pub what: What,
}

/// Flags between `%` and the width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub left: bool,
    pub plus: bool,
    pub space: bool,
    pub alternate: bool,
    pub zero: bool,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    None,
    Fixed(u32),
    /// `*`: an argument of its own, before the converted one.
    Argument,
}

/// What a conversion makes of its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An integer, taken as this type first.
    Integer {
        scalar: Scalar,
        radix: u32,
        upper: bool,
    },
    Character,
    Text,
    Pointer(PointerForm),
}

/// Splits a format text.
pub(super) fn split(format: &[u8]) -> Result<Vec<Piece>, UnknownForm> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut rest = format;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            literal.push(byte);
        } else if let Some(after) = rest.strip_prefix(b"%") {
            literal.push(b'%');
            rest = after;
        } else {
            let (conversion, after) = conversion(rest)?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal).into()));
            }
            pieces.push(Piece::Conversion(conversion));
            rest = after;
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal.into()));
    }
    Ok(pieces)
}

/// Reads what follows a `%`.
fn conversion(text: &[u8]) -> Result<(Conversion, &[u8]), UnknownForm> {
    let mut rest = text;
    let mut flags = Flags::default();
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'-' => flags.left = true,
            b'+' => flags.plus = true,
            b' ' => flags.space = true,
            b'#' => flags.alternate = true,
            b'0' => flags.zero = true,
            _ => break,
        }
        rest = after;
    }
    let (width, mut rest) = size(rest);
    let mut precision = Size::None;
    if let Some(after) = rest.strip_prefix(b".") {
        (precision, rest) = size(after);
        if precision == Size::None {
            precision = Size::Fixed(0);
        }
    }
    let lengths: [(&[u8], u8); 9] = [
        (b"hh", 1),
        (b"h", 2),
        (b"ll", 8),
        (b"l", 8),
        (b"L", 8),
        (b"q", 8),
        (b"j", 8),
        (b"z", 8),
        (b"t", 8),
    ];
    let mut bytes = 4;
    for (length, size) in lengths {
        if let Some(after) = rest.strip_prefix(length) {
            (bytes, rest) = (size, after);
            break;
        }
    }
    let unknown = || {
        let shown = String::from_utf8_lossy(&text[..text.len().min(8)]);
        UnknownForm::new(format!("the conversion %{shown}"))
    };
    let (&letter, after) = rest.split_first().ok_or_else(unknown)?;
    let integer = |signed, radix, upper| What::Integer {
        scalar: Scalar {
            size: bytes,
            signed,
        },
        radix,
        upper,
    };
    rest = after;
    let what = match letter {
        b'd' | b'i' => integer(true, 10, false),
        b'u' => integer(false, 10, false),
        b'x' => integer(false, 16, false),
        b'X' => integer(false, 16, true),
        b'o' => integer(false, 8, false),
        b'c' => What::Character,
        b's' => What::Text,
        b'p' => {
            let (form, after) = PointerForm::parse(rest).ok_or_else(unknown)?;
            rest = after;
            What::Pointer(form)
        }
        _ => return Err(unknown()),
    };
    Ok((
        Conversion {
            flags,
            width,
            precision,
            what,
        },
        rest,
    ))
}

fn size(text: &[u8]) -> (Size, &[u8]) {
    if let Some(after) = text.strip_prefix(b"*") {
        return (Size::Argument, after);
    }
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = text.split_at(digits);
    match std::str::from_utf8(number)
        .ok()
        .and_then(|number| number.parse().ok())
    {
        // A width is padding in the bridge's own memory.
        Some(number) => (Size::Fixed(std::cmp::min(number, LARGEST)), after),
        None => (Size::None, after),
    }
}

/// The largest width and precision that is honoured.
pub(super) const LARGEST: u32 = 4096;

/// Appends an integer. The kernel differs from C in one thing: `%#x` of 0 is `0x0`.
pub(super) fn integer(
    conversion: &Conversion,
    bits: u64,
    width: Option<i64>,
    precision: Option<i64>,
    out: &mut Vec<u8>,
) {
    let What::Integer {
        scalar,
        radix,
        upper,
    } = conversion.what
    else {
        return;
    };
    let bits = scalar.wrap(bits);
    if radix == 10 && width.is_none() && precision.is_none() && conversion.flags == Flags::default()
    {
        return match scalar.signed {
            true => decimal(bits as i64, out),
            false => decimal(bits, out),
        };
    }
    let negative = scalar.signed && (bits as i64) < 0;
    let magnitude = if negative {
        (bits as i64).unsigned_abs()
    } else {
        bits
    };
    let mut digits = [0; 22];
    let mut start = digits.len();
    let mut left = magnitude;
    loop {
        start -= 1;
        let digit = (left % u64::from(radix)) as usize;
        digits[start] = if upper {
            b"0123456789ABCDEF"[digit]
        } else {
            b"0123456789abcdef"[digit]
        };
        left /= u64::from(radix);
        if left == 0 {
            break;
        }
    }
    let digits = &digits[start..];
    let flags = conversion.flags;
    let sign: &[u8] = match () {
        () if negative => b"-",
        () if scalar.signed && flags.plus => b"+",
        () if scalar.signed && flags.space => b" ",
        () => b"",
    };
    let prefix: &[u8] = match (flags.alternate, radix) {
        (true, 16) if upper => b"0X",
        (true, 16) => b"0x",
        (true, 8) if magnitude != 0 => b"0",
        _ => b"",
    };
    let zeros = precision.map_or(0, |precision| {
        usize::try_from(precision)
            .unwrap_or(0)
            .saturating_sub(digits.len())
    });
    let (width, left) = alignment(width, flags.left);
    let padding = width.saturating_sub(sign.len() + prefix.len() + zeros + digits.len());
    let zero_padding = flags.zero && !left && precision.is_none();
    let mut fill = |byte, count| out.resize(out.len() + count, byte);
    if !left && !zero_padding {
        fill(b' ', padding);
    }
    out.extend_from_slice(sign);
    out.extend_from_slice(prefix);
    let mut fill = |byte, count| out.resize(out.len() + count, byte);
    if zero_padding {
        fill(b'0', padding);
    }
    fill(b'0', zeros);
    out.extend_from_slice(digits);
    if left {
        out.resize(out.len() + padding, b' ');
    }
}

/// Pads what stands from `start` on to a width.
pub(super) fn pad(start: usize, width: Option<i64>, left: bool, out: &mut Vec<u8>) {
    let (width, left) = alignment(width, left);
    let padding = width.saturating_sub(out.len() - start);
    if padding == 0 {
        return;
    }
    out.resize(out.len() + padding, b' ');
    if !left {
        out[start..].rotate_right(padding);
    }
}

/// A negative width from an argument means left.
fn alignment(width: Option<i64>, left: bool) -> (usize, bool) {
    let width = width.unwrap_or(0);
    let columns = width.unsigned_abs().min(LARGEST.into());
    (columns as usize, left || width < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: &str, bits: u64) -> String {
        let mut out = Vec::new();
        for piece in split(format.as_bytes()).unwrap() {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(&text),
                Piece::Conversion(conversion) => {
                    let fixed = |size| match size {
                        Size::Fixed(size) => Some(i64::from(size)),
                        _ => None,
                    };
                    let (width, precision) = (fixed(conversion.width), fixed(conversion.precision));
                    integer(&conversion, bits, width, precision, &mut out);
                }
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_print_as_the_kernel_prints_them() {
        let minus_one = u64::MAX;
        assert_eq!(printed("a=%d%%", minus_one), "a=-1%");
        assert_eq!(printed("%u", minus_one), "4294967295");
        assert_eq!(printed("%llu", minus_one), "18446744073709551615");
        assert_eq!(printed("%hhd %hu", 0x1_80ff), "-1 33023");
        assert_eq!(
            printed("[%5d|%-5d|%05d|%+d|% d]", 42),
            "[   42|42   |00042|+42| 42]"
        );
        assert_eq!(
            printed("%#x %#010x %#o %08lx", 0),
            "0x0 0x00000000 0 00000000"
        );
        assert_eq!(printed("%#X %016llx", 0xab), "0XAB 00000000000000ab");
        assert_eq!(printed("%.3d|%6.3d|%-6.3d|", 7), "007|   007|007   |");
        assert_eq!(printed("%0x", 15), "f");
        assert_eq!(printed("%05d", (-42_i64) as u64), "-0042");
    }

    #[test]
    fn conversions_that_are_not_known_are_refused() {
        for format in ["%", "%y", "%pZZ", "%l", "%5"] {
            assert!(split(format.as_bytes()).is_err(), "{format}");
        }
    }
}
