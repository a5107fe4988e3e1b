//! The text of a note's arguments, taken apart: which there are, how wide, and what stands for each.

use super::argument::{ArgumentType, Parsed};
use super::image::Machine;
use super::operand::{Operand, x86_operand};

/// Reads the argument string of a note. Blanks in excess make no arguments.
pub(crate) fn parse(arguments: &str, machine: Machine) -> Vec<Parsed> {
    split(arguments)
        .map(|text| parse_one(text, machine))
        .collect()
}

/// The arguments of a string: blanks part them, but not within brackets (`[x2, w3, sxtw 2]`).
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t']);
        let mut depth = 0usize;
        let end = rest
            .char_indices()
            .find(|&(_, c)| {
                match c {
                    '(' | '[' => depth += 1,
                    ')' | ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0 && matches!(c, ' ' | '\t')
            })
            .map_or(rest.len(), |(at, _)| at);
        let (one, after) = rest.split_at(end);
        rest = after;
        (!one.is_empty()).then_some(one)
    })
}

fn parse_one(text: &str, machine: Machine) -> Parsed {
    let (kind, operand) = match text.split_once('@') {
        Some((width, operand)) => match width_of(width) {
            Some(kind) => (kind, operand_of(operand, machine)),
            None => {
                let reason = format!("the width \"{width}\" is none of 1, 2, 4, 8");
                (ArgumentType::Unsigned(8), Operand::Unsupported(reason))
            }
        },
        None => (
            ArgumentType::Unsigned(8),
            Operand::Unsupported("it has no width".to_owned()),
        ),
    };
    Parsed {
        text: text.to_owned(),
        kind,
        operand,
    }
}

fn width_of(text: &str) -> Option<ArgumentType> {
    let (text, float) = match text.strip_suffix('f') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let (text, signed) = match text.strip_prefix('-') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let width = match text {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => return None,
    };
    match (float, signed) {
        (true, _) => (width >= 4).then_some(ArgumentType::Float(width)),
        (false, true) => Some(ArgumentType::Signed(width)),
        (false, false) => Some(ArgumentType::Unsigned(width)),
    }
}

fn operand_of(text: &str, machine: Machine) -> Operand {
    if machine != Machine::X86_64 {
        return Operand::Unsupported(format!("an operand of {machine}"));
    }
    match x86_operand(text) {
        Ok(operand) => operand,
        Err(reason) => Operand::Unsupported(reason),
    }
}
