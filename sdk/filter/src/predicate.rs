//! One comparison: a field, an operator and what to compare with.

use core::ops::Range;

use crate::error::{ErrorKind, Fault};
use crate::field::{Fields, Type};
use crate::operand::{Constants, Operand};
use crate::program::{Compare, Source, Test};
use crate::scan::Scan;

/// What may stand between a field and a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Compare(Compare),
    Bits,
    Glob,
}

impl Operator {
    fn take(scan: &mut Scan<'_>) -> Option<Operator> {
        const OPERATORS: [(&str, Operator); 8] = [
            ("~", Operator::Glob),
            ("!=", Operator::Compare(Compare::Differs)),
            ("==", Operator::Compare(Compare::Equal)),
            ("<=", Operator::Compare(Compare::AtMost)),
            ("<", Operator::Compare(Compare::Less)),
            (">=", Operator::Compare(Compare::AtLeast)),
            (">", Operator::Compare(Compare::Greater)),
            ("&", Operator::Bits),
        ];
        let (_, operator) = OPERATORS.into_iter().find(|(sign, _)| scan.take(sign))?;
        Some(operator)
    }
}

/// A fault of which the kernel says that it is at byte `at`: it counts these from 1.
pub(crate) fn fault(kind: ErrorKind, place: Range<usize>, at: usize) -> Fault {
    Fault::seen_at(kind, place, at + 1)
}

/// Reads the comparison that comes next.
pub(crate) fn read(
    scan: &mut Scan<'_>,
    fields: &dyn Fields,
    constants: &mut Constants,
) -> Result<(Source, Test), Fault> {
    let start = scan.at();
    let name = take_name(scan, fields);
    if name.is_empty() {
        let place = scan.next_place();
        return Err(Fault::seen_at(ErrorKind::FieldExpected, place, 0));
    }
    let named = start..scan.at();
    let Some((source, kind)) = resolve(name, fields) else {
        return Err(fault(ErrorKind::FieldNotFound, named, scan.at()));
    };
    let function = scan.take(".function");
    if !function {
        // Where text lies is the reader's business here: with or without it, text is compared.
        scan.take(".ustring");
    }
    scan.skip_blanks();
    let sign = scan.at();
    let Some(operator) = Operator::take(scan) else {
        let place = scan.next_place();
        return Err(fault(ErrorKind::InvalidOperator, place, sign));
    };
    let sign = sign..scan.at();
    scan.skip_blanks();
    let operand = Operand {
        fields,
        constants,
        kind,
        operator,
        sign,
    };
    let test = match scan.peek() {
        _ if function => operand.function(scan)?,
        _ if scan.rest().starts_with("CPUS") => operand.cpus(scan)?,
        Some(quote @ ('"' | '\'')) => operand.text(scan, quote)?,
        Some('0'..='9' | '-') => operand.number(scan)?,
        _ if matches!(kind, Type::Bool | Type::Any) => operand.word(scan)?,
        _ => {
            let place = scan.next_place();
            return Err(fault(ErrorKind::InvalidValue, place, scan.at()));
        }
    };
    Ok((source, test))
}

/// Goes over a name. A field's name may have points in it, and then all of it is meant.
fn take_name<'t>(scan: &mut Scan<'t>, fields: &dyn Fields) -> &'t str {
    let rest = scan.rest();
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let plain = scan.take_while(in_name);
    let mut dotted = rest
        .find(|c: char| !in_name(c) && c != '.')
        .map_or(rest, |end| &rest[..end]);
    // These two stand behind a name, and are not of it.
    for suffix in [".function", ".ustring"] {
        dotted = dotted.strip_suffix(suffix).unwrap_or(dotted);
    }
    let ends = dotted.match_indices('.').map(|(at, _)| at).skip(1);
    let longest = ends
        .chain([dotted.len()])
        .filter(|&end| end > plain.len() && fields.field(&dotted[..end]).is_some())
        .last();
    match longest {
        Some(end) => {
            scan.take(&dotted[plain.len()..end]);
            &dotted[..end]
        }
        None => plain,
    }
}

/// What the name stands for. An event's own fields come before those that every event has.
fn resolve(name: &str, fields: &dyn Fields) -> Option<(Source, Type)> {
    if let Some(field) = fields.field(name) {
        return Some((Source::Field(field.index), field.kind));
    }
    match name {
        "common_pid" => Some((Source::Thread, Type::Signed { bytes: 4 })),
        "cpu" | "CPU" | "common_cpu" => Some((Source::Cpu, Type::Signed { bytes: 4 })),
        "comm" | "COMM" => Some((Source::Comm, Type::Text)),
        _ => None,
    }
}
