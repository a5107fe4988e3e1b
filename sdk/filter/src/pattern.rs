//! Patterns over text, as `~` takes them.
//!
//! `*` stands for any run of characters, `?` for one, `[a-z]` for one of a set and `[!a-z]` for one
//! outside it; a backslash takes the next character as it is, and a `[` that nothing closes stands
//! for itself. A `!` in front of it all turns the answer round. A pattern must match the whole text.
//!
//! Most patterns have one `*` at an end and are then no more than a comparison of bytes; they are
//! told apart when the filter is read. The others take at most pattern × text steps.

use core::ops::Range;

/// How a pattern is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The text is this.
    Whole,
    /// The text begins with this: `this*`.
    Front,
    /// The text ends with this: `*this`.
    End,
    /// The text holds this: `*this*`.
    Middle,
    /// All of the language above.
    Glob,
}

/// Takes a pattern apart: whether its answer is turned round, its shape, and which of its bytes to
/// compare with.
pub(crate) fn classify(whole: &str) -> (bool, Shape, Range<usize>) {
    let (negated, pattern) = match whole.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, whole),
    };
    let begin = whole.len() - pattern.len();
    let (front, rest) = match pattern.strip_prefix('*') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (back, inner) = match rest.strip_suffix('*') {
        Some(inner) => (true, inner),
        None => (false, rest),
    };
    if inner.contains(['*', '?', '[', '\\']) {
        return (negated, Shape::Glob, begin..whole.len());
    }
    let shape = match (front, back) {
        (false, false) => Shape::Whole,
        (false, true) => Shape::Front,
        (true, false) => Shape::End,
        (true, true) => Shape::Middle,
    };
    let begin = whole.len() - rest.len();
    (negated, shape, begin..begin + inner.len())
}

/// Whether `text` fits `pattern`, which has this shape.
#[inline]
pub(crate) fn fits(shape: Shape, pattern: &[u8], text: &[u8]) -> bool {
    match shape {
        Shape::Whole => text == pattern,
        Shape::Front => text.starts_with(pattern),
        Shape::End => text.ends_with(pattern),
        Shape::Middle => {
            pattern.is_empty() || text.windows(pattern.len()).any(|part| part == pattern)
        }
        Shape::Glob => glob(pattern, text),
    }
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on when a mismatch follows a `*`: that one then takes a character more. Earlier
    // ones need not be tried again.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        if pattern.is_empty() && text.is_empty() {
            return true;
        }
        if let Some((rest, left)) = step(pattern, text) {
            (pattern, text) = (rest, left);
            continue;
        }
        let Some((after, start)) = retry else {
            return false;
        };
        let Some((_, left)) = character(start) else {
            return false;
        };
        retry = Some((after, left));
        (pattern, text) = (after, left);
    }
}

/// Takes one character off each side, where they fit.
fn step<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Option<(&'p [u8], &'t [u8])> {
    let (found, left) = character(text)?;
    let (wanted, rest) = character(pattern)?;
    let (fits, rest) = match wanted {
        QUESTION => (true, rest),
        BRACKET => set(rest, found).unwrap_or((found == BRACKET, rest)),
        BACKSLASH => match character(rest) {
            Some((wanted, rest)) => (wanted == found, rest),
            None => (found == BACKSLASH, rest),
        },
        wanted => (wanted == found, rest),
    };
    fits.then_some((rest, left))
}

pub(crate) const QUESTION: u32 = b'?' as u32;
pub(crate) const BRACKET: u32 = b'[' as u32;
pub(crate) const BACKSLASH: u32 = b'\\' as u32;

/// Reads a set after its `[`: whether `found` is in it, and what follows the `]`.
fn set(after: &[u8], found: u32) -> Option<(bool, &[u8])> {
    let mut member = false;
    let (negated, rest) = members(after, |(low, high)| {
        member |= (low..=high).contains(&found);
    })?;
    Some((member != negated, rest))
}

/// Reads a set after its `[` and gives its members out: whether those outside are meant, and what follows
/// the `]`.
pub(crate) fn members(after: &[u8], mut each: impl FnMut((u32, u32))) -> Option<(bool, &[u8])> {
    let (negated, mut left) = match after {
        [b'!', rest @ ..] => (true, rest),
        _ => (false, after),
    };
    // A `]` right at the start is a member.
    let mut first = true;
    loop {
        let (low, rest) = character(left)?;
        if low == u32::from(b']') && !first {
            return Some((negated, rest));
        }
        first = false;
        left = rest;
        let mut high = low;
        if let [b'-', range @ ..] = rest
            && range.first() != Some(&b']')
        {
            (high, left) = character(range)?;
        }
        each((low, high));
    }
}

/// The first character and what follows it. A byte that begins no UTF-8 sequence is a character of
/// its own, beyond all of Unicode, so that text in another encoding can be matched as well.
pub(crate) fn character(text: &[u8]) -> Option<(u32, &[u8])> {
    let (&first, after) = text.split_first()?;
    let length = match first {
        0..=0x7f => return Some((first.into(), after)),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let decoded = text
        .split_at_checked(length)
        .and_then(|(bytes, rest)| Some((core::str::from_utf8(bytes).ok()?.chars().next()?, rest)));
    Some(match decoded {
        Some((c, rest)) => (c.into(), rest),
        None => (BEYOND + u32::from(first), after),
    })
}

const BEYOND: u32 = char::MAX as u32;

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &[u8]) -> bool {
        let (negated, shape, part) = classify(pattern);
        fits(shape, &pattern.as_bytes()[part], text) != negated
    }

    #[test]
    fn a_pattern_matches_the_whole_text() {
        for (pattern, yes, no) in [
            ("al*", "alpha", "beta"),
            ("*ha", "alpha", "alphabet"),
            ("*ph*", "alpha", "beta"),
            ("f*o", "foo", "foobar"),
            ("?eta", "beta", "eta"),
            ("[!A]lpha", "alpha", "Alpha"),
            ("[^A]lpha", "^lpha", "alpha"),
            ("a\\*b", "a*b", "axb"),
            ("[", "[", "x"),
            ("[a", "[a", "a"),
            ("[]x]", "]", "y"),
            ("[a-]x", "-x", "bx"),
            ("x\\", "x\\", "x"),
            ("!sh", "bash", "sh"),
            ("!*sh", "zs", "bash"),
            ("k?se*", "käse:ö", "kse"),
            ("[ä-ü]*x", "öx", "ax"),
            ("*a*b*c", "xaybzc", "xaybz"),
            ("5*", "57", "6"),
        ] {
            assert!(matches(pattern, yes.as_bytes()), "{pattern} {yes}");
            assert!(!matches(pattern, no.as_bytes()), "{pattern} {no}");
        }
        assert!(matches("*", b"") && matches("**", b"") && matches("", b""));
        assert!(matches("a?b", b"a\xffb") && !matches("a??b", b"a\xffb"));
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let text = [b'a'; 4000];
        assert!(!matches("*a*a*a*a*a*a*a*a*a*a*b", &text));
        assert!(!matches(&"*a?".repeat(80), &text[..100]));
    }
}
