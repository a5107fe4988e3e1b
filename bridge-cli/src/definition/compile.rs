//! From a definition to what the kernel side runs: steps, and how their outputs become values.
//!
//! ```text
//! id=+8(%di):u32     register rdi │ store 4 bytes at +8       ─▶ output 1 ─▶ unsigned
//! s=+0(+8(%di)):string[2]  register rdi │ read +8 … keep │ back, read +0, text │ back, read +8, text
//! c=$comm            nothing: the record's header has it
//! ```
//! The first outputs are the addresses that the kernel's records begin with; at an event there is none.

use tracebraid_bpf::spec::{self, Register};

use super::argument::Argument;
use super::kernel_probe::address_of;
use super::knowledge::{EventField, Kernel};
use super::program::{KernelRegister, Step};
use super::value_type::ValueType;
use super::{Definition, Kind, Place};

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
    /// Whether the bits have a sign. The kernel shows those of its own structures without.
    pub is_signed: bool,
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
    /// The next output, which is how many bytes the text in the one after it has.
    Sized,
    /// The name of the thread.
    Comm,
    /// This text.
    Constant(String),
}

/// Compiles a definition of a file or of a kernel function.
///
/// # Errors
/// What of it cannot be fetched, as a sentence.
pub fn compile(definition: &Definition, kernel: &dyn Kernel) -> Result<Compiled, String> {
    let offset = match &definition.place {
        Place::File { offset, .. } => *offset,
        _ => 0,
    };
    let here = match definition.is_return {
        true => Here::Function(offset),
        false => Here::Instruction(offset),
    };
    let mut steps = Vec::new();
    // In the kernel it stands one byte behind the probe, as behind a breakpoint.
    let behind = i64::from(definition.kind != Kind::File && !definition.is_return);
    let ip = spec::Step::Register(Register::Rip, -behind);
    let fields = match &definition.place {
        Place::Event { group, name, .. } => kernel.event(group, name).unwrap_or_default(),
        _ => Vec::new(),
    };
    let first = match (definition.kind, definition.is_return) {
        (Kind::Event, _) => vec![],
        (Kind::Tracepoint, _) => vec![spec::Step::Constant(stub(definition, kernel))],
        (_, true) => vec![spec::Step::Function(0), ip],
        (_, false) => vec![ip],
    };
    let addresses = first.len();
    for address in first {
        steps.extend([address, spec::Step::Store]);
    }
    let at = At {
        kind: definition.kind,
        here,
        fields,
        kernel,
    };
    let mut arguments = definition
        .arguments
        .iter()
        .map(|argument| one(argument, &at, &mut steps))
        .collect::<Result<Vec<Read>, String>>()?;
    for read in &mut arguments {
        read.is_signed = definition.kind == Kind::File && read.value.is_number_with_sign();
    }
    Ok(Compiled {
        program: spec::Program {
            steps,
            at_return: definition.is_return,
            for_filters: Vec::new(),
        },
        addresses,
        arguments,
    })
}

/// Arguments that a function of the kernel takes in registers.
const IN_REGISTERS: u32 = 6;
/// The most that a tracepoint has.
const OF_TRACEPOINT: u32 = 12;

/// The address that the kernel gives for hits of a tracepoint: that of a function which is there for it, behind
/// the `endbr64`. 0 where it may not be seen, or the kernel (before 6.10) has no such function.
fn stub(definition: &Definition, kernel: &dyn Kernel) -> u64 {
    let Place::Symbol { symbol, .. } = &definition.place else {
        return 0;
    };
    let found = kernel
        .tracepoint_function(symbol)
        .and_then(|name| kernel.symbols(None, &name).into_iter().next());
    found.map_or(0, |found| match kernel.is_entry(&found, 4) {
        true => found.address + 4,
        false => found.address,
    })
}

/// An address that is known when the probe is hit, and its offset in the file.
#[derive(Clone, Copy)]
enum Here {
    /// Of the instruction that is probed.
    Instruction(u64),
    /// Of the function that returns. (Of an entry, kernels before 6.6 do not tell it.)
    Function(u64),
}

impl Here {
    /// The address of another offset in the file.
    fn step(self, wanted: i64) -> spec::Step {
        let from = |offset: u64| wanted.wrapping_sub(offset as i64);
        match self {
            Here::Instruction(offset) => spec::Step::Register(Register::Rip, from(offset)),
            Here::Function(offset) => spec::Step::Function(from(offset)),
        }
    }
}

/// Where a definition's arguments are fetched.
struct At<'a> {
    kind: Kind,
    here: Here,
    /// Of the event.
    fields: Vec<EventField>,
    kernel: &'a dyn Kernel,
}

fn one(argument: &Argument, at: &At<'_>, steps: &mut Vec<spec::Step>) -> Result<Read, String> {
    let mut bits = None;
    let mut source = Source::One;
    for step in argument.program.steps() {
        match step {
            Step::Comm if !argument.value.is_text() => {
                return Err(format!(
                    "{}={}: the thread's name is a text: write $comm:string (the kernel prints its address \
                     instead)",
                    argument.name, argument.body
                ));
            }
            Step::Comm => source = Source::Comm,
            Step::Text(text) => source = Source::Constant(text.clone()),
            Step::Bits { width, offset } => bits = Some((*width, *offset)),
            Step::Array(count) if argument.value.is_text() => source = Source::Outputs(*count),
            Step::Array(count) => source = Source::Elements(*count),
            _ => {}
        }
    }
    if let Some(length) = &argument.length {
        source = Source::Sized;
        for step in length.steps() {
            fetch(step, argument, at, steps)?;
        }
        // The length is given out, and kept for the text.
        if let Some(store) = steps.pop() {
            steps.extend([spec::Step::Keep, store]);
        }
    }
    if !matches!(source, Source::Comm | Source::Constant(_)) {
        for step in argument.program.steps() {
            fetch(step, argument, at, steps)?;
        }
    }
    Ok(Read {
        value: argument.value,
        source,
        bits,
        is_signed: false,
    })
}

