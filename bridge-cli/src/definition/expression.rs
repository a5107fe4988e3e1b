//! Fetch arguments without their name and type, read from the outside in:
//!
//! ```text
//! %REG  @ADDR  @SYM±offs  @+FILE_OFFSET  $stackN $stack $retval $comm $argN  $FIELD (event probes)
//! \IMM  \"string"  +|-[u]OFFS(ARG)  NAME->MEMBER.MEMBER  (STRUCTURE)NAME->MEMBER
//! ```

use super::by_name;
use super::parse::Parse;
use super::program::{KernelRegister, Program, Step};
use super::rejection::{Code, Errno};
use super::text;

/// The highest `$stackN` and `$argN` of the kernel: words of a thread's stack.
const STACK_WORDS: u64 = 2048;

/// Reads one; it begins at `parse.offset` of the current word.
pub(super) fn read(parse: &mut Parse<'_>, text: &str, program: &mut Program) -> Result<(), Errno> {
    match text.as_bytes().first() {
        Some(b'$') => variable(parse, text, program)?,
        Some(b'%') => register(parse, &text[1..], program)?,
        Some(b'@') => memory(parse, &text[1..], program)?,
        Some(b'+' | b'-') => return dereference(parse, text, program),
        Some(b'\\') => immediate(parse, &text[1..], program)?,
        Some(b'(') if parse.surroundings.event.is_some() => by_name::cast(parse, text, program)?,
        Some(b'(') => return parse.fail_here(Code::NosupTypecast, Errno::Einval),
        Some(&byte) if text::is_letter(byte) || byte == b'_' => {
            let surroundings = &parse.surroundings;
            let known = surroundings.is_function_entry()
                || surroundings.is_function_return()
                || parse.user.is_some();
            if !known {
                return parse.fail_here(Code::NosupBtfarg, Errno::Einval);
            }
            by_name::read(parse, text, program)?;
        }
        _ => {}
    }
    if program.is_empty() {
        return parse.fail_here(Code::BadFetchArg, Errno::Einval);
    }
    Ok(())
}

pub(super) fn push(parse: &mut Parse<'_>, program: &mut Program, step: Step) -> Result<(), Errno> {
    program
        .push(step)
        .or_else(|code| parse.fail_here(code, Errno::Einval))
}

fn variable(parse: &mut Parse<'_>, whole: &str, program: &mut Program) -> Result<(), Errno> {
    let name = &whole[1..];
    if parse.surroundings.event.is_some() {
        return match event_field(parse, name) {
            Some(step) => push(parse, program, step),
            None => {
                by_name::list_fields(parse);
                parse.fail_here(Code::BadVar, Errno::Einval)
            }
        };
    }
    if name.starts_with("retval") {
        if !parse.surroundings.at_return {
            return parse.fail_here(Code::RetvalOnProbe, Errno::Einval);
        }
        if parse.surroundings.in_file {
            return push(parse, program, Step::ReturnValue);
        }
        return by_name::read(parse, whole, program);
    }
    if let Some(rest) = name.strip_prefix("stack") {
        if rest.is_empty() {
            return push(parse, program, Step::StackPointer);
        }
        let number = match rest.as_bytes()[0].is_ascii_digit() {
            true => text::unsigned(rest, 10).ok(),
            false => None,
        };
        let Some(number) = number else {
            return parse.fail_here(Code::BadVar, Errno::Einval);
        };
        if !parse.surroundings.in_file && number > STACK_WORDS {
            return parse.fail_here(Code::BadStackNum, Errno::Einval);
        }
        return push(parse, program, Step::Stack(number as u32));
    }
    if matches!(name, "comm" | "COMM") {
        return push(parse, program, Step::Comm);
    }
    if let Some(rest) = name.strip_prefix("arg") {
        let Ok(number) = text::unsigned(rest, 10) else {
            return parse.fail_here(Code::BadVar, Errno::Einval);
        };
        if number == 0 || number > STACK_WORDS {
            return parse.fail_here(Code::BadArgNum, Errno::Einval);
        }
        let argument = number as u32 - 1;
        let step = if parse.surroundings.is_function_entry() {
            Step::Argument(argument + u32::from(parse.surroundings.tracepoint))
        } else if parse.surroundings.is_function_return() {
            Step::EntryArgument(parse.keep(argument))
        } else {
            return parse.fail_here(Code::NofentryArgs, Errno::Einval);
        };
        return push(parse, program, step);
    }
    parse.fail_here(Code::BadVar, Errno::Einval)
}

