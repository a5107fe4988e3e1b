//! Fetch programs as instructions: what stands in the room that `fetch_code` of `bpf/fetch.bpf.h` keeps.
//!
//! ```text
//! fetch_code(scratch, ctx, number):   to the code of the program with that number
//!   step Register:    value = the register             step Store:      to the next place of the outputs
//!   step Constant:    value = the constant             step StoreText:  call store_text
//!   any other:        what is known goes to the scratch slot; call other_step
//! ```
//! What a step leaves for the next one stands in a CPU register, and the place of an output is a constant as long
//! as what stands before it has one length: a number of a definition is a load and two stores. Equal programs
//! share their code. Those that find no room any more have none, and their steps are followed one by one.

use crate::abi::{self, Location, Place, record};
use crate::assembler::{Assembler, Label, Operation, Reg, When};
use crate::error::Result;
use crate::registers;
use crate::room::Room;

/// Where the probed code's registers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registers {
    /// They are what the program was handed.
    Context,
    /// They were put into the scratch slot.
    Scratch,
}

/// The code of all fetch programs of a session.
#[derive(Clone, Debug)]
pub(crate) struct FetchCode {
    context: Assembler,
    scratch: Assembler,
}

const ROOM: Room = Room {
    mark: abi::FETCH_CODE_MARK,
    instructions: abi::FETCH_CODE_ROOM,
    functions: 2,
};
/// The functions behind the room.
const STORE_TEXT: usize = 0;
const OTHER_STEP: usize = 1;

const RESULT: Reg = Reg(0);
/// Arguments of functions, and free otherwise.
const FIRST: Reg = Reg(1);
const SECOND: Reg = Reg(2);
const NUMBER: Reg = Reg(3);
/// Survive calls.
const SLOT: Reg = Reg(6);
const CONTEXT: Reg = Reg(7);
const VALUE: Reg = Reg(8);

/// The most instructions that a step takes, and a program beside its steps.
const OF_STEP: usize = 20;
const OF_PROGRAM: usize = 12;
/// An output that is a value: its head, and it.
const OF_VALUE: usize = 16;
/// Offsets of loads and stores have 16 bits.
const FURTHEST: usize = 0x7000;

impl FetchCode {
    /// Makes the code, and numbers the programs' locations. Outputs may take `room` bytes.
    pub(crate) fn compile(locations: &mut [Location], places: &[Place], room: usize) -> FetchCode {
        let mut programs: Vec<(u32, &[Place])> = Vec::new();
        let mut instructions = OF_PROGRAM;
        for location in locations {
            let Some(steps) = steps(location, places) else {
                continue;
            };
            let known = programs.iter().position(|(_, own)| *own == steps);
            let number = known.or_else(|| {
                let more = OF_PROGRAM + OF_STEP * steps.len();
                let fits = instructions + more <= abi::FETCH_CODE_ROOM;
                if !fits {
                    return None;
                }
                instructions += more;
                programs.push((location.first_place, steps));
                Some(programs.len() - 1)
            });
            location.code = number.map_or(0, |number| number as u32 + 1);
        }
        FetchCode {
            context: compile(&programs, Registers::Context, room),
            scratch: compile(&programs, Registers::Scratch, room),
        }
    }

    /// The same as code that no kernel accepts: it loads from address 0.
    pub(crate) fn refused() -> FetchCode {
        let mut code = Assembler::default();
        code.by_number(Operation::Move, RESULT, 0);
        code.load(RESULT, RESULT, 0, 8);
        code.exit();
        FetchCode {
            context: code.clone(),
            scratch: code,
        }
    }

    /// Writes the code into an object.
    ///
    /// # Errors
    /// [`Load`](crate::ErrorKind::Load) where the object is not as it was compiled.
    pub(crate) fn write_into(&self, object: &mut [u8], registers: Registers) -> Result<()> {
        let code = match registers {
            Registers::Context => &self.context,
            Registers::Scratch => &self.scratch,
        };
        ROOM.fill(object, code)
    }
}

/// The steps of a location's program.
fn steps<'a>(location: &Location, places: &'a [Place]) -> Option<&'a [Place]> {
    if location.fetch != abi::FETCH_PROGRAM {
        return None;
    }
    let count = u16::from_le_bytes([location.words, location.texts]);
    let first = location.first_place as usize;
    places.get(first..first + usize::from(count))
}

