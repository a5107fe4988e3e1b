//! One argument: `NAME=BODY:TYPE[N]`, from its text to what is fetched and how it is stored.

use super::by_user_name;
use super::expression;
use super::knowledge::Type;
use super::parse::Parse;
use super::program::{Program, Step};
use super::rejection::{Code, Errno};
use super::text;
use super::value_type::ValueType;

/// The longest name, bytes.
const NAME: usize = 32;
/// The longest body, bytes.
const BODY: usize = 63;
/// Elements of an array.
const ELEMENTS: u32 = 64;
/// Bytes of all fixed parts of a record.
const RECORD: u32 = 3072;

/// Names that the record itself has.
const RESERVED: [&str; 8] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "common_tgid",
    "__probe_ip",
    "__probe_ret_ip",
    "__probe_func",
];

/// An argument that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, given or generated.
    pub name: String,
    /// What it fetches, as written (after `$arg*` and `%pd` were replaced), type included.
    pub body: String,
    /// How it is stored and printed.
    pub value: ValueType,
    /// Elements of an array; `None` for a single value.
    pub count: Option<u32>,
    /// What is done for it at a hit.
    pub program: Program,
    /// What is done for its length, where it is text without an end mark.
    pub length: Option<Program>,
    /// Bytes before it among the arguments.
    pub offset: u32,
}

/// Reads one argument, with those before it.
pub(super) fn read(
    parse: &mut Parse<'_>,
    text: &str,
    before: &[Argument],
) -> Result<Argument, Errno> {
    let index = before.len();
    let (name, body) = match text.split_once('=') {
        Some((name, _)) if name.len() > NAME => {
            return parse.fail(0, Code::ArgNameTooLong, Errno::Einval);
        }
        Some(("", _)) => return parse.fail(0, Code::NoArgName, Errno::Einval),
        Some((name, body)) => (name.to_owned(), body),
        None => (generated_name(text, index), text),
    };
    if !text::is_identifier(&name, false) {
        return parse.fail(0, Code::BadArgName, Errno::Einval);
    }
    if RESERVED.contains(&&*name) || before.iter().any(|other| other.name == name) {
        return parse.fail(0, Code::UsedArgName, Errno::Einval);
    }
    parse.offset = text.len() - body.len();
    let used = before.last().map_or(0, |last| {
        last.offset + last.value.size() * last.count.unwrap_or(1)
    });
    let argument = read_body(parse, name, body, used);
    parse.cast = None;
    argument
}

/// A parameter that stands alone gives its name.
fn generated_name(text: &str, index: usize) -> String {
    let name = text.split(':').next().unwrap_or(text);
    if text::is_identifier(name, false) {
        name.to_owned()
    } else {
        format!("arg{}", index + 1)
    }
}

fn read_body(
    parse: &mut Parse<'_>,
    name: String,
    body: &str,
    used: u32,
) -> Result<Argument, Errno> {
    if body.len() > BODY {
        return parse.fail_here(Code::ArgTooLong, Errno::E2big);
    }
    if body.is_empty() {
        return parse.fail_here(Code::NoArgBody, Errno::Einval);
    }
    let typed = Typed::read(parse, body)?;
    let mut program = Program::default();
    parse.last = None;
    parse.length = None;
    expression::read(parse, typed.expression, &mut program)?;
    let mut value = typed.value;
    let mut length = None;
    if typed.name.is_none_or(|name| name.contains("string")) && typed.count.is_none() {
        length = parse.length.take();
    }
    if length.is_some() {
        value = ValueType::Text;
        by_user_name::text_at(parse, &mut program)?;
    } else if let Some(last) = parse.last.clone() {
        match typed.name {
            None => value = natural(parse, &last),
            Some(name) if name.contains("string") => {
                read_through_pointer(parse, name, &last, &mut program)?;
            }
            Some(_) => {}
        }
    }
    let total = used + value.size() * typed.count.unwrap_or(1);
    if total > RECORD {
        return parse.fail_here(Code::EventTooBig, Errno::E2big);
    }
    finish(parse, &typed, value, &mut program)?;
    Ok(Argument {
        name,
        body: body.to_owned(),
        value,
        count: typed.count,
        program,
        length,
        offset: used,
    })
}

