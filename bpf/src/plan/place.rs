//! Locations and places, as the programs read them.

use std::path::Path;

use crate::abi;
use crate::error::{Error, Result};
use crate::registers;
use crate::spec::{Argument, Fetch, Kept, Location, Place, Program, Register, Step};

pub(super) fn check(file: &Path, location: &Location) -> Result<()> {
    let refuse = |what: String| {
        Err(Error::bad_spec(format!(
            "{} at {:#x}: {what}",
            file.display(),
            location.offset
        )))
    };
    match &location.fetch {
        Fetch::Slots { count, text } => {
            if usize::from(*count) > abi::WORDS {
                return refuse(format!("{count} slots; at most {} can be read", abi::WORDS));
            }
            if text.len() > abi::TEXTS {
                return refuse(format!(
                    "{} texts; at most {} can be read",
                    text.len(),
                    abi::TEXTS
                ));
            }
            if let Some(pair) = text.iter().find(|pair| pair.0.max(pair.1) >= *count) {
                return refuse(format!("a text in slots {pair:?} of {count}"));
            }
        }
        Fetch::Arguments(arguments) => {
            if arguments.len() > abi::WORDS {
                return refuse(format!(
                    "{} arguments; at most {} can be read",
                    arguments.len(),
                    abi::WORDS
                ));
            }
            if let Some(bad) = arguments
                .iter()
                .find(|one| !matches!(one.width, 1 | 2 | 4 | 8))
            {
                return refuse(format!("an argument of {} bytes", bad.width));
            }
        }
        Fetch::Program(program) => {
            if let Err(what) = check_program(program) {
                return refuse(what);
            }
        }
    }
    Ok(())
}

/// The registers in which a function of the kernel takes its first arguments.
pub(crate) const ARGUMENTS: [Register; 6] = [
    Register::Rdi,
    Register::Rsi,
    Register::Rdx,
    Register::Rcx,
    Register::R8,
    Register::R9,
];

/// What of a fetch program cannot be.
pub(super) fn check_program(program: &Program) -> std::result::Result<(), String> {
    let steps = || program.steps.iter().chain(&program.for_filters);
    // And one between the two.
    if steps().count() >= usize::from(u16::MAX) {
        return Err(format!("{} steps", steps().count()));
    }
    let beyond = steps().find_map(|step| match *step {
        Step::Argument(number) if usize::from(number) >= ARGUMENTS.len() => Some(number),
        Step::Given(number) if number >= abi::MOST_GIVEN => Some(number),
        _ => None,
    });
    if let Some(number) = beyond {
        return Err(format!("argument {number}, which is in no register"));
    }
    let kept = program.kept().len();
    if kept > abi::KEPT || (kept > 0 && !program.at_return) {
        return Err(format!(
            "{kept} words of the entry; a return can have {}",
            abi::KEPT
        ));
    }
    let widths = |step: &Step| match *step {
        Step::Field { bytes, .. } if !matches!(bytes, 1 | 2 | 4 | 8) => Some(bytes),
        _ => None,
    };
    if let Some(bytes) = steps().find_map(widths) {
        return Err(format!("a number of {bytes} bytes"));
    }
    let mut sizes = steps().filter_map(|step| match step {
        Step::StoreMemory { size, .. } => Some(usize::from(*size)),
        _ => None,
    });
    match sizes.find(|size| !(1..=abi::ARRAY_BYTES).contains(size)) {
        Some(bad) => Err(format!("an array of {bad} bytes")),
        None => Ok(()),
    }
}

pub(super) const NO_PLACE: abi::Place = abi::Place {
    displacement: 0,
    base: abi::NO_REGISTER,
    index: abi::NO_REGISTER,
    kind: abi::PLACE_NONE,
    width: 0,
    shift: 0,
    reserved: 0,
};

