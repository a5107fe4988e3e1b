//! Trampolines on AArch64: an ordinary call, as far as the compiler knows.

#![allow(unsafe_code)]

use core::arch::{asm, naked_asm};
use core::mem::MaybeUninit;

use crate::emit::emit;
use crate::fields::{Fields, HEADER_WORDS};
use crate::stamp::Stamp;
use crate::state::HotRow;

/// Words that go in registers.
const IN_REGISTERS: usize = 8;

/// Leaves two words in front of the slots for a record's header.
///
/// Takes the point in `x9` and up to eight words in `x0` to `x7`. `emit` never unwinds.
#[unsafe(naked)]
unsafe extern "C" fn in_registers() {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-96]!",
        ".cfi_def_cfa_offset 96",
        ".cfi_offset x29, -96",
        ".cfi_offset x30, -88",
        "mov x29, sp",
        "stp x0, x1, [sp, #32]",
        "stp x2, x3, [sp, #48]",
        "stp x4, x5, [sp, #64]",
        "stp x6, x7, [sp, #80]",
        "mov x0, x9",
        "add x1, sp, #32",
        "bl {emit}",
        "ldp x29, x30, [sp], #96",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
        emit = sym emit,
    )
}

/// Emits an event. The stamp for its return, where it is in the rings.
///
/// # Safety
/// `point` is the address of a point's row in this object, and `slots` begin with the words of its
/// fields, whose kinds are `F`.
#[inline(always)]
pub unsafe fn fire<F: Fields, const N: usize>(
    point: *const u8,
    mut slots: [MaybeUninit<u64>; N],
) -> Option<Stamp> {
    if const { F::SLOTS > IN_REGISTERS } {
        // SAFETY: the caller's promise.
        return unsafe { emit(point, slots.as_mut_ptr().add(HEADER_WORDS).cast()) };
    }
    let mut words = [0u64; IN_REGISTERS];
    for (word, slot) in words
        .iter_mut()
        .zip(&slots[HEADER_WORDS..])
        .take(const { F::SLOTS })
    {
        // SAFETY: `put` has written the first `F::SLOTS` words.
        *word = unsafe { slot.assume_init() };
    }
    // SAFETY: the trampoline keeps what the platform's calls keep and returns with the stack as it was;
    // `emit` reads as many slots as the point's schema has, which are these.
    unsafe {
        let stamp: u64;
        asm!(
            "bl {trampoline}",
            trampoline = sym in_registers,
            inout("x0") words[0] => stamp,
            inout("x1") words[1] => _,
            inout("x2") words[2] => _,
            inout("x3") words[3] => _,
            inout("x4") words[4] => _,
            inout("x5") words[5] => _,
            inout("x6") words[6] => _,
            inout("x7") words[7] => _,
            inout("x9") point => _,
            clobber_abi("C"),
        );
        Stamp::of_word(stamp)
    }
}

/// Runs through the USDT probe of the point.
///
/// # Safety
/// `row` is that of a loaded object, `slots` are those of a hit of it.
pub(in crate::emit) unsafe fn reach_usdt(row: HotRow, slots: *const u64) {
    // SAFETY: the stub is a leaf that reads nothing, changes `x9` and returns.
    unsafe {
        asm!(
            "blr {stub}",
            stub = in(reg) row.stub(),
            in("x0") slots,
            out("x9") _,
            out("x30") _,
            options(preserves_flags, readonly)
        );
    }
}
