//! Numbers as the kernel reads them: base 0, so `0x1f` is hexadecimal and `010` octal.

/// Reads digits without a sign. `None` where they are no number, or one above `u128::MAX`.
pub(crate) fn unsigned(text: &str) -> Option<u128> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (&text[2..], 16),
        [b'0', ..] => (text, 8),
        _ => (text, 10),
    };
    // The standard library would take a `+` as well.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(digits, radix).ok()
}

/// Reads a number with or without a `-`, as one of `bits` bits that keeps its sign.
pub(crate) fn signed(text: &str, bits: u32) -> Option<i128> {
    let (digits, negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let magnitude = unsigned(digits)?;
    let value = if negative {
        0_i128.checked_sub_unsigned(magnitude)?
    } else {
        i128::try_from(magnitude).ok()?
    };
    let limit = i128::MAX >> (128 - bits);
    (-limit - 1..=limit).contains(&value).then_some(value)
}

/// Cuts `value` to its lowest `bytes` bytes (1 to 8) and extends the sign again.
pub(crate) fn cut_signed(value: i64, bytes: u16) -> i64 {
    let away = 64 - 8 * u32::from(bytes.clamp(1, 8));
    (value << away) >> away
}

/// Cuts `value` to its lowest `bytes` bytes (1 to 8).
pub(crate) fn cut_unsigned(value: u64, bytes: u16) -> u64 {
    value & (u64::MAX >> (64 - 8 * u32::from(bytes.clamp(1, 8))))
}

/// Reads a span of time in nanoseconds; a unit may follow: `ns`, `us`, `ms` or `s`.
pub(crate) fn nanoseconds(text: &str) -> Option<u128> {
    for (unit, factor) in [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ] {
        if let Some(digits) = text.strip_suffix(unit) {
            return unsigned(digits)?.checked_mul(factor);
        }
    }
    unsigned(text)
}

/// Reads a floating-point number, cut to one of 4 bytes where `bytes` says so.
pub(crate) fn float(text: &str, bytes: u16) -> Option<f64> {
    // Without this `-inf` and `-nan` would be numbers, and `inf` a field's name.
    if text.contains(|c: char| c.is_alphabetic() && !matches!(c, 'e' | 'E')) {
        return None;
    }
    let value = if bytes == 4 {
        f64::from(text.parse::<f32>().ok()?)
    } else {
        text.parse::<f64>().ok()?
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_base_that_their_first_characters_say() {
        assert_eq!(unsigned("0x1F"), Some(31));
        assert_eq!(unsigned("010"), Some(8));
        assert_eq!(unsigned("0"), Some(0));
        for bad in ["", "0x", "09", "1e3", "+1", "-1", "0xg", "1_0", "0x+1"] {
            assert_eq!(unsigned(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_signed_number_keeps_to_its_bits() {
        assert_eq!(signed("-9223372036854775808", 64), Some(i64::MIN.into()));
        assert_eq!(signed("-9223372036854775809", 64), None);
        assert_eq!(signed("9223372036854775808", 64), None);
        assert_eq!(
            signed("-170141183460469231731687303715884105728", 128),
            Some(i128::MIN)
        );
        assert_eq!(signed("--1", 64), None);
    }

    #[test]
    fn cutting_keeps_the_lowest_bytes() {
        assert_eq!(cut_unsigned(511, 1), 255);
        assert_eq!(cut_unsigned(99_999_999_999, 4), 1_215_752_191);
        assert_eq!(cut_signed(128, 1), -128);
        assert_eq!(cut_signed(-1, 8), -1);
    }

    #[test]
    fn a_span_of_time_may_have_a_unit() {
        assert_eq!(nanoseconds("5ms"), Some(5_000_000));
        assert_eq!(nanoseconds("2s"), Some(2_000_000_000));
        assert_eq!(nanoseconds("7"), Some(7));
        assert_eq!(nanoseconds("s"), None);
        assert_eq!(nanoseconds("5min"), None);
    }

    #[test]
    fn a_float_is_finite_and_cut_to_its_width() {
        assert_eq!(float("-1.5e3", 8), Some(-1500.0));
        assert_eq!(float("0.1", 4), Some(f64::from(0.1_f32)));
        for bad in ["-inf", "-nan", "1e999", "1.5x", "-"] {
            assert_eq!(float(bad, 8), None, "{bad}");
        }
    }
}
