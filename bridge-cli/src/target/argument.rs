//! The argument strings of USDT notes: `-4@8(%rdi,%rsi,4) 8@$-1 4@counter+4(%rip)`.
//!
//! Each argument is `WIDTH@OPERAND`, and the operand is whatever the compiler wrote into the assembly, so
//! anything that AT&T syntax allows may come. The width (1, 2, 4 or 8; negative: signed; with an `f`:
//! floating point) decides how the value is read, also that of a constant: `1@$-56` is 200.
//!
//! Reading goes in two steps. [`parse`](super::argument_text::parse) needs nothing but the text; [`Parsed::resolve`] then works in what
//! only the file knows, its symbols. Whatever cannot be read becomes [`Place::Unsupported`] with the
//! reason, and costs that one argument.

use tracebraid_bpf::spec::{self, Place, Register};

use super::operand::{Operand, Sum};

/// An argument of one location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// As the note says it.
    pub text: String,
    /// How its value is to be understood.
    pub kind: ArgumentType,
    /// Where it is.
    pub place: Place,
    /// Bytes to fetch: the declared width, or less where the operand is a narrower register.
    fetch_width: u8,
}

/// What an argument is declared as; the number is its width in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentType {
    /// `4@`
    Unsigned(u8),
    /// `-4@`
    Signed(u8),
    /// `8f@`: the bits of an `f32` or `f64`.
    Float(u8),
}

impl ArgumentType {
    /// The name that listings print: `u32`, `i64`, `f64`.
    pub const fn name(self) -> &'static str {
        match self {
            ArgumentType::Unsigned(1) => "u8",
            ArgumentType::Unsigned(2) => "u16",
            ArgumentType::Unsigned(4) => "u32",
            ArgumentType::Unsigned(_) => "u64",
            ArgumentType::Signed(1) => "i8",
            ArgumentType::Signed(2) => "i16",
            ArgumentType::Signed(4) => "i32",
            ArgumentType::Signed(_) => "i64",
            ArgumentType::Float(4) => "f32",
            ArgumentType::Float(_) => "f64",
        }
    }

    /// Its width in bytes: 1, 2, 4 or 8.
    pub const fn width(self) -> u8 {
        match self {
            ArgumentType::Unsigned(width)
            | ArgumentType::Signed(width)
            | ArgumentType::Float(width) => width,
        }
    }

    /// Whether the value is sign-extended.
    pub const fn is_signed(self) -> bool {
        matches!(self, ArgumentType::Signed(_))
    }

    /// The low bytes of `value`, extended to 64 bits as this type says.
    fn cut(self, value: i128) -> i64 {
        match (self.width(), self.is_signed()) {
            (1, true) => value as i8 as i64,
            (2, true) => value as i16 as i64,
            (4, true) => value as i32 as i64,
            (1, false) => value as u8 as i64,
            (2, false) => value as u16 as i64,
            (4, false) => value as u32 as i64,
            _ => value as i64,
        }
    }
}

impl Argument {
    /// What a session needs to know of it.
    pub fn to_spec(&self) -> spec::Argument {
        spec::Argument {
            width: self.fetch_width,
            signed: self.kind.is_signed(),
            float: matches!(self.kind, ArgumentType::Float(_)),
            place: self.place.clone(),
        }
    }
}

/// An argument as far as its text tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(super) text: String,
    pub(super) kind: ArgumentType,
    pub(super) operand: Operand,
}

/// What only the file knows.
pub(crate) struct Context<'a> {
    /// The virtual address of a symbol, or why there is none.
    pub(crate) symbol: &'a dyn Fn(&str) -> Result<u64, String>,
    /// The virtual address of the probe.
    pub(crate) probe: u64,
    /// Whether the file runs at the addresses that it was linked for.
    pub(crate) fixed_address: bool,
}

impl Parsed {
    /// The symbol that the place depends on, if any.
    pub(crate) fn symbol(&self) -> Option<&str> {
        match &self.operand {
            Operand::Memory {
                displacement: sum, ..
            }
            | Operand::AddressOf(sum) => sum.symbol.as_deref(),
            _ => None,
        }
    }

    /// The argument, with all that the file knows worked in.
    pub(crate) fn resolve(self, context: &Context<'_>) -> Argument {
        let mut fetch_width = self.kind.width();
        let place = match self.operand {
            Operand::Constant(value) => Ok(Place::Constant(self.kind.cut(value))),
            Operand::Register {
                register: Register::Rip,
                ..
            } => Ok(Place::ProbeRelative {
                displacement: 0,
                address_only: true,
            }),
            Operand::Register {
                register,
                high,
                width,
            } => {
                fetch_width = fetch_width.min(width);
                Ok(Place::Register { register, high })
            }
            Operand::AddressOf(sum) => {
                address_of(&sum, context).map(|address| Place::ProbeRelative {
                    displacement: address.wrapping_sub(context.probe) as i64,
                    address_only: true,
                })
            }
            Operand::Memory {
                base: Some(Register::Rip),
                displacement,
                ..
            } => rip_relative(&displacement, context),
            Operand::Memory {
                base,
                index,
                displacement,
            } => memory(base, index, &displacement, context),
            Operand::Unsupported(reason) => Err(reason),
        };
        let place = place.unwrap_or_else(Place::Unsupported);
        Argument {
            text: self.text,
            kind: self.kind,
            place,
            fetch_width,
        }
    }
}

