//! From words to expressions: the part of C that `print fmt` texts are made of.
//!
//! A recursive descent over [`Token`]s. What it does not know (a call of a kernel function, a
//! structure's member, a loop) is an [`UnknownForm`], never a guess.

use super::arithmetic::{Binary, Unary};
use super::expression::Expression;
use super::token::Token;
use super::{Names, UnknownForm};
use crate::tracefs::c_type::{self, Scalar};
use crate::tracefs::format::{FormatField, Shape};

/// How deep expressions may be nested. Those of Linux 6.18 stay below 40.
const DEEPEST: usize = 200;
/// How many operators one `print fmt` may have whose operands change with the record. They are evaluated
/// by recursion, so this bounds the stack. Those of Linux 6.18 have fewer than 12.
const MOST_OPERATORS: usize = 500;

/// Variables of the kernel whose values nobody outside can know. What is computed from them is printed
/// as `<unsupported>`, and the rest of the line as it should be.
const UNKNOWABLE: [&str; 2] = ["jiffies", "vmemmap_base"];

/// Reads expressions off a list of words.
pub(super) struct Parser<'a> {
    pub tokens: &'a [Token],
    pub fields: &'a [FormatField],
    pub names: &'a dyn Names,
    /// Variables of the statement expressions around.
    locals: Vec<(String, Scalar)>,
    depth: usize,
    operators: usize,
}

pub(super) type Parsed<T = Expression> = Result<T, UnknownForm>;