/// A field of the event that is attached to, or the thread's name.
pub(super) fn event_field(parse: &Parse<'_>, name: &str) -> Option<Step> {
    let fields = parse.surroundings.event.as_ref()?;
    match fields.iter().position(|field| field.name == name) {
        Some(index) => Some(Step::EventField(index)),
        None => matches!(name, "comm" | "COMM").then_some(Step::Comm),
    }
}

fn register(parse: &mut Parse<'_>, name: &str, program: &mut Program) -> Result<(), Errno> {
    if parse.surroundings.event.is_some() || parse.surroundings.by_ftrace {
        // No step is added, so it is no fetch argument either: the kernel says both.
        parse.complain(parse.offset, Code::BadVar);
        return Ok(());
    }
    match KernelRegister::by_name(name) {
        Some(register) => push(parse, program, Step::Register(register)),
        None => parse.fail_here(Code::BadRegName, Errno::Einval),
    }
}

fn memory(parse: &mut Parse<'_>, place: &str, program: &mut Program) -> Result<(), Errno> {
    if place.starts_with(|c: char| c.is_ascii_digit()) {
        match text::unsigned(place, 0) {
            Ok(address) => push(parse, program, Step::Immediate(address))?,
            Err(why) => return parse.fail_here(Code::BadMemAddr, why.into()),
        }
    } else if let Some(offset) = place.strip_prefix('+') {
        if !parse.surroundings.in_file {
            return parse.fail_here(Code::FileOnKprobe, Errno::Einval);
        }
        match text::signed(offset) {
            Ok(offset) => push(parse, program, Step::FileOffset(offset))?,
            Err(why) => return parse.fail_here(Code::BadFileOffs, why.into()),
        }
    } else {
        if parse.surroundings.in_file {
            return parse.fail_here(Code::SymOnUprobe, Errno::Einval);
        }
        let name = place.to_owned();
        push(parse, program, Step::Symbol { name })?;
        push(parse, program, Step::SymbolAddress)?;
    }
    let step = Step::Dereference {
        offset: 0,
        user: false,
    };
    push(parse, program, step)
}

fn dereference(parse: &mut Parse<'_>, whole: &str, program: &mut Program) -> Result<(), Errno> {
    let (sign, after) = whole.split_at(1);
    let (user, rest) = match after.strip_prefix('u') {
        Some(rest) => (true, format!("{sign}{rest}")),
        None => (false, whole.to_owned()),
    };
    let rest = rest.strip_prefix('+').unwrap_or(&rest);
    let Some((number, inner)) = rest.split_once('(') else {
        return parse.fail_here(Code::DerefNeedBrace, Errno::Einval);
    };
    let offset = match text::signed(number) {
        Ok(offset) => offset,
        Err(why) => return parse.fail_here(Code::BadDerefOffs, why.into()),
    };
    // As the kernel counts: the sign, the number and the brace, but not the `u`.
    parse.offset += number.len() + 1 + usize::from(!rest.starts_with('-'));
    let Some((inner, _)) = inner.rsplit_once(')') else {
        return parse.fail(
            parse.offset + inner.len(),
            Code::DerefOpenBrace,
            Errno::Einval,
        );
    };
    let here = parse.offset;
    read(parse, inner, program)?;
    parse.offset = here;
    if matches!(program.last(), Some(Step::Comm | Step::Text(_))) {
        return parse.fail_here(Code::CommCantDeref, Errno::Einval);
    }
    push(parse, program, Step::Dereference { offset, user })?;
    parse.last = None;
    Ok(())
}

fn immediate(parse: &mut Parse<'_>, value: &str, program: &mut Program) -> Result<(), Errno> {
    if let Some(text) = value.strip_prefix('"') {
        return match text.strip_suffix('"') {
            Some(text) => push(parse, program, Step::Text(text.to_owned())),
            None => {
                let end = parse.offset + 2 + text.len();
                parse.fail(end, Code::ImmstrNoClose, Errno::Einval)
            }
        };
    }
    let number = match value.as_bytes().first() {
        Some(byte) if byte.is_ascii_digit() => text::unsigned(value, 0),
        Some(b'-') => text::signed(value).map(|number| number as u64),
        Some(b'+') => text::signed(&value[1..]).map(|number| number as u64),
        _ => Err(text::NotANumber::Malformed),
    };
    match number {
        Ok(number) => push(parse, program, Step::Immediate(number)),
        Err(why) => parse.fail(parse.offset + 1, Code::BadImm, why.into()),
    }
}
