//! Arguments by name: a parameter of the function, and from it through pointers to members.
//!
//! ```text
//! dfd            file->f_path.dentry->d_name.name            $retval            (sk_buff)skbaddr->len
//! ```
//! `->` goes through a pointer, `.` into a structure that lies inside another. Names come from the
//! kernel's type information; those of files are read by `by_user_name`.

use super::by_user_name;
use super::expression::{event_field, push};
use super::knowledge::{Member, Type, TypeId};
use super::parse::Parse;
use super::program::{Program, Step};
use super::rejection::{Code, Errno};
use crate::nearest;

/// What follows a name.
pub(super) enum Separator {
    Arrow,
    Dot,
    End,
}

/// The first name, what follows it, and the rest.
pub(super) fn split<'t>(
    parse: &mut Parse<'_>,
    text: &'t str,
) -> Result<(&'t str, Separator, &'t str), Errno> {
    let Some(at) = text.find(['.', '-']) else {
        return Ok((text, Separator::End, ""));
    };
    let (name, rest) = text.split_at(at);
    if let Some(rest) = rest.strip_prefix("->") {
        Ok((name, Separator::Arrow, rest))
    } else if let Some(rest) = rest.strip_prefix('.') {
        Ok((name, Separator::Dot, rest))
    } else {
        parse.fail(parse.offset + at, Code::BadHyphen, Errno::Einval)
    }
}

/// Reads `(STRUCTURE)NAME…`.
pub(super) fn cast(parse: &mut Parse<'_>, text: &str, program: &mut Program) -> Result<(), Errno> {
    let Some((structure, rest)) = text[1..].split_once(')') else {
        let end = parse.offset + text.len();
        return parse.fail(end, Code::DerefOpenBrace, Errno::Einval);
    };
    parse.cast = parse.kernel.structure(structure);
    if parse.cast.is_none() {
        return parse.fail(parse.offset + 1, Code::NoPtrStrct, Errno::Einval);
    }
    parse.offset += structure.len() + 2;
    read(parse, rest, program)
}

/// Reads `NAME`, `NAME->MEMBER…`.
pub(super) fn read(parse: &mut Parse<'_>, text: &str, program: &mut Program) -> Result<(), Errno> {
    if parse.user.is_some() {
        return by_user_name::read(parse, text, program);
    }
    let (name, separator, rest) = split(parse, text)?;
    let behind = text.len() - rest.len();
    if matches!(separator, Separator::Dot) {
        return parse.fail(parse.offset + behind, Code::NosupDatArg, Errno::Eopnotsupp);
    }
    let has_member = matches!(separator, Separator::Arrow);
    let declared = value(parse, name, has_member.then_some(behind), program)?;
    let Some(declared) = declared else {
        return Ok(());
    };
    parse.last_bit_offset = 0;
    parse.last_bits = 0;
    let (found, is_structure) = match parse.cast {
        Some(structure) => (parse.types().look(structure), true),
        None => (parse.types().look(declared), false),
    };
    let Some(found) = found else {
        return parse.fail_here(Code::BadBtfTid, Errno::Einval);
    };
    parse.last = Some(found.clone());
    if has_member {
        parse.offset += behind;
        return members(parse, found, is_structure, rest, program);
    }
    Ok(())
}

/// Adds the step that fetches the named value; gives its type, `None` where that is not known.
fn value(
    parse: &mut Parse<'_>,
    name: &str,
    member: Option<usize>,
    program: &mut Program,
) -> Result<Option<TypeId>, Errno> {
    if parse.surroundings.event.is_some() {
        return match event_field(parse, name) {
            Some(step) => {
                push(parse, program, step)?;
                Ok(parse.cast)
            }
            None => {
                list_fields(parse);
                parse.fail_here(Code::BadAttachArg, Errno::Einval)
            }
        };
    }
    if parse.surroundings.at_return && name == "$retval" {
        push(parse, program, Step::ReturnValue)?;
        return match parse.prototype() {
            Some(prototype) => match prototype.returns {
                None => parse.fail_here(Code::NoRetval, Errno::Enoent),
                returns => Ok(returns),
            },
            None => match member {
                Some(behind) => parse.fail(parse.offset + behind, Code::NoBtfEntry, Errno::Enoent),
                None => Ok(None),
            },
        };
    }
    let prototype = parse.prototype();
    let Some(prototype) = prototype.filter(|prototype| !prototype.parameters.is_empty()) else {
        return parse.fail_here(Code::NoBtfEntry, Errno::Enoent);
    };
    let named = |(own, _): &(Option<String>, TypeId)| own.as_deref() == Some(name);
    let Some(index) = prototype.parameters.iter().position(named) else {
        let names = prototype
            .parameters
            .iter()
            .filter_map(|(own, _)| own.as_deref());
        list(
            parse,
            "its parameters are",
            names.map(str::to_owned).collect(),
        );
        return parse.fail_here(Code::NoBtfarg, Errno::Enoent);
    };
    let number = index as u32;
    let step = if parse.surroundings.is_function_entry() {
        Step::Argument(number + u32::from(parse.surroundings.tracepoint))
    } else {
        Step::EntryArgument(parse.keep(number))
    };
    push(parse, program, step)?;
    Ok(Some(prototype.parameters[index].1))
}