impl<'a> Parser<'a> {
    pub(super) fn new(
        tokens: &'a [Token],
        fields: &'a [FormatField],
        names: &'a dyn Names,
    ) -> Parser<'a> {
        Parser {
            tokens,
            fields,
            names,
            locals: Vec::new(),
            depth: 0,
            operators: 0,
        }
    }

    /// Takes the sign if it comes next.
    pub(super) fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    pub(super) fn is(&self, sign: &str) -> bool {
        matches!(self.tokens.first(), Some(Token::Sign(next)) if *next == sign)
    }

    pub(super) fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// The word that should not stand here, as an error.
    pub(super) fn unexpected(&self) -> UnknownForm {
        match self.tokens.first() {
            None => UnknownForm::new("it ends too early"),
            Some(Token::Name(name)) => UnknownForm::new(format!("the name {name}")),
            Some(Token::Number(number, _)) => UnknownForm::new(format!("the number {number}")),
            Some(Token::Text(text)) => {
                UnknownForm::new(format!("the text \"{}\"", String::from_utf8_lossy(text)))
            }
            Some(Token::Sign(sign)) => UnknownForm::new(format!("the sign {sign}")),
        }
    }

    pub(super) fn name(&mut self) -> Parsed<&'a str> {
        match self.tokens {
            [Token::Name(name), rest @ ..] => {
                self.tokens = rest;
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn text(&mut self) -> Parsed<&'a [u8]> {
        match self.tokens {
            [Token::Text(text), rest @ ..] => {
                self.tokens = rest;
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// An expression without a comma.
    pub(super) fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(UnknownForm::new("expressions nested too deeply"));
        }
        let condition = self.binary(0)?;
        let expression = if self.take("?") {
            // `a ?: b` is `a ? a : b`.
            let yes = if self.is(":") {
                condition.clone()
            } else {
                self.expression()?
            };
            self.expect(":")?;
            let no = self.expression()?;
            Expression::Choose(Box::new([condition, yes, no])).folded()
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn binary(&mut self, weakest: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let Some(Token::Sign(sign)) = self.tokens.first() else {
                return Ok(left);
            };
            let Some((operator, strength)) = operator(sign) else {
                return Ok(left);
            };
            if strength < weakest {
                return Ok(left);
            }
            self.tokens = &self.tokens[1..];
            let right = self.binary(strength + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right)).folded();
            self.count(&left)?;
        }
    }

    fn count(&mut self, made: &Expression) -> Parsed<()> {
        self.operators += usize::from(!matches!(made, Expression::Number(..)));
        match self.operators > MOST_OPERATORS {
            true => Err(UnknownForm::new("too many operators")),
            false => Ok(()),
        }
    }

    fn unary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(UnknownForm::new("expressions nested too deeply"));
        }
        let operators = [
            ("-", Unary::Minus),
            ("!", Unary::Not),
            ("~", Unary::Complement),
        ];
        let expression = if let Some((_, operator)) =
            operators.iter().find(|(sign, _)| self.is(sign))
        {
            self.tokens = &self.tokens[1..];
            Expression::Unary(*operator, Box::new(self.unary()?)).folded()
        } else if self.take("+") {
            self.unary()?
        } else if self.take("&") {
            let of = self.unary()?;
            match of {
                // The address of the first element of what follows it.
                Expression::Index(of, index) if *index == Expression::Number(0, Scalar::INT) => *of,
                Expression::Field(..) => Expression::AddressOf(Box::new(of)),
                _ => {
                    return Err(UnknownForm::new(
                        "the address of something that is no field",
                    ));
                }
            }
        } else {
            self.postfix()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn postfix(&mut self) -> Parsed {
        let mut of = self.primary()?;
        while self.take("[") {
            let index = self.expression()?;
            self.expect("]")?;
            of = Expression::Index(Box::new(of), Box::new(index));
            self.count(&of)?;
        }
        if self.is(".") || self.is("->") {
            return Err(UnknownForm::new("a member of a structure"));
        }
        Ok(of)
    }

    fn primary(&mut self) -> Parsed {
        match self.tokens {
            [Token::Number(bits, scalar), rest @ ..] => {
                self.tokens = rest;
                Ok(Expression::Number(*bits, *scalar))
            }
            [Token::Text(text), rest @ ..] => {
                self.tokens = rest;
                Ok(Expression::Text(text.as_slice().into()))
            }
            [Token::Sign("("), Token::Sign("{"), rest @ ..] => {
                self.tokens = rest;
                self.block()
            }
            [
                Token::Sign("("),
                Token::Name(record),
                Token::Sign(")"),
                Token::Sign("->"),
                Token::Name(field),
                rest @ ..,
            ] if record == "REC" => {
                self.tokens = rest;
                self.record_field(field)
            }
            [Token::Sign("("), rest @ ..] => {
                if let Some((cast, after)) = self.type_in_brackets(rest) {
                    self.tokens = after;
                    let of = self.unary()?;
                    return Ok(match cast {
                        Type::Scalar(scalar) => Expression::Cast(scalar, Box::new(of)).folded(),
                        Type::Pointer => match of {
                            Expression::Number(bits, _) => Expression::Number(bits, Scalar::ULONG),
                            Expression::Field(_, scalar) if scalar.size < 8 => {
                                Expression::Cast(Scalar::ULONG, Box::new(of))
                            }
                            other => other,
                        },
                    });
                }
                self.tokens = rest;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            [
                Token::Name(record),
                Token::Sign("->"),
                Token::Name(field),
                rest @ ..,
            ] if record == "REC" => {
                self.tokens = rest;
                self.record_field(field)
            }
            [Token::Name(name), Token::Sign("("), rest @ ..] => {
                self.tokens = rest;
                self.call(name)
            }
            [Token::Name(name), rest @ ..] => {
                if let Some(local) = self.locals.iter().rposition(|(local, _)| local == name) {
                    self.tokens = rest;
                    return Ok(Expression::Local(local));
                }
                if UNKNOWABLE.contains(&name.as_str()) {
                    self.tokens = rest;
                    return Ok(Expression::Unknowable);
                }
                let Some(value) = self.names.constant(name) else {
                    return Err(self.unexpected());
                };
                self.tokens = rest;
                let scalar = Scalar {
                    size: if i32::try_from(value).is_ok() { 4 } else { 8 },
                    signed: true,
                };
                Ok(Expression::Number(value as u64, scalar))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn record_field(&self, name: &str) -> Parsed {
        let (index, field) = self.field(name)?;
        Ok(Expression::Field(index, scalar_of(field)))
    }

    pub(super) fn field(&self, name: &str) -> Parsed<(usize, &'a FormatField)> {
        let index = self.fields.iter().position(|field| field.name == name);
        let index = index.ok_or_else(|| {
            UnknownForm::new(format!("the field {name}, which the record has not"))
        })?;
        Ok((index, &self.fields[index]))
    }

    /// `({ type name = expression; … expression; })`, behind its first two signs.
    fn block(&mut self) -> Parsed {
        let outer = self.locals.len();
        let mut variables = Vec::new();
        let result = loop {
            let words = self
                .tokens
                .iter()
                .take_while(|token| matches!(token, Token::Name(_)))
                .count();
            let assigned = matches!(self.tokens.get(words), Some(Token::Sign("=")));
            if words < 2 || !assigned {
                let result = self.expression()?;
                self.expect(";")?;
                break result;
            }
            let (type_name, after) = self.tokens.split_at(words - 1);
            let scalar = match joined(type_name).as_str() {
                "__auto_type" => None,
                name => Some(self.scalar(name)?),
            };
            self.tokens = after;
            let name = self.name()?;
            self.expect("=")?;
            let value = self.expression()?;
            self.expect(";")?;
            variables.push(match scalar {
                Some(scalar) => Expression::Cast(scalar, Box::new(value)),
                None => value,
            });
            self.locals
                .push((name.to_owned(), scalar.unwrap_or(Scalar::ULONG)));
        };
        self.expect("}")?;
        self.expect(")")?;
        self.locals.truncate(outer);
        Ok(Expression::Block(variables.into(), Box::new(result)))
    }

    /// A type and the closing bracket, and what follows.
    pub(super) fn type_in_brackets(&self, tokens: &'a [Token]) -> Option<(Type, &'a [Token])> {
        let words = tokens
            .iter()
            .take_while(|token| matches!(token, Token::Name(_)))
            .count();
        if words == 0 {
            return None;
        }
        let (name, mut after) = tokens.split_at(words);
        let mut pointer = false;
        loop {
            match after {
                [Token::Sign("*"), rest @ ..] => {
                    pointer = true;
                    after = rest;
                }
                [Token::Name(word), rest @ ..] if pointer && word == "const" => after = rest,
                [Token::Sign(")"), rest @ ..] => {
                    let name = joined(name);
                    return match (pointer, self.scalar(&name)) {
                        (true, _) => Some((Type::Pointer, rest)),
                        (false, Ok(scalar)) => Some((Type::Scalar(scalar), rest)),
                        (false, Err(_)) => None,
                    };
                }
                _ => return None,
            }
        }
    }

    fn scalar(&self, name: &str) -> Parsed<Scalar> {
        let named = c_type::named(name).or_else(|| self.names.scalar(name));
        named.ok_or_else(|| UnknownForm::new(format!("the type {name}")))
    }
}

pub(super) enum Type {
    Scalar(Scalar),
    Pointer,
}

pub(super) fn joined(tokens: &[Token]) -> String {
    let words = tokens.iter().map(|token| match token {
        Token::Name(name) => name.as_str(),
        Token::Sign(sign) => sign,
        Token::Number(..) | Token::Text(_) => "",
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The type of a field's integer, or of its elements.
pub(super) fn scalar_of(field: &FormatField) -> Scalar {
    match field.shape {
        Shape::Integer { signed } => Scalar {
            size: field.size as u8,
            signed,
        },
        Shape::Numbers(element) | Shape::DynamicNumbers(_, element) => Scalar {
            size: element.size,
            signed: element.signed,
        },
        Shape::Pointer => Scalar::ULONG,
        Shape::Bool
        | Shape::Text
        | Shape::Bytes
        | Shape::DynamicText(_)
        | Shape::DynamicBytes(_) => Scalar::UCHAR,
    }
}

fn operator(sign: &str) -> Option<(Binary, u8)> {
    Some(match sign {
        "*" => (Binary::Multiply, 10),
        "/" => (Binary::Divide, 10),
        "%" => (Binary::Remainder, 10),
        "+" => (Binary::Add, 9),
        "-" => (Binary::Subtract, 9),
        "<<" => (Binary::ShiftLeft, 8),
        ">>" => (Binary::ShiftRight, 8),
        "<" => (Binary::Less, 7),
        "<=" => (Binary::LessOrEqual, 7),
        ">" => (Binary::Greater, 7),
        ">=" => (Binary::GreaterOrEqual, 7),
        "==" => (Binary::Equal, 6),
        "!=" => (Binary::NotEqual, 6),
        "&" => (Binary::And, 5),
        "^" => (Binary::ExclusiveOr, 4),
        "|" => (Binary::Or, 3),
        "&&" => (Binary::BothTrue, 2),
        "||" => (Binary::EitherTrue, 1),
        _ => return None,
    })
}
