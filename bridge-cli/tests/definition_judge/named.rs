//! What a value by name is, by the kernel's type information: `file->f_path.dentry`, `$retval->member`,
//! `(STRUCTURE)field->member`.

use bridge::definition::knowledge::{Kernel as _, Type, TypeId, Types as _};

use crate::vocabulary::Vocabulary;

/// The types of all values by name in a line that are to be read as text.
pub(crate) fn read_as_text(words: &Vocabulary<'_>, line: &str) -> Vec<Type> {
    let mut parts = line.split_ascii_whitespace();
    let letter = parts.next().unwrap_or("");
    let place = parts.next().unwrap_or("");
    let body = |argument: &str| -> Option<TypeId> {
        let value = argument.split_once('=').map_or(argument, |(_, body)| body);
        let (value, type_) = value.split_once(':')?;
        match type_.contains("string") {
            true => of(words, letter, place, value),
            false => None,
        }
    };
    parts
        .filter_map(body)
        .filter_map(|id| words.kernel.look(id))
        .collect()
}

fn of(words: &Vocabulary<'_>, letter: &str, place: &str, value: &str) -> Option<TypeId> {
    let (cast, value) = match value
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
    {
        Some((structure, rest)) => (Some(structure), rest),
        None => (None, value),
    };
    let end = value.find(['-', '.']).unwrap_or(value.len());
    let (name, mut way) = value.split_at(end);
    let mut id = match cast {
        Some(structure) => words.kernel.structure(structure)?,
        None => {
            let symbol = place.split(['+', '%']).next().unwrap_or("");
            let function = match letter.starts_with('t') {
                true => words.kernel.tracepoint_function(symbol)?,
                false => symbol.rsplit(':').next().unwrap_or("").to_owned(),
            };
            let prototype = words.kernel.prototype(&function)?;
            match name {
                "$retval" => prototype.returns?,
                name => {
                    let mut parameters = prototype.parameters.into_iter();
                    parameters.find(|(own, _)| own.as_deref() == Some(name))?.1
                }
            }
        }
    };
    while let Some(rest) = way.strip_prefix("->").or(way.strip_prefix('.')) {
        let end = rest.find(['-', '.']).unwrap_or(rest.len());
        if let Some(Type::Pointer(to)) = words.kernel.look(id) {
            id = to;
        }
        id = member(words, id, &rest[..end])?;
        way = &rest[end..];
    }
    Some(id)
}

/// The type of a member, also of those in members without names.
fn member(words: &Vocabulary<'_>, of: TypeId, name: &str) -> Option<TypeId> {
    let Some(Type::Composite(members)) = words.kernel.look(of) else {
        return None;
    };
    let own = members.iter().find(|member| member.name == name);
    if let Some(own) = own {
        return Some(own.type_id);
    }
    let mut inside = members.iter().filter(|member| member.name.is_empty());
    inside.find_map(|anonymous| member(words, anonymous.type_id, name))
}

/// Whether it is an array of, or leads to, bytes with a sign.
pub(crate) fn is_of_signed_bytes(words: &Vocabulary<'_>, of: &Type) -> bool {
    let (Type::Array(to) | Type::Pointer(to)) = of else {
        return false;
    };
    let bytes = words.kernel.look(*to);
    matches!(
        bytes,
        Some(Type::Integer {
            bits: 8,
            signed: true,
            ..
        })
    )
}

/// Whether it is a structure of so many bytes, as far as its members say.
pub(crate) fn is_structure_of(words: &Vocabulary<'_>, of: &Type, bytes: u32) -> bool {
    let Type::Composite(members) = of else {
        return false;
    };
    let end = |member: &bridge::definition::knowledge::Member| {
        Some(member.bit_offset.div_ceil(8) + size(words, member.type_id)?)
    };
    // Of an array the length is not known.
    let ends: Option<Vec<u32>> = members.iter().map(end).collect();
    ends.is_none_or(|ends| ends.into_iter().max().unwrap_or(0).next_multiple_of(bytes) == bytes)
}

fn size(words: &Vocabulary<'_>, of: TypeId) -> Option<u32> {
    match words.kernel.look(of)? {
        Type::Integer { bits, .. } => Some(bits / 8),
        Type::Pointer(_) => Some(8),
        Type::Enumeration { bytes } | Type::Float { bytes } => Some(bytes),
        Type::Composite(members) => {
            let ends = members
                .iter()
                .map(|member| Some(member.bit_offset.div_ceil(8) + size(words, member.type_id)?));
            ends.collect::<Option<Vec<u32>>>()?.into_iter().max()
        }
        _ => None,
    }
}