/// A body and its type.
struct Typed<'t> {
    expression: &'t str,
    /// The type as written, without the length of an array.
    name: Option<&'t str>,
    /// Bytes before it.
    type_offset: usize,
    value: ValueType,
    count: Option<u32>,
}

impl<'t> Typed<'t> {
    fn read(parse: &mut Parse<'_>, body: &'t str) -> Result<Typed<'t>, Errno> {
        let (expression, mut name) = match body.split_once(':') {
            Some((expression, name)) => (expression, Some(name)),
            None => (body, None),
        };
        let type_offset = name.map_or(0, |_| expression.len() + 1);
        let mut count = None;
        if let Some((plain, length)) = name.and_then(|name| name.split_once('[')) {
            let at = parse.offset + type_offset + plain.len() + 1;
            let Some((length, rest)) = length.split_once(']') else {
                return parse.fail(at + length.len(), Code::ArrayNoClose, Errno::Einval);
            };
            if !rest.is_empty() {
                return parse.fail(at + length.len() + 1, Code::BadArraySuffix, Errno::Einval);
            }
            match text::small(length) {
                Err(_) | Ok(0) => return parse.fail(at, Code::BadArrayNum, Errno::Einval),
                Ok(length) if length > ELEMENTS => {
                    return parse.fail(at, Code::ArrayTooBig, Errno::Einval);
                }
                Ok(length) => count = Some(length),
            }
            name = Some(plain);
        }
        let at = parse.offset + type_offset;
        let stands_alone =
            matches!(expression, "$comm" | "$COMM") || expression.starts_with("\\\"");
        let value = if parse.surroundings.event.is_none() && stands_alone {
            if count.is_some() || name.is_some_and(|name| name != "string") {
                return parse.fail(at, Code::NeedStringType, Errno::Einval);
            }
            ValueType::Text
        } else {
            let known = match name {
                Some(name) => ValueType::by_name(name, parse.surroundings.in_file),
                None => Some(ValueType::DEFAULT),
            };
            match known {
                Some(value) => value,
                None => return parse.fail(at, Code::BadType, Errno::Einval),
            }
        };
        Ok(Typed {
            expression,
            name,
            type_offset,
            value,
            count,
        })
    }
}

/// How a value of this type is shown where nothing else is asked for.
fn natural(parse: &mut Parse<'_>, type_: &Type) -> ValueType {
    let bytes = |bits| match bits {
        8 => Some(1),
        16 => Some(2),
        32 => Some(4),
        64 => Some(8),
        _ => None,
    };
    match *type_ {
        Type::Character => ValueType::Char,
        Type::Float { bytes: 4 } => ValueType::Hexadecimal(4),
        Type::Enumeration { bytes: 8 } => ValueType::Signed(8),
        Type::Enumeration { .. } => ValueType::Signed(4),
        Type::Integer {
            bits, signed: true, ..
        } => bytes(bits).map_or(ValueType::DEFAULT, ValueType::Signed),
        Type::Integer {
            bits, bit_offset, ..
        } => match bytes(bits) {
            Some(bytes) => ValueType::Unsigned(bytes),
            None => {
                parse.last_bits = bits;
                parse.last_bit_offset += bit_offset;
                ValueType::Unsigned(8)
            }
        },
        _ => ValueType::DEFAULT,
    }
}

/// What `:string` of a named value reads: an array of characters where it lies, anything else where it
/// points to.
fn read_through_pointer(
    parse: &mut Parse<'_>,
    name: &str,
    last: &Type,
    program: &mut Program,
) -> Result<(), Errno> {
    // Signed or not: before 6.2 the kernel's own `char` is signed.
    let is_character = |parse: &Parse<'_>, id| {
        let character = parse.types().look(id);
        matches!(
            character,
            Some(Type::Character | Type::Integer { bits: 8, .. })
        )
    };
    match *last {
        Type::Array(of) if is_character(parse, of) => return Ok(()),
        Type::Pointer(to) if is_character(parse, to) => {}
        // Addresses are often kept as numbers. (The kernel takes the size for the number of a type here,
        // with the same result.)
        Type::Integer { bits: 64, .. } => {}
        _ => return parse.fail_here(Code::BadType4str, Errno::Einval),
    }
    let step = Step::Dereference {
        offset: 0,
        user: name.starts_with('u') || parse.user.is_some(),
    };
    program
        .push(step)
        .or_else(|code| parse.fail_here(code, Errno::E2big))
}

