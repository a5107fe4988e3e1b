//! Where a value is, from the expressions of DWARF (version 5, section 2.6), as far as that can be said
//! without running them: a register, memory at a register, a constant, pieces of these.

use gimli::{Encoding, Expression, Operation};
use tracebraid_bpf::spec::Register;

use super::Reader;
use super::prologue::{Base, Prologue};
use crate::definition::knowledge::{Piece, UserPlace};

/// What a function's frame is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The stack pointer before the call (`DW_OP_call_frame_cfa`).
    Cfa,
    /// A register, as it is behind the prologue.
    Register(u16),
    Unknown,
}

/// A place as an expression says it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Simple {
    Register(u16),
    /// Memory at the address.
    Memory(Address),
    /// The address itself is the value.
    Value(Address),
    /// The address, and a number that is to be worked into it.
    With(Address, u64),
    Nowhere(&'static str),
}

/// Base + offset, or what that leads to + a further offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    base: Of,
    offset: i64,
    behind: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Nothing,
    Frame,
    Register(u16),
}

/// A whole value: its pieces with their bytes, or the value as one.
#[derive(Debug)]
pub(super) struct Located {
    pieces: Vec<(Simple, u64)>,
    whole: Simple,
    frame: Frame,
}

/// When a place is valid, and what is known of the way there.
#[derive(Clone, Copy)]
pub(super) struct When<'a> {
    /// It is out of a location list: valid from this address on. Else it is said for the whole function, and
    /// may be one that the prologue fills.
    pub(super) listed: Option<u64>,
    /// Whether that is the function's entry.
    pub(super) is_entry: bool,
    pub(super) prologue: &'a Prologue,
}

impl Frame {
    /// Reads `DW_AT_frame_base`.
    pub(super) fn read(expression: Expression<Reader>, encoding: Encoding) -> Option<Frame> {
        let mut operations = expression.operations(encoding);
        let frame = match operations.next().ok()?? {
            Operation::CallFrameCFA => Frame::Cfa,
            Operation::Register { register } => Frame::Register(register.0),
            Operation::RegisterOffset {
                register,
                offset: 0,
                ..
            } => Frame::Register(register.0),
            _ => return None,
        };
        matches!(operations.next(), Ok(None)).then_some(frame)
    }
}

const COMPUTED: &str = "the compiler computes it from other values";

impl Located {
    pub(super) fn read(
        expression: Expression<Reader>,
        encoding: Encoding,
        frame: Frame,
    ) -> Result<Located, String> {
        let mut pieces = Vec::new();
        let mut current: Option<Simple> = None;
        let mut operations = expression.operations(encoding);
        loop {
            let operation = match operations.next() {
                Ok(Some(operation)) => operation,
                Ok(None) => break,
                Err(error) => return Err(format!("its place cannot be read: {error}")),
            };
            if let Operation::Piece {
                size_in_bits,
                bit_offset,
            } = operation
            {
                if size_in_bits % 8 != 0 || bit_offset.unwrap_or(0) != 0 {
                    return Err("the compiler has cut it into bits".to_owned());
                }
                let simple = current
                    .take()
                    .unwrap_or(Simple::Nowhere("the compiler has optimised this part out"));
                pieces.push((simple, size_in_bits / 8));
                continue;
            }
            current = Some(step(current, operation, encoding)?);
        }
        let whole = current.unwrap_or(Simple::Nowhere("the compiler has optimised it out"));
        Ok(Located {
            pieces,
            whole,
            frame,
        })
    }

    /// The place at the function's entry of a value of so many bytes.
    pub(super) fn place(&self, size: u64, when: When<'_>) -> Result<UserPlace, String> {
        if self.pieces.is_empty() {
            return self.simple(&self.whole, size, when);
        }
        let mut offset = 0;
        let mut pieces = Vec::new();
        for (simple, size) in &self.pieces {
            pieces.push(Piece {
                offset,
                size: *size,
                place: self.simple(simple, *size, when),
            });
            offset = offset.saturating_add(*size);
        }
        Ok(UserPlace::Pieces(pieces))
    }

    fn simple(&self, simple: &Simple, size: u64, when: When<'_>) -> Result<UserPlace, String> {
        match *simple {
            Simple::Nowhere(why) => Err(why.to_owned()),
            Simple::Register(number) => when.register(number),
            Simple::Value(Address {
                base: Of::Nothing,
                offset,
                behind: None,
            }) => Ok(UserPlace::Constant(offset as u64)),
            Simple::Value(Address {
                base: Of::Register(number),
                offset: 0,
                behind: None,
            }) => when.register(number),
            Simple::Value(_) | Simple::With(..) => Err(COMPUTED.to_owned()),
            Simple::Memory(address) => self.memory(address, size, when),
        }
    }

