//! What registers and the frame hold while a function's first instructions are followed.
//!
//! Of each general register it is known what of the entry it holds, or that it is an address in the frame;
//! each store to the frame is kept. An instruction that is not understood makes what it writes unknown.

use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};
use tracebraid_bpf::spec::Register;

use crate::definition::knowledge::UserPlace;

/// What is known of a register's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// What was in this one at the entry.
    Entry(Register),
    /// What the caller had put on the stack, so many bytes above its stack pointer.
    Caller(i64),
    /// An address in the frame.
    Frame(i64),
    Unknown,
}

/// A store to the frame.
#[derive(Debug)]
pub(super) struct Store {
    /// From the stack pointer before the call.
    pub(super) address: i64,
    pub(super) size: u64,
    /// The contents of a general register, or the number of a vector register.
    pub(super) what: Result<Contents, u32>,
    /// What the two frame registers were then.
    pub(super) stack_pointer: Contents,
    pub(super) frame_pointer: Contents,
}

/// What lies so many bytes above the caller's stack pointer; at the entry the return address is below.
pub(super) fn above_return(at: i64) -> UserPlace {
    UserPlace::Memory {
        base: Register::Rsp,
        offset: at.saturating_add(8),
    }
}

impl Contents {
    /// Where that is at the entry.
    pub(super) fn place(self) -> Option<UserPlace> {
        match self {
            Contents::Entry(register) => Some(UserPlace::Register(register)),
            Contents::Caller(at) => Some(above_return(at)),
            Contents::Frame(_) | Contents::Unknown => None,
        }
    }
}

/// What instructions have done so far to what there was at the entry.
pub(super) struct State {
    pub(super) registers: [Contents; 16],
    /// Which vector register's contents each of them has.
    vectors: [Option<u32>; 16],
    pub(super) stores: Vec<Store>,
    info: InstructionInfoFactory,
}

impl Default for State {
    fn default() -> State {
        let mut state = State {
            registers: GENERAL.map(Contents::Entry),
            vectors: std::array::from_fn(|number| Some(number as u32)),
            stores: Vec::new(),
            info: InstructionInfoFactory::new(),
        };
        // Below it is the return address.
        state.registers[STACK_POINTER] = Contents::Frame(-8);
        state
    }
}

