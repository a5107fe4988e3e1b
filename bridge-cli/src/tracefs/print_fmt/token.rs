//! The words of a `print fmt`: it is C, after the preprocessor.

use super::UnknownForm;
use crate::tracefs::c_type::Scalar;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Name(String),
    /// An integer or character constant, and its type.
    Number(u64, Scalar),
    /// A string constant; neighbours are joined.
    Text(Vec<u8>),
    /// An operator or a bracket.
    Sign(&'static str),
}

const SIGNS: [&str; 43] = [
    "<<=", ">>=", "...", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=",
    "-=", "*=", "/=", "|=", "&=", "^=", "(", ")", "[", "]", "{", "}", "<", ">", "=", "!", "&", "|",
    "^", "~", "+", "-", "*", "/", "%", "?", ":", ",",
];

/// Splits a text into words.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, UnknownForm> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = |test: fn(&u8) -> bool| rest.iter().take_while(|byte| test(byte)).count();
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            b'"' => {
                let (text, used) = quoted(rest, b'"')?;
                at += used;
                match tokens.last_mut() {
                    Some(Token::Text(before)) => before.extend_from_slice(&text),
                    _ => tokens.push(Token::Text(text)),
                }
            }
            b'\'' => {
                let (text, used) = quoted(rest, b'\'')?;
                at += used;
                match text[..] {
                    [byte] => tokens.push(Token::Number(byte.into(), Scalar::INT)),
                    _ => return Err(UnknownForm::new("a character constant")),
                }
            }
            b'0'..=b'9' => {
                let used = length(u8::is_ascii_alphanumeric);
                tokens.push(number(&text[at..at + used])?);
                at += used;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let used = length(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
                tokens.push(Token::Name(text[at..at + used].to_owned()));
                at += used;
            }
            b';' | b'.' if !rest.starts_with(b"...") => {
                tokens.push(Token::Sign(if byte == b';' { ";" } else { "." }));
                at += 1;
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes()));
                let sign = sign.ok_or_else(|| UnknownForm::new("a character that is not C"))?;
                tokens.push(Token::Sign(sign));
                at += sign.len();
            }
        }
    }
    Ok(tokens)
}

/// What stands in quotes at the start of `bytes`, and how many bytes that took.
fn quoted(bytes: &[u8], quote: u8) -> Result<(Vec<u8>, usize), UnknownForm> {
    let mut text = Vec::new();
    let mut at = 1;
    loop {
        let byte = *bytes
            .get(at)
            .ok_or_else(|| UnknownForm::new("an unfinished constant"))?;
        at += 1;
        if byte == quote {
            return Ok((text, at));
        }
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let escaped = *bytes
            .get(at)
            .ok_or_else(|| UnknownForm::new("an unfinished constant"))?;
        at += 1;
        match escaped {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            b'r' => text.push(b'\r'),
            b'\\' | b'"' | b'\'' | b'?' => text.push(escaped),
            b'0'..=b'7' => {
                let digits = bytes[at - 1..].iter().take(3);
                let digits = digits.take_while(|byte| (b'0'..=b'7').contains(byte));
                let (count, value) = digits.fold((0, 0_u32), |(count, value), digit| {
                    (count + 1, value * 8 + u32::from(digit - b'0'))
                });
                at += count - 1;
                text.push(value as u8);
            }
            _ => {
                return Err(UnknownForm::new(format!(
                    "the escape \\{}",
                    escaped as char
                )));
            }
        }
    }
}

/// `0x10UL`, with the type that C gives it.
fn number(text: &str) -> Result<Token, UnknownForm> {
    let bad = || UnknownForm::new(format!("the number {text}"));
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = text[digits.len()..].to_ascii_lowercase();
    let lower = digits.to_ascii_lowercase();
    let (value, decimal) = if let Some(hex) = lower.strip_prefix("0x") {
        (u64::from_str_radix(hex, 16), false)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (u64::from_str_radix(&lower, 8), false)
    } else {
        (lower.parse(), true)
    };
    let value = value.map_err(|_| bad())?;
    let wide = suffix.contains('l');
    let unsigned = suffix.contains('u');
    let scalar = match (wide, unsigned) {
        (false, false) if value <= i32::MAX as u64 => Scalar::INT,
        (false, false) if !decimal && value <= u32::MAX.into() => Scalar {
            size: 4,
            signed: false,
        },
        (false, true) if value <= u32::MAX.into() => Scalar {
            size: 4,
            signed: false,
        },
        (_, false) if value <= i64::MAX as u64 => Scalar {
            size: 8,
            signed: true,
        },
        _ => Scalar::ULONG,
    };
    Ok(Token::Number(value, scalar))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_get_the_types_that_c_gives_them() {
        let one = |text: &str| tokens(text).unwrap().remove(0);
        let number = |value, size, signed| Token::Number(value, Scalar { size, signed });
        assert_eq!(one("10"), number(10, 4, true));
        assert_eq!(one("1UL"), number(1, 8, false));
        assert_eq!(one("0xffffffff"), number(0xffff_ffff, 4, false));
        assert_eq!(one("4294967295"), number(0xffff_ffff, 8, true));
        assert_eq!(one("017u"), number(15, 4, false));
        assert_eq!(one("'a'"), number(97, 4, true));
    }

    #[test]
    fn neighbouring_texts_are_one_and_escapes_are_undone() {
        assert_eq!(
            tokens(r#""a\n" "b\"\101""#).unwrap(),
            [Token::Text(b"a\nb\"A".to_vec())]
        );
    }

    #[test]
    fn what_is_not_c_is_refused() {
        for text in ["\"abc", "'", "@", "0xzz", "\"\\q\"", "\"\\"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