    fn memory(&self, address: Address, size: u64, when: When<'_>) -> Result<UserPlace, String> {
        let Address {
            base,
            offset,
            behind,
        } = address;
        let base = match (base, self.frame) {
            (Of::Nothing, _) => return Err("it is a variable in static memory".to_owned()),
            (Of::Frame, Frame::Unknown) => return Err("its frame cannot be read".to_owned()),
            (Of::Frame, Frame::Cfa) => Base::Cfa,
            (Of::Frame, Frame::Register(number)) | (Of::Register(number), _) => {
                Base::Register(register(number)?)
            }
        };
        let in_frame = match base {
            Base::Cfa => true,
            Base::Register(Register::Rbp | Register::Rsp) => when.listed.is_none(),
            Base::Register(_) => false,
        };
        let pointer = match (in_frame, base) {
            (true, _) if behind.is_none() => return when.prologue.find(base, offset, size),
            (true, _) => when.prologue.find(base, offset, 8)?,
            (false, Base::Register(register)) => {
                let held = when.general(register)?;
                return Ok(match behind {
                    None => held.leads_to(offset)?,
                    Some(behind) => match held {
                        UserPlace::Register(base) => UserPlace::Indirect {
                            base,
                            offset,
                            behind,
                        },
                        _ => return Err(COMPUTED.to_owned()),
                    },
                });
            }
            (false, Base::Cfa) => return Err(COMPUTED.to_owned()),
        };
        pointer.leads_to(behind.unwrap_or(0))
    }
}

impl When<'_> {
    fn register(&self, number: u16) -> Result<UserPlace, String> {
        self.general(register(number)?)
    }

    /// What at the entry was where this register is when the place is valid.
    fn general(&self, register: Register) -> Result<UserPlace, String> {
        match self.listed {
            Some(address) if !self.is_entry => {
                self.prologue.held(address, register).ok_or_else(|| {
                    "the compiler has optimised it out at the function's entry".to_owned()
                })
            }
            _ => Ok(UserPlace::Register(register)),
        }
    }
}

impl UserPlace {
    /// What lies so many bytes behind where a pointer at this place leads to.
    fn leads_to(self, behind: i64) -> Result<UserPlace, String> {
        match self {
            UserPlace::Register(base) => Ok(UserPlace::Memory {
                base,
                offset: behind,
            }),
            UserPlace::Memory { base, offset } => Ok(UserPlace::Indirect {
                base,
                offset,
                behind,
            }),
            _ => Err(COMPUTED.to_owned()),
        }
    }
}

fn step(
    current: Option<Simple>,
    operation: Operation<Reader>,
    encoding: Encoding,
) -> Result<Simple, String> {
    let begin = |base, offset| {
        Ok(Simple::Memory(Address {
            base,
            offset,
            behind: None,
        }))
    };
    match (current, operation) {
        (None, Operation::Register { register }) => Ok(Simple::Register(register.0)),
        (
            None,
            Operation::RegisterOffset {
                register, offset, ..
            },
        ) => begin(Of::Register(register.0), offset),
        (None, Operation::FrameOffset { offset }) => begin(Of::Frame, offset),
        (None, Operation::UnsignedConstant { value }) => begin(Of::Nothing, value as i64),
        (None, Operation::SignedConstant { value }) => begin(Of::Nothing, value),
        (None, Operation::EntryValue { expression }) => {
            // We are at the entry, so that it is what it was at the entry.
            let mut operations = Expression(expression).operations(encoding);
            match (operations.next(), operations.next()) {
                (Ok(Some(Operation::Register { register })), Ok(None)) => {
                    begin(Of::Register(register.0), 0)
                }
                _ => Err(COMPUTED.to_owned()),
            }
        }
        (None, Operation::ImplicitValue { .. }) => Err("the compiler made it a constant".into()),
        (None, Operation::ImplicitPointer { .. }) => {
            Err("the compiler has optimised the pointer out".to_owned())
        }
        (Some(Simple::Memory(address)), Operation::StackValue) => Ok(Simple::Value(address)),
        (Some(Simple::Memory(mut address)), Operation::PlusConstant { value }) => {
            let sum = match &mut address.behind {
                Some(behind) => behind,
                None => &mut address.offset,
            };
            *sum = sum.wrapping_add(value as i64);
            Ok(Simple::Memory(address))
        }
        (
            Some(Simple::Memory(
                address @ Address {
                    behind: None,
                    base: Of::Frame | Of::Register(_),
                    ..
                },
            )),
            Operation::Deref { size: 8, .. },
        ) => Ok(Simple::Memory(Address {
            behind: Some(0),
            ..address
        })),
        // Wider and narrower, which a type's own width says better.
        (Some(Simple::Memory(address)), Operation::Convert { .. }) => Ok(Simple::Memory(address)),
        (Some(Simple::Memory(address)), Operation::UnsignedConstant { value }) => {
            Ok(Simple::With(address, value))
        }
        // The lowest bits, of which the type knows how many they are.
        (Some(Simple::With(address, mask)), Operation::And) if mask & mask.wrapping_add(1) == 0 => {
            Ok(Simple::Memory(address))
        }
        (current, Operation::Nop) => {
            Ok(current.unwrap_or(Simple::Nowhere("the compiler has optimised it out")))
        }
        _ => Err(COMPUTED.to_owned()),
    }
}

/// The registers of x86-64 by their numbers in debug information (System V ABI, figure 3.36).
fn register(number: u16) -> Result<Register, String> {
    const GENERAL: [Register; 17] = [
        Register::Rax,
        Register::Rdx,
        Register::Rcx,
        Register::Rbx,
        Register::Rsi,
        Register::Rdi,
        Register::Rbp,
        Register::Rsp,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
        Register::Rip,
    ];
    match GENERAL.get(usize::from(number)) {
        Some(&register) => Ok(register),
        None => Err(match number {
            17..=32 => floating(u32::from(number) - 17),
            _ => format!("it is in register {number}, which probes cannot read"),
        }),
    }
}

/// Why a value in a vector register cannot be had.
pub(super) fn floating(number: u32) -> String {
    format!("it is in the vector register xmm{number}, which the kernel does not give to probes")
}
