//! An operand as the assembler has it, in AT&T syntax: `$-1`, `%eax`, `8(%rdi,%rsi,4)`, `symbol+4(%rip)`.
//!
//! It is read without knowing any symbol; whatever is not understood is a reason in words.

use tracebraid_bpf::spec::Register;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Constant(i128),
    Register {
        register: Register,
        high: bool,
        width: u8,
    },
    Memory {
        base: Option<Register>,
        index: Option<(Register, u8)>,
        displacement: Sum,
    },
    /// `$symbol+4`: the address itself.
    AddressOf(Sum),
    Unsupported(String),
}

/// `symbol + 4 - 8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) symbol: Option<String>,
    pub(super) addend: i128,
}

/// Reads an operand of x86-64.
pub(super) fn x86_operand(text: &str) -> Result<Operand, String> {
    if let Some(immediate) = text.strip_prefix('$') {
        let sum = Sum::parse(immediate)?;
        return Ok(match sum.symbol {
            None => Operand::Constant(sum.addend),
            Some(_) => Operand::AddressOf(sum),
        });
    }
    if let Some(name) = text.strip_prefix('%') {
        if name.contains(':') {
            return Err(format!("{text} is relative to a segment register"));
        }
        let (register, width, high) = register(name)?;
        return Ok(Operand::Register {
            register,
            high,
            width,
        });
    }
    let (displacement, address) = match text.split_once('(') {
        Some((displacement, address)) => {
            let address = address
                .strip_suffix(')')
                .ok_or("its parenthesis does not end")?;
            (displacement, Some(address))
        }
        None => (text, None),
    };
    let displacement = match displacement {
        "" if address.is_some() => Sum::default(),
        other => Sum::parse(other)?,
    };
    let (mut base, mut index) = (None, None);
    if let Some(address) = address {
        let parts: Vec<&str> = address.split(',').map(str::trim).collect();
        let (first, second, scale) = match parts[..] {
            [first] => (first, "", ""),
            [first, second] => (first, second, ""),
            [first, second, scale] => (first, second, scale),
            _ => return Err(format!("({address}) is no address")),
        };
        if !first.is_empty() {
            base = Some(address_register(first)?);
        }
        if !second.is_empty() {
            let scale = match scale {
                "" | "1" => 1,
                "2" => 2,
                "4" => 4,
                "8" => 8,
                _ => return Err(format!("the scale {scale} is none of 1, 2, 4, 8")),
            };
            let register = address_register(second)?;
            if matches!(register, Register::Rsp | Register::Rip) {
                return Err(format!("{second} cannot be an index"));
            }
            index = Some((register, scale));
        } else if !scale.is_empty() {
            return Err("it has a scale without an index".to_owned());
        }
        if base.is_none() && index.is_none() {
            return Err("its address names no register".to_owned());
        }
        if base == Some(Register::Rip) && index.is_some() {
            return Err("%rip allows no index".to_owned());
        }
    }
    Ok(Operand::Memory {
        base,
        index,
        displacement,
    })
}

fn address_register(text: &str) -> Result<Register, String> {
    let name = text
        .strip_prefix('%')
        .ok_or_else(|| format!("{text} is no register"))?;
    match register(name)? {
        (register, 8, false) => Ok(register),
        _ => Err(format!("%{name} is no 64-bit address")),
    }
}

/// A register by its name without the `%`: which, how many bytes of it, and whether they are bits 8 to 15.
fn register(name: &str) -> Result<(Register, u8, bool), String> {
    use Register::{R8, R9, R10, R11, R12, R13, R14, R15};
    use Register::{Rax, Rbp, Rbx, Rcx, Rdi, Rdx, Rip, Rsi, Rsp};
    /// The names of one register, 8, 4, 2 and 1 bytes wide.
    const NAMES: [(Register, [&str; 4]); 8] = [
        (Rax, ["rax", "eax", "ax", "al"]),
        (Rbx, ["rbx", "ebx", "bx", "bl"]),
        (Rcx, ["rcx", "ecx", "cx", "cl"]),
        (Rdx, ["rdx", "edx", "dx", "dl"]),
        (Rsi, ["rsi", "esi", "si", "sil"]),
        (Rdi, ["rdi", "edi", "di", "dil"]),
        (Rbp, ["rbp", "ebp", "bp", "bpl"]),
        (Rsp, ["rsp", "esp", "sp", "spl"]),
    ];
    const NUMBERED: [Register; 8] = [R8, R9, R10, R11, R12, R13, R14, R15];
    match name {
        "rip" => return Ok((Rip, 8, false)),
        "ah" => return Ok((Rax, 1, true)),
        "bh" => return Ok((Rbx, 1, true)),
        "ch" => return Ok((Rcx, 1, true)),
        "dh" => return Ok((Rdx, 1, true)),
        _ => {}
    }
    for (register, names) in NAMES {
        if let Some(at) = names.iter().position(|&known| known == name) {
            return Ok((register, 8 >> at, false));
        }
    }
    if let Some(rest) = name.strip_prefix('r') {
        let digits = rest.trim_end_matches(|c: char| !c.is_ascii_digit());
        let width = match &rest[digits.len()..] {
            "" => Some(8),
            "d" => Some(4),
            "w" => Some(2),
            "b" | "l" => Some(1),
            _ => None,
        };
        let register = digits
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(8));
        if let (Some(width), Some(register)) = (width, register.and_then(|at| NUMBERED.get(at))) {
            return Ok((*register, width, false));
        }
    }
    if ["xmm", "ymm", "zmm"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        return Err(format!("a probe cannot see the vector register {name}"));
    }
    Err(format!("the register %{name} is not supported"))
}

impl Sum {
    /// Reads `sym`, `4`, `-0x10`, `sym+4`, `4+sym-2`.
    fn parse(text: &str) -> Result<Sum, String> {
        let mut sum = Sum::default();
        let mut rest = text;
        let mut first = true;
        while first || !rest.is_empty() {
            let negative = rest.starts_with('-');
            if negative || rest.starts_with('+') {
                rest = &rest[1..];
            } else if !first {
                return Err(format!("\"{text}\" is not understood"));
            }
            first = false;
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            let (term, after) = rest.split_at(end);
            rest = after;
            if term.starts_with(|c: char| c.is_ascii_digit()) {
                let number = number(term).ok_or_else(|| format!("{term} is no number"))?;
                let signed = if negative { -number } else { number };
                // Each term has at most 64 bits and the text few terms, yet the text is not ours.
                sum.addend = sum
                    .addend
                    .checked_add(signed)
                    .ok_or("its sum is too large")?;
            } else if is_symbol(term) && !negative && sum.symbol.is_none() {
                sum.symbol = Some(term.to_owned());
            } else {
                return Err(format!("\"{text}\" is not understood"));
            }
        }
        Ok(sum)
    }
}

/// A number as the assembler reads it: `0x10`, `010` (octal), `0b1`, `10`; at most 64 bits.
fn number(text: &str) -> Option<i128> {
    let parse = |digits: &str, radix| u64::from_str_radix(digits, radix).ok();
    let value = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        parse(hex, 16)
    } else if let Some(binary) = text.strip_prefix("0b").or_else(|| text.strip_prefix("0B")) {
        parse(binary, 2)
    } else if text.len() > 1 && text.starts_with('0') {
        parse(&text[1..], 8)
    } else {
        parse(text, 10)
    };
    value.map(i128::from)
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '$'))
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
