//! A place in a text that moves forward.

use core::ops::Range;

/// What the kernel's `isspace` takes for a blank.
pub(crate) const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

#[derive(Clone, Copy)]
pub(crate) struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scan<'t> {
    /// At the start of `text`. Blanks at its end count for nothing.
    pub(crate) fn new(text: &'t str) -> Scan<'t> {
        Scan {
            text: text.trim_end_matches(is_blank),
            at: 0,
        }
    }

    /// The byte that comes next, counted from 0.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The place of the next character; empty at the end.
    pub(crate) fn next_place(&self) -> Range<usize> {
        self.at..self.at + self.peek().map_or(0, char::len_utf8)
    }

    /// Goes over one character, if there is one.
    pub(crate) fn skip(&mut self) {
        self.at = self.next_place().end;
    }

    pub(crate) fn skip_blanks(&mut self) {
        self.take_while(is_blank);
    }

    /// Goes over `wanted` where it comes next.
    pub(crate) fn take(&mut self, wanted: &str) -> bool {
        let here = self.rest().starts_with(wanted);
        if here {
            self.at += wanted.len();
        }
        here
    }

    /// Goes over the characters that `fits`, and gives them.
    pub(crate) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }
}
