//! A filter of which nobody knows yet what its fields are: can there be an event that it is for?
//!
//! Every name is a field of the first type that goes with what it is compared with. What is wrong then is
//! wrong for any event.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use tracebraid_filter::{Error, Field, Fields, Filter, Function, Type};

/// What a field may be, what most are first.
const TYPES: [Type; 6] = [
    Type::Signed { bytes: 8 },
    Type::Text,
    Type::Unsigned { bytes: 16 },
    Type::Float { bytes: 8 },
    Type::Duration,
    Type::Bool,
];

#[derive(Default)]
struct Guess {
    /// By name: which of the types it is taken for.
    taken: RefCell<HashMap<String, usize>>,
    /// The name that was asked for last.
    last: RefCell<String>,
}

impl Fields for Guess {
    fn field(&self, name: &str) -> Option<Field> {
        name.clone_into(&mut self.last.borrow_mut());
        let taken = self.taken.borrow().get(name).copied().unwrap_or(0);
        Some(Field {
            index: 0,
            kind: *TYPES.get(taken)?,
        })
    }

    fn function(&self, _: Function<'_>) -> Option<Range<u64>> {
        Some(0..1)
    }
}

/// Reads a filter for any event.
///
/// # Errors
/// What no event can make right.
pub(super) fn parse(text: &str) -> Result<(), Error> {
    let guess = Guess::default();
    let mut first: HashMap<String, Error> = HashMap::new();
    loop {
        guess.last.borrow_mut().clear();
        let Err(error) = Filter::parse(text, &guess) else {
            return Ok(());
        };
        let name = guess.last.borrow().clone();
        if name.is_empty() {
            return Err(error);
        }
        let mut taken = guess.taken.borrow_mut();
        let next = taken.entry(name.clone()).or_insert(0);
        *next += 1;
        let out_of_types = *next == TYPES.len();
        let earliest = first.entry(name).or_insert(error);
        if out_of_types {
            return Err(earliest.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_some_event_can_have_is_fine_and_any_other_is_told() {
        for fine in [
            "0",
            "a == 1 && b ~ 'x*' || !(c == true)",
            "took > 5ms && ratio < 9.5 && name != \"\"",
            "hash == 340282366920938463463374607431768211455",
            "at.function == vfs_read && cpu & CPUS{0-3}",
            "name.ustring == '/etc'",
        ] {
            assert_eq!(parse(fine), Ok(()), "{fine}");
        }
        for wrong in [
            "",
            "a >",
            "a == 1 &&",
            "(a == 1",
            "a % 2",
            "a == b",
            "a == 'x",
            "a & 'x'",
            "a == 1 b == 2",
            "a == 1 && a == 'x'",
            "cpu & CPUS{x}",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let told = parse("a == al").unwrap_err().to_string();
        assert!(told.starts_with("Invalid value"), "{told}");
    }
}
