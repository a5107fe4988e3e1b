//! BPF instructions, put one behind the other: the few that filters and fetch programs need. Jumps go forward, to
//! labels that are placed later.

use libbpf_rs::libbpf_sys::bpf_insn;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(pub(crate) u8);

/// What is done to a register.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Operation {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum When {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    AnyBit = 0x40,
    Differs = 0x50,
    Greater = 0x60,
    GreaterOrEqual = 0x70,
    Below = 0xa0,
    AtMost = 0xb0,
    Less = 0xc0,
    LessOrEqual = 0xd0,
}

const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const REGISTER: u8 = 0x08;
const MOVE_32: u8 = 0xb4;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// In the source of a call: of a function of the program, not of the kernel's.
const OWN_FUNCTION: u8 = 1;

/// A place that is jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Instructions so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    /// Where each label is, once it is placed.
    places: Vec<Option<usize>>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Label)>,
    /// Calls of functions beside them, and which.
    calls: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    immediate: i32,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Reg, from: Reg, offset: i16, immediate: i32) {
        self.code.push(Instruction {
            code,
            to: to.0,
            from: from.0,
            offset,
            immediate,
        });
    }

    /// How many instructions there are.
    pub(crate) fn len(&self) -> usize {
        self.code.len()
    }

    /// A label to jump to.
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// What comes next is there.
    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    /// `to = to OPERATION number`
    pub(crate) fn by_number(&mut self, operation: Operation, to: Reg, number: i32) {
        self.push(ALU64 | operation as u8, to, Reg(0), 0, number);
    }

    /// `to = to OPERATION from`
    pub(crate) fn by_register(&mut self, operation: Operation, to: Reg, from: Reg) {
        self.push(ALU64 | REGISTER | operation as u8, to, from, 0, 0);
    }

    /// `to = value`; `beside` is overwritten where it does not fit an instruction.
    pub(crate) fn constant(&mut self, to: Reg, beside: Reg, value: u64) {
        if let Ok(small) = i32::try_from(value as i64) {
            return self.by_number(Operation::Move, to, small);
        }
        self.push(MOVE_32, to, Reg(0), 0, (value >> 32) as i32);
        self.by_number(Operation::ShiftLeft, to, 32);
        self.push(MOVE_32, beside, Reg(0), 0, value as i32);
        self.by_register(Operation::Or, to, beside);
    }

    /// `to` becomes the 1, 2, 4 or 8 bytes at `from` + offset.
    pub(crate) fn load(&mut self, to: Reg, from: Reg, offset: i16, bytes: u8) {
        self.push(LOAD | width(bytes), to, from, offset, 0);
    }

    /// The 4 or 8 bytes at `to` + offset become those of `from`.
    pub(crate) fn store(&mut self, to: Reg, offset: i16, from: Reg, bytes: u8) {
        self.push(STORE | width(bytes), to, from, offset, 0);
    }

    /// The 4 or 8 bytes at `to` + offset become a number.
    pub(crate) fn store_number(&mut self, to: Reg, offset: i16, number: i32, bytes: u8) {
        self.push(STORE_NUMBER | width(bytes), to, Reg(0), offset, number);
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP, Reg(0), Reg(0), 0, 0);
    }

    pub(crate) fn jump_if_number(&mut self, when: When, one: Reg, number: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | when as u8, one, Reg(0), 0, number);
    }

    pub(crate) fn jump_if(&mut self, when: When, one: Reg, other: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | REGISTER | when as u8, one, other, 0, 0);
    }

    /// Calls a function of the kernel's.
    pub(crate) fn call_helper(&mut self, number: i32) {
        self.push(CALL, Reg(0), Reg(0), 0, number);
    }

    /// Calls a function of those beside them.
    pub(crate) fn call(&mut self, function: usize) {
        self.calls.push((self.code.len(), function));
        self.push(CALL, Reg(0), Reg(OWN_FUNCTION), 0, 0);
    }

    /// To the label of the number that a register holds, by halves; numbers ascend.
    pub(crate) fn choose(&mut self, register: Reg, ways: &[(u32, Label)], otherwise: Label) {
        match ways {
            [] => {}
            [(number, way)] => {
                self.jump_if_number(When::Equal, register, *number as i32, *way);
                self.jump(otherwise);
            }
            several => {
                let (low, high) = several.split_at(several.len() / 2);
                let upper = self.label();
                self.jump_if_number(When::AtLeast, register, high[0].0 as i32, upper);
                self.choose(register, low, otherwise);
                self.place(upper);
                self.choose(register, high, otherwise);
            }
        }
    }

    pub(crate) fn exit(&mut self) {
        self.push(EXIT, Reg(0), Reg(0), 0, 0);
    }

    /// The bytes. `functions` are where the functions that are called stand, counted from the first
    /// instruction. `None` where a jump is too far.
    pub(crate) fn finish(&self, functions: &[i32]) -> Option<Vec<u8>> {
        let mut code = self.code.clone();
        for &(at, label) in &self.jumps {
            let to = self.places[label.0]?;
            code[at].offset = i16::try_from(to as i64 - at as i64 - 1).ok()?;
        }
        for &(at, function) in &self.calls {
            code[at].immediate = functions.get(function)?.checked_sub(at as i32 + 1)?;
        }
        Some(code.iter().flat_map(|it| it.bytes()).collect())
    }
}

/// Of what is loaded and stored.
fn width(bytes: u8) -> u8 {
    match bytes {
        1 => 0x10,
        2 => 0x08,
        4 => 0x00,
        _ => 0x18,
    }
}

impl Instruction {
    fn bytes(self) -> [u8; size_of::<bpf_insn>()] {
        let [low, high] = self.offset.to_ne_bytes();
        let [a, b, c, d] = self.immediate.to_ne_bytes();
        let registers = match cfg!(target_endian = "little") {
            true => self.from << 4 | self.to,
            false => self.to << 4 | self.from,
        };
        [self.code, registers, low, high, a, b, c, d]
    }
}
