//! Arguments by name in files: a parameter of the function, and what it leads to.
//!
//! ```text
//! amount      user->name      cart.len      request.head.uri      name:string
//! ```
//! A parameter may be in a register, in memory, or in pieces of both: two registers hold a Rust `&str`. So
//! a name is followed as a **cursor**: a place that is known without reading anything, or an address that
//! the program has computed so far, and bytes behind it. `->` goes through a pointer; `.` goes into a
//! structure, and through a pointer as well, since programs in Rust and C++ write it so.

use std::cell::OnceCell;
use std::rc::Rc;

use tracebraid_bpf::spec::{Kept, Register};

use super::by_name::{Separator, find, list, split};
use super::expression::push;
use super::knowledge::{Binary, Piece, Type, TypeId, UserParameter, UserPlace};
use super::parse::Parse;
use super::program::{KernelRegister, Program, Step};
use super::rejection::{Code, Errno};
use crate::nearest;

/// The function whose parameters can be named.
#[derive(Clone)]
pub(super) struct UserFunction<'a> {
    pub(super) binary: &'a dyn Binary,
    offset: u64,
    /// Looked up when the first name is read.
    parameters: Rc<OnceCell<Result<Rc<Vec<UserParameter>>, String>>>,
}

impl<'a> UserFunction<'a> {
    /// The one that begins at this offset of the file.
    pub(super) fn new(binary: &'a dyn Binary, offset: u64) -> UserFunction<'a> {
        UserFunction {
            binary,
            offset,
            parameters: Rc::default(),
        }
    }

    fn parameters(&self) -> Result<Rc<Vec<UserParameter>>, String> {
        let known = self
            .parameters
            .get_or_init(|| self.binary.parameters(self.offset).map(Rc::new));
        known.clone()
    }
}

/// Where what was named so far is.
#[derive(Clone, Debug)]
enum Cursor {
    /// In a register or a constant, from this bit on.
    Plain(Plain, u64),
    /// In several places, from this bit on.
    Pieces(Vec<Piece>, u64),
    /// So many bits behind the address that the program has computed.
    Memory(u64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Plain {
    Register(Register),
    Constant(u64),
    /// As it was when the function was entered, at its return.
    AtEntry(Kept),
}

/// Reads `NAME`, `NAME->MEMBER.MEMBER`.
pub(super) fn read(parse: &mut Parse<'_>, text: &str, program: &mut Program) -> Result<(), Errno> {
    let Some(function) = parse.user.clone() else {
        return parse.fail_here(Code::NosupBtfarg, Errno::Einval);
    };
    let parameters = match function.parameters() {
        Ok(parameters) => parameters,
        Err(why) => {
            parse.remark(why);
            return parse.fail_here(Code::NosupBtfarg, Errno::Einval);
        }
    };
    let (name, mut separator, mut rest) = split(parse, text)?;
    let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
        let names = parameters.iter().map(|parameter| &*parameter.name);
        match nearest::suggestion(&nearest::nearest(name, names.clone())) {
            Some(suggestion) => parse.remark(suggestion),
            None if parameters.is_empty() => parse.remark("it has no parameters".to_owned()),
            None => list(
                parse,
                "its parameters are",
                names.map(str::to_owned).collect(),
            ),
        }
        return parse.fail_here(Code::NoBtfarg, Errno::Enoent);
    };
    let mut cursor = begin(parse, name, parameter.place.as_ref(), program)?;
    let mut id = parameter.type_id;
    let mut text = text;
    let mut bits = 0;
    while !matches!(separator, Separator::End) {
        parse.offset += text.len() - rest.len();
        text = rest;
        if let Some(Type::Pointer(to)) = parse.types().look(id) {
            value(parse, name, &cursor, program)?;
            cursor = Cursor::Memory(0, 0);
            id = to;
        } else if matches!(separator, Separator::Arrow) {
            return parse.fail_here(Code::NoPtrStrct, Errno::Einval);
        }
        let (member, next, behind) = split(parse, text)?;
        let all = match parse.types().look(id) {
            Some(Type::Composite(all)) => all,
            Some(_) => return parse.fail_here(Code::NoPtrStrct, Errno::Einval),
            None => return parse.fail_here(Code::BadBtfTid, Errno::Einval),
        };
        let Some((before, found)) = find(parse, &all, member) else {
            let names: Vec<&str> = all.iter().map(|member| &*member.name).collect();
            match nearest::suggestion(&nearest::nearest(member, names)) {
                Some(suggestion) => parse.remark(suggestion),
                None => members_of(parse, &function, id),
            }
            return parse.fail_here(Code::NoBtfField, Errno::Enoent);
        };
        cursor = cursor.member(u64::from(before) + u64::from(found.bit_offset));
        bits = u64::from(found.bits);
        id = found.type_id;
        (separator, rest) = (next, behind);
    }
    end(parse, &function, name, cursor, id, bits, program)
}

/// The cursor at the parameter itself.
fn begin(
    parse: &mut Parse<'_>,
    name: &str,
    place: Result<&UserPlace, &String>,
    program: &mut Program,
) -> Result<Cursor, Errno> {
    let place = match place {
        Ok(place) => place,
        Err(why) => {
            parse.remark(format!("{name}: {why}"));
            return parse.fail_here(Code::NosupDatArg, Errno::Eopnotsupp);
        }
    };
    let general = |register| Step::Register(KernelRegister::General(register));
    // At a return a parameter is what it was at the entry, and what it leads to is read now.
    let at_return = parse.surroundings.at_return;
    Ok(match place {
        UserPlace::Register(register) if at_return => {
            Cursor::Plain(Plain::AtEntry(Kept::Register(*register)), 0)
        }
        UserPlace::Memory { base, offset } if at_return => {
            Cursor::Plain(Plain::AtEntry(Kept::Memory(*base, *offset)), 0)
        }
        UserPlace::Indirect {
            base,
            offset,
            behind,
        } if at_return => {
            push(parse, program, Step::AtEntry(Kept::Memory(*base, *offset)))?;
            Cursor::Memory(0, *behind)
        }
        UserPlace::Register(register) => Cursor::Plain(Plain::Register(*register), 0),
        UserPlace::Constant(value) => Cursor::Plain(Plain::Constant(*value), 0),
        UserPlace::Pieces(pieces) => Cursor::Pieces(pieces.clone(), 0),
        UserPlace::Memory { base, offset } => {
            push(parse, program, general(*base))?;
            Cursor::Memory(0, *offset)
        }
        UserPlace::Indirect {
            base,
            offset,
            behind,
        } => {
            push(parse, program, general(*base))?;
            let (offset, user) = (*offset, true);
            push(parse, program, Step::Dereference { offset, user })?;
            Cursor::Memory(0, *behind)
        }
    })
}

impl Cursor {
    fn member(self, bits: u64) -> Cursor {
        match self {
            Cursor::Plain(plain, before) => Cursor::Plain(plain, before.saturating_add(bits)),
            Cursor::Pieces(pieces, before) => Cursor::Pieces(pieces, before.saturating_add(bits)),
            Cursor::Memory(before, bytes) => Cursor::Memory(before.saturating_add(bits), bytes),
        }
    }
}

/// Adds the steps that make what the cursor stands at the value of the program: the last of them reads it,
/// if it is in memory. Gives the bits before it in that value.
fn value(
    parse: &mut Parse<'_>,
    name: &str,
    cursor: &Cursor,
    program: &mut Program,
) -> Result<u64, Errno> {
    match cursor {
        Cursor::Memory(bits, bytes) => {
            let offset = i64::try_from(bits / 8).unwrap_or(i64::MAX);
            let step = Step::Dereference {
                offset: bytes.saturating_add(offset),
                user: true,
            };
            push(parse, program, step)?;
            Ok(bits % 8)
        }
        Cursor::Plain(plain, bits) => {
            let (step, bits) = match *plain {
                Plain::Register(register) => {
                    (Step::Register(KernelRegister::General(register)), *bits)
                }
                Plain::Constant(value) => (Step::Immediate(value), *bits),
                Plain::AtEntry(Kept::Memory(base, offset)) => {
                    let within = i64::try_from(bits / 8).unwrap_or(i64::MAX);
                    let kept = Kept::Memory(base, offset.saturating_add(within));
                    (Step::AtEntry(kept), bits % 8)
                }
                Plain::AtEntry(kept) => (Step::AtEntry(kept), *bits),
            };
            push(parse, program, step)?;
            Ok(bits)
        }
        Cursor::Pieces(pieces, bits) => {
            let bytes = bits / 8;
            let holds = |piece: &&Piece| {
                (piece.offset..piece.offset.saturating_add(piece.size)).contains(&bytes)
            };
            let Some(piece) = pieces.iter().find(holds) else {
                parse.remark(format!("{name}: the compiler has optimised this part out"));
                return parse.fail_here(Code::NosupDatArg, Errno::Eopnotsupp);
            };
            let within = begin(parse, name, piece.place.as_ref(), program)?;
            let within = within.member(bits - piece.offset * 8);
            value(parse, name, &within, program)
        }
    }
}

/// What is named is here: adds the steps that fetch it.
fn end(
    parse: &mut Parse<'_>,
    function: &UserFunction<'_>,
    name: &str,
    cursor: Cursor,
    id: TypeId,
    bits: u64,
    program: &mut Program,
) -> Result<(), Errno> {
    let Some(found) = parse.types().look(id) else {
        return parse.fail_here(Code::BadBtfTid, Errno::Einval);
    };
    if let Type::Composite(_) = &found {
        let Some((pointer, length)) = text_in(parse, id) else {
            members_of(parse, function, id);
            return parse.fail_here(Code::NosupDatArg, Errno::Eopnotsupp);
        };
        let mut counted = program.clone();
        value(parse, name, &cursor.clone().member(length), &mut counted)?;
        push(parse, &mut counted, Step::StoreValue)?;
        value(parse, name, &cursor.member(pointer), program)?;
        parse.length = Some(counted);
        parse.last = Some(Type::Other);
        return Ok(());
    }
    let shift = value(parse, name, &cursor, program)?;
    let wide = match &found {
        Type::Integer { bits, .. } => u64::from(*bits),
        Type::Enumeration { bytes } => u64::from(*bytes) * 8,
        Type::Character => 8,
        _ => 64,
    };
    parse.last_bit_offset = u32::try_from(shift).unwrap_or(u32::MAX);
    parse.last_bits = match (bits, shift) {
        (0, 0) => 0,
        (0, _) => wide as u32,
        (bits, _) => bits as u32,
    };
    // A bitfield, or a part of a register, is cut out of a whole word.
    let is_cut = shift + u64::from(parse.last_bits) > wide;
    parse.last = Some(match (found, is_cut) {
        (Type::Integer { signed, .. }, true) => Type::Integer {
            bits: 64,
            bit_offset: 0,
            signed,
        },
        (Type::Enumeration { .. }, true) => Type::Enumeration { bytes: 8 },
        (Type::Character | Type::Float { .. }, true) => Type::Integer {
            bits: 64,
            bit_offset: 0,
            signed: false,
        },
        (found, _) => found,
    });
    Ok(())
}

/// Reads text where the value leads to.
pub(super) fn text_at(parse: &mut Parse<'_>, program: &mut Program) -> Result<(), Errno> {
    let step = Step::Dereference {
        offset: 0,
        user: true,
    };
    push(parse, program, step)
}

/// Of a type that is text with a length: the bits before the pointer to it and before the length.
///
/// ```text
/// &str, &[u8]    data_ptr, length
/// String         vec: { buf: …first pointer…, len }
/// std::string    _M_dataplus: { _M_p }, _M_string_length
/// ```
fn text_in(parse: &Parse<'_>, id: TypeId) -> Option<(u64, u64)> {
    let member = |id: TypeId, name: &str| {
        let Some(Type::Composite(all)) = parse.types().look(id) else {
            return None;
        };
        let (before, found) = find(parse, &all, name)?;
        Some((
            u64::from(before) + u64::from(found.bit_offset),
            found.type_id,
        ))
    };
    let is_text = |id: TypeId| {
        let Some(Type::Pointer(to)) = parse.types().look(id) else {
            return false;
        };
        matches!(
            parse.types().look(to),
            Some(Type::Character | Type::Integer { bits: 8, .. })
        )
    };
    if let (Some((pointer, of)), Some((length, _))) = (member(id, "data_ptr"), member(id, "length"))
    {
        return is_text(of).then_some((pointer, length));
    }
    if let (Some((outer, holder)), Some((length, _))) =
        (member(id, "_M_dataplus"), member(id, "_M_string_length"))
    {
        let (pointer, of) = member(holder, "_M_p")?;
        return is_text(of).then_some((outer + pointer, length));
    }
    let (outer, vector) = member(id, "vec")?;
    let (length, _) = member(vector, "len")?;
    let (buffer, of) = member(vector, "buf")?;
    let (pointer, of) = first_pointer(parse, of, 8)?;
    is_text(of).then_some((outer + buffer + pointer, outer + length))
}

/// The first pointer in a structure of structures, with the bits before it.
fn first_pointer(parse: &Parse<'_>, id: TypeId, depth: u32) -> Option<(u64, TypeId)> {
    match parse.types().look(id)? {
        Type::Pointer(_) => Some((0, id)),
        Type::Composite(members) if depth > 0 => members.iter().find_map(|member| {
            let (before, of) = first_pointer(parse, member.type_id, depth - 1)?;
            Some((u64::from(member.bit_offset) + before, of))
        }),
        _ => None,
    }
}

/// Remarks on what there is in a structure.
fn members_of(parse: &mut Parse<'_>, function: &UserFunction<'_>, id: TypeId) {
    let Some(Type::Composite(all)) = parse.types().look(id) else {
        return;
    };
    let name = function.binary.type_name(id);
    let names: Vec<String> = all
        .iter()
        .filter(|member| !member.name.is_empty())
        .map(|member| member.name.clone())
        .collect();
    match names[..] {
        [] => parse.remark(format!("nothing in {name} can be named")),
        _ => list(parse, &format!("{name} has"), names),
    }
}
