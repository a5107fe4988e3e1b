//! `p` and `r` in the kernel, by kprobes: anywhere in a function, or at an address.
//!
//! ```text
//! p[:[GRP/]EVENT] [MOD:]SYM[+offs]|ADDRESS [FETCHARGS]
//! r[MAXACTIVE][:[GRP/]EVENT] [MOD:]SYM[+0] [FETCHARGS]        p… SYM%return
//! ```

use super::knowledge::{Kernel, Probeable, Symbol};
use super::parse::Parse;
use super::program::Step;
use super::rejection::{Code, Errno};
use super::{Definition, Kind, Place, arguments, expand, name, set, siblings, text};
use crate::nearest;

/// The highest MAXACTIVE.
const MOST_ACTIVE: u32 = 4096;

/// Reads a definition; `None`: it is of another kind.
pub(super) fn read(
    parse: &mut Parse<'_>,
    words: &[String],
    set: &set::Set,
) -> Result<Option<Definition>, Errno> {
    let (command, place) = (&words[0], &words[1]);
    let mut is_return = command.starts_with('r');
    let given = command.find(':').map(|at| at + 1);
    let number = &command[1..given.map_or(command.len(), |at| at - 1)];
    let mut warnings = Vec::new();
    if number.starts_with(|c: char| c.is_ascii_digit()) {
        max_active(parse, number, is_return)?;
        warnings.push(format!(
            "MAXACTIVE {number} has no effect: return probes are set through BPF, which takes no such number"
        ));
    }
    let (symbol, address) = match text::unsigned(place, 0) {
        Ok(address) => (None, address),
        Err(_) => {
            parse.index = 1;
            if place.contains('/') && place.contains(':') {
                return Ok(None);
            }
            (Some(symbol_of(parse, place, &mut is_return)?), 0)
        }
    };
    parse.index = 0;
    let given = match given {
        Some(at) => name::read(parse, &command[at..], at)?,
        None => name::Given::default(),
    };
    let letter = if is_return { 'r' } else { 'p' };
    let event = given.event.unwrap_or_else(|| {
        name::generated(&match &symbol {
            Some((symbol, offset)) => format!("{letter}_{symbol}_{offset}"),
            None => format!("{letter}_{address:#018x}"),
        })
    });
    parse.function = symbol.as_ref().map(|(symbol, _)| symbol.clone());
    let expanded = expand::expand(parse, &words[2..])?;
    let arguments = arguments(parse, &expanded)?;
    let place = match symbol {
        Some((symbol, offset)) => Place::Symbol { symbol, offset },
        None => Place::Address(address),
    };
    let mut definition = Definition {
        kind: Kind::Kernel,
        group: given.group.unwrap_or_else(|| "kprobes".to_owned()),
        event,
        is_return,
        place,
        arguments,
        warnings,
        obstacle: None,
        line: 0,
        text: words.join(" "),
        source: 0,
    };
    set.check_new(parse, &definition)?;
    let is_checked = register(parse, &definition)?;
    if !is_checked {
        definition.warnings.push(format!(
            "whether an instruction begins at {} could not be checked: the kernel's code cannot be read here",
            definition.place
        ));
    }
    Ok(Some(definition))
}

fn max_active(parse: &mut Parse<'_>, number: &str, is_return: bool) -> Result<(), Errno> {
    if !is_return {
        return parse.fail(1, Code::BadMaxactType, Errno::Einval);
    }
    match text::small(number) {
        Ok(number) if number > MOST_ACTIVE => parse.fail(1, Code::MaxactTooBig, Errno::Einval),
        Ok(number) if number > 0 => Ok(()),
        _ => parse.fail(1, Code::BadMaxact, Errno::Einval),
    }
}

/// A symbol and its offset; sets what its arguments may be.
fn symbol_of(
    parse: &mut Parse<'_>,
    place: &str,
    is_return: &mut bool,
) -> Result<(String, u64), Errno> {
    let mut symbol = place;
    if let Some(at) = place.find('%') {
        if &place[at..] != "%return" {
            return parse.fail(at, Code::BadAddrSuffix, Errno::Einval);
        }
        *is_return = true;
        symbol = &place[..at];
    }
    let (symbol, offset) = match symbol.find(['+', '-']) {
        Some(at) => (&symbol[..at], text::signed(&symbol[at..])),
        None => (symbol, Ok(0)),
    };
    let offset = match offset.map(u32::try_from) {
        Ok(Ok(offset)) => u64::from(offset),
        _ => return parse.fail(0, Code::BadProbeAddr, Errno::Einval),
    };
    validate(parse, symbol)?;
    parse.surroundings.at_return = *is_return;
    let found = one(parse.kernel, symbol);
    let at_entry = found.map(|found| offset == 0 || parse.kernel.is_entry(&found, offset));
    if *is_return && at_entry == Some(false) {
        return parse.fail(0, Code::BadRetprobe, Errno::Einval);
    }
    parse.surroundings.at_entry = !*is_return && at_entry == Some(true);
    Ok((symbol.to_owned(), offset))
}

/// The symbols that a text names, and whether its module is there.
fn all(kernel: &dyn Kernel, symbol: &str) -> Option<Vec<Symbol>> {
    match symbol.split_once(':') {
        Some((module, _)) if !kernel.has_module(module) => None,
        Some((module, name)) => Some(kernel.symbols(Some(module), name)),
        None => Some(kernel.symbols(None, symbol)),
    }
}

