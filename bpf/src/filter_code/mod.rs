//! Filters as instructions: what stands in the room that `filter_code` of `bpf/filter.bpf.h` keeps.
//!
//! ```text
//! filter_code(values, entry):   to the filter of the entry; without one: accept
//!   check 0:   load, cut to width, compare ──holds──▶ `then`
//!              otherwise ──▶ `otherwise`
//!   …
//!   accept:    return 1           reject:    return 0
//! ```
//! A program then has just the comparisons that were asked for, and hits that no filter wants end before
//! anything is reserved. `values` is what the program has fetched: the scratch slot of a probe, a tracepoint's
//! record, or a copy of a record of its own; all are values of maps, so that the verifier knows their size.
//! What cannot be read leads to `otherwise`.
mod checks;
mod pattern;
mod values;

use self::checks::OneFilter;
use crate::abi;
use crate::assembler::{Assembler, Label, Operation, Reg, When};
use crate::error::{Error, Result};
use crate::hit_filter::HitFilter;
use crate::plan::{Entry, Shape};
use crate::room::Room;

/// What a filter is told where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// A scratch slot.
    Scratch,
    /// A tracepoint's record, with room for the name of a thread behind it.
    Tracepoint,
    /// A record with a header.
    Record,
}

impl Values {
    fn of(shape: &Shape) -> Values {
        match shape {
            Shape::Slots | Shape::Arguments(_) | Shape::Program { .. } => Values::Scratch,
            Shape::Tracepoint => Values::Tracepoint,
            Shape::Switch
            | Shape::Wake
            | Shape::Migrate
            | Shape::Fork
            | Shape::Exec
            | Shape::Exit
            | Shape::SysEnter
            | Shape::SysExit => Values::Record,
        }
    }
}

/// The code of all filters of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterCode {
    of: Vec<(Values, Assembler)>,
    /// What texts are compared with, by the numbers that the code calls them.
    pub(crate) texts: Vec<abi::TextTest>,
}

const RESULT: Reg = Reg(0);
/// The value that is compared, and what it is compared with.
const VALUE: Reg = Reg(1);
const WANTED: Reg = Reg(2);
/// Arguments of a comparison of text, beside the first.
const AT: Reg = Reg(2);
const LENGTH: Reg = Reg(3);
const NUMBER: Reg = Reg(4);
const SPARE: Reg = Reg(5);
/// Survive calls.
const VALUES: Reg = Reg(6);

impl FilterCode {
    /// Compiles the filters of these entries. `text_bytes` of text stand behind a scratch slot.
    ///
    /// # Errors
    /// [`BadSpec`](crate::ErrorKind::BadSpec) for a filter that asks for what its entry does not have, and
    /// for filters that are too long together.
    pub(crate) fn compile(entries: &[Entry], text_bytes: u32) -> Result<FilterCode> {
        let mut code = FilterCode::default();
        for values in [Values::Scratch, Values::Tracepoint, Values::Record] {
            let filtered: Vec<(u32, &Entry, &HitFilter)> = (0..)
                .zip(entries)
                .filter(|(_, entry)| Values::of(&entry.shape) == values)
                .filter_map(|(number, entry)| Some((number, entry, entry.filter.as_ref()?)))
                .collect();
            let assembler = compile(&filtered, values, text_bytes, &mut code.texts)?;
            code.of.push((values, assembler));
        }
        Ok(code)
    }

    /// Writes the code for programs that filter such values into their object.
    ///
    /// # Errors
    /// [`Load`](crate::ErrorKind::Load) where the object is not as it was compiled.
    pub(crate) fn write_into(&self, object: &mut [u8], values: Values) -> Result<()> {
        let code = self.of.iter().find(|(own, _)| *own == values);
        code.map_or(Ok(()), |(_, code)| ROOM.fill(object, code))
    }
}

/// The function behind the room.
const FILTER_TEXT: usize = 0;

const ROOM: Room = Room {
    mark: abi::FILTER_MARK,
    instructions: abi::FILTER_ROOM,
    functions: 1,
};

fn compile(
    filtered: &[(u32, &Entry, &HitFilter)],
    values: Values,
    text_bytes: u32,
    texts: &mut Vec<abi::TextTest>,
) -> Result<Assembler> {
    let mut code = Assembler::default();
    let (accept, reject, end) = (code.label(), code.label(), code.label());
    // What is left of the room must be reachable, and never is: the verifier takes it out.
    code.by_number(Operation::Move, RESULT, 1);
    code.jump_if_number(When::Equal, RESULT, 0, end);
    code.by_register(Operation::Move, VALUES, VALUE);
    let starts: Vec<(u32, Label)> = filtered
        .iter()
        .map(|&(number, ..)| (number, code.label()))
        .collect();
    code.choose(WANTED, &starts, accept);
    code.place(accept);
    code.by_number(Operation::Move, RESULT, 1);
    code.exit();
    let mut rejects = false;
    for (&(_, entry, filter), &(_, start)) in filtered.iter().zip(&starts) {
        let mut one = OneFilter {
            code: &mut code,
            entry,
            values,
            text_bytes,
            texts,
            outputs: filter.outputs(),
            accept,
            reject,
            rejects: false,
        };
        one.compile(filter, start)
            .map_err(|what| Error::bad_spec(format!("a filter {what}")))?;
        rejects |= one.rejects;
    }
    if rejects {
        code.place(reject);
        code.by_number(Operation::Move, RESULT, 0);
        code.exit();
    }
    code.place(end);
    if code.len() > abi::FILTER_ROOM {
        return Err(Error::bad_spec(format!(
            "the filters together take {} instructions; there is room for {}",
            code.len(),
            abi::FILTER_ROOM
        )));
    }
    Ok(code)
}

/// What is wrong with a filter, after "a filter".
type Step<T> = std::result::Result<T, String>;
