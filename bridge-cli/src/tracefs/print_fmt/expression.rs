//! The expressions that give a `print fmt` its arguments, and what they evaluate to.

use std::borrow::Cow;

use super::arithmetic::{Binary, Unary, binary, unary};
use super::pointer;
use super::written::{Table, array, flags, symbolic};
use crate::event::Value;
use crate::print::hexadecimal;
use crate::tracefs::c_type::Scalar;
use crate::tracefs::symbols::Symbols;

/// A C expression over a record's fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(u64, Scalar),
    Text(Box<[u8]>),
    /// A field by its place in the record, and the type of its integer or of its elements.
    Field(usize, Scalar),
    /// What only the kernel knows.
    Unknowable,
    /// A variable of a statement expression.
    Local(usize),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    Choose(Box<[Expression; 3]>),
    Cast(Scalar, Box<Expression>),
    /// `&REC->field`: the bytes of a field.
    AddressOf(Box<Expression>),
    Index(Box<Expression>, Box<Expression>),
    /// `({ int a = …; …; })`
    Block(Box<[Expression]>, Box<Expression>),
    /// How many bytes a field of variable length has, whose elements have so many.
    Length(usize, u8),
    Flags {
        of: Box<Expression>,
        delimiter: Box<[u8]>,
        table: Table,
    },
    Symbolic {
        of: Box<Expression>,
        table: Table,
    },
    /// `__print_hex(bytes, length)`; with blanks between the bytes, or without.
    Hex {
        of: Box<Expression>,
        length: Box<Expression>,
        separated: bool,
    },
    /// `__print_array(array, count, size of one)`.
    Array {
        of: Box<Expression>,
        count: Box<Expression>,
        size: u8,
    },
    /// `__get_bitmask(field)`.
    Bitmask(usize),
}

/// What an expression evaluates to.
#[derive(Clone, Debug)]
pub(super) enum Datum<'a> {
    Number(u64, Scalar),
    /// Text, or bytes that a pointer leads to.
    Bytes(Cow<'a, [u8]>),
    Array(&'a [Value], Scalar),
    /// A value that the record does not have: `<fault>` and its like.
    Missing(&'a Value),
}

/// What an evaluation reads.
pub(super) struct Scope<'a> {
    pub values: &'a [Value],
    pub symbols: &'a Symbols,
    pub locals: Vec<(u64, Scalar)>,
}

impl<'a> Datum<'a> {
    /// The number, where it is one. What is not a number counts as an address that is not null.
    fn number(&self) -> (u64, Scalar) {
        match self {
            Datum::Number(bits, scalar) => (*bits, *scalar),
            Datum::Bytes(_) | Datum::Array(..) => (1, Scalar::ULONG),
            Datum::Missing(_) => (0, Scalar::ULONG),
        }
    }

    /// The bytes that it leads to.
    pub(super) fn bytes(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Datum::Bytes(bytes) => Some(bytes),
            Datum::Array(values, element) => Some(Cow::Owned(little_endian(values, element.size))),
            Datum::Number(..) | Datum::Missing(_) => None,
        }
    }
}

/// The bytes of numbers that took `size` bytes each.
fn little_endian(values: &[Value], size: u8) -> Vec<u8> {
    let size = usize::from(size.min(8));
    let bits = |value: &Value| match value {
        Value::Unsigned(bits) | Value::Pointer(bits) => *bits,
        Value::Signed(number) => *number as u64,
        _ => 0,
    };
    values
        .iter()
        .flat_map(|value| bits(value).to_le_bytes().into_iter().take(size))
        .collect()
}

