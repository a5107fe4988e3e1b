//! Letters, words and numbers as the kernel reads them.
//!
//! Definitions are judged by the kernel's own string functions, whose corners can be seen in what it
//! takes: a number may begin with `+`, `0x` and `0` choose its base, and a number that is too large is
//! another error than one that is none.

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotANumber {
    /// It does not fit.
    TooLarge,
    /// It is none.
    Malformed,
}

/// Base and digits of a number of which the base is not known.
fn base_of(text: &str) -> (u32, &str) {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'0') {
        return (10, text);
    }
    let hexadecimal = matches!(bytes.get(1), Some(b'x' | b'X'))
        && bytes.get(2).is_some_and(u8::is_ascii_hexdigit);
    if hexadecimal {
        (16, &text[2..])
    } else {
        (8, text)
    }
}

/// The number that `text` begins with in this base, how many digits it has, and whether it fits.
fn leading(text: &str, base: u32) -> (u64, usize, bool) {
    let (mut value, mut fits) = (0_u64, true);
    let mut digits = 0;
    for digit in text.chars().map_while(|c| c.to_digit(base)) {
        let next = value.checked_mul(base.into());
        let next = next.and_then(|value| value.checked_add(digit.into()));
        fits &= next.is_some();
        value = value
            .wrapping_mul(base.into())
            .wrapping_add(u64::from(digit));
        digits += 1;
    }
    (value, digits, fits)
}

/// A whole text as an unsigned number; base 0 is told from its first digits.
pub(super) fn unsigned(text: &str, base: u32) -> Result<u64, NotANumber> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (base, text) = match base {
        0 => base_of(text),
        base => (base, text),
    };
    let (value, digits, fits) = leading(text, base);
    if !fits {
        return Err(NotANumber::TooLarge);
    }
    let rest = &text[digits..];
    if digits == 0 || !(rest.is_empty() || rest == "\n") {
        return Err(NotANumber::Malformed);
    }
    Ok(value)
}

/// A whole text as a signed number.
pub(super) fn signed(text: &str) -> Result<i64, NotANumber> {
    match text.strip_prefix('-') {
        Some(magnitude) if magnitude.starts_with('+') => Err(NotANumber::Malformed),
        Some(magnitude) => {
            let value = unsigned(magnitude, 0)?;
            if value > 1 << 63 {
                return Err(NotANumber::TooLarge);
            }
            Ok((value as i64).wrapping_neg())
        }
        None => i64::try_from(unsigned(text, 0)?).map_err(|_| NotANumber::TooLarge),
    }
}

/// A whole text as a 32-bit number.
pub(super) fn small(text: &str) -> Result<u32, NotANumber> {
    u32::try_from(unsigned(text, 0)?).map_err(|_| NotANumber::TooLarge)
}

/// The number at the beginning of `text` (0 where there is none) and what follows it. What does not fit
/// wraps.
pub(super) fn prefix(text: &str, base: u32) -> (u64, &str) {
    let (base, digits_of) = match base {
        0 => base_of(text),
        base => (base, text),
    };
    let (value, digits, _) = leading(digits_of, base);
    (value, &digits_of[digits..])
}

/// Whether the kernel takes a byte for a letter: those of Latin-1 are, and so the first bytes of most
/// characters in UTF-8.
pub(super) fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0xc0 && !matches!(byte, 0xd7 | 0xf7)
}

/// Whether `text` is a C identifier; groups may hold and begin with `-` too.
pub(super) fn is_identifier(text: &str, with_hyphens: bool) -> bool {
    let is_first = |byte| is_letter(byte) || byte == b'_' || with_hyphens && byte == b'-';
    let mut bytes = text.bytes();
    bytes.next().is_some_and(is_first) && bytes.all(|byte| is_first(byte) || byte.is_ascii_digit())
}

/// The words of a line.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split(|c: char| c.is_ascii_whitespace() || c == '\x0b')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_the_base_that_their_first_digits_say() {
        assert_eq!(unsigned("0x1615", 0), Ok(0x1615));
        assert_eq!(unsigned("05653", 0), Ok(0xbab));
        assert_eq!(unsigned("+7", 0), Ok(7));
        assert_eq!(unsigned("08", 0), Err(NotANumber::Malformed));
        assert_eq!(unsigned("0x", 0), Err(NotANumber::Malformed));
        assert_eq!(unsigned("", 0), Err(NotANumber::Malformed));
        assert_eq!(unsigned("-1", 0), Err(NotANumber::Malformed));
        assert_eq!(unsigned("18446744073709551615", 0), Ok(u64::MAX));
        assert_eq!(
            unsigned("18446744073709551616", 0),
            Err(NotANumber::TooLarge)
        );
    }

    #[test]
    fn signed_numbers_end_where_their_type_does() {
        assert_eq!(signed("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(signed("-9223372036854775809"), Err(NotANumber::TooLarge));
        assert_eq!(signed("9223372036854775808"), Err(NotANumber::TooLarge));
        assert_eq!(signed("-0x10"), Ok(-16));
        assert_eq!(signed("+"), Err(NotANumber::Malformed));
        assert_eq!(signed("-+5"), Err(NotANumber::Malformed));
    }

    #[test]
    fn a_number_at_the_beginning_leaves_what_follows() {
        assert_eq!(prefix("4@4/32", 0), (4, "@4/32"));
        assert_eq!(prefix("0x20/", 0), (0x20, "/"));
        assert_eq!(prefix("x", 0), (0, "x"));
        assert_eq!(prefix("07", 10), (7, ""));
    }

    #[test]
    fn identifiers_are_those_of_c() {
        assert!(is_identifier("_a9", false));
        assert!(!is_identifier("9a", false) && !is_identifier("", false));
        assert!(is_identifier("g-1", true) && !is_identifier("g-1", false));
        assert!(is_identifier("-g", true) && !is_identifier("1g", true));
        assert_eq!(words(" p:rd\tvfs_read\r"), ["p:rd", "vfs_read"]);
    }
}
