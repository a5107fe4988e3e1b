//! `f` and `t`: entry and return of kernel functions through ftrace, and tracepoints that may have no
//! event.
//!
//! ```text
//! f[:[GRP/]EVENT] [MOD:]SYM[%return] [FETCHARGS]
//! t[:[GRP/]EVENT] TRACEPOINT [FETCHARGS]
//! ```
//! `$retval` among the arguments makes it a return probe.

use super::knowledge::{Probeable, Symbol};
use super::parse::Parse;
use super::rejection::{Code, Errno};
use super::{Definition, Kind, Place, arguments, expand, kernel_probe, name, set, text};

/// Arguments of the entry that a return probe can keep.
const KEPT: usize = 15;

/// Reads a definition.
pub(super) fn read(
    parse: &mut Parse<'_>,
    words: &[String],
    set: &set::Set,
) -> Result<Definition, Errno> {
    let command = &words[0];
    let is_tracepoint = command.starts_with('t');
    match command.as_bytes().get(1) {
        None | Some(b':') => {}
        Some(_) => return parse.fail(1, Code::BadMaxact, Errno::Einval),
    }
    parse.index = 1;
    let (symbol, is_return) = symbol_of(parse, words, is_tracepoint)?;
    parse.index = 0;
    let given = match command.get(2..) {
        Some(text) if command.len() > 1 => name::read(parse, text, 2)?,
        _ => name::Given::default(),
    };
    let event = given.event.unwrap_or_else(|| {
        let digit_first = symbol.starts_with(|c: char| c.is_ascii_digit());
        name::generated(&match (is_tracepoint, is_return) {
            (true, _) if digit_first => format!("_{symbol}"),
            (true, _) => symbol.clone(),
            (false, true) => format!("{symbol}__exit"),
            (false, false) => format!("{symbol}__entry"),
        })
    });
    parse.surroundings.by_ftrace = true;
    parse.surroundings.at_return = is_return;
    parse.surroundings.at_entry = !is_return;
    parse.surroundings.tracepoint = is_tracepoint;
    parse.function = Some(match is_tracepoint {
        true => parse
            .kernel
            .tracepoint_function(&symbol)
            .unwrap_or_else(|| symbol.clone()),
        false => symbol.clone(),
    });
    let expanded = expand::expand(parse, &words[2..])?;
    let arguments = arguments(parse, &expanded)?;
    if parse.kept.len() > KEPT {
        parse.index = 2;
        return parse.fail(0, Code::TooManyEargs, Errno::E2big);
    }
    let group = if is_tracepoint {
        "tracepoints"
    } else {
        "fprobes"
    };
    let definition = Definition {
        kind: if is_tracepoint {
            Kind::Tracepoint
        } else {
            Kind::Function
        },
        group: given.group.unwrap_or_else(|| group.to_owned()),
        event,
        is_return,
        place: Place::Symbol { symbol, offset: 0 },
        arguments,
        warnings: Vec::new(),
        obstacle: None,
        line: 0,
        text: words.join(" "),
        source: 0,
    };
    // Whatever goes wrong from here on, the kernel answers EINVAL.
    set.check_new(parse, &definition)
        .map_err(|_| Errno::Einval)?;
    if !is_tracepoint {
        verify(parse, &definition)?;
    }
    Ok(definition)
}

fn symbol_of(
    parse: &mut Parse<'_>,
    words: &[String],
    is_tracepoint: bool,
) -> Result<(String, bool), Errno> {
    let place = &words[1];
    if let Some((symbol, suffix)) = place.split_once('%') {
        if is_tracepoint || suffix != "return" {
            return parse.fail(symbol.len(), Code::BadAddrSuffix, Errno::Einval);
        }
        return Ok((symbol.to_owned(), true));
    }
    let fits = |byte: u8| text::is_letter(byte) || byte.is_ascii_digit() || byte == b'_';
    if is_tracepoint && let Some(at) = place.bytes().position(|byte| !fits(byte)) {
        return parse.fail(at, Code::BadTpName, Errno::Einval);
    }
    for (index, word) in words.iter().enumerate().skip(2) {
        let Some(at) = word.find("$retval") else {
            continue;
        };
        let behind = word.as_bytes().get(at + "$retval".len());
        if behind.is_some_and(|&byte| fits(byte)) {
            continue;
        }
        if is_tracepoint {
            parse.index = index;
            return parse.fail(at, Code::RetvalOnProbe, Errno::Einval);
        }
        return Ok((place.clone(), true));
    }
    Ok((place.clone(), false))
}

fn verify(parse: &mut Parse<'_>, definition: &Definition) -> Result<(), Errno> {
    let Place::Symbol { symbol, .. } = &definition.place else {
        return Ok(());
    };
    parse.index = 1;
    // ftrace knows functions by their bare names.
    let found = parse.kernel.symbols(None, symbol);
    let is_traced = parse.kernel.is_traced(symbol).unwrap_or_else(|| {
        let may_be = |found: &Symbol| found.probeable != Probeable::NoTrace;
        found.iter().any(may_be)
    });
    if is_traced {
        return Ok(());
    }
    match found.is_empty() {
        true => kernel_probe::unknown(parse, symbol),
        false => kernel_probe::why_not(parse, Probeable::NoTrace),
    }
    parse.fail(0, Code::BadProbeAddr, Errno::Einval)
}