/// Adds how the value is stored.
fn finish(
    parse: &mut Parse<'_>,
    typed: &Typed<'_>,
    value: ValueType,
    program: &mut Program,
) -> Result<(), Errno> {
    let at = parse.offset + typed.type_offset;
    if value.is_text() {
        store_text(parse, typed, value, at, program)?;
    } else {
        match program.last() {
            Some(&Step::Dereference { offset, user }) => {
                program.replace_last(Step::StoreMemory { offset, user });
            }
            _ => add(parse, program, Step::StoreValue, Errno::E2big)?,
        }
    }
    let from_memory = matches!(
        program.last(),
        Some(Step::StoreMemory { user: false, .. } | Step::StoreText { .. })
    );
    match typed.name {
        Some(name) if name.starts_with('b') => bitfield(parse, name, value, at, program)?,
        Some(_) => {}
        None if parse.last.is_some()
            && !(parse.last_bits.is_multiple_of(8) && parse.last_bit_offset == 0) =>
        {
            let step = Step::Bits {
                width: parse.last_bits,
                offset: parse.last_bit_offset,
            };
            add(parse, program, step, Errno::Einval)?;
        }
        None => {}
    }
    if let Some(count) = typed.count {
        if !from_memory {
            return parse.fail(at, Code::BadString, Errno::Einval);
        }
        add(parse, program, Step::Array(count), Errno::E2big)?;
    }
    Ok(())
}

fn add(
    parse: &mut Parse<'_>,
    program: &mut Program,
    step: Step,
    errno: Errno,
) -> Result<(), Errno> {
    program
        .push(step)
        .or_else(|code| parse.fail_here(code, errno))
}

fn store_text(
    parse: &mut Parse<'_>,
    typed: &Typed<'_>,
    value: ValueType,
    at: usize,
    program: &mut Program,
) -> Result<(), Errno> {
    let last = program.last().cloned();
    if value == ValueType::SymbolText {
        let fits = matches!(
            last,
            Some(
                Step::Register(_)
                    | Step::Stack(_)
                    | Step::ReturnValue
                    | Step::Argument(_)
                    | Step::Dereference { user: false, .. }
                    | Step::EventField(_)
            )
        );
        if !fits {
            return parse.fail(at, Code::BadSymstring, Errno::Einval);
        }
        return add(parse, program, Step::StoreSymbol, Errno::Einval);
    }
    let wants_user = value == ValueType::UserText;
    match last {
        Some(Step::Dereference { offset, user }) if typed.count.is_none() => {
            let user = user || wants_user;
            program.replace_last(Step::StoreText { offset, user });
            Ok(())
        }
        Some(
            Step::Dereference { .. }
            | Step::Immediate(_)
            | Step::Comm
            | Step::Text(_)
            | Step::EventField(_),
        ) => {
            let step = Step::StoreText {
                offset: 0,
                user: wants_user,
            };
            add(parse, program, step, Errno::Einval)
        }
        _ => parse.fail(at, Code::BadString, Errno::Einval),
    }
}

fn bitfield(
    parse: &mut Parse<'_>,
    name: &str,
    value: ValueType,
    at: usize,
    program: &mut Program,
) -> Result<(), Errno> {
    let bad = |parse: &mut Parse<'_>| parse.fail(at, Code::BadBitfield, Errno::Einval);
    let (width, rest) = text::prefix(&name[1..], 0);
    let Some(rest) = rest.strip_prefix('@').filter(|_| width != 0) else {
        return bad(parse);
    };
    let (offset, after) = text::prefix(rest, 0);
    if after.len() == rest.len() || !after.starts_with('/') {
        return bad(parse);
    }
    let size = u64::from(value.size()) * 8;
    let fits = width.checked_add(offset).is_some_and(|bits| bits <= size);
    let step = Step::Bits {
        width: width as u32,
        offset: offset as u32,
    };
    if !fits || program.push(step).is_err() {
        return bad(parse);
    }
    Ok(())
}