/// A place that cannot be had stays in the list as `PLACE_NONE`: it costs that argument only.
pub(super) fn place(argument: &Argument) -> abi::Place {
    let width = argument.width;
    let word = registers::word;
    match &argument.place {
        Place::Constant(value) => abi::Place {
            displacement: *value,
            kind: abi::PLACE_CONSTANT,
            width,
            ..NO_PLACE
        },
        Place::Register { register, high } => match word(*register) {
            Some(base) => abi::Place {
                base,
                kind: abi::PLACE_REGISTER,
                width,
                shift: if *high { 8 } else { 0 },
                ..NO_PLACE
            },
            None => NO_PLACE,
        },
        Place::Memory {
            base,
            index,
            displacement,
        } => {
            let (base, base_known) = match base {
                Some(register) => (word(*register), true),
                None => (Some(abi::NO_REGISTER), true),
            };
            let (index, shift) = match index {
                Some((register, scale)) if matches!(scale, 1 | 2 | 4 | 8) => {
                    (word(*register), scale.trailing_zeros() as u8)
                }
                Some(_) => (None, 0),
                None => (Some(abi::NO_REGISTER), 0),
            };
            match (base, index) {
                (Some(base), Some(index)) if base_known => abi::Place {
                    displacement: *displacement,
                    base,
                    index,
                    kind: abi::PLACE_MEMORY,
                    width,
                    shift,
                    ..NO_PLACE
                },
                _ => NO_PLACE,
            }
        }
        Place::ProbeRelative {
            displacement,
            address_only,
        } => {
            let Some(base) = word(crate::spec::Register::Rip) else {
                return NO_PLACE;
            };
            if *address_only {
                abi::Place {
                    displacement: *displacement,
                    kind: abi::PLACE_ADDRESS,
                    width,
                    ..NO_PLACE
                }
            } else {
                abi::Place {
                    displacement: *displacement,
                    base,
                    kind: abi::PLACE_MEMORY,
                    width,
                    ..NO_PLACE
                }
            }
        }
        Place::Unsupported(_) => NO_PLACE,
    }
}

/// A word of a call's entry.
pub(super) fn kept_place(kept: &Kept) -> abi::Place {
    let (kind, register, displacement) = match *kept {
        Kept::Register(register) => (abi::PLACE_REGISTER, register, 0),
        Kept::Memory(register, offset) => (abi::PLACE_MEMORY, register, offset),
    };
    abi::Place {
        kind,
        displacement,
        base: registers::word(register).unwrap_or(abi::NO_REGISTER),
        ..NO_PLACE
    }
}

/// A register that this machine does not have makes its argument a fault: nothing is read at address 0. `kept` are
/// the words of the entry.
pub(super) fn step(step: &Step, kept: &[Kept]) -> abi::Place {
    let with = |kind, displacement| abi::Place {
        kind,
        displacement,
        ..NO_PLACE
    };
    match *step {
        Step::Register(register, displacement) => abi::Place {
            base: registers::word(register).unwrap_or(abi::NO_REGISTER),
            ..with(abi::STEP_REGISTER, displacement)
        },
        Step::Argument(number) => {
            let register = ARGUMENTS.get(usize::from(number));
            abi::Place {
                base: register
                    .and_then(|&register| registers::word(register))
                    .unwrap_or(abi::NO_REGISTER),
                ..with(abi::STEP_REGISTER, 0)
            }
        }
        Step::Given(number) => abi::Place {
            base: abi::FIRST_GIVEN + u16::from(number),
            ..with(abi::STEP_REGISTER, 0)
        },
        Step::AtEntry(wanted) => abi::Place {
            base: kept
                .iter()
                .position(|own| *own == wanted)
                .map_or(abi::NO_REGISTER, |index| index as u16),
            ..with(abi::STEP_KEPT, 0)
        },
        Step::Record(offset) => abi::Place {
            base: abi::RECORD_WORD,
            ..with(abi::STEP_REGISTER, offset.into())
        },
        Step::Field {
            offset,
            bytes,
            signed,
        } => abi::Place {
            width: bytes,
            shift: signed.into(),
            ..with(abi::STEP_FIELD, offset.into())
        },
        Step::FieldData(field) => abi::Place {
            shift: field.relative.into(),
            ..with(abi::STEP_FIELD_DATA, field.offset.into())
        },
        Step::Constant(value) => with(abi::STEP_CONSTANT, value as i64),
        Step::Function(displacement) => with(abi::STEP_FUNCTION, displacement),
        Step::Read(offset) => with(abi::STEP_READ, offset),
        Step::OfProcess(offset) => with(abi::STEP_OF_PROCESS, offset),
        Step::Keep => with(abi::STEP_KEEP, 0),
        Step::Back => with(abi::STEP_BACK, 0),
        Step::Store => with(abi::STEP_STORE, 0),
        Step::StoreMemory { offset, size } => abi::Place {
            base: size,
            ..with(abi::STEP_STORE_MEMORY, offset)
        },
        Step::StoreText(offset) => with(abi::STEP_STORE_TEXT, offset),
        Step::StoreSized(offset) => with(abi::STEP_STORE_SIZED, offset),
    }
}
