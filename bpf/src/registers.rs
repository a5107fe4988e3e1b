//! Where user registers stand in the kernel's `pt_regs`, which a user probe's program is handed.

use crate::spec::Register;

/// Byte offset of a register in `pt_regs` (arch/x86/include/asm/ptrace.h); `None` where this machine
/// has no such register.
#[cfg(target_arch = "x86_64")]
pub(crate) fn offset(register: Register) -> Option<u16> {
    let word = match register {
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
        Register::Rip => 16,
        Register::Rsp => 19,
    };
    Some(word * 8)
}

/// See the other one.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn offset(_register: Register) -> Option<u16> {
    None
}

/// `pt_regs` offsets of the first argument and of the instruction pointer.
#[cfg(target_arch = "x86_64")]
pub(crate) const CALL: (u32, u32) = (14 * 8, 16 * 8);

/// `pt_regs` offsets of the first argument (`x0`) and of the instruction pointer (`pc`).
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const CALL: (u32, u32) = (0, 32 * 8);