/// In the order of their numbers in instructions.
pub(super) const GENERAL: [Register; 16] = [
    Register::Rax,
    Register::Rcx,
    Register::Rdx,
    Register::Rbx,
    Register::Rsp,
    Register::Rbp,
    Register::Rsi,
    Register::Rdi,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const STACK_POINTER: usize = 4;
const FRAME_POINTER: usize = 5;

/// The number of a general register, whatever part of it is named; not `ah` and the like.
fn number(register: iced_x86::Register) -> Option<usize> {
    use iced_x86::Register as R;
    if matches!(register, R::AH | R::BH | R::CH | R::DH) {
        return None;
    }
    register
        .is_gpr()
        .then(|| register.full_register().number())
        .filter(|&number| number < 16)
}

impl State {
    /// Does what the instruction does, as far as it is understood.
    pub(super) fn follow(&mut self, instruction: &Instruction) {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let Contents::Frame(top) = self.registers[STACK_POINTER] else {
                    return;
                };
                let top = top.wrapping_sub(8);
                if instruction.op0_kind() == OpKind::Register
                    && let Some(source) = number(instruction.op0_register())
                {
                    self.store(top, 8, Ok(self.registers[source]));
                }
                self.registers[STACK_POINTER] = Contents::Frame(top);
                return;
            }
            Mnemonic::Sub | Mnemonic::Add
                if instruction.op0_register() == iced_x86::Register::RSP =>
            {
                let by =
                    is_immediate(instruction.op1_kind()).then(|| instruction.immediate(1) as i64);
                let by = match instruction.mnemonic() {
                    Mnemonic::Sub => by.map(i64::wrapping_neg),
                    _ => by,
                };
                self.registers[STACK_POINTER] = match (self.registers[STACK_POINTER], by) {
                    (Contents::Frame(at), Some(by)) => Contents::Frame(at.wrapping_add(by)),
                    _ => Contents::Unknown,
                };
                return;
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Register => {
                if let (Some(to), OpKind::Register) =
                    (number(instruction.op0_register()), instruction.op1_kind())
                {
                    let from = number(instruction.op1_register());
                    let contents = from.map_or(Contents::Unknown, |from| self.registers[from]);
                    // A part of an address in the frame is none.
                    let is_whole = instruction.op0_register().size() == 8;
                    self.registers[to] = match contents {
                        Contents::Frame(_) if !is_whole => Contents::Unknown,
                        contents => contents,
                    };
                    return;
                }
                if let (Some(to), OpKind::Memory) =
                    (number(instruction.op0_register()), instruction.op1_kind())
                {
                    let size = instruction.memory_size().size() as u64;
                    let at = self.address(instruction);
                    self.registers[to] = at.map_or(Contents::Unknown, |at| self.loaded(at, size));
                    return;
                }
            }
            // Of a `bool` the lowest bit is kept, which is all that there is.
            Mnemonic::And
                if instruction.op0_kind() == OpKind::Register
                    && is_immediate(instruction.op1_kind())
                    && instruction.immediate(1) == 1 =>
            {
                return;
            }
            Mnemonic::Lea => {
                if let Some(to) = number(instruction.op0_register()) {
                    self.registers[to] = match self.address(instruction) {
                        Some(at) => Contents::Frame(at),
                        None => Contents::Unknown,
                    };
                    return;
                }
            }
            _ => {}
        }
        if is_move(instruction)
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_kind() == OpKind::Register
            && let Some(at) = self.address(instruction)
        {
            let source = instruction.op1_register();
            let size = instruction.memory_size().size() as u64;
            if let Some(number) = number(source) {
                self.store(at, size, Ok(self.registers[number]));
            } else if source.is_xmm()
                && let Some(&Some(number)) = self.vectors.get(source.number())
            {
                self.store(at, size, Err(number));
            }
        }
        self.forget(instruction);
    }

    /// The address of a memory operand, where it lies in the frame.
    fn address(&self, instruction: &Instruction) -> Option<i64> {
        if instruction.memory_index() != iced_x86::Register::None {
            return None;
        }
        match self.registers[number(instruction.memory_base())?] {
            Contents::Frame(at) => {
                Some(at.wrapping_add(instruction.memory_displacement64() as i64))
            }
            _ => None,
        }
    }

    /// What is read from there: what was stored last, or what the caller had put there.
    fn loaded(&self, at: i64, size: u64) -> Contents {
        if at >= 0 {
            return Contents::Caller(at);
        }
        let end = at.saturating_add_unsigned(size);
        let overlaps = |store: &&Store| {
            store.address < end && at < store.address.saturating_add_unsigned(store.size)
        };
        match self.stores.iter().rev().find(overlaps) {
            Some(store) if store.address == at && store.size >= size => {
                store.what.unwrap_or(Contents::Unknown)
            }
            _ => Contents::Unknown,
        }
    }

    fn store(&mut self, address: i64, size: u64, what: Result<Contents, u32>) {
        self.stores.push(Store {
            address,
            size,
            what,
            stack_pointer: self.registers[STACK_POINTER],
            frame_pointer: self.registers[FRAME_POINTER],
        });
    }

    /// Of what an instruction writes nothing is known any more.
    fn forget(&mut self, instruction: &Instruction) {
        let State {
            info,
            registers,
            vectors,
            ..
        } = self;
        for used in info.info(instruction).used_registers() {
            let is_written = !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            if !is_written {
                continue;
            }
            let register = used.register();
            if register.is_gpr() {
                if let Some(contents) = registers.get_mut(register.full_register().number()) {
                    *contents = Contents::Unknown;
                }
            } else if register.is_vector_register()
                && let Some(contents) = vectors.get_mut(register.number())
            {
                *contents = None;
            }
        }
    }
}

/// Whether an instruction stores its second operand as it is.
fn is_move(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Mov
            | Mnemonic::Movss
            | Mnemonic::Movsd
            | Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movapd
            | Mnemonic::Movupd
            | Mnemonic::Movq
            | Mnemonic::Movd
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Vmovss
            | Mnemonic::Vmovsd
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovups
    ) && instruction.code() != Code::INVALID
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}
