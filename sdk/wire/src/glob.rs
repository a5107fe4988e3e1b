//! Shell-like patterns over names, as `enable("orders:*")` and `-e 'orders:*'` take them.
//!
//! `*` stands for any run of characters, `?` for one, `[a-z]` for one of a set and `[!a-z]` for one
//! outside it; a backslash takes the next character as it is, and a `[` that nothing closes stands
//! for itself. A pattern matches the whole text. Matching allocates nothing and takes at most
//! pattern × text steps, so that a hostile pattern cannot stall anybody.

/// Whether `pattern` matches the whole of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on when a mismatch follows a `*`: that one then takes a character more. Earlier
    // ones need not be tried again.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        match step(pattern, text) {
            Step::End => return true,
            Step::Fits(rest, left) => (pattern, text) = (rest, left),
            Step::Differs => {
                let Some((after, start)) = retry else {
                    return false;
                };
                let mut chars = start.chars();
                if chars.next().is_none() {
                    return false;
                }
                retry = Some((after, chars.as_str()));
                (pattern, text) = (after, chars.as_str());
            }
        }
    }
}

enum Step<'a> {
    End,
    Fits(&'a str, &'a str),
    Differs,
}

fn step<'a>(pattern: &'a str, text: &'a str) -> Step<'a> {
    let mut left = text.chars();
    let mut rest = pattern.chars();
    let (wanted, found) = match (rest.next(), left.next()) {
        (None, None) => return Step::End,
        (Some(wanted), Some(found)) => (wanted, found),
        _ => return Step::Differs,
    };
    let fits = match wanted {
        '?' => true,
        '[' => match set(rest.as_str(), found) {
            Some((member, after)) => {
                rest = after.chars();
                member
            }
            None => found == '[',
        },
        '\\' => rest.next().unwrap_or('\\') == found,
        other => other == found,
    };
    if fits {
        Step::Fits(rest.as_str(), left.as_str())
    } else {
        Step::Differs
    }
}

/// Reads a set after its `[`: whether `found` is in it, and what follows the `]`.
fn set(after: &str, found: char) -> Option<(bool, &str)> {
    let (negated, body) = match after.strip_prefix(['!', '^']) {
        Some(body) => (true, body),
        None => (false, after),
    };
    // A `]` right at the start is a member.
    let first = body.chars().next()?;
    let close = body[first.len_utf8()..].find(']')? + first.len_utf8();
    let (members, rest) = (&body[..close], &body[close + 1..]);
    let mut member = false;
    let mut left = members.chars();
    while let Some(low) = left.next() {
        let mut ahead = left.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                left = ahead;
                high
            }
            _ => low,
        };
        member |= (low..=high).contains(&found);
    }
    Some((member != negated, rest))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_matches_what_the_shell_would() {
        for (pattern, yes, no) in [
            ("orders:*", "orders:charge", "order:charge"),
            ("*:charge", "orders:charge", "orders:charge__return"),
            ("h?:[a-c]x", "h2:bx", "h2:dx"),
            ("[!a]*", "b", "a"),
            ("a\\*b", "a*b", "axb"),
            ("[", "[", "x"),
            ("*a*b*c", "xaybzc", "xaybz"),
            ("[]x]", "]", "y"),
            ("käse*", "käse:ö", "kase:o"),
            ("**", "", "\u{0}never"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            if no != "\u{0}never" {
                assert!(!matches(pattern, no), "{pattern} {no}");
            }
        }
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let text = "a".repeat(2000);
        assert!(!matches(
            &"*a".repeat(1000).replace("*a*", "*a*?"),
            &text[..100]
        ));
        assert!(!matches("*a*a*a*a*a*a*a*b", &text));
    }

    extern crate std;
}
