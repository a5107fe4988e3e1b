//! What is done at a hit for one argument: a short program that begins with a value, goes from memory to
//! memory, and ends by storing.
//!
//! ```text
//! +8(%di):u32            register di │ read 4 bytes at +8
//! +0(+8(%di)):string     register di │ word at +8 │ text at +0
//! ```
//! The kernel has room for 15 steps; what is said to be "too much nested" has more.

use tracebraid_bpf::spec::{Kept, Register};

use super::rejection::Code;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a register.
    Register(KernelRegister),
    /// An entry of the stack, counted in words from its top.
    Stack(u32),
    /// The stack pointer.
    StackPointer,
    /// What the function returned.
    ReturnValue,
    /// A number.
    Immediate(u64),
    /// The name of the thread.
    Comm,
    /// A text.
    Text(String),
    /// An argument of the function, from 0.
    Argument(u32),
    /// An argument that was kept when the function was entered, from 0.
    EntryArgument(u32),
    /// What was kept when a function of a file was entered.
    AtEntry(Kept),
    /// An address: that of the file's beginning in memory, and this.
    FileOffset(i64),
    /// A field of the event that is attached to.
    EventField(usize),
    /// The address of a kernel symbol, and this; it takes the room of two steps.
    Symbol {
        /// Its name, with its offset, as written.
        name: String,
    },
    /// The second half of [`Step::Symbol`].
    SymbolAddress,
    /// The word at value + offset.
    Dereference {
        /// Bytes.
        offset: i64,
        /// Whether it is read as memory of the process, not of the kernel.
        user: bool,
    },
    /// Stores the value.
    StoreValue,
    /// Stores memory at value + offset.
    StoreMemory {
        /// Bytes.
        offset: i64,
        /// As in [`Step::Dereference`].
        user: bool,
    },
    /// Stores the text at value + offset.
    StoreText {
        /// Bytes.
        offset: i64,
        /// As in [`Step::Dereference`].
        user: bool,
    },
    /// Stores the name of the symbol at the value.
    StoreSymbol,
    /// Of what was stored, only these bits.
    Bits {
        /// How many.
        width: u32,
        /// Bits before them.
        offset: u32,
    },
    /// What stands before it, for so many elements in a row.
    Array(u32),
}

/// A register by its name in `pt_regs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelRegister {
    /// One that user code has too.
    General(Register),
    /// The flags.
    Flags,
    /// The code segment.
    Cs,
    /// The stack segment.
    Ss,
    /// The number of the system call.
    OrigAx,
}

impl KernelRegister {
    /// By the name that definitions use.
    pub(super) fn by_name(name: &str) -> Option<KernelRegister> {
        let (_, register) = REGISTERS.iter().find(|(own, _)| *own == name)?;
        Some(*register)
    }

    /// The name that definitions use.
    pub(super) fn name(self) -> &'static str {
        let found = REGISTERS.iter().find(|(_, register)| *register == self);
        found.map_or("?", |(name, _)| name)
    }
}

const REGISTERS: [(&str, KernelRegister); 21] = {
    use KernelRegister::General;
    [
        ("ax", General(Register::Rax)),
        ("bx", General(Register::Rbx)),
        ("cx", General(Register::Rcx)),
        ("dx", General(Register::Rdx)),
        ("si", General(Register::Rsi)),
        ("di", General(Register::Rdi)),
        ("bp", General(Register::Rbp)),
        ("sp", General(Register::Rsp)),
        ("r8", General(Register::R8)),
        ("r9", General(Register::R9)),
        ("r10", General(Register::R10)),
        ("r11", General(Register::R11)),
        ("r12", General(Register::R12)),
        ("r13", General(Register::R13)),
        ("r14", General(Register::R14)),
        ("r15", General(Register::R15)),
        ("ip", General(Register::Rip)),
        ("flags", KernelRegister::Flags),
        ("cs", KernelRegister::Cs),
        ("ss", KernelRegister::Ss),
        ("orig_ax", KernelRegister::OrigAx),
    ]
};

/// Steps of one argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program(Vec<Step>);

/// Steps that the kernel has room for; a last one is its mark for the end.
const ROOM: usize = 15;

impl Program {
    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    pub(super) fn last(&self) -> Option<&Step> {
        self.0.last()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a step, if there is room.
    pub(super) fn push(&mut self, step: Step) -> Result<(), Code> {
        if self.0.len() == ROOM {
            return Err(Code::TooManyOps);
        }
        self.0.push(step);
        Ok(())
    }

    /// Puts a step in the place of the last one.
    pub(super) fn replace_last(&mut self, step: Step) {
        if let Some(last) = self.0.last_mut() {
            *last = step;
        }
    }
}
