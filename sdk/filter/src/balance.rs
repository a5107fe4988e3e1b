//! The first look at a text: its quotes and parentheses, before anything is read.
//!
//! The kernel does this first as well, so of two faults in a text it names the same one.

use crate::error::{ErrorKind, Fault};

/// Checks that every quote ends and every parenthesis has its other one.
pub(crate) fn check(text: &str) -> Result<(), Fault> {
    let mut quote: Option<(u8, usize)> = None;
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some((end, _)), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some((byte, at)),
            (None, b'(') => open += 1,
            (None, b')') => match open.checked_sub(1) {
                Some(left) => open = left,
                None => return Err(Fault::at(ErrorKind::TooFewOpen, at..at + 1)),
            },
            _ => {}
        }
    }
    if let Some((_, at)) = quote {
        return Err(Fault::at(ErrorKind::MissingQuote, at..text.len()));
    }
    if open > 0 {
        let at = unclosed(text).unwrap_or(0);
        return Err(Fault::at(ErrorKind::TooManyOpen, at..at + 1));
    }
    Ok(())
}

/// The last `(` without its `)`, which is the one the kernel names. Quotes must all end.
fn unclosed(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut closed = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match (quote, byte) {
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b')') => closed += 1,
            (None, b'(') => match closed.checked_sub(1) {
                Some(left) => closed = left,
                None => return Some(at),
            },
            _ => {}
        }
    }
    None
}