fn compile(programs: &[(u32, &[Place])], registers: Registers, room: usize) -> Assembler {
    let mut code = Assembler::default();
    let (done, end) = (code.label(), code.label());
    // What is left of the room must be reachable, and never is: the verifier takes it out.
    code.by_number(Operation::Move, RESULT, 1);
    code.jump_if_number(When::Equal, RESULT, 0, end);
    code.by_register(Operation::Move, SLOT, FIRST);
    code.by_register(Operation::Move, CONTEXT, SECOND);
    let starts: Vec<(u32, Label)> = (1..=programs.len() as u32)
        .map(|number| (number, code.label()))
        .collect();
    code.choose(NUMBER, &starts, done);
    for (&(first, steps), &(_, start)) in programs.iter().zip(&starts) {
        code.place(start);
        let mut one = OneProgram {
            code: &mut code,
            registers,
            room,
            used: Used::Known(0),
            value: Value::Slot,
        };
        for (number, step) in (first..).zip(steps) {
            one.step(step, number);
        }
        one.tell_used();
        code.jump(done);
    }
    code.place(done);
    code.by_number(Operation::Move, RESULT, 0);
    code.exit();
    code.place(end);
    code
}

/// Bytes of outputs so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Known(usize),
    /// The scratch slot says it.
    Told,
}

/// Where the value is that steps work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// In a register, and was read.
    Register,
    /// In the scratch slot, with whether it was read.
    Slot,
}

/// One program while it is compiled.
struct OneProgram<'a> {
    code: &'a mut Assembler,
    registers: Registers,
    room: usize,
    used: Used,
    value: Value,
}

impl OneProgram<'_> {
    fn step(&mut self, step: &Place, number: u32) {
        let is_here = self.value == Value::Register;
        match step.kind {
            abi::STEP_REGISTER if usize::from(step.base) < abi::REGISTERS => {
                let offset = 8 * step.base as i16;
                match self.registers {
                    // A word that is given to programs of another kind: these never come here.
                    Registers::Context if u32::from(step.base) >= registers::LAYOUT.words => {
                        self.code.by_number(Operation::Move, VALUE, 0);
                    }
                    Registers::Context => self.code.load(VALUE, CONTEXT, offset, 8),
                    Registers::Scratch => {
                        let offset = record::SCRATCH_REGISTERS as i16 + offset;
                        self.code.load(VALUE, SLOT, offset, 8);
                    }
                }
                self.add(VALUE, step.displacement);
                self.value = Value::Register;
            }
            abi::STEP_CONSTANT => {
                self.code.constant(VALUE, FIRST, step.displacement as u64);
                self.value = Value::Register;
            }
            abi::STEP_STORE if is_here => self.store(step, number),
            abi::STEP_STORE_TEXT if is_here => {
                self.tell_used();
                self.tell_place(step);
                self.code.by_register(Operation::Move, SECOND, VALUE);
                self.add(SECOND, step.displacement);
                self.code.by_register(Operation::Move, FIRST, SLOT);
                self.code.call(STORE_TEXT);
                self.used = Used::Told;
            }
            _ => {
                self.tell_used();
                self.other(number);
                if matches!(
                    step.kind,
                    abi::STEP_STORE
                        | abi::STEP_STORE_MEMORY
                        | abi::STEP_STORE_TEXT
                        | abi::STEP_STORE_SIZED
                ) {
                    self.used = Used::Told;
                } else if step.kind != abi::STEP_KEEP {
                    self.value = Value::Slot;
                }
            }
        }
    }

    /// A value that was read becomes an output.
    fn store(&mut self, step: &Place, number: u32) {
        let at = record::SCRATCH as i16;
        if let Used::Known(used) = self.used
            && used + OF_VALUE <= self.room
            && record::SCRATCH + used + OF_VALUE <= FURTHEST
        {
            let at = at + used as i16;
            if usize::from(step.index) < abi::WORDS {
                self.code.store_number(SLOT, word(step), used as i32, 8);
            }
            self.code.store_number(SLOT, at, VALUE_HEAD, 8);
            self.code.store(SLOT, at + 8, VALUE, 8);
            self.used = Used::Known(used + OF_VALUE);
            return;
        }
        self.tell_used();
        let (no_room, done) = (self.code.label(), self.code.label());
        let last = self.room as i32 - OF_VALUE as i32;
        self.code.load(FIRST, SLOT, record::SCRATCH_USED as i16, 4);
        self.code.jump_if_number(When::Above, FIRST, last, no_room);
        self.tell_place_in(step, FIRST);
        self.code.by_register(Operation::Move, SECOND, SLOT);
        self.code.by_register(Operation::Add, SECOND, FIRST);
        self.code.store_number(SECOND, at, VALUE_HEAD, 8);
        self.code.store(SECOND, at + 8, VALUE, 8);
        self.code.by_number(Operation::Add, FIRST, OF_VALUE as i32);
        self.code.store(SLOT, record::SCRATCH_USED as i16, FIRST, 4);
        self.code.jump(done);
        self.code.place(no_room);
        self.other(number);
        self.code.place(done);
        self.used = Used::Told;
    }

    /// Has others do a step; they find the value in the scratch slot.
    fn other(&mut self, number: u32) {
        if self.value == Value::Register {
            self.code
                .store(SLOT, record::SCRATCH_VALUE as i16, VALUE, 8);
            self.code
                .store_number(SLOT, record::SCRATCH_FAILED as i16, 0, 4);
        }
        self.code.by_register(Operation::Move, FIRST, SLOT);
        self.code.by_number(Operation::Move, SECOND, number as i32);
        self.code.call(OTHER_STEP);
    }

    fn tell_used(&mut self) {
        if let Used::Known(used) = self.used {
            let at = record::SCRATCH_USED as i16;
            self.code.store_number(SLOT, at, used as i32, 4);
        }
    }

    /// Where an output is, for a filter that looks at it.
    fn tell_place(&mut self, step: &Place) {
        if usize::from(step.index) < abi::WORDS {
            self.code.load(FIRST, SLOT, record::SCRATCH_USED as i16, 4);
            self.tell_place_in(step, FIRST);
        }
    }

    fn tell_place_in(&mut self, step: &Place, used: Reg) {
        if usize::from(step.index) < abi::WORDS {
            self.code.store(SLOT, word(step), used, 8);
        }
    }

    fn add(&mut self, to: Reg, displacement: i64) {
        match i32::try_from(displacement) {
            Ok(0) => {}
            Ok(small) => self.code.by_number(Operation::Add, to, small),
            Err(_) => {
                self.code.constant(FIRST, RESULT, displacement as u64);
                self.code.by_register(Operation::Add, to, FIRST);
            }
        }
    }
}

