//! A pattern taken apart: for whoever compares in another way than this crate does, such as a program in the
//! kernel. Each part stands for one character of the text, or for any run of them.

use alloc::vec::Vec;

use crate::pattern::{BACKSLASH, BRACKET, QUESTION, character, members};

/// What one place of a pattern stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Any run of characters: `*`.
    Run,
    /// One character: one in these ranges or, negated, outside of all.
    Character {
        /// First and last, both included. A byte that begins no UTF-8 sequence is a character beyond all of
        /// Unicode: `char::MAX` and the byte, added.
        ranges: Vec<(u32, u32)>,
        /// Whether the others are meant.
        negated: bool,
    },
}

/// The parts of a pattern of [`Shape::Glob`](crate::Shape::Glob), in order.
pub fn parts(pattern: &[u8]) -> Vec<Part> {
    let mut left = pattern;
    let mut parts = Vec::new();
    let one = |range| Part::Character {
        ranges: [range].into(),
        negated: false,
    };
    while let Some((wanted, rest)) = character(left) {
        left = rest;
        parts.push(match wanted {
            _ if wanted == u32::from(b'*') => Part::Run,
            QUESTION => one((0, u32::MAX)),
            BRACKET => {
                let mut ranges = Vec::new();
                match members(rest, |range| ranges.push(range)) {
                    Some((negated, after)) => {
                        left = after;
                        Part::Character { ranges, negated }
                    }
                    None => one((BRACKET, BRACKET)),
                }
            }
            BACKSLASH => match character(rest) {
                Some((wanted, after)) => {
                    left = after;
                    one((wanted, wanted))
                }
                None => one((BACKSLASH, BACKSLASH)),
            },
            wanted => one((wanted, wanted)),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_runs_and_characters_and_what_nothing_closes_stands_for_itself() {
        let one = |c: char| Part::Character {
            ranges: [(c.into(), c.into())].into(),
            negated: false,
        };
        let any = Part::Character {
            ranges: [(0, u32::MAX)].into(),
            negated: false,
        };
        let set = |negated, ranges: &[(char, char)]| Part::Character {
            ranges: ranges
                .iter()
                .map(|&(low, high)| (low.into(), high.into()))
                .collect(),
            negated,
        };
        for (pattern, expected) in [
            ("a*?ö", &[one('a'), Part::Run, any, one('ö')][..]),
            ("\\**\\", &[one('*'), Part::Run, one('\\')]),
            ("[a-cx]", &[set(false, &[('a', 'c'), ('x', 'x')])]),
            ("[!]-]", &[set(true, &[(']', ']'), ('-', '-')])]),
            ("[a*", &[one('['), one('a'), Part::Run]),
        ] {
            assert_eq!(parts(pattern.as_bytes()), expected, "{pattern}");
        }
        let byte = u32::from(char::MAX) + 0xff;
        assert_eq!(
            parts(b"\xff"),
            [Part::Character {
                ranges: [(byte, byte)].into(),
                negated: false
            }]
        );
    }
}
