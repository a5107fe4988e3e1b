//! Where user registers stand in the kernel's `pt_regs`, which a user probe's program is handed. Counted
//! in 64-bit words.

use crate::spec::Register;

/// The word of `pt_regs` that is a register (arch/x86/include/asm/ptrace.h); `None` where this machine
/// has no such register.
#[cfg(target_arch = "x86_64")]
pub(crate) fn word(register: Register) -> Option<u16> {
    Some(match register {
        Register::R15 => 0,
        Register::R14 => 1,
        Register::R13 => 2,
        Register::R12 => 3,
        Register::Rbp => 4,
        Register::Rbx => 5,
        Register::R11 => 6,
        Register::R10 => 7,
        Register::R9 => 8,
        Register::R8 => 9,
        Register::Rax => 10,
        Register::Rcx => 11,
        Register::Rdx => 12,
        Register::Rsi => 13,
        Register::Rdi => 14,
        Register::OrigRax => 15,
        Register::Rip => 16,
        Register::Cs => 17,
        Register::Flags => 18,
        Register::Rsp => 19,
        Register::Ss => 20,
    })
}

/// See the other one.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn word(_register: Register) -> Option<u16> {
    None
}

/// Words of `pt_regs`, and which are the first argument and those that a stack is followed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) words: u32,
    pub(crate) first_argument: u32,
    pub(crate) instruction_pointer: u32,
    pub(crate) stack_pointer: u32,
    pub(crate) frame_pointer: u32,
}

/// `rdi`, `rip`, `rsp` and `rbp`.
#[cfg(target_arch = "x86_64")]
pub(crate) const LAYOUT: Layout = Layout {
    words: 21,
    first_argument: 14,
    instruction_pointer: 16,
    stack_pointer: 19,
    frame_pointer: 4,
};

/// `x0`, `pc`, `sp` and `x29` of arm64's `user_pt_regs`.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const LAYOUT: Layout = Layout {
    words: 34,
    first_argument: 0,
    instruction_pointer: 32,
    stack_pointer: 31,
    frame_pointer: 29,
};
