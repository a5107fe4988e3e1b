//! What stands behind the operator: a number, a quoted text, a set of CPUs or a function.

use alloc::vec::Vec;
use core::ops::Range;

use crate::error::{ErrorKind, Fault};
use crate::field::{Fields, Function, MAX_CPUS, Type};
use crate::pattern::Shape;
use crate::predicate::{Operator, fault};
use crate::program::{Compare, CpuCompare, Span, Test, Wide};
use crate::scan::{Scan, is_blank};
use crate::{cpu_list, number, pattern};

/// The longest text that can be compared with, bytes.
const MAX_STRING: usize = 255;
/// The longest number, as in the kernel.
const MAX_NUMBER: usize = 23;
/// The longest number for types that the kernel does not have.
const MAX_LONG_NUMBER: usize = 63;

/// What comparisons refer to beside the text.
#[derive(Default)]
pub(crate) struct Constants {
    pub(crate) sets: Vec<u64>,
    pub(crate) wide: Vec<u128>,
}

impl Constants {
    fn wide(&mut self, value: u128) -> Option<Wide> {
        let index = u16::try_from(self.wide.len()).ok()?;
        self.wide.push(value);
        Some(Wide(index))
    }

    fn set(&mut self, words: &[u64]) -> Option<Span> {
        let span = Span::new(self.sets.len(), words.len())?;
        self.sets.extend_from_slice(words);
        Some(span)
    }
}

/// A comparison whose operand is still to be read.
pub(crate) struct Operand<'a> {
    pub(crate) fields: &'a dyn Fields,
    pub(crate) constants: &'a mut Constants,
    /// What the field is.
    pub(crate) kind: Type,
    pub(crate) operator: Operator,
    /// Where the operator stands.
    pub(crate) sign: Range<usize>,
}

