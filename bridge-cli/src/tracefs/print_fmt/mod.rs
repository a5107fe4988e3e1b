//! The kernel's `print fmt`, compiled: what trace_pipe would print for a record.
//!
//! ```text
//! "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })
//! ```
//! It is a printf in C over the record's fields, with some functions of the tracing code. It is
//! compiled once a probe: split into conversions, its arguments parsed, constants computed. What is
//! not known (a call of some other kernel function, a structure's member) makes the whole of it an
//! [`UnknownForm`], and the probe is printed as `name=value` then: a line is right or plainly other,
//! never nearly right.
//!
//! It is evaluated over the event's values, not over raw bytes, so that a stored event prints the same.
//! Two things differ from trace_pipe on purpose: `%p` shows the address where the kernel shows a hash
//! of it, and a value that could not be read is `<fault>`.

mod arithmetic;
mod call;
mod conversion;
mod expression;
mod parse;
mod pointer;
mod token;
mod written;

use std::fmt;
use std::sync::Arc;

use conversion::{Conversion, Piece, Size, What};
use expression::{Datum, Expression, Scope};
use parse::Parser;
use pointer::PointerForm;
use token::Token;

use super::c_type::Scalar;
use super::format::FormatField;
use super::symbols::Symbols;
use crate::event::Value;

/// A compiled `print fmt`.
#[derive(Clone, Debug)]
pub struct PrintFmt {
    steps: Box<[Step]>,
    symbols: Arc<Symbols>,
}

#[derive(Clone, Debug)]
enum Step {
    Literal(Box<[u8]>),
    Convert {
        conversion: Conversion,
        width: Option<Expression>,
        precision: Option<Expression>,
        argument: Expression,
    },
}

/// What of a `print fmt` is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownForm(String);

impl UnknownForm {
    fn new(what: impl Into<String>) -> UnknownForm {
        UnknownForm(what.into())
    }
}

impl fmt::Display for UnknownForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "print fmt not understood: {}", self.0)
    }
}

impl std::error::Error for UnknownForm {}

/// Names of the kernel's C code that a `print fmt` may use.
pub trait Names {
    /// The value of an enumerator.
    fn constant(&self, name: &str) -> Option<i64>;
    /// The integer type behind a typedef.
    fn scalar(&self, name: &str) -> Option<Scalar>;
    /// The bytes of a type such as `struct in6_addr`.
    fn size_of(&self, type_name: &str) -> Option<u64>;
}

/// No names at all.
#[derive(Clone, Copy, Debug)]
pub struct NoNames;

impl Names for NoNames {
    fn constant(&self, _name: &str) -> Option<i64> {
        None
    }

    fn scalar(&self, _name: &str) -> Option<Scalar> {
        None
    }

    fn size_of(&self, _type_name: &str) -> Option<u64> {
        None
    }
}

impl PrintFmt {
    /// Compiles the text behind `print fmt:` for records of these fields.
    ///
    /// # Errors
    /// [`UnknownForm`] says what is not known.
    pub fn compile(
        text: &str,
        fields: &[FormatField],
        names: &dyn Names,
        symbols: Arc<Symbols>,
    ) -> Result<PrintFmt, UnknownForm> {
        let tokens = token::tokens(text)?;
        let mut parser = Parser::new(&tokens, fields, names);
        let format = match parser.tokens {
            [Token::Text(format), rest @ ..] => {
                parser.tokens = rest;
                format
            }
            _ => return Err(parser.unexpected()),
        };
        let mut arguments = Vec::new();
        while parser.take(",") {
            arguments.push(parser.expression()?);
        }
        if !parser.tokens.is_empty() {
            return Err(parser.unexpected());
        }
        let mut arguments = arguments.into_iter();
        let mut next = || {
            arguments
                .next()
                .ok_or_else(|| UnknownForm::new("too few arguments"))
        };
        let mut steps = Vec::new();
        // A few end their line themselves, which is not theirs to do.
        let format = format.strip_suffix(b"\n").unwrap_or(format);
        for piece in conversion::split(format)? {
            steps.push(match piece {
                Piece::Literal(text) => Step::Literal(text),
                Piece::Conversion(conversion) => {
                    let mut size = |size| match size {
                        Size::None => Ok(None),
                        Size::Fixed(size) => Ok(Some(Expression::Number(size.into(), Scalar::INT))),
                        Size::Argument => next().map(Some),
                    };
                    let width = size(conversion.width)?;
                    let precision = size(conversion.precision)?;
                    Step::Convert {
                        conversion,
                        width,
                        precision,
                        argument: next()?,
                    }
                }
            });
        }
        Ok(PrintFmt {
            steps: steps.into(),
            symbols,
        })
    }