pub(super) fn one(kernel: &dyn Kernel, symbol: &str) -> Option<Symbol> {
    all(kernel, symbol)?.into_iter().next()
}

fn validate(parse: &mut Parse<'_>, symbol: &str) -> Result<(), Errno> {
    // Of a module that is not loaded nothing is asked: the probe waits for it.
    let Some(symbols) = all(parse.kernel, symbol) else {
        return Ok(());
    };
    match &symbols[..] {
        [_] => Ok(()),
        [] => {
            unknown(parse, symbol);
            parse.fail(0, Code::BadProbeAddr, Errno::Einval)
        }
        several => {
            let places: Vec<String> = several
                .iter()
                .filter(|symbol| symbol.address != 0)
                .map(|symbol| format!("{:#x}", symbol.address))
                .collect();
            if !places.is_empty() {
                parse.remark(format!("{symbol} is at {}", places.join(", ")));
            }
            parse.fail(0, Code::NonUniqSymbol, Errno::Einval)
        }
    }
}

/// Remarks on why a function cannot be probed.
pub(super) fn why_not(parse: &mut Parse<'_>, probeable: Probeable) {
    parse.remark(match probeable {
        Probeable::Yes => return,
        Probeable::Blacklisted => {
            "it is on the blacklist of kprobes: probing it could stop the machine; \
            its callers can be probed"
                .to_owned()
        }
        Probeable::NoTrace => {
            "it is no code, or was built so that nothing can be traced there (notrace, \
            noinstr, __init): its callers can be probed"
                .to_owned()
        }
    });
}

/// Remarks on what resembles a symbol that there is not.
pub(super) fn unknown(parse: &mut Parse<'_>, symbol: &str) {
    let name = symbol.split_once(':').map_or(symbol, |(_, name)| name);
    let siblings = parse.kernel.siblings(name);
    if let Some(remark) = siblings::remark(name, &siblings) {
        parse.remark(remark);
        return;
    }
    let near = parse.kernel.similar_functions(name);
    if let Some(suggestion) = nearest::suggestion(&near) {
        parse.remark(format!("there is no kernel function {name}: {suggestion}"));
    }
    if parse.kernel.prototype(name).is_none() {
        return;
    }
    parse.remark(format!(
        "{name} is in the kernel's type information and has no code of its own: it was inlined wherever it is \
         called"
    ));
}

/// What the kernel looks at when it sets the probe; `false` where that could not be looked at.
fn register(parse: &mut Parse<'_>, definition: &Definition) -> Result<bool, Errno> {
    parse.index = 1;
    let kernel = parse.kernel;
    let (found, offset, waits) = match &definition.place {
        Place::Symbol { symbol, offset } => {
            let waits = symbol
                .split_once(':')
                .is_some_and(|(module, _)| !kernel.has_module(module));
            (one(kernel, symbol), *offset, waits)
        }
        Place::Address(0) => return parse.fail(0, Code::FailRegProbe, Errno::Einval),
        Place::Address(address) => match kernel.symbol_at(*address) {
            Some((symbol, offset)) => (Some(symbol), offset, true),
            None => (None, 0, true),
        },
        _ => return Ok(true),
    };
    if found
        .as_ref()
        .is_some_and(|found| found.probeable == Probeable::NoTrace)
    {
        why_not(parse, Probeable::NoTrace);
        return parse.fail(0, Code::FailRegProbe, Errno::Einval);
    }
    match resolve_symbols(kernel, definition) {
        Err(Errno::Enoent) if waits => return Ok(true),
        Err(Errno::Enoent) => return parse.fail(0, Code::BadProbeAddr, Errno::Enoent),
        Err(errno) => return parse.fail(0, Code::FailRegProbe, errno),
        Ok(()) => {}
    }
    let Some(found) = found else {
        return Ok(true);
    };
    if found.size.is_some_and(|size| offset >= size && offset != 0) {
        return parse.fail(0, Code::BadInsnBndry, Errno::Eilseq);
    }
    if found.probeable == Probeable::Blacklisted {
        why_not(parse, Probeable::Blacklisted);
        return parse.fail(0, Code::FailRegProbe, Errno::Einval);
    }
    if offset == 0 {
        return Ok(true);
    }
    match kernel.is_boundary(&found, offset) {
        Some(false) => parse.fail(0, Code::BadInsnBndry, Errno::Eilseq),
        known => Ok(known.is_some()),
    }
}

/// Whether every `@SYMBOL` of a definition is there.
pub(super) fn resolve_symbols(kernel: &dyn Kernel, definition: &Definition) -> Result<(), Errno> {
    let steps = definition
        .arguments
        .iter()
        .flat_map(|argument| argument.program.steps());
    for step in steps {
        if let Step::Symbol { name } = step {
            address_of(kernel, name)?;
        }
    }
    Ok(())
}

/// The address that `SYM±offs` stands for.
///
/// # Errors
/// [`Errno::Enoent`] where there is no such symbol; else what is wrong with the offset.
pub fn address_of(kernel: &dyn Kernel, text: &str) -> Result<u64, Errno> {
    let (symbol, offset) = match text.find(['+', '-']) {
        Some(at) => (&text[..at], text::signed(&text[at..]).map_err(Errno::from)?),
        None => (text, 0),
    };
    let found = one(kernel, symbol).ok_or(Errno::Enoent)?;
    Ok(found.address.wrapping_add(offset as u64))
}