impl Expression {
    /// Evaluates it.
    pub(super) fn evaluate<'a>(&'a self, scope: &mut Scope<'a>) -> Datum<'a> {
        match self {
            Expression::Number(bits, scalar) => Datum::Number(*bits, *scalar),
            Expression::Text(text) => Datum::Bytes(Cow::Borrowed(text)),
            Expression::Field(index, scalar) => field(scope.values, *index, *scalar),
            Expression::Unknowable => Datum::Missing(&Value::Unsupported),
            Expression::Local(index) => {
                let (bits, scalar) = scope
                    .locals
                    .get(*index)
                    .copied()
                    .unwrap_or((0, Scalar::INT));
                Datum::Number(bits, scalar)
            }
            Expression::Unary(operator, operand) => match operand.evaluate(scope) {
                Datum::Missing(value) => Datum::Missing(value),
                datum => {
                    let (bits, scalar) = unary(*operator, datum.number());
                    Datum::Number(bits, scalar)
                }
            },
            Expression::Binary(operator, left, right) => {
                binary_datum(*operator, left, right, scope)
            }
            Expression::Choose(parts) => {
                let [condition, yes, no] = &**parts;
                match condition.evaluate(scope) {
                    Datum::Missing(value) => Datum::Missing(value),
                    datum if datum.number().0 != 0 => yes.evaluate(scope),
                    _ => no.evaluate(scope),
                }
            }
            Expression::Cast(scalar, operand) => match operand.evaluate(scope) {
                Datum::Number(bits, _) => Datum::Number(scalar.wrap(bits), *scalar),
                other => other,
            },
            Expression::AddressOf(operand) => match operand.evaluate(scope) {
                Datum::Number(bits, scalar) => {
                    let bytes = &bits.to_le_bytes()[..usize::from(scalar.size.min(8))];
                    Datum::Bytes(Cow::Owned(bytes.to_vec()))
                }
                other => other,
            },
            Expression::Index(of, index) => {
                let (index, _) = index.evaluate(scope).number();
                element(of.evaluate(scope), index)
            }
            Expression::Block(variables, result) => {
                let outer = scope.locals.len();
                for variable in variables {
                    let value = variable.evaluate(scope).number();
                    scope.locals.push(value);
                }
                let result = result.evaluate(scope);
                scope.locals.truncate(outer);
                result
            }
            Expression::Length(index, size) => {
                let length = match scope.values.get(*index) {
                    // The kernel counts the NUL that the value no longer has.
                    Some(Value::Text { full_length, .. }) => full_length.saturating_add(1),
                    Some(Value::Bytes { full_length, .. }) => *full_length,
                    Some(Value::Array(values)) => values.len() as u64 * u64::from(*size),
                    Some(other) => return Datum::Missing(other),
                    None => 0,
                };
                Datum::Number(length, Scalar::INT)
            }
            Expression::Flags {
                of,
                delimiter,
                table,
            } => with_number(of, scope, |bits, out| flags(bits, delimiter, table, out)),
            Expression::Symbolic { of, table } => {
                with_number(of, scope, |bits, out| symbolic(bits, table, out))
            }
            Expression::Hex {
                of,
                length,
                separated,
            } => {
                let (length, _) = length.evaluate(scope).number();
                let bytes = of.evaluate(scope).bytes().unwrap_or_default();
                let bytes = &bytes[..bytes.len().min(length as usize)];
                let mut out = Vec::new();
                for (index, byte) in bytes.iter().enumerate() {
                    if *separated && index > 0 {
                        out.push(b' ');
                    }
                    crate::print::hex(&[*byte], &mut out);
                }
                Datum::Bytes(out.into())
            }
            Expression::Array { of, count, size } => {
                let (count, _) = count.evaluate(scope).number();
                match of.evaluate(scope) {
                    Datum::Missing(value) => Datum::Missing(value),
                    datum => Datum::Bytes(array(datum, count, *size).into()),
                }
            }
            Expression::Bitmask(index) => match scope.values.get(*index) {
                Some(Value::Array(values)) => {
                    let bytes = little_endian(values, 8);
                    let mut out = Vec::new();
                    pointer::bitmap(&bytes, bytes.len() * 8, &mut out);
                    Datum::Bytes(out.into())
                }
                Some(Value::Bytes { bytes, .. }) => {
                    let mut out = Vec::new();
                    pointer::bitmap(bytes, bytes.len() * 8, &mut out);
                    Datum::Bytes(out.into())
                }
                Some(other) => Datum::Missing(other),
                None => Datum::Number(0, Scalar::INT),
            },
        }
    }

    /// The same expression with everything computed that no record changes.
    pub(super) fn folded(self) -> Expression {
        let is_constant = |part: &Expression| matches!(part, Expression::Number(..));
        let constant = match &self {
            Expression::Unary(_, operand) | Expression::Cast(_, operand) => is_constant(operand),
            Expression::Binary(_, left, right) => is_constant(left) && is_constant(right),
            Expression::Choose(parts) => is_constant(&parts[0]),
            _ => false,
        };
        if !constant {
            return self;
        }
        if let Expression::Choose(parts) = self {
            let [condition, yes, no] = *parts;
            let taken = matches!(condition, Expression::Number(bits, _) if bits != 0);
            return if taken { yes } else { no };
        }
        let nothing = Symbols::none();
        let mut scope = Scope {
            values: &[],
            symbols: &nothing,
            locals: Vec::new(),
        };
        match self.evaluate(&mut scope) {
            Datum::Number(bits, scalar) => Expression::Number(bits, scalar),
            _ => self,
        }
    }
}

fn field<'a>(values: &'a [Value], index: usize, scalar: Scalar) -> Datum<'a> {
    match values.get(index) {
        Some(Value::Unsigned(bits) | Value::Pointer(bits)) => Datum::Number(*bits, scalar),
        Some(Value::Signed(number)) => Datum::Number(*number as u64, scalar),
        Some(Value::Bool(value)) => Datum::Number(u64::from(*value), scalar),
        Some(Value::Text { bytes, .. } | Value::Bytes { bytes, .. }) => {
            Datum::Bytes(Cow::Borrowed(bytes))
        }
        Some(Value::Array(values)) => Datum::Array(values, scalar),
        Some(other) => Datum::Missing(other),
        None => Datum::Missing(&Value::Fault),
    }
}