    /// Appends the body of a record with these values, raw: text of the record is not escaped.
    pub fn write(&self, values: &[Value], out: &mut Vec<u8>) {
        let mut scope = Scope {
            values,
            symbols: &self.symbols,
            locals: Vec::new(),
        };
        for step in &self.steps {
            match step {
                Step::Literal(text) => out.extend_from_slice(text),
                Step::Convert {
                    conversion,
                    width: None,
                    precision: None,
                    argument,
                } if conversion.what == What::Text => {
                    argument.write_text(&mut scope, out);
                }
                Step::Convert {
                    conversion,
                    width,
                    precision,
                    argument,
                } => {
                    let width = size(width.as_ref(), &mut scope);
                    let precision = size(precision.as_ref(), &mut scope);
                    let datum = argument.evaluate(&mut scope);
                    convert(conversion, datum, width, precision, &scope, out);
                }
            }
        }
    }
}

/// A width or a precision, which C takes as `int`.
fn size<'a>(size: Option<&'a Expression>, scope: &mut Scope<'a>) -> Option<i64> {
    let number = expression::number(size?.evaluate(scope));
    Some(number.map_or(0, |bits| i64::from(bits as i32)))
}

fn convert(
    conversion: &Conversion,
    datum: Datum<'_>,
    width: Option<i64>,
    precision: Option<i64>,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    match conversion.what {
        What::Integer { .. } => match expression::number(datum) {
            Ok(bits) => return conversion::integer(conversion, bits, width, precision, out),
            // An array or text as a number: its address, which does not exist here.
            Err(Datum::Missing(value)) => expression::missing(value, out),
            Err(_) => out.extend_from_slice(b"<address>"),
        },
        What::Character => match expression::number(datum) {
            Ok(bits) => out.push(bits as u8),
            Err(Datum::Missing(value)) => expression::missing(value, out),
            Err(_) => out.extend_from_slice(b"<address>"),
        },
        What::Text => expression::text(datum, precision, scope, out),
        What::Pointer(form) => {
            return pointer(form, datum, width, conversion.flags.left, scope, out);
        }
    }
    conversion::pad(start, width, conversion.flags.left, out);
}

fn pointer(
    form: PointerForm,
    datum: Datum<'_>,
    width: Option<i64>,
    left: bool,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    match (form, datum) {
        (_, Datum::Missing(value)) => expression::missing(value, out),
        (PointerForm::Symbol { with_offset }, Datum::Number(address, _)) => {
            scope.symbols.write(address, with_offset, out);
        }
        (form, datum) if form.follows() => match datum {
            // A number is an address in the kernel, out of reach.
            Datum::Number(..) => out.extend_from_slice(b"<fault>"),
            other => {
                let bytes = other.bytes().unwrap_or_default();
                return form.write(&bytes, width, out);
            }
        },
        (_, Datum::Number(address, _)) => {
            let digits = format!("{address:016x}");
            out.extend_from_slice(digits.as_bytes());
        }
        (_, _) => out.extend_from_slice(b"<address>"),
    }
    conversion::pad(start, width, left, out);
}
