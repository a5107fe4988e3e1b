//! From a definition in a file to what the kernel side runs: steps, and how their outputs become values.
//!
//! ```text
//! id=+8(%di):u32     register rdi │ store 4 bytes at +8       ─▶ output 1 ─▶ unsigned
//! s=+0(+8(%di)):string[2]  register rdi │ read +8 … keep │ back, read +0, text │ back, read +8, text
//! c=$comm            nothing: the record's header has it
//! ```
//! The first outputs are the addresses that the kernel's records begin with.

use tracebraid_bpf::spec::{self, Register};

use super::argument::Argument;
use super::program::{KernelRegister, Step};
use super::value_type::ValueType;
use super::{Definition, Place};

/// What a user definition is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// What the kernel side does.
    pub program: spec::Program,
    /// Addresses among the first outputs: that of the probe, or at a return those of the function and of
    /// what it returns to.
    pub addresses: usize,
    /// The arguments, in order.
    pub arguments: Vec<Read>,
}

/// How an argument's value is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its type.
    pub value: ValueType,
    /// Where its bytes come from.
    pub source: Source,
    /// Of a bitfield: width, and bits before it.
    pub bits: Option<(u32, u32)>,
}

/// See [`Read::source`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The next output: one value, or text.
    One,
    /// The next output, which is so many elements in a row.
    Elements(u32),
    /// So many outputs, each an element.
    Outputs(u32),
    /// The name of the thread.
    Comm,
    /// This text.
    Constant(String),
}

/// Compiles a definition of a file.
pub fn compile(definition: &Definition) -> Compiled {
    let offset = match &definition.place {
        Place::File { offset, .. } => *offset,
        _ => 0,
    };
    let mut steps = Vec::new();
    let ip = spec::Step::Register(Register::Rip, 0);
    let first = match definition.is_return {
        true => vec![spec::Step::Function(0), ip],
        false => vec![ip],
    };
    let addresses = first.len();
    for address in first {
        steps.extend([address, spec::Step::Store]);
    }
    let arguments = definition
        .arguments
        .iter()
        .map(|argument| one(argument, offset, &mut steps))
        .collect();
    Compiled {
        program: spec::Program {
            steps,
            at_return: definition.is_return,
        },
        addresses,
        arguments,
    }
}

fn one(argument: &Argument, offset: u64, steps: &mut Vec<spec::Step>) -> Read {
    let mut bits = None;
    let mut source = Source::One;
    for step in argument.program.steps() {
        match step {
            Step::Comm => source = Source::Comm,
            Step::Text(text) => source = Source::Constant(text.clone()),
            Step::Bits { width, offset } => bits = Some((*width, *offset)),
            Step::Array(count) if argument.value.is_text() => source = Source::Outputs(*count),
            Step::Array(count) => source = Source::Elements(*count),
            _ => {}
        }
    }
    if !matches!(source, Source::Comm | Source::Constant(_)) {
        for step in argument.program.steps() {
            fetch(step, argument, offset, steps);
        }
    }
    Read {
        value: argument.value,
        source,
        bits,
    }
}

fn fetch(step: &Step, argument: &Argument, offset: u64, steps: &mut Vec<spec::Step>) {
    let count = argument.count.unwrap_or(1);
    let size = argument.value.size() * count;
    match *step {
        Step::Register(register) => steps.push(spec::Step::Register(user_register(register), 0)),
        Step::Stack(number) => {
            steps.push(spec::Step::Register(Register::Rsp, 0));
            steps.push(spec::Step::Read(8 * i64::from(number)));
        }
        Step::StackPointer => steps.push(spec::Step::Register(Register::Rsp, 0)),
        Step::ReturnValue => steps.push(spec::Step::Register(Register::Rax, 0)),
        Step::Immediate(value) => steps.push(spec::Step::Constant(value)),
        Step::FileOffset(wanted) => {
            steps.push(spec::Step::Function(wanted.wrapping_sub(offset as i64)));
        }
        Step::Dereference { offset, .. } => steps.push(spec::Step::Read(offset)),
        Step::StoreValue => steps.push(spec::Step::Store),
        Step::StoreMemory { offset, .. } => steps.push(spec::Step::StoreMemory {
            offset,
            size: size as u16,
        }),
        Step::StoreText { offset, .. } => match argument.count {
            None => steps.push(spec::Step::StoreText(offset)),
            Some(count) => texts(count, steps),
        },
        // Of the kernel, or no step of their own.
        Step::Argument(_)
        | Step::EntryArgument(_)
        | Step::EventField(_)
        | Step::Symbol { .. }
        | Step::SymbolAddress
        | Step::StoreSymbol
        | Step::Comm
        | Step::Text(_)
        | Step::Bits { .. }
        | Step::Array(_) => {}
    }
}

/// An array of texts is an array of pointers to them, which the last read leads to.
fn texts(count: u32, steps: &mut Vec<spec::Step>) {
    let Some(&spec::Step::Read(first)) = steps.last() else {
        return;
    };
    steps.pop();
    steps.push(spec::Step::Keep);
    for index in 0..i64::from(count) {
        steps.extend([
            spec::Step::Back,
            spec::Step::Read(first + 8 * index),
            spec::Step::StoreText(0),
        ]);
    }
}

fn user_register(register: KernelRegister) -> Register {
    match register {
        KernelRegister::General(register) => register,
        KernelRegister::Flags => Register::Flags,
        KernelRegister::Cs => Register::Cs,
        KernelRegister::Ss => Register::Ss,
        KernelRegister::OrigAx => Register::OrigRax,
    }
}
