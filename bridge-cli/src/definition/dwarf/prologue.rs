//! Where unoptimised code has its parameters when it is entered.
//!
//! Such code moves its parameters from registers to the stack first, and its debug information says where
//! they are from then on:
//!
//! ```text
//! push rbp │ mov rbp,rsp │ sub rsp,32 │ mov [rbp-20],edi     DW_OP_fbreg -36 is edi at the entry
//! sub rsp,56 │ mov [rsp+16],rdi │ mov [rsp+24],rsi           DW_OP_fbreg 16, frame base rsp: rdi, rsi
//! ```
//! So the first instructions are followed, up to the first that does not go on to the next: what each
//! register holds of what there was at the entry, and which of it is stored where. The calling convention
//! is not asked: Rust has none that is written down.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind,
};
use tracebraid_bpf::spec::Register;

use super::location::floating;
use crate::definition::knowledge::{Piece, UserPlace};

/// What an address in a frame is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The stack pointer before the call.
    Cfa,
    /// A register, as it is at that moment.
    Register(Register),
}

/// What is known of a register's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
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
struct Store {
    /// From the stack pointer before the call.
    address: i64,
    size: u64,
    /// The contents of a general register, or the number of a vector register.
    what: Result<Contents, u32>,
    /// What the two frame registers were then.
    stack_pointer: Contents,
    frame_pointer: Contents,
}

/// A function's first instructions.
#[derive(Debug)]
pub(super) struct Prologue {
    stores: Vec<Store>,
    /// What the registers hold before the instruction at each address; the last is behind them.
    steps: Vec<(u64, [Contents; 16])>,
}

/// Instructions that are followed.
const LONGEST: usize = 200;

impl Prologue {
    /// Follows code that begins at this address.
    pub(super) fn of(code: &[u8], address: u64) -> Prologue {
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut state = State::default();
        let mut instruction = Instruction::default();
        let mut steps = vec![(address, state.registers)];
        for _ in 0..LONGEST {
            if !decoder.can_decode() {
                break;
            }
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
                break;
            }
            state.follow(&instruction);
            steps.push((instruction.next_ip(), state.registers));
        }
        Prologue {
            stores: state.stores,
            steps,
        }
    }

    /// What at the entry was where a register is at this address, which is reached by the first
    /// instructions; `None` where that is not known.
    pub(super) fn held(&self, address: u64, register: Register) -> Option<UserPlace> {
        let (_, registers) = self.steps.iter().find(|(at, _)| *at == address)?;
        let number = GENERAL.iter().position(|own| *own == register)?;
        registers[number].place()
    }

    /// What a place of the frame is from the stack pointer before the call, when all is set up.
    fn settled(&self, base: Base, offset: i64) -> Option<i64> {
        let Base::Register(register) = base else {
            return Some(offset);
        };
        let (_, registers) = self.steps.last()?;
        let number = GENERAL.iter().position(|own| *own == register)?;
        match registers[number] {
            Contents::Frame(at) => Some(at.wrapping_add(offset)),
            _ => None,
        }
    }

    /// Where at the entry is what so many bytes at this place of the frame hold later.
    pub(super) fn find(&self, base: Base, offset: i64, size: u64) -> Result<UserPlace, String> {
        // What the caller has put there is there already.
        if let Some(at @ 0..) = self.settled(base, offset) {
            return Ok(above_return(at));
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for store in &self.stores {
            let begin = match base {
                Base::Cfa => offset,
                Base::Register(register) => {
                    let contents = match register {
                        Register::Rsp => store.stack_pointer,
                        _ => store.frame_pointer,
                    };
                    match contents {
                        Contents::Frame(at) => at.wrapping_add(offset),
                        _ => continue,
                    }
                }
            };
            let Ok(within) = u64::try_from(store.address.wrapping_sub(begin)) else {
                continue;
            };
            let is_new = pieces.iter().all(|piece| {
                within >= piece.offset.saturating_add(piece.size)
                    || within.saturating_add(store.size) <= piece.offset
            });
            if within < size && is_new {
                let place = match store.what {
                    Ok(contents) => contents.place().ok_or_else(|| UNCLEAR.to_owned()),
                    Err(number) => Err(floating(number)),
                };
                if within == 0 && store.size >= size {
                    return place;
                }
                pieces.push(Piece {
                    offset: within,
                    size: store.size,
                    place,
                });
            }
        }
        if pieces.is_empty() {
            return Err(UNCLEAR.to_owned());
        }
        pieces.sort_by_key(|piece| piece.offset);
        Ok(UserPlace::Pieces(pieces))
    }
}