/// The head of an output of eight bytes that was read.
const VALUE_HEAD: i32 = 8;
const _: () = assert!(abi::TEXT_READ == 0, "the head is a number of 32 bits");

fn word(step: &Place) -> i16 {
    (record::SCRATCH_WORDS + 8 * usize::from(step.index)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: Place = Place {
        displacement: 0,
        base: abi::NO_REGISTER,
        index: abi::NO_REGISTER,
        kind: abi::STEP_STORE,
        width: 0,
        shift: 0,
        reserved: 0,
    };

    fn numbers(programs: &[&[Place]]) -> Vec<u32> {
        let mut places = Vec::new();
        let mut locations: Vec<Location> = programs
            .iter()
            .map(|steps| {
                let [low, high] = (steps.len() as u16).to_le_bytes();
                let first = places.len() as u32;
                places.extend_from_slice(steps);
                Location {
                    entry: 0,
                    next: 0,
                    first_place: first,
                    fetch: abi::FETCH_PROGRAM,
                    words: low,
                    texts: high,
                    keeps: 0,
                    code: 0,
                }
            })
            .collect();
        let code = FetchCode::compile(&mut locations, &places, 4096);
        for assembler in [&code.context, &code.scratch] {
            assert!(assembler.len() <= abi::FETCH_CODE_ROOM);
            assert!(assembler.finish(&[5000, 6000]).is_some());
        }
        locations.iter().map(|location| location.code).collect()
    }

    #[test]
    fn equal_programs_share_their_code_and_what_finds_no_room_has_none() {
        let constant = Place {
            kind: abi::STEP_CONSTANT,
            displacement: 1 << 40,
            ..STORE
        };
        let number = [constant, STORE];
        let long = [number; 90].concat();
        let other = [constant, STORE, STORE];
        assert_eq!(numbers(&[&number, &other, &number, &[]]), [1, 2, 1, 3]);
        assert_eq!(
            numbers(&[
                &long,
                &long,
                &[long.clone(), long.clone()].concat(),
                &number
            ]),
            [1, 1, 0, 2]
        );
    }

    #[test]
    fn no_program_takes_more_instructions_than_it_is_given() {
        let register = Place {
            kind: abi::STEP_REGISTER,
            base: 3,
            displacement: 1 << 40,
            ..STORE
        };
        let text = Place {
            kind: abi::STEP_STORE_TEXT,
            displacement: 1 << 40,
            index: 0,
            ..STORE
        };
        let value = Place { index: 1, ..STORE };
        let read = Place {
            kind: abi::STEP_READ,
            ..STORE
        };
        for kinds in [
            vec![register, text],
            vec![register, text, value],
            vec![register, read, value],
            vec![register, value],
        ] {
            let steps: Vec<Place> = kinds.iter().copied().cycle().take(200).collect();
            let steps = &steps[..];
            assert_eq!(numbers(&[steps]), [1]);
        }
    }
}
