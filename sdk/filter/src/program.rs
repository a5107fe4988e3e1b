//! The form that a filter is evaluated in: one step a comparison, each with two ways on.
//!
//! `a == 1 && !(b == 2)` becomes
//!
//! ```text
//! 0  a == 1   holds: step 1    otherwise: reject
//! 1  b == 2   holds: reject    otherwise: accept
//! ```
//!
//! Every way leads further on, so a program of n steps ends after n comparisons at most. It is
//! plain data: the same steps can be evaluated here or turned into a program for the kernel.

use crate::field::{Value, Values};
use crate::pattern::{self, Shape};

/// A comparison and where it leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What is compared.
    pub source: Source,
    /// With what, and how.
    pub test: Test,
    /// Where to go where the comparison holds.
    pub then: Next,
    /// Where to go where it does not.
    pub otherwise: Next,
}

/// A way on from a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To the step with this index, which is always a later one.
    Step(u16),
    /// The event passes.
    Accept,
    /// It does not.
    Reject,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The event's field with this index.
    Field(u16),
    /// The number of the thread: [`Values::thread`].
    Thread,
    /// The CPU: [`Values::cpu`].
    Cpu,
    /// The thread's name: [`Values::comm`].
    Comm,
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`
    Differs,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Compare {
    #[inline]
    fn holds<T: PartialOrd>(self, found: T, wanted: T) -> bool {
        match self {
            Compare::Equal => found == wanted,
            Compare::Differs => found != wanted,
            Compare::Less => found < wanted,
            Compare::AtMost => found <= wanted,
            Compare::Greater => found > wanted,
            Compare::AtLeast => found >= wanted,
        }
    }
}

/// What a value is compared with. A missing value passes none of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Never holds: a number of a size that is not compared.
    Never,
    /// A signed number, already cut to the field's width.
    Signed(Compare, i64),
    /// An unsigned one.
    Unsigned(Compare, u64),
    /// A number has one of these bits; a negative one as in two's complement.
    Bits(u64),
    /// A signed number of 16 bytes.
    SignedWide(Compare, Wide),
    /// An unsigned one, or nanoseconds.
    UnsignedWide(Compare, Wide),
    /// A number of 16 bytes has one of these bits.
    BitsWide(Wide),
    /// A floating-point number.
    Float(Compare, f64),
    /// Text.
    Text {
        /// What kind of pattern it is.
        shape: Shape,
        /// The pattern, without the `*` that its shape stands for.
        pattern: Span,
        /// Whether text that does not match is wanted.
        negated: bool,
    },
    /// A CPU's number: in a set of two or more.
    Cpus {
        /// How it is compared.
        compare: CpuCompare,
        /// The set, a bit a CPU.
        words: Span,
        /// How many CPUs there can be: a higher number passes no comparison.
        cpus: u16,
    },
    /// An address in a function.
    Function {
        /// Its first byte.
        start: u64,
        /// Past its last byte.
        end: u64,
        /// Whether addresses elsewhere are wanted.
        negated: bool,
    },
}

/// How a CPU is compared with a set of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuCompare {
    /// `&`: it is in the set.
    Within,
    /// `==`: never, since the set has several.
    Equal,
    /// `!=`: always.
    Differs,
}

/// A part of a [`Program`]'s text or sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start: u16,
    /// How long it is.
    pub length: u16,
}

impl Span {
    pub(crate) fn new(start: usize, length: usize) -> Option<Span> {
        Some(Span {
            start: u16::try_from(start).ok()?,
            length: u16::try_from(length).ok()?,
        })
    }

    pub(crate) fn of<T>(self, whole: &[T]) -> &[T] {
        let start = usize::from(self.start);
        whole
            .get(start..start + usize::from(self.length))
            .unwrap_or(&[])
    }
}

/// A constant of 16 bytes: an index among the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide(pub(crate) u16);

/// A program, borrowed from its filter.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// What it begins with.
    pub first: Next,
    /// Its steps.
    pub steps: &'a [Step],
    pub(crate) text: &'a [u8],
    pub(crate) sets: &'a [u64],
    pub(crate) wide: &'a [u128],
}

impl<'a> Program<'a> {
    /// The pattern of a [`Test::Text`].
    pub fn pattern(&self, span: Span) -> &'a [u8] {
        span.of(self.text)
    }

    /// The set of a [`Test::Cpus`]: CPU n is bit n % 64 of word n / 64.
    pub fn set(&self, span: Span) -> &'a [u64] {
        span.of(self.sets)
    }

    /// The constant; a signed one as in two's complement.
    pub fn wide(&self, constant: Wide) -> u128 {
        self.wide.get(usize::from(constant.0)).copied().unwrap_or(0)
    }

    /// Evaluates it.
    #[inline]
    pub(crate) fn accepts(&self, values: &impl Values) -> bool {
        let mut next = self.first;
        loop {
            let step = match next {
                Next::Accept => return true,
                Next::Reject => return false,
                Next::Step(index) => match self.steps.get(usize::from(index)) {
                    Some(step) => step,
                    None => return false,
                },
            };
            next = if self.holds(step, values) {
                step.then
            } else {
                step.otherwise
            };
        }
    }

    #[inline]
    fn holds(&self, step: &Step, values: &impl Values) -> bool {
        match step.source {
            Source::Field(index) => self.fits(&step.test, values.value(index)),
            Source::Thread => values
                .thread()
                .is_some_and(|thread| self.fits(&step.test, Value::Signed(thread.into()))),
            Source::Cpu => values
                .cpu()
                .is_some_and(|cpu| self.fits(&step.test, Value::Signed(cpu.into()))),
            Source::Comm => values.comm().is_some_and(|comm| {
                let length = comm.iter().position(|&byte| byte == 0);
                let name = comm.get(..length.unwrap_or(comm.len())).unwrap_or(&comm);
                self.fits(&step.test, Value::Text(name))
            }),
        }
    }

    #[inline]
    fn fits(&self, test: &Test, value: Value<'_>) -> bool {
        match (*test, value) {
            (Test::Signed(compare, wanted), Value::Signed(found)) => compare.holds(found, wanted),
            (Test::Unsigned(compare, wanted), Value::Unsigned(found)) => {
                compare.holds(found, wanted)
            }
            (Test::Bits(bits), Value::Signed(found)) => found as u64 & bits != 0,
            (Test::Bits(bits), Value::Unsigned(found)) => found & bits != 0,
            (
                Test::Text {
                    shape,
                    pattern,
                    negated,
                },
                Value::Text(found),
            ) => pattern::fits(shape, self.pattern(pattern), found) != negated,
            (Test::Float(compare, wanted), Value::Float(found)) => compare.holds(found, wanted),
            (Test::SignedWide(compare, wanted), Value::SignedWide(found)) => {
                compare.holds(found, self.wide(wanted) as i128)
            }
            // Of a field of any type.
            (Test::SignedWide(compare, wanted), Value::Float(found)) => {
                compare.holds(found, self.wide(wanted) as i128 as f64)
            }
            (Test::Float(compare, wanted), Value::SignedWide(found)) => {
                compare.holds(found as f64, wanted)
            }
            (Test::UnsignedWide(compare, wanted), Value::UnsignedWide(found)) => {
                compare.holds(found, self.wide(wanted))
            }
            (Test::BitsWide(bits), Value::SignedWide(found)) => {
                found as u128 & self.wide(bits) != 0
            }
            (Test::BitsWide(bits), Value::UnsignedWide(found)) => found & self.wide(bits) != 0,
            (
                Test::Cpus {
                    compare,
                    words,
                    cpus,
                },
                Value::Signed(_) | Value::Unsigned(_),
            ) => cpu(value)
                .filter(|&cpu| cpu < cpus)
                .is_some_and(|cpu| match compare {
                    CpuCompare::Equal => false,
                    CpuCompare::Differs => true,
                    CpuCompare::Within => self
                        .set(words)
                        .get(usize::from(cpu / 64))
                        .is_some_and(|word| word >> (cpu % 64) & 1 == 1),
                }),
            (
                Test::Function {
                    start,
                    end,
                    negated,
                },
                Value::Signed(_) | Value::Unsigned(_),
            ) => address(value).is_some_and(|at| (start..end).contains(&at) != negated),
            _ => false,
        }
    }
}

fn cpu(value: Value<'_>) -> Option<u16> {
    match value {
        Value::Signed(value) => u16::try_from(value).ok(),
        Value::Unsigned(value) => u16::try_from(value).ok(),
        _ => None,
    }
}

fn address(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Signed(value) => Some(value as u64),
        Value::Unsigned(value) => Some(value),
        _ => None,
    }
}