const UNCLEAR: &str =
    "the function puts it into its frame behind its entry, in a way that was not understood";

/// What lies so many bytes above the caller's stack pointer; at the entry the return address is below.
fn above_return(at: i64) -> UserPlace {
    UserPlace::Memory {
        base: Register::Rsp,
        offset: at.saturating_add(8),
    }
}

impl Contents {
    /// Where that is at the entry.
    fn place(self) -> Option<UserPlace> {
        match self {
            Contents::Entry(register) => Some(UserPlace::Register(register)),
            Contents::Caller(at) => Some(above_return(at)),
            Contents::Frame(_) | Contents::Unknown => None,
        }
    }
}

struct State {
    registers: [Contents; 16],
    /// Which vector register's contents each of them has.
    vectors: [Option<u32>; 16],
    stores: Vec<Store>,
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
const GENERAL: [Register; 16] = [
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
    fn follow(&mut self, instruction: &Instruction) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `push rbp; mov rbp,rsp; mov [rbp-20],edi; mov eax,[rbp+16]; mov [rbp-24],ax; movss [rbp-28],xmm1; ret`
    const WITH_FRAME: [u8; 24] = [
        0x55, 0x48, 0x89, 0xe5, 0x89, 0x7d, 0xec, 0x8b, 0x45, 0x10, 0x66, 0x89, 0x45, 0xe8, 0xf3,
        0x0f, 0x11, 0x4d, 0xe4, 0xc3, 0x90, 0x90, 0x90, 0x90,
    ];

    #[test]
    fn what_is_stored_is_where_it_was_at_the_entry() {
        let prologue = Prologue::of(&WITH_FRAME, 0x1000);
        let edi = Ok(UserPlace::Register(Register::Rdi));
        assert_eq!(prologue.find(Base::Cfa, -36, 4), edi);
        assert_eq!(prologue.find(Base::Register(Register::Rbp), -20, 4), edi);
        let on_stack = |offset| {
            Ok(UserPlace::Memory {
                base: Register::Rsp,
                offset,
            })
        };
        assert_eq!(prologue.find(Base::Cfa, -40, 2), on_stack(8));
        assert_eq!(prologue.find(Base::Cfa, 8, 8), on_stack(16));
        assert_eq!(
            prologue.find(Base::Register(Register::Rbp), 16, 8),
            on_stack(8)
        );
        assert_eq!(prologue.find(Base::Cfa, -44, 4), Err(floating(1)));
        assert_eq!(prologue.find(Base::Cfa, -80, 4), Err(UNCLEAR.to_owned()));
    }

    /// `sub rsp,24; mov [rsp+8],rcx; mov rcx,rdx; mov rdx,[rsp+8]; mov [rsp+16],rdx; ret`
    const WITHOUT: [u8; 23] = [
        0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x4c, 0x24, 0x08, 0x48, 0x89, 0xd1, 0x48, 0x8b, 0x54,
        0x24, 0x08, 0x48, 0x89, 0x54, 0x24, 0x10, 0xc3,
    ];

    #[test]
    fn what_is_kept_aside_and_taken_back_is_followed() {
        let prologue = Prologue::of(&WITHOUT, 0);
        let stack = Base::Register(Register::Rsp);
        let rcx = UserPlace::Register(Register::Rcx);
        assert_eq!(prologue.find(stack, 16, 8), Ok(rcx.clone()));
        assert_eq!(prologue.held(17, Register::Rdx), Some(rcx));
        let rdx = UserPlace::Register(Register::Rdx);
        assert_eq!(prologue.held(17, Register::Rcx), Some(rdx));
        assert_eq!(prologue.held(18, Register::Rcx), None);
    }

    #[test]
    fn any_bytes_are_followed_to_an_end() {
        for first in 0..=u8::MAX {
            for second in (0..=u8::MAX).step_by(7) {
                let code = [
                    0x48, first, second, 0xe5, 0x24, first, 0x08, second, 0xf0, 0x0f,
                ];
                let prologue = Prologue::of(&code, u64::MAX - 4);
                let _ = prologue.find(Base::Register(Register::Rsp), i64::MIN, u64::MAX);
            }
        }
    }
}