impl Operand<'_> {
    /// The operator or the field does not go with what stands at `at`.
    fn illegal(&self, at: usize) -> Fault {
        fault(ErrorKind::IllegalOperation, self.sign.clone(), at)
    }

    /// The operator where only an order or equality makes sense.
    fn compare(&self, at: usize) -> Result<Compare, Fault> {
        match self.operator {
            Operator::Compare(compare) => Ok(compare),
            Operator::Bits | Operator::Glob => Err(self.illegal(at)),
        }
    }

    /// Reads the symbol or address behind `.function ==`.
    pub(crate) fn function(self, scan: &mut Scan<'_>) -> Result<Test, Fault> {
        let start = scan.at();
        if !matches!(
            self.kind,
            Type::Signed { bytes: 8 } | Type::Unsigned { bytes: 8 }
        ) {
            return Err(self.illegal(start));
        }
        let negated = match self.operator {
            Operator::Compare(Compare::Equal) => false,
            Operator::Compare(Compare::Differs) => true,
            _ => return Err(fault(ErrorKind::InvalidOperator, self.sign, start)),
        };
        let by_address = scan.peek().is_some_and(|c| c.is_ascii_digit());
        let wanted = if by_address {
            scan.take_while(|c| c.is_ascii_alphanumeric())
        } else {
            scan.take_while(|c| !is_blank(c))
        };
        let place = start..scan.at();
        let wanted = if !by_address {
            Function::Name(wanted)
        } else if wanted.len() > MAX_NUMBER {
            return Err(fault(ErrorKind::OperandTooLong, place, scan.at()));
        } else {
            match number::unsigned(wanted).and_then(|value| u64::try_from(value).ok()) {
                Some(address) => Function::At(address),
                None => return Err(fault(ErrorKind::InvalidValue, place, scan.at())),
            }
        };
        match self.fields.function(wanted) {
            Some(Range { start, end }) => Ok(Test::Function {
                start,
                end,
                negated,
            }),
            None => Err(fault(ErrorKind::FunctionNotFound, place, scan.at())),
        }
    }

    /// Reads `CPUS{…}`. A set of one CPU is that number, as in the kernel.
    pub(crate) fn cpus(self, scan: &mut Scan<'_>) -> Result<Test, Fault> {
        let start = scan.at();
        if !matches!(
            self.kind,
            Type::Signed {
                bytes: 1 | 2 | 4 | 8
            } | Type::Unsigned {
                bytes: 1 | 2 | 4 | 8
            }
        ) {
            return Err(self.illegal(start));
        }
        let (single, several) = match self.operator {
            Operator::Compare(Compare::Equal) => (Compare::Equal, CpuCompare::Equal),
            Operator::Compare(Compare::Differs) => (Compare::Differs, CpuCompare::Differs),
            Operator::Bits => (Compare::Equal, CpuCompare::Within),
            _ => return Err(self.illegal(start)),
        };
        scan.take("CPUS");
        let brace = scan.next_place();
        if !scan.take("{") {
            let at = brace.start + 1;
            return Err(fault(ErrorKind::MissingBraceOpen, brace, at));
        }
        let list = scan.take_while(|c| c != '}');
        let place = brace.end..scan.at();
        if !scan.take("}") {
            return Err(fault(ErrorKind::MissingBraceClose, brace, scan.at()));
        }
        let cpus = self.fields.cpus().min(MAX_CPUS);
        let Some(words) = cpu_list::parse(list, cpus) else {
            let at = place.end;
            return Err(fault(ErrorKind::InvalidCpuList, place, at));
        };
        if let [(first, last)] = cpu_list::runs(&words)[..]
            && first == last
        {
            return Ok(match self.kind {
                Type::Signed { bytes } => {
                    Test::Signed(single, number::cut_signed(first as i64, bytes))
                }
                Type::Unsigned { bytes } => {
                    Test::Unsigned(single, number::cut_unsigned(first as u64, bytes))
                }
                _ => Test::Never,
            });
        }
        match self.constants.set(&words) {
            Some(words) => Ok(Test::Cpus {
                compare: several,
                words,
                cpus,
            }),
            None => Err(fault(ErrorKind::OperandTooLong, place, scan.at())),
        }
    }

    /// Reads a text in quotes.
    pub(crate) fn text(self, scan: &mut Scan<'_>, quote: char) -> Result<Test, Fault> {
        let start = scan.at();
        let character = self.kind == Type::Char;
        let (negated, glob) = match self.operator {
            Operator::Compare(Compare::Equal) => (false, false),
            Operator::Compare(Compare::Differs) => (true, false),
            Operator::Glob if !character => (false, true),
            Operator::Compare(_) if character => (false, false),
            _ => return Err(self.illegal(start)),
        };
        if !character && !matches!(self.kind, Type::Text | Type::Any) {
            return Err(fault(ErrorKind::ExpectNumber, start..start + 1, start));
        }
        scan.skip();
        let inner = scan.at();
        let text = scan.take_while(|c| c != quote);
        let end = scan.at();
        scan.skip();
        let place = start..scan.at();
        if end == scan.at() {
            return Err(fault(ErrorKind::MissingQuote, place, end));
        }
        if text.len() > MAX_STRING {
            return Err(fault(ErrorKind::OperandTooLong, place, end));
        }
        if character {
            let mut chars = text.chars();
            return match (chars.next(), chars.next()) {
                (Some(only), None) => {
                    Ok(Test::Unsigned(self.compare(start)?, u32::from(only).into()))
                }
                _ => Err(fault(ErrorKind::ExpectCharacter, place, start)),
            };
        }
        let (negated, shape, part) = if glob {
            pattern::classify(text)
        } else {
            (negated, Shape::Whole, 0..text.len())
        };
        match Span::new(inner + part.start, part.len()) {
            Some(pattern) => Ok(Test::Text {
                shape,
                pattern,
                negated,
            }),
            None => Err(fault(ErrorKind::OperandTooLong, place, end)),
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn word(self, scan: &mut Scan<'_>) -> Result<Test, Fault> {
        let start = scan.at();
        let compare = self.compare(start)?;
        let word = scan.take_while(|c| c.is_alphanumeric() || c == '_');
        let place = start..scan.at();
        let value = match word {
            "true" => 1,
            "false" => 0,
            _ => return Err(fault(ErrorKind::InvalidValue, place, start)),
        };
        if self.kind != Type::Any {
            return Ok(Test::Unsigned(compare, value));
        }
        match self.constants.wide(value.into()) {
            Some(value) => Ok(Test::SignedWide(compare, value)),
            None => Err(fault(ErrorKind::OperandTooLong, place, start)),
        }
    }

    /// Reads a number, with its sign.
    pub(crate) fn number(self, scan: &mut Scan<'_>) -> Result<Test, Fault> {
        let start = scan.at();
        if self.kind == Type::Text {
            let place = scan.next_place();
            return Err(fault(ErrorKind::ExpectString, place, start));
        }
        if self.operator == Operator::Glob {
            return Err(self.illegal(start));
        }
        let digits = digits(
            scan,
            matches!(self.kind, Type::Float { .. } | Type::Duration | Type::Any),
        );
        let place = start..scan.at();
        let longest = match self.kind {
            Type::Signed { bytes: 16 } | Type::Unsigned { bytes: 16 } => MAX_LONG_NUMBER,
            Type::Float { .. } | Type::Duration | Type::Any => MAX_LONG_NUMBER,
            _ => MAX_NUMBER,
        };
        if digits.len() > longest {
            return Err(fault(ErrorKind::OperandTooLong, place, scan.at()));
        }
        if matches!(self.kind, Type::Float { .. } | Type::Duration) {
            self.compare(start)?;
        }
        let unfit = || fault(ErrorKind::IllegalInteger, place, start);
        self.numeric(digits).ok_or_else(unfit)
    }

    /// The test against this number; `None` where it is none for this field.
    fn numeric(self, digits: &str) -> Option<Test> {
        let small = || u64::try_from(number::unsigned(digits)?).ok();
        let signed = || number::signed(digits, 64).map(|value| value as i64);
        Some(match (self.kind, self.operator) {
            (
                Type::Signed {
                    bytes: bytes @ (1 | 2 | 4 | 8),
                },
                operator,
            ) => {
                let value = number::cut_signed(signed()?, bytes);
                match operator {
                    Operator::Compare(compare) => Test::Signed(compare, value),
                    _ => Test::Bits(value as u64),
                }
            }
            (
                Type::Unsigned {
                    bytes: bytes @ (1 | 2 | 4 | 8),
                },
                operator,
            ) => unsigned(operator, number::cut_unsigned(small()?, bytes)),
            (Type::Bool, operator) => unsigned(operator, number::cut_unsigned(small()?, 1)),
            (Type::Char, operator) => unsigned(operator, number::cut_unsigned(small()?, 4)),
            (Type::Signed { bytes: 16 }, operator) => {
                let value = self.constants.wide(number::signed(digits, 128)? as u128)?;
                match operator {
                    Operator::Compare(compare) => Test::SignedWide(compare, value),
                    _ => Test::BitsWide(value),
                }
            }
            (Type::Unsigned { bytes: 16 }, operator) => {
                let value = self.constants.wide(number::unsigned(digits)?)?;
                match operator {
                    Operator::Compare(compare) => Test::UnsignedWide(compare, value),
                    _ => Test::BitsWide(value),
                }
            }
            (Type::Duration, Operator::Compare(compare)) => {
                let value = self.constants.wide(number::nanoseconds(digits)?)?;
                Test::UnsignedWide(compare, value)
            }
            (Type::Float { bytes }, Operator::Compare(compare)) => {
                Test::Float(compare, number::float(digits, bytes)?)
            }
            (Type::Any, operator) => match (number::signed(digits, 128), operator) {
                (Some(value), Operator::Compare(compare)) => {
                    Test::SignedWide(compare, self.constants.wide(value as u128)?)
                }
                (Some(value), _) => Test::BitsWide(self.constants.wide(value as u128)?),
                (None, Operator::Compare(compare)) => {
                    Test::Float(compare, number::float(digits, 8)?)
                }
                (None, _) => return None,
            },
            (Type::Signed { .. }, _) => signed().map(|_| Test::Never)?,
            (Type::Unsigned { .. }, _) => small().map(|_| Test::Never)?,
            (Type::Float { .. } | Type::Duration | Type::Text, _) => return None,
        })
    }
}

fn unsigned(operator: Operator, value: u64) -> Test {
    match operator {
        Operator::Compare(compare) => Test::Unsigned(compare, value),
        Operator::Bits | Operator::Glob => Test::Bits(value),
    }
}

/// Goes over a sign, digits and letters; where the type has fractions also over a point and the sign
/// of an exponent.
fn digits<'t>(scan: &mut Scan<'t>, fractions: bool) -> &'t str {
    let rest = scan.rest();
    let start = scan.at();
    scan.take("-");
    scan.take_while(|c| c.is_ascii_alphanumeric() || fractions && c == '.');
    if fractions
        && rest[..scan.at() - start].ends_with(['e', 'E'])
        && (scan.take("-") || scan.take("+"))
    {
        scan.take_while(|c| c.is_ascii_digit());
    }
    &rest[..scan.at() - start]
}