fn fetch(
    step: &Step,
    argument: &Argument,
    at: &At<'_>,
    steps: &mut Vec<spec::Step>,
) -> Result<(), String> {
    let count = argument.count.unwrap_or(1);
    let size = argument.value.size() * count;
    // Programs in files read the process's memory only.
    let in_kernel = at.kind != Kind::File;
    match step.clone() {
        Step::Register(register) => steps.push(spec::Step::Register(user_register(register), 0)),
        Step::Stack(number) => {
            steps.push(spec::Step::Register(Register::Rsp, 0));
            steps.push(spec::Step::Read(8 * i64::from(number)));
        }
        Step::StackPointer => steps.push(spec::Step::Register(Register::Rsp, 0)),
        Step::ReturnValue => steps.push(spec::Step::Register(Register::Rax, 0)),
        Step::Immediate(value) => steps.push(spec::Step::Constant(value)),
        Step::AtEntry(kept) => steps.push(spec::Step::AtEntry(kept)),
        Step::FileOffset(wanted) => steps.push(at.here.step(wanted)),
        Step::Dereference { offset, user } => {
            of_process(user && in_kernel, offset, steps);
            steps.push(spec::Step::Read(offset));
        }
        Step::StoreValue => steps.push(spec::Step::Store),
        Step::StoreMemory { offset, user } => {
            of_process(user && in_kernel, offset, steps);
            steps.push(spec::Step::StoreMemory {
                offset,
                size: size as u16,
            });
        }
        Step::StoreText { offset, user } => match argument.count {
            None if argument.length.is_some() => steps.push(spec::Step::StoreSized(offset)),
            None => {
                of_process(user && in_kernel, offset, steps);
                steps.push(spec::Step::StoreText(offset));
            }
            Some(count) => texts(count, user && in_kernel, steps).ok_or_else(|| {
                format!(
                    "{}: an array of texts is one of addresses in memory",
                    argument.name
                )
            })?,
        },
        // The first one is the tracepoint's own.
        Step::Argument(number) if at.kind == Kind::Tracepoint => {
            match number
                .checked_sub(1)
                .filter(|number| *number < OF_TRACEPOINT)
            {
                Some(number) => steps.push(spec::Step::Given(number as u8)),
                None => {
                    return Err(format!(
                        "{}: tracepoints have no such argument",
                        argument.name
                    ));
                }
            }
        }
        Step::Argument(number) | Step::EntryArgument(number) if number < IN_REGISTERS => {
            steps.push(spec::Step::Argument(number as u8));
        }
        Step::Argument(number) => {
            // Above the return address, which is on top of the stack.
            let above = i64::from(number - IN_REGISTERS) + 1;
            steps.push(spec::Step::Register(Register::Rsp, 0));
            steps.push(spec::Step::Read(8 * above));
        }
        Step::EntryArgument(_) => {
            return Err(format!(
                "{}: arguments of the entry that are on the stack are not kept for a return probe",
                argument.name
            ));
        }
        Step::Symbol { name } => match address_of(at.kernel, &name) {
            Ok(0) => {
                return Err(format!(
                    "the address of {name} may not be seen (CAP_SYSLOG)"
                ));
            }
            Ok(address) => steps.push(spec::Step::Constant(address)),
            Err(_) => return Err(format!("there is no kernel symbol {name}")),
        },
        Step::StoreSymbol => steps.push(spec::Step::Store),
        Step::EventField(index) => {
            let field = at
                .fields
                .get(index)
                .ok_or("the event has changed meanwhile")?;
            steps.push(field_step(field));
        }
        // No step of their own.
        Step::SymbolAddress | Step::Comm | Step::Text(_) | Step::Bits { .. } | Step::Array(_) => {}
    }
    Ok(())
}

/// Of what is to be read as memory of the process, an address of the kernel is none.
fn of_process(user: bool, offset: i64, steps: &mut Vec<spec::Step>) {
    if user {
        steps.push(spec::Step::OfProcess(offset));
    }
}

/// An array of texts is an array of pointers to them, which the last read leads to.
fn texts(count: u32, user: bool, steps: &mut Vec<spec::Step>) -> Option<()> {
    let Some(&spec::Step::Read(first)) = steps.last() else {
        return None;
    };
    steps.pop();
    steps.push(spec::Step::Keep);
    for index in 0..i64::from(count) {
        steps.extend([spec::Step::Back, spec::Step::Read(first + 8 * index)]);
        of_process(user, 0, steps);
        steps.push(spec::Step::StoreText(0));
    }
    Some(())
}

/// The value of an event's field: a number itself; of anything else its address, of text and of arrays too.
fn field_step(field: &EventField) -> spec::Step {
    let offset = field.offset;
    if let Some(relative) = field.is_relative_descriptor() {
        return spec::Step::FieldData(spec::Dynamic { offset, relative });
    }
    let is_text = field.type_name.contains("char") && field.type_name.contains('[');
    match field.size {
        bytes @ (1 | 2 | 4 | 8) if !is_text => spec::Step::Field {
            offset,
            bytes: bytes as u8,
            signed: field.signed,
        },
        _ => spec::Step::Record(offset),
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