fn element<'a>(of: Datum<'a>, index: u64) -> Datum<'a> {
    let place = usize::try_from(index).unwrap_or(usize::MAX);
    match of {
        // Past the end is the NUL of a text.
        Datum::Bytes(bytes) => {
            Datum::Number(bytes.get(place).copied().unwrap_or(0).into(), Scalar::UCHAR)
        }
        Datum::Array(values, scalar) => match values.get(place) {
            Some(Value::Unsigned(bits)) => Datum::Number(*bits, scalar),
            Some(Value::Signed(number)) => Datum::Number(*number as u64, scalar),
            _ => Datum::Missing(&Value::Fault),
        },
        Datum::Number(..) => Datum::Missing(&Value::Fault),
        Datum::Missing(value) => Datum::Missing(value),
    }
}

fn with_number<'a>(
    of: &'a Expression,
    scope: &mut Scope<'a>,
    write: impl FnOnce(u64, &mut Vec<u8>),
) -> Datum<'a> {
    match of.evaluate(scope) {
        Datum::Missing(value) => Datum::Missing(value),
        datum => {
            let mut out = Vec::new();
            write(datum.number().0, &mut out);
            Datum::Bytes(out.into())
        }
    }
}

fn binary_datum<'a>(
    operator: Binary,
    left: &'a Expression,
    right: &'a Expression,
    scope: &mut Scope<'a>,
) -> Datum<'a> {
    let left = match left.evaluate(scope) {
        Datum::Missing(value) => return Datum::Missing(value),
        datum => datum.number(),
    };
    match (operator, left.0 != 0) {
        (Binary::BothTrue, false) => return Datum::Number(0, Scalar::INT),
        (Binary::EitherTrue, true) => return Datum::Number(1, Scalar::INT),
        _ => {}
    }
    match right.evaluate(scope) {
        Datum::Missing(value) => Datum::Missing(value),
        datum => {
            let (bits, scalar) = binary(operator, left, datum.number());
            Datum::Number(bits, scalar)
        }
    }
}

impl Expression {
    /// Appends what `%s` without width and precision makes of it.
    pub(super) fn write_text<'a>(&'a self, scope: &mut Scope<'a>, out: &mut Vec<u8>) {
        let datum = match self {
            Expression::Flags { of, .. } | Expression::Symbolic { of, .. } => of.evaluate(scope),
            Expression::Choose(parts) => {
                let [condition, yes, no] = &**parts;
                return match condition.evaluate(scope) {
                    Datum::Missing(value) => missing(value, out),
                    datum if datum.number().0 != 0 => yes.write_text(scope, out),
                    _ => no.write_text(scope, out),
                };
            }
            _ => return text(self.evaluate(scope), None, scope, out),
        };
        match (self, datum) {
            (_, Datum::Missing(value)) => missing(value, out),
            (
                Expression::Flags {
                    delimiter, table, ..
                },
                datum,
            ) => {
                flags(datum.number().0, delimiter, table, out);
            }
            (Expression::Symbolic { table, .. }, datum) => symbolic(datum.number().0, table, out),
            (_, datum) => text(datum, None, scope, out),
        }
    }
}

/// Appends what `%s` makes of a datum.
pub(super) fn text(datum: Datum<'_>, precision: Option<i64>, scope: &Scope<'_>, out: &mut Vec<u8>) {
    let limit = precision
        .and_then(|precision| usize::try_from(precision).ok())
        .unwrap_or(usize::MAX);
    match datum {
        Datum::Bytes(bytes) => {
            let end = bytes
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(bytes.len());
            out.extend_from_slice(&bytes[..end.min(limit)]);
        }
        Datum::Number(0, _) => out.extend_from_slice(b"(null)"),
        // A pointer to text in the kernel: known only where the kernel has published the text.
        Datum::Number(address, _) => match scope.symbols.string(address) {
            Some(text) => out.extend_from_slice(&text[..text.len().min(limit)]),
            None => hexadecimal(address, out),
        },
        Datum::Array(values, element) => {
            let bytes = little_endian(values, element.size);
            let end = bytes
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(bytes.len());
            out.extend_from_slice(&bytes[..end.min(limit)]);
        }
        Datum::Missing(value) => missing(value, out),
    }
}

/// Appends why there is no value.
pub(super) fn missing(value: &Value, out: &mut Vec<u8>) {
    crate::print::value(value, Default::default(), crate::print::Quotes::Never, out);
}

/// The number that a conversion takes, or why there is none.
pub(super) fn number<'a>(datum: Datum<'a>) -> Result<u64, Datum<'a>> {
    match datum {
        Datum::Number(bits, _) => Ok(bits),
        other => Err(other),
    }
}
