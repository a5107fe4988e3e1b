//! A filter as text again: the same comparisons, with no more parentheses than are needed.

use alloc::vec;
use core::fmt;

use crate::Filter;
use crate::expression::Node;
use crate::program::Test;

/// How tightly what surrounds a node binds.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Around {
    Nothing,
    Or,
    And,
    Not,
}

/// What is still to be printed, last first.
enum Left {
    Sign(&'static str),
    Node(u16, Around),
}

impl fmt::Display for Filter {
    /// Prints a text that reads back as the same program. It has blanks around `&&` and `||`, so
    /// that it can be longer than [`MAX_TEXT`](crate::MAX_TEXT) where the one that was read had none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(root) = self.nodes.len().checked_sub(1) else {
            return f.write_str("0");
        };
        let mut left = vec![Left::Node(root as u16, Around::Nothing)];
        while let Some(next) = left.pop() {
            let (index, around) = match next {
                Left::Sign(sign) => {
                    f.write_str(sign)?;
                    continue;
                }
                Left::Node(index, around) => (index, around),
            };
            let (own, sign, first, second) = match self.nodes.get(usize::from(index)) {
                Some(&Node::Test(step)) => {
                    self.write_comparison(f, step)?;
                    continue;
                }
                Some(&Node::Not(child)) => {
                    f.write_str("!")?;
                    left.push(Left::Node(child, Around::Not));
                    continue;
                }
                Some(&Node::And(first, second)) => (Around::And, " && ", first, second),
                Some(&Node::Or(first, second)) => (Around::Or, " || ", first, second),
                None => continue,
            };
            if own < around {
                f.write_str("(")?;
                left.push(Left::Sign(")"));
            }
            left.push(Left::Node(second, own));
            left.push(Left::Sign(sign));
            left.push(Left::Node(first, own));
        }
        Ok(())
    }
}

impl Filter {
    fn write_comparison(&self, f: &mut fmt::Formatter<'_>, step: u16) -> fmt::Result {
        let index = usize::from(step);
        if let Some(place) = self.places.get(index) {
            let start = usize::from(place.start);
            let end = start + usize::from(place.length);
            f.write_str(self.text.get(start..end).unwrap_or(""))?;
        }
        match self.steps.get(index).map(|step| step.test) {
            // A symbol ends at a blank, not at a parenthesis.
            Some(Test::Function { .. }) => f.write_str(" "),
            _ => Ok(()),
        }
    }
}
