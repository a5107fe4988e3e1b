//! The language of event filters: read against an event's fields, then asked about events.
//!
//! It is the language of the kernel's event filters, so that one filter can be said of the kernel's
//! events and of an application's:
//!
//! ```text
//! order_id == 17 && (user ~ "al*" || !(amount < 100)) && cpu & CPUS{0-3}
//! ```
//!
//! A text goes through four stages, each in a file of its own: `balance` (do quotes and parentheses
//! match), `expression` (`&&`, `||`, `!`, parentheses), `predicate` (a field, an operator and, in
//! `operand`, a value), and `program`, the form that is evaluated: one step a comparison with two
//! ways on. Reading allocates; evaluating allocates nothing, takes no lock, makes no system call of
//! its own and cannot panic, so that it may happen in a signal handler.
//!
//! A comparison goes by the field's type: a `u64` above `i64::MAX` is not negative, a number in the
//! filter is cut to the field's width as the kernel does it. **A missing value** (an empty `Option`,
//! memory that could not be read) **passes no comparison**, not even `!=`; `!(a == 1)` is the
//! opposite of `a == 1` all the same, and so holds where `a` is missing.
//!
//! A text that cannot be used is an [`Error`], never a filter that lets everything pass. Where this
//! differs from the kernel on purpose is listed in docs/filters.md.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod balance;
mod cpu_list;
mod error;
mod expression;
mod field;
mod number;
mod operand;
mod parts;
mod pattern;
mod predicate;
mod print;
mod program;
mod scan;

use alloc::boxed::Box;

pub use error::{Error, ErrorKind};
pub use field::{Field, Fields, Function, Type, Value, Values};
pub use parts::{Part, parts};
pub use pattern::Shape;
pub use program::{Compare, CpuCompare, Next, Program, Source, Span, Step, Test, Wide};

use expression::Node;

/// The longest text of a filter, bytes: the kernel's limit. It bounds everything else as well, such
/// as comparisons (below 1,024) and what a filter takes in memory.
pub const MAX_TEXT: usize = 4095;

/// A filter that has been read.
///
/// ```
/// use tracebraid_filter::{Field, Fields, Filter, Type, Value, Values};
///
/// struct Charge;
/// impl Fields for Charge {
///     fn field(&self, name: &str) -> Option<Field> {
///         let (index, kind) = match name {
///             "order_id" => (0, Type::Unsigned { bytes: 8 }),
///             "user" => (1, Type::Text),
///             _ => return None,
///         };
///         Some(Field { index, kind })
///     }
/// }
///
/// struct Event(u64, &'static str);
/// impl Values for Event {
///     fn value(&self, index: u16) -> Value<'_> {
///         match index {
///             0 => Value::Unsigned(self.0),
///             _ => Value::Text(self.1.as_bytes()),
///         }
///     }
///     fn thread(&self) -> Option<i32> { None }
///     fn cpu(&self) -> Option<u32> { None }
///     fn comm(&self) -> Option<[u8; 16]> { None }
/// }
///
/// let filter = Filter::parse(r#"order_id == 17 && user ~ "al*""#, &Charge)?;
/// assert!(filter.matches(&Event(17, "alice")));
/// assert!(!filter.matches(&Event(17, "bob")));
///
/// let error = Filter::parse("order == 17", &Charge).unwrap_err();
/// assert_eq!(error.to_string(), "Field not found\n  order == 17\n  ^^^^^");
/// # Ok::<(), tracebraid_filter::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    first: Next,
    steps: Box<[Step]>,
    sets: Box<[u64]>,
    wide: Box<[u128]>,
    text: Box<str>,
    nodes: Box<[Node]>,
    places: Box<[Span]>,
}

impl Filter {
    /// Reads a filter for events with these fields.
    ///
    /// `0` is the filter that every event passes, as in the kernel; an empty text is none.
    ///
    /// # Errors
    /// The first fault in the text, in the order in which the kernel looks for them.
    pub fn parse(text: &str, fields: &dyn Fields) -> Result<Filter, Error> {
        if text.len() > MAX_TEXT {
            let fault = error::Fault::at(ErrorKind::TextTooLong, MAX_TEXT..MAX_TEXT + 1);
            return Err(Error::new(fault, text));
        }
        let expression = if text.trim_matches(scan::is_blank) == "0" {
            expression::Expression::default()
        } else {
            balance::check(text)
                .and_then(|()| expression::parse(text, fields))
                .map_err(|fault| Error::new(fault, text))?
        };
        let (first, steps) = expression.link();
        Ok(Filter {
            first,
            steps: steps.into(),
            sets: expression.constants.sets.into(),
            wide: expression.constants.wide.into(),
            text: text.into(),
            nodes: expression.nodes.into(),
            places: expression.places.into(),
        })
    }

    /// Whether the event passes.
    ///
    /// At most one comparison is made for each in the text, from left to right, and only those that
    /// can still change the answer.
    #[inline]
    pub fn matches(&self, values: &impl Values) -> bool {
        self.program().accepts(values)
    }

    /// The form that is evaluated, for turning it into another one.
    #[inline]
    pub fn program(&self) -> Program<'_> {
        Program {
            first: self.first,
            steps: &self.steps,
            text: self.text.as_bytes(),
            sets: &self.sets,
            wide: &self.wide,
        }
    }
}
