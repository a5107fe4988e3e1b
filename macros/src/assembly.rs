//! Texts and symbols inside assembly templates.

/// A text as it stands between quotes in an `.asciz` of an `asm!` template.
///
/// What could mean something on the way, to `asm!`, to LLVM's templates (`$`) or to the assembler, is
/// written as an octal escape, of three digits since a digit may follow.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' | b'_' | b'-' | b'.' | b',' | b':' | b'=' | b'/' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

/// A part of a symbol that a person can read; what makes it unique is a hash.
pub(crate) fn symbol(text: &str) -> String {
    text.chars()
        .map(|char| {
            if char.is_ascii_alphanumeric() {
                char
            } else {
                '_'
            }
        })
        .collect()
}

/// FNV-1a over texts, each ended by a NUL.
pub(crate) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for text in texts {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_not_plain_is_escaped_byte_by_byte() {
        assert_eq!(quoted("a b/c.d-e_f=1"), "a b/c.d-e_f=1");
        assert_eq!(quoted("\"\\{$\n1é"), "\\042\\134\\173\\044\\0121\\303\\251");
    }

    #[test]
    fn texts_of_a_hash_do_not_run_into_one_another() {
        assert_ne!(hash(["ab", "c"]), hash(["a", "bc"]));
        // The published test vector for "a", without the NUL.
        assert_eq!(hash([]), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn a_symbol_has_letters_and_digits_only() {
        assert_eq!(symbol("my-crate::größe.1"), "my_crate__gr__e_1");
    }
}