/// The address that a sum with or without a symbol comes to.
fn address_of(sum: &Sum, context: &Context<'_>) -> Result<u64, String> {
    let symbol = match &sum.symbol {
        Some(name) => (context.symbol)(name)?,
        None => 0,
    };
    Ok(symbol.wrapping_add(sum.addend as u64))
}

/// `-8(%rip)` counts from the probe; `symbol(%rip)` is the symbol, wherever the file is mapped.
fn rip_relative(displacement: &Sum, context: &Context<'_>) -> Result<Place, String> {
    let displacement = match displacement.symbol {
        Some(_) => address_of(displacement, context)?.wrapping_sub(context.probe) as i64,
        None => displacement.addend as i64,
    };
    Ok(Place::ProbeRelative {
        displacement,
        address_only: false,
    })
}

fn memory(
    base: Option<Register>,
    index: Option<(Register, u8)>,
    displacement: &Sum,
    context: &Context<'_>,
) -> Result<Place, String> {
    if displacement.symbol.is_some() {
        let address = address_of(displacement, context)?;
        if base.is_none() && index.is_none() {
            let displacement = address.wrapping_sub(context.probe) as i64;
            return Ok(Place::ProbeRelative {
                displacement,
                address_only: false,
            });
        }
        if !context.fixed_address {
            return Err("an address in a file that is mapped anywhere, with a register".to_owned());
        }
        return Ok(Place::Memory {
            base,
            index,
            displacement: address as i64,
        });
    }
    Ok(Place::Memory {
        base,
        index,
        displacement: displacement.addend as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::argument_text::parse;
    use crate::target::image::Machine;
    use Register::{R10, Rax, Rbp, Rdi, Rdx, Rsi, Rsp};

    fn resolve_in(text: &str, fixed_address: bool) -> Vec<Argument> {
        let symbol = |name: &str| match name {
            "table" => Ok(0x5000),
            other => Err(format!("no symbol {other}")),
        };
        let context = Context {
            symbol: &symbol,
            probe: 0x1000,
            fixed_address,
        };
        parse(text, Machine::X86_64)
            .into_iter()
            .map(|one| one.resolve(&context))
            .collect()
    }

    fn place(text: &str) -> Place {
        let [argument] = &resolve_in(text, false)[..] else {
            panic!("{text} is not one argument")
        };
        argument.place.clone()
    }

    fn is_unsupported(text: &str) -> bool {
        matches!(place(text), Place::Unsupported(_))
    }

    fn at(base: Option<Register>, index: Option<(Register, u8)>, displacement: i64) -> Place {
        Place::Memory {
            base,
            index,
            displacement,
        }
    }

    #[test]
    fn a_register_in_parentheses_without_a_number_is_memory() {
        assert_eq!(place("8@(%rsp)"), at(Some(Rsp), None, 0));
        assert_eq!(place("-4@24(%rsp)"), at(Some(Rsp), None, 24));
    }

    #[test]
    fn base_index_and_scale_may_each_be_missing() {
        assert_eq!(
            place("1@-96(%rbp,%rax,8)"),
            at(Some(Rbp), Some((Rax, 8)), -96)
        );
        assert_eq!(place("1@(%rdi,%rsi)"), at(Some(Rdi), Some((Rsi, 1)), 0));
        assert_eq!(
            place("2@-2(%rdi,%rsi,2)"),
            at(Some(Rdi), Some((Rsi, 2)), -2)
        );
        assert_eq!(place("1@5(,%rdx,8)"), at(None, Some((Rdx, 8)), 5));
        assert_eq!(place("4@0x601040"), at(None, None, 0x60_1040));
    }

    #[test]
    fn the_declared_width_and_sign_decide_what_a_constant_is() {
        let values: Vec<i64> = resolve_in(
            "-1@$-9 1@$255 -2@$-32768 2@$65535 4@$4294967295 4@$-1 8@$18446744073709551615 8@$-1 \
             -8@$-9223372036854775808 4@$0x10 4@$010 1@$300 1@$-56",
            false,
        )
        .iter()
        .map(|argument| match argument.place {
            Place::Constant(value) => value,
            ref other => panic!("{other:?}"),
        })
        .collect();
        let all_ones = u64::MAX as i64;
        let expected = [
            -9,
            255,
            -32768,
            65535,
            0xffff_ffff,
            0xffff_ffff,
            all_ones,
            all_ones,
            i64::MIN,
        ];
        assert_eq!(values[..9], expected);
        assert_eq!(values[9..], [16, 8, 44, 200]);
    }

    #[test]
    fn symbols_count_from_the_probe_and_an_unknown_one_costs_its_argument() {
        let relative = |displacement, address_only| Place::ProbeRelative {
            displacement,
            address_only,
        };
        assert_eq!(place("-4@table+4(%rip)"), relative(0x4004, false));
        assert_eq!(place("-4@table+8"), relative(0x4008, false));
        assert_eq!(place("8@$table"), relative(0x4000, true));
        assert_eq!(place("4@-8(%rip)"), relative(-8, false));
        let arguments = resolve_in("8@$.LC0 4@missing(%rip) -4@$7", false);
        assert!(matches!(arguments[0].place, Place::Unsupported(_)));
        assert_eq!(
            arguments[1].place,
            Place::Unsupported("no symbol missing".to_owned())
        );
        assert_eq!(arguments[2].place, Place::Constant(7));
    }

    #[test]
    fn a_symbol_with_a_register_needs_a_file_that_is_not_moved() {
        assert!(is_unsupported("4@table(,%rax,4)"));
        let fixed = resolve_in("4@table-8(,%rax,4)", true);
        assert_eq!(fixed[0].place, at(None, Some((Rax, 4)), 0x4ff8));
    }

    #[test]
    fn vector_registers_cost_their_argument_and_floats_elsewhere_are_read() {
        let arguments = resolve_in("8f@%xmm0 4@%xmm1 8f@(%rsp) 4f@%eax -4@$77", false);
        assert!(matches!(arguments[0].place, Place::Unsupported(_)));
        assert!(matches!(arguments[1].place, Place::Unsupported(_)));
        assert_eq!(
            (arguments[2].kind.name(), &arguments[2].place),
            ("f64", &at(Some(Rsp), None, 0))
        );
        assert_eq!(arguments[3].kind.name(), "f32");
        assert_eq!(arguments[4].place, Place::Constant(77));
    }

    #[test]
    fn blanks_make_no_arguments_and_seventeen_are_seventeen() {
        assert_eq!(resolve_in("", false).len(), 0);
        assert_eq!(resolve_in(" 4@$1  4@$2 ", false).len(), 2);
        assert_eq!(resolve_in(&"4@%edi ".repeat(17), false).len(), 17);
    }

    #[test]
    fn every_register_name_reads_as_its_part_of_the_register() {
        let one = |text| resolve_in(text, false).remove(0).to_spec();
        let register = |register, high| Place::Register { register, high };
        for (text, expected, high, width) in [
            ("-4@%edi", Rdi, false, 4),
            ("1@%ah", Rax, true, 1),
            ("1@%bpl", Rbp, false, 1),
            ("8@%r10", R10, false, 8),
            ("4@%r10d", R10, false, 4),
            ("2@%r10w", R10, false, 2),
            ("1@%r10b", R10, false, 1),
            ("8@%esi", Rsi, false, 4),
        ] {
            let found = one(text);
            assert_eq!(
                (found.place, found.width),
                (register(expected, high), width),
                "{text}"
            );
        }
        for text in [
            "8@%r16", "8@%r", "8@%rzx", "8@%st(0)", "8@%fs:16", "8@%r10q",
        ] {
            assert!(is_unsupported(text), "{text}");
        }
    }

    #[test]
    fn nonsense_is_unsupported_and_never_a_panic() {
        for text in [
            "8@",
            "@",
            "3@%eax",
            "8@(",
            "8@()",
            "8@(,)",
            "8@(%rax",
            "8@(%rax,%rsp,2)",
            "8@(%rax,%rbx,3)",
            "8@(%rax,,2)",
            "8@$",
            "8@$-",
            "8@$1+",
            "8@$99999999999999999999",
            "8@(%eax)",
            "8@*%rax",
            "8@sym@PLT",
            "8@-sym(%rip)",
            "8@a+b",
            "%rax",
            "2f@%eax",
            "8@é(%rip",
        ] {
            assert!(is_unsupported(text), "{text} gave {:?}", place(text));
        }
        let long = format!("8@${}", "1+".repeat(100_000) + "1");
        assert_eq!(place(&long), Place::Constant(100_001));
    }

    #[test]
    fn operands_of_another_machine_are_kept_apart_and_listed_as_they_are() {
        let text = "8@[x8] 4@[sp, 60] 4@[x21, #:lo12:.LANCHOR2] 4@[x2, w3, sxtw 2] -4@5 8f@d0";
        let arguments = parse(text, Machine::Aarch64);
        let texts: Vec<&str> = arguments
            .iter()
            .map(|argument| argument.text.as_str())
            .collect();
        assert_eq!(
            texts,
            [
                "8@[x8]",
                "4@[sp, 60]",
                "4@[x21, #:lo12:.LANCHOR2]",
                "4@[x2, w3, sxtw 2]",
                "-4@5",
                "8f@d0"
            ]
        );
        let unsupported = |parsed: &Parsed| matches!(parsed.operand, Operand::Unsupported(_));
        assert!(arguments.iter().all(unsupported));
    }
}