/// Follows `MEMBER.MEMBER->MEMBER`.
fn members(
    parse: &mut Parse<'_>,
    mut found: Type,
    mut is_structure: bool,
    mut text: &str,
    program: &mut Program,
) -> Result<(), Errno> {
    loop {
        if !std::mem::take(&mut is_structure) {
            let Type::Pointer(to) = found else {
                return parse.fail_here(Code::NoPtrStrct, Errno::Einval);
            };
            let Some(pointed) = parse.types().look(to) else {
                return parse.fail_here(Code::BadBtfTid, Errno::Einval);
            };
            found = pointed;
        }
        let mut bits = 0;
        let at_end = loop {
            let (name, separator, rest) = split(parse, text)?;
            let Type::Composite(all) = &found else {
                return parse.fail_here(Code::BadBtfTid, Errno::Einval);
            };
            let Some((before, member)) = find(parse, all, name) else {
                let names: Vec<&str> = all.iter().map(|member| &*member.name).collect();
                let near = nearest::nearest(name, names);
                if let Some(suggestion) = nearest::suggestion(&near) {
                    parse.remark(suggestion);
                }
                return parse.fail_here(Code::NoBtfField, Errno::Enoent);
            };
            bits += before + member.bit_offset;
            parse.last_bits = member.bits;
            let Some(next) = parse.types().look(member.type_id) else {
                return parse.fail_here(Code::BadBtfTid, Errno::Einval);
            };
            found = next;
            match separator {
                Separator::End => break true,
                Separator::Arrow | Separator::Dot => parse.offset += text.len() - rest.len(),
            }
            text = rest;
            if matches!(separator, Separator::Arrow) {
                break false;
            }
        };
        let offset = i64::from(bits / 8);
        let user = false;
        push(parse, program, Step::Dereference { offset, user })?;
        parse.last_bit_offset = bits % 8;
        parse.last = Some(found.clone());
        if at_end {
            return Ok(());
        }
    }
}

/// Anonymous structures inside one another that are looked into.
const DEEPEST: usize = 16;

/// A member by name, in anonymous structures and unions too, with the bits before the one it is in.
pub(super) fn find(parse: &Parse<'_>, members: &[Member], name: &str) -> Option<(u32, Member)> {
    let mut waiting = Vec::new();
    let mut current: Vec<Member> = members.to_vec();
    let mut before = 0_u32;
    loop {
        for member in &current {
            if member.name.is_empty() {
                if waiting.len() < DEEPEST {
                    waiting.push((before.saturating_add(member.bit_offset), member.type_id));
                }
            } else if member.name == name {
                return Some((before, member.clone()));
            }
        }
        loop {
            let (offset, id) = waiting.pop()?;
            if let Some(Type::Composite(inner)) = parse.types().look(id) {
                before = offset;
                current = inner;
                break;
            }
        }
    }
}

/// Says which fields the event has.
pub(super) fn list_fields(parse: &mut Parse<'_>) {
    let fields = parse.surroundings.event.iter().flatten();
    let names = fields.map(|field| field.name.clone()).collect();
    list(parse, "its fields are", names);
}

pub(super) fn list(parse: &mut Parse<'_>, what: &str, names: Vec<String>) {
    if !names.is_empty() {
        parse.remark(format!("{what} {}", names.join(", ")));
    }
}
