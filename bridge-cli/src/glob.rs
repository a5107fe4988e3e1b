//! Shell-like patterns, as `-e` and `list` take them.
//!
//! `*` stands for any run of characters, `?` for one, `[a-z]` for one of a set and `[!a-z]` for one
//! outside it; a backslash takes the next character as it is. Everything else stands for itself. A
//! pattern matches the whole text. Matching takes time proportional to pattern × text at worst, so a
//! hostile pattern cannot stall the bridge.

/// A pattern, checked when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pattern: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Run,
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Reads a pattern. A `[` that no `]` closes stands for itself, as in the shell.
    pub fn new(pattern: &str) -> Glob {
        let chars: Vec<char> = pattern.chars().collect();
        let mut tokens = Vec::with_capacity(chars.len());
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                '*' => {
                    if tokens.last() != Some(&Token::Run) {
                        tokens.push(Token::Run);
                    }
                }
                '?' => tokens.push(Token::One),
                '\\' if at + 1 < chars.len() => {
                    at += 1;
                    tokens.push(Token::Char(chars[at]));
                }
                '[' => match set(&chars[at + 1..]) {
                    Some((token, length)) => {
                        tokens.push(token);
                        at += length;
                    }
                    None => tokens.push(Token::Char('[')),
                },
                other => tokens.push(Token::Char(other)),
            }
            at += 1;
        }
        Glob {
            pattern: pattern.to_owned(),
            tokens,
        }
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// The one text it matches, where it has no wildcard.
    pub fn literal(&self) -> Option<String> {
        self.tokens
            .iter()
            .map(|token| match token {
                Token::Char(c) => Some(*c),
                _ => None,
            })
            .collect()
    }

    /// Whether it matches the whole of `text`.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut token, mut at) = (0, 0);
        let mut back: Option<(usize, usize)> = None;
        loop {
            if token < self.tokens.len() && self.tokens[token] == Token::Run {
                back = Some((token + 1, at));
                token += 1;
                continue;
            }
            let fits = match (self.tokens.get(token), text.get(at)) {
                (None, None) => return true,
                (Some(one), Some(&c)) => one.matches(c),
                _ => false,
            };
            if fits {
                token += 1;
                at += 1;
                continue;
            }
            // The last `*` takes one character more; earlier ones need not be tried again.
            match back {
                Some((after, start)) if start < text.len() => {
                    back = Some((after, start + 1));
                    token = after;
                    at = start + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Token::Char(own) => *own == c,
            Token::One | Token::Run => true,
            Token::Set { negated, ranges } => {
                ranges.iter().any(|&(low, high)| (low..=high).contains(&c)) != *negated
            }
        }
    }
}

/// Reads what stands behind a `[`; gives the set and how many characters it took, `]` included.
fn set(chars: &[char]) -> Option<(Token, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let start = usize::from(negated);
    // A `]` that comes first is a member.
    let end = (start + 1..chars.len()).find(|&at| chars[at] == ']')?;
    let members = &chars[start..end];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            ranges.push((members[at], members[at + 2]));
            at += 3;
        } else {
            ranges.push((members[at], members[at]));
            at += 1;
        }
    }
    Some((Token::Set { negated, ranges }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_pattern_matches_the_whole_text_and_nothing_else() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("sched_*", "sched_switch", true),
            ("sched_*", "xsched_switch", false),
            ("*_*ch", "sched_switch", true),
            ("a*b*c", "abbbcc", true),
            ("a*b*c", "abbbcd", false),
            ("??", "é8", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(text),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn many_stars_on_a_long_text_end_soon() {
        let pattern = "*a".repeat(60) + "b";
        assert!(!Glob::new(&pattern).matches(&"a".repeat(20_000)));
    }

    #[test]
    fn only_a_pattern_without_wildcards_is_a_literal() {
        assert_eq!(Glob::new("a\\*b").literal().as_deref(), Some("a*b"));
        assert_eq!(Glob::new("a*").literal(), None);
        assert_eq!(Glob::new("[ab]").literal(), None);
    }
}
