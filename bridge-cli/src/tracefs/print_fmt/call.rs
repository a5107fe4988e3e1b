//! Calls in a `print fmt`: the functions of the tracing code, and `sizeof`.

use super::UnknownForm;
use super::arithmetic::Binary;
use super::expression::Expression;
use super::parse::{Parsed, Parser, Type, joined, scalar_of};
use super::token::Token;
use super::written::Table;
use crate::tracefs::c_type::Scalar;
use crate::tracefs::format::FormatField;

impl<'a> Parser<'a> {
    pub(super) fn call(&mut self, function: &str) -> Parsed {
        let expression = match function {
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr" => {
                let (index, field) = self.field_argument()?;
                Expression::Field(index, scalar_of(field))
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                let (index, field) = self.field_argument()?;
                Expression::Length(index, scalar_of(field).size)
            }
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                Expression::Bitmask(self.field_argument()?.0)
            }
            "__print_flags" | "__print_flags_u64" => {
                let of = Box::new(self.expression()?);
                self.expect(",")?;
                let delimiter = self.text()?.into();
                Expression::Flags {
                    of,
                    delimiter,
                    table: self.table()?,
                }
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let of = Box::new(self.expression()?);
                Expression::Symbolic {
                    of,
                    table: self.table()?,
                }
            }
            "__print_hex" | "__print_hex_str" => {
                let of = Box::new(self.expression()?);
                self.expect(",")?;
                let length = Box::new(self.expression()?);
                Expression::Hex {
                    of,
                    length,
                    separated: function == "__print_hex",
                }
            }
            "__print_array" => {
                let of = Box::new(self.expression()?);
                self.expect(",")?;
                let count = Box::new(self.expression()?);
                self.expect(",")?;
                let size = self.element_size()?;
                Expression::Array { of, count, size }
            }
            "__print_dynamic_array" => {
                let (index, field) = self.field_name()?;
                self.expect(",")?;
                let size = self.element_size()?;
                let length = Expression::Length(index, scalar_of(field).size);
                let size_of_one = Expression::Number(size.into(), Scalar::ULONG);
                let count =
                    Expression::Binary(Binary::Divide, Box::new(length), Box::new(size_of_one));
                let of = Box::new(Expression::Field(index, scalar_of(field)));
                Expression::Array {
                    of,
                    count: Box::new(count),
                    size,
                }
            }
            "__print_ns_to_secs" | "__print_ns_without_secs" => {
                let operator = if function == "__print_ns_to_secs" {
                    Binary::Divide
                } else {
                    Binary::Remainder
                };
                let of = Expression::Cast(Scalar::ULONG, Box::new(self.expression()?));
                let second = Expression::Number(1_000_000_000, Scalar::ULONG);
                Expression::Binary(operator, Box::new(of), Box::new(second))
            }
            // Page table entries are structures of one number, and these take it out and put it in.
            "pte_val" | "pmd_val" | "pud_val" | "p4d_val" | "pgd_val" | "native_make_pte"
            | "native_make_pmd" | "native_make_pud" | "native_make_p4d" | "native_make_pgd" => {
                Expression::Cast(Scalar::ULONG, Box::new(self.expression()?))
            }
            "__builtin_expect" => {
                let of = self.expression()?;
                self.expect(",")?;
                self.expression()?;
                of
            }
            "sizeof" => {
                let size = self.size_of()?;
                return Ok(Expression::Number(size, Scalar::ULONG));
            }
            _ => return Err(UnknownForm::new(format!("the function {function}"))),
        };
        self.expect(")")?;
        Ok(expression)
    }

    fn field_name(&mut self) -> Parsed<(usize, &'a FormatField)> {
        let name = self.name()?;
        self.field(name)
    }

    fn field_argument(&mut self) -> Parsed<(usize, &'a FormatField)> {
        let field = self.field_name()?;
        if self.is(")") {
            Ok(field)
        } else {
            Err(self.unexpected())
        }
    }

    /// A constant expression that is 1, 2, 4 or 8.
    fn element_size(&mut self) -> Parsed<u8> {
        match self.expression()? {
            Expression::Number(size @ (1 | 2 | 4 | 8), _) => Ok(size as u8),
            _ => Err(UnknownForm::new("an array whose elements are no numbers")),
        }
    }

    /// `sizeof(`, behind its bracket, up to and with the closing one.
    fn size_of(&mut self) -> Parsed<u64> {
        if let Some((of, after)) = self.type_in_brackets(self.tokens) {
            self.tokens = after;
            return Ok(match of {
                Type::Scalar(scalar) => scalar.size.into(),
                Type::Pointer => 8,
            });
        }
        if let Some(close) = self
            .tokens
            .iter()
            .position(|token| *token == Token::Sign(")"))
            && let Some(size) = self.names.size_of(&joined(&self.tokens[..close]))
        {
            self.tokens = &self.tokens[close + 1..];
            return Ok(size);
        }
        let size = match self.expression()? {
            Expression::Field(index, _) => self.fields[index].size.into(),
            Expression::Number(_, scalar) => scalar.size.into(),
            _ => return Err(UnknownForm::new("the size of an expression")),
        };
        self.expect(")")?;
        Ok(size)
    }

    /// `{ 1, "one" }, { 2, "two" }` behind a comma, perhaps ended by `{ -1, NULL }` or `{ }`.
    fn table(&mut self) -> Parsed<Table> {
        let mut table = Vec::new();
        while self.take(",") {
            self.expect("{")?;
            if self.take("}") {
                continue;
            }
            let Expression::Number(value, _) = self.expression()? else {
                return Err(UnknownForm::new("a table whose numbers are not constant"));
            };
            self.expect(",")?;
            match self.expression()? {
                Expression::Text(name) => table.push((value, name)),
                // The end mark, where the kernel's macro puts one.
                Expression::Number(0, _) => {}
                _ => return Err(UnknownForm::new("a table whose names are not constant")),
            }
            self.expect("}")?;
        }
        Ok(table.into())
    }
}
