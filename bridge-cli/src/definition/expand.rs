//! What is replaced before arguments are read: `$arg*` and `$argN` by the names of parameters, `%pd` and
//! `%pD` by the way to a file's name.

use super::knowledge::Type;
use super::parse::Parse;
use super::rejection::{Code, Errno};
use super::text;

/// Bytes that the names of parameters may take, each with an end mark.
const NAMES_ROOM: usize = 128;
/// The same of everything that `%pd` and `%pD` stand for.
const FILES_ROOM: usize = 256;
/// Arguments of one definition.
const MOST: usize = 128;

/// The arguments with everything replaced. They are the words from the third one on.
pub(super) fn expand(parse: &mut Parse<'_>, arguments: &[String]) -> Result<Vec<String>, Errno> {
    let mut expanded = parameters(parse, arguments)?;
    if expanded.len() > MOST {
        return too_many(parse);
    }
    // What parameters are replaced in is a copy, what file names are replaced in is not.
    let is_copy = expanded != arguments;
    if file_names(parse, &mut expanded)? && !is_copy {
        parse.replace_arguments(&expanded);
    }
    Ok(expanded)
}

/// For probes where nothing is replaced.
pub(super) fn check_count(parse: &mut Parse<'_>, arguments: &[String]) -> Result<(), Errno> {
    match arguments.len() > MOST {
        true => too_many(parse),
        false => Ok(()),
    }
}

fn too_many<T>(parse: &mut Parse<'_>) -> Result<T, Errno> {
    parse.index = 2;
    parse.fail(0, Code::TooManyArgs, Errno::E2big)
}

/// Where `$arg*` stands, and whether there is anything to replace.
fn variables(parse: &mut Parse<'_>, arguments: &[String]) -> Result<(Option<usize>, bool), Errno> {
    let (mut all, mut found) = (None, false);
    for (index, argument) in arguments.iter().enumerate() {
        let Some(rest) = argument.strip_prefix("$arg") else {
            continue;
        };
        parse.index = index + 2;
        let surroundings = &parse.surroundings;
        if !surroundings.is_function_entry() && !surroundings.is_function_return() {
            return parse.fail(0, Code::NofentryArgs, Errno::Einval);
        }
        found = true;
        match rest.as_bytes().first() {
            Some(byte) if byte.is_ascii_digit() => {}
            Some(b'*') if all.is_some() => {
                return parse.fail(0, Code::DoubleArgs, Errno::Einval);
            }
            Some(b'*') => all = Some(index),
            _ => return parse.fail(0, Code::BadVar, Errno::Einval),
        }
    }
    Ok((all, found))
}

fn parameters(parse: &mut Parse<'_>, arguments: &[String]) -> Result<Vec<String>, Errno> {
    let (all, found) = variables(parse, arguments)?;
    if !found {
        return Ok(arguments.to_vec());
    }
    let prototype = parse.prototype();
    let Some(prototype) = prototype.filter(|prototype| !prototype.parameters.is_empty()) else {
        return match all {
            Some(_) => parse.fail(0, Code::NosupBtfarg, Errno::Eopnotsupp),
            None => Ok(arguments.to_vec()),
        };
    };
    let mut expanded = Vec::new();
    let mut used = 0;
    let mut add = |parse: &mut Parse<'_>, index: usize, type_: &str| {
        let Some((name, _)) = prototype.parameters.get(index) else {
            return parse.fail(0, Code::NoBtfarg, Errno::Enoent);
        };
        let Some(name) = name else {
            return parse.fail(0, Code::NoBtfEntry, Errno::Enoent);
        };
        let text = format!("{name}{type_}");
        if text.len() >= NAMES_ROOM - used {
            return parse.fail(0, Code::Args2long, Errno::E2big);
        }
        used += text.len() + 1;
        Ok(text)
    };
    for (index, argument) in arguments.iter().enumerate() {
        parse.index = index + 2;
        if all == Some(index) {
            for number in 0..prototype.parameters.len() {
                expanded.push(add(parse, number, "")?);
            }
            continue;
        }
        let Some(rest) = argument.strip_prefix("$arg") else {
            expanded.push(argument.clone());
            continue;
        };
        let (number, type_) = text::prefix(rest, 10);
        if !(type_.is_empty() || type_.starts_with(':')) {
            return parse.fail(0, Code::BadVar, Errno::Enoent);
        }
        let Some(index) = usize::try_from(number).ok().and_then(|n| n.checked_sub(1)) else {
            return parse.fail(0, Code::BadArgNum, Errno::Einval);
        };
        expanded.push(add(parse, index, type_)?);
    }
    Ok(expanded)
}

/// Whether any was replaced.
fn file_names(parse: &mut Parse<'_>, arguments: &mut [String]) -> Result<bool, Errno> {
    let mut used = 0;
    for argument in arguments {
        let entry_only = match &*argument {
            text if text.ends_with(":%pd") => true,
            text if text.ends_with(":%pD") => false,
            _ => continue,
        };
        let body = &argument[..argument.len() - 4];
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (format!("{name}="), value),
            None => (String::new(), body),
        };
        let Some((in_entry, in_file)) = offsets(parse) else {
            return parse.fail(0, Code::BadType, Errno::Einval);
        };
        *argument = match entry_only {
            true => format!("{name}+0x0(+{in_entry:#x}({value})):string"),
            false => format!("{name}+0x0(+{in_entry:#x}(+{in_file:#x}({value}))):string"),
        };
        used += argument.len() + 1;
        if used > FILES_ROOM {
            return Err(Errno::Enomem);
        }
    }
    Ok(used > 0)
}

/// Where a `dentry` has the pointer to its name, and a `file` that to its `dentry`; bytes.
fn offsets(parse: &Parse<'_>) -> Option<(u32, u32)> {
    let at = |structure: &str, path: [&str; 2]| {
        let mut id = parse.kernel.structure(structure)?;
        let mut bits = 0;
        for name in path {
            let Type::Composite(members) = parse.kernel.look(id)? else {
                return None;
            };
            let (offset, next) = inside(parse, &members, name, 0)?;
            bits += offset;
            id = next;
        }
        Some(bits / 8)
    };
    Some((
        at("dentry", ["d_name", "name"])?,
        at("file", ["f_path", "dentry"])?,
    ))
}

/// A member by name, in anonymous structures too.
fn inside(
    parse: &Parse<'_>,
    members: &[super::knowledge::Member],
    name: &str,
    depth: usize,
) -> Option<(u32, super::knowledge::TypeId)> {
    members.iter().find_map(|member| {
        if member.name == name {
            return Some((member.bit_offset, member.type_id));
        }
        if !member.name.is_empty() || depth == 4 {
            return None;
        }
        let Some(Type::Composite(inner)) = parse.kernel.look(member.type_id) else {
            return None;
        };
        let (offset, id) = inside(parse, &inner, name, depth + 1)?;
        Some((member.bit_offset + offset, id))
    })
}
