//! `p` and `r` in a file, by uprobes.
//!
//! ```text
//! p|r[:[GRP/]EVENT] PATH:OFFSET[%return][(REF_CTR)] [FETCHARGS]
//! p|r[:[GRP/]EVENT] PATH:SYMBOL[+OFFSET][%return][(REF_CTR)] [FETCHARGS]
//! ```
//! The kernel knows offsets only; symbols, and parameters by name where the file has debug information,
//! are ours.

use std::rc::Rc;

use super::by_user_name::UserFunction;
use super::knowledge::{Binary, FileTrouble, Files, Inlined};
use super::parse::Parse;
use super::rejection::{Code, Errno};
use super::{Definition, Kind, Place, arguments, expand, name, set, siblings, text};
use crate::nearest;

/// Reads a definition; `None`: it is of another kind. The binary is what `words[1]` names; the caller
/// has opened it, so that it outlives the reading.
pub(super) fn read<'a>(
    parse: &mut Parse<'a>,
    words: &[String],
    opened: &'a Opened,
    set: &set::Set,
) -> Result<Option<Definition>, Errno> {
    expand::check_count(parse, &words[2..])?;
    let command = &words[0];
    let mut is_return = command.starts_with('r');
    let Some(written) = Written::split(&words[1]) else {
        return Ok(None);
    };
    parse.index = 1;
    let binary = match &opened.0 {
        Ok(binary) => &**binary,
        Err(trouble) => {
            let (code, errno) = trouble.refusal();
            return parse.fail(0, code, errno);
        }
    };
    let base = written.path.len() + 1;
    let (place, counter) = counter(parse, written.place, base)?;
    let place = match place.split_once('%') {
        Some((place, "return")) => {
            is_return = true;
            place
        }
        Some((place, _)) => {
            return parse.fail(base + place.len(), Code::BadAddrSuffix, Errno::Einval);
        }
        None => place,
    };
    let mut warnings = Vec::new();
    let offset = match written.symbol_offset(place) {
        None => match text::unsigned(place, 0) {
            Ok(offset) => Found {
                offset,
                symbol: None,
            },
            Err(why) => return parse.fail(base, Code::BadUprobeOffs, why.into()),
        },
        Some((symbol, plus)) => symbol_in(parse, binary, symbol, plus, base)?,
    };
    let obstacle = match binary.unfit() {
        Some(why) => Some(why),
        None => binary.obstacle(offset.offset),
    };
    let obstacle = obstacle.or_else(|| {
        (is_return && binary.moves_its_stacks()).then(|| {
            "it is a Go program, which moves its stacks: a return that is probed would crash it; probe the \
             function's entry"
                .to_owned()
        })
    });
    parse.index = 0;
    // Anything but `:` beside the letter makes the kernel overlook the name.
    let given = match command[1..].strip_prefix(':') {
        Some(given) => name::read(parse, given, 2)?,
        None => name::Given::default(),
    };
    if given.event.is_none() && command.contains(':') && !command[1..].starts_with(':') {
        warnings.push(format!(
            "the name in {command} is overlooked: nothing but ':' may stand beside the letter"
        ));
    }
    let event = given
        .event
        .unwrap_or_else(|| offset.name(written.path, is_return));
    parse.surroundings.in_file = true;
    parse.surroundings.at_return = is_return;
    parse.user = Some(UserFunction::new(binary, offset.offset));
    let arguments = arguments(parse, &words[2..])?;
    let definition = Definition {
        kind: Kind::File,
        group: given.group.unwrap_or_else(|| "uprobes".to_owned()),
        event,
        is_return,
        place: Place::File {
            path: written.path.to_owned(),
            identity: binary.identity(),
            offset: offset.offset,
            counter,
            symbol: offset.symbol,
        },
        arguments,
        warnings,
        obstacle,
        line: 0,
        text: words.join(" "),
        source: 0,
    };
    set.check_new(parse, &definition)?;
    Ok(Some(definition))
}

/// The file that a place names, or why not.
pub(super) struct Opened(Result<Rc<dyn Binary>, FileTrouble>);

impl Opened {
    pub(super) fn of(words: &[String], files: &dyn Files) -> Opened {
        let path = words.get(1).and_then(|place| Written::split(place));
        Opened(match path {
            Some(written) => files.open(written.path),
            None => Err(FileTrouble::NotFound),
        })
    }
}

/// `PATH:PLACE`, not yet looked at.
struct Written<'t> {
    path: &'t str,
    place: &'t str,
}

impl<'t> Written<'t> {
    /// The path may hold colons; the place begins behind the last one.
    fn split(text: &'t str) -> Option<Written<'t>> {
        let (path, place) = split_place(text)?;
        let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        (path.contains('/') && place.starts_with(begins)).then_some(Written { path, place })
    }

    /// A symbol and what is added to it; `None` for a file offset.
    fn symbol_offset(&self, place: &'t str) -> Option<(&'t str, &'t str)> {
        if place.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        // Operators of C++ have a `+` in their names.
        let is_operator = |before: &str| {
            let before = before.strip_suffix('+').unwrap_or(before);
            before.ends_with("operator")
        };
        let mut signs = place.match_indices('+').map(|(at, _)| at);
        Some(match signs.find(|&at| !is_operator(&place[..at])) {
            Some(at) => place.split_at(at),
            None => (place, ""),
        })
    }
}

/// At the last colon that is none of a `::` in a symbol.
fn split_place(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let after_slash = text.rfind('/')?;
    let last = text.rfind(':')?;
    if bytes.get(last + 1).is_some_and(u8::is_ascii_digit) {
        // An offset: the kernel's own form.
        return Some((&text[..last], &text[last + 1..]));
    }
    let at = (after_slash..bytes.len()).rev().find(|&at| {
        bytes[at] == b':' && bytes.get(at + 1) != Some(&b':') && (at == 0 || bytes[at - 1] != b':')
    })?;
    Some((&text[..at], &text[at + 1..]))
}

struct Found {
    offset: u64,
    /// As written, with what is added to it.
    symbol: Option<String>,
}

impl Found {
    /// The name of an event that has none. The kernel calls return probes `p_…` too, so that both at one
    /// place collide; with a symbol, which it does not know, ours do not.
    fn name(&self, path: &str, is_return: bool) -> String {
        let base = path.rsplit('/').next().unwrap_or(path);
        let base = base.split(['.', '-', '_']).next().unwrap_or(base);
        match &self.symbol {
            None => name::generated(&format!("p_{base}_{:#x}", self.offset)),
            Some(symbol) => {
                let letter = if is_return { 'r' } else { 'p' };
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
                let symbol: String = symbol.chars().map(plain).collect();
                let base: String = base.chars().map(plain).collect();
                name::generated(&format!("{letter}_{base}_{symbol}"))
            }
        }
    }
}

fn counter<'t>(
    parse: &mut Parse<'_>,
    place: &'t str,
    base: usize,
) -> Result<(&'t str, u64), Errno> {
    let Some((before, counter)) = place.split_once('(') else {
        return Ok((place, 0));
    };
    let at = base + before.len() + 1;
    let Some((counter, rest)) = counter.split_once(')') else {
        let end = base + place.len();
        return parse.fail(end, Code::RefcntOpenBrace, Errno::Einval);
    };
    if !rest.is_empty() {
        let end = at + counter.len() + 1;
        return parse.fail(end, Code::BadRefcntSuffix, Errno::Einval);
    }
    match text::unsigned(counter, 0) {
        Ok(counter) => Ok((before, counter)),
        Err(why) => parse.fail(at, Code::BadRefcnt, why.into()),
    }
}

fn symbol_in(
    parse: &mut Parse<'_>,
    binary: &dyn Binary,
    symbol: &str,
    plus: &str,
    base: usize,
) -> Result<Found, Errno> {
    if let Some(why) = binary.unfit() {
        parse.remark(why);
        return parse.fail(0, Code::NotElf, Errno::Einval);
    }
    let added = match plus.strip_prefix('+') {
        None => 0,
        Some(number) => match text::unsigned(number, 0) {
            Ok(number) => number,
            Err(why) => {
                return parse.fail(base + symbol.len(), Code::BadUprobeOffs, why.into());
            }
        },
    };
    let functions = binary.functions(symbol);
    match functions[..] {
        [(start, size)] => {
            if added != 0 && added >= size {
                parse.remark(format!("{symbol} has {size} bytes"));
                return parse.fail(base + symbol.len(), Code::BadUprobeOffs, Errno::Einval);
            }
            Ok(Found {
                offset: start + added,
                symbol: Some(format!("{symbol}{plus}")),
            })
        }
        [] => {
            if let Some(implementations) = binary.implementations(symbol) {
                let known = match implementations[..] {
                    [] => String::new(),
                    _ => format!(": {}", implementations.join(", ")),
                };
                parse.remark(format!(
                    "{symbol} chooses an implementation when the program starts (IFUNC), and is not called \
                     again; probe the implementations{known}"
                ));
                return parse.fail(base, Code::NoSuchSymbol, Errno::Enoent);
            }
            let inlined = binary.inlined(symbol);
            let siblings = siblings::remark(symbol, &binary.siblings(symbol));
            if let Some(remark) = inlined_remark(symbol, &inlined) {
                parse.remark(remark);
            }
            if let Some(siblings) = &siblings {
                parse.remark(siblings.clone());
            }
            if !inlined.is_empty() || siblings.is_some() {
                return parse.fail(base, Code::NoSuchSymbol, Errno::Enoent);
            }
            let libraries = binary.libraries_with(symbol);
            let near = binary.similar_functions(symbol);
            if !libraries.is_empty() {
                parse.remark(format!("{symbol} is in {}", libraries.join(" and in ")));
            } else if let Some(suggestion) = nearest::suggestion(&near) {
                parse.remark(suggestion);
            }
            parse.fail(base, Code::NoSuchSymbol, Errno::Enoent)
        }
        _ => {
            let places: Vec<String> = functions
                .iter()
                .map(|(start, _)| format!("{start:#x}"))
                .collect();
            parse.remark(format!(
                "{symbol} is at the file offsets {}",
                places.join(", ")
            ));
            parse.fail(base, Code::AmbiguousSymbol, Errno::Einval)
        }
    }
}

/// Instances that are named.
const NAMED: usize = 8;

/// Where the code of a function is that has none of its own; an offset can be probed.
fn inlined_remark(name: &str, inlined: &[Inlined]) -> Option<String> {
    if inlined.is_empty() {
        return None;
    }
    let one = |one: &Inlined| {
        let mut text = one.caller.clone();
        if let Some((file, line)) = &one.called_at {
            text.push_str(&format!(" at {file}:{line}"));
        }
        if let Some(offset) = one.offset {
            text.push_str(&format!(" (offset {offset:#x})"));
        }
        text
    };
    let mut named: Vec<String> = inlined.iter().map(one).collect();
    named.dedup();
    if let Some(more @ 1..) = named.len().checked_sub(NAMED) {
        named.truncate(NAMED);
        named.push(format!("{more} more"));
    }
    Some(format!(
        "{name} has no code of its own, it is inlined into {}",
        named.join(", ")
    ))
}
