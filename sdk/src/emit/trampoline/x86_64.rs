//! Trampolines on x86-64, which leave the hot path alone.
//!
//! An ordinary call would make the compiler save registers, build a frame and give up tail calls in
//! the *hot* path. So up to eight words go to a trampoline in registers, by a call that the compiler
//! sees as one instruction which changes nothing but scratch registers; the trampoline lays them out
//! as slots in its own frame. More than eight words go through an array, at the price of a frame.

#![allow(unsafe_code)]

use core::arch::{asm, naked_asm};
use core::mem::MaybeUninit;

use crate::emit::emit;
use crate::fields::{Fields, HEADER_WORDS};
use crate::stamp::Stamp;
use crate::state::HotRow;

/// A trampoline takes the point in `rax` and slots in the listed registers. It keeps every general
/// register but `rax` and `r8` to `r11`; vector registers are the caller's to give up. In `rax` it hands
/// back what `emit` says.
///
/// `emit` never unwinds: what could panic is caught there.
macro_rules! trampolines {
    ($($name:ident $bytes:literal [$($push:literal)*];)*) => {$(
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                // At entry the stack is 8 bytes off a multiple of 16. Four saved registers and an
                // odd number of words make it even again.
                "push rcx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rcx, 0",
                "push rdx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdx, 0",
                "push rsi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rsi, 0",
                "push rdi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdi, 0",
                $($push, ".cfi_adjust_cfa_offset 8",)*
                // Room for a record's header in front of the slots.
                "sub rsp, 16", ".cfi_adjust_cfa_offset 16",
                "mov rdi, rax",
                "lea rsi, [rsp + 16]",
                "call {emit}",
                concat!("add rsp, ", $bytes), concat!(".cfi_adjust_cfa_offset -", $bytes),
                "pop rdi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdi",
                "pop rsi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rsi",
                "pop rdx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdx",
                "pop rcx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rcx",
                "ret",
                ".cfi_endproc",
                emit = sym emit,
            )
        }
    )*};
}

trampolines! {
    words0 24 ["push rax"];
    words1 24 ["push r8"];
    words2 40 ["push rax" "push r9" "push r8"];
    words3 40 ["push r10" "push r9" "push r8"];
    words4 56 ["push rax" "push r11" "push r10" "push r9" "push r8"];
    words5 56 ["push rdx" "push r11" "push r10" "push r9" "push r8"];
    words6 72 ["push rax" "push rsi" "push rdx" "push r11" "push r10" "push r9" "push r8"];
    words7 72 ["push rdi" "push rsi" "push rdx" "push r11" "push r10" "push r9" "push r8"];
    words8 88 ["push rax" "push rcx" "push rdi" "push rsi" "push rdx" "push r11" "push r10" "push r9" "push r8"];
}

/// The same for slots in memory: their address comes in `rcx`.
#[unsafe(naked)]
unsafe extern "C" fn in_memory() {
    naked_asm!(
        ".cfi_startproc",
        "push rcx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rcx, 0",
        "push rdx", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdx, 0",
        "push rsi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rsi, 0",
        "push rdi", ".cfi_adjust_cfa_offset 8", ".cfi_rel_offset rdi, 0",
        "sub rsp, 8", ".cfi_adjust_cfa_offset 8",
        "mov rdi, rax",
        "mov rsi, rcx",
        "call {emit}",
        "add rsp, 8", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdi",
        "pop rsi", ".cfi_adjust_cfa_offset -8", ".cfi_restore rsi",
        "pop rdx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rdx",
        "pop rcx", ".cfi_adjust_cfa_offset -8", ".cfi_restore rcx",
        "ret",
        ".cfi_endproc",
        emit = sym emit,
    )
}

/// One call of a trampoline. No `nostack`: a return address is pushed, so the red zone must be free.
/// Through the table of addresses, and not by a name that the loader may look up at the first call:
/// where the SDK is in a Rust `dylib`, that look-up would change `r10` and `r11`. In one object the
/// linker makes an ordinary call of it.
macro_rules! call {
    ($trampoline:path, $point:ident $(, $register:tt = $word:expr)* $(; $clobber:tt)*) => {
        // SAFETY: the trampoline keeps all registers that are not listed and returns with the stack
        // as it was; `emit` reads as many slots as the point's schema has, which are these.
        unsafe {
            let stamp: u64;
            asm!(
                "call qword ptr [rip + {trampoline}@GOTPCREL]",
                trampoline = sym $trampoline,
                inout("rax") $point => stamp,
                $(inout($register) $word => _,)*
                $(out($clobber) _,)*
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                // The x87 stack, masks and upper vector registers, by the platform's convention.
                out("k1") _, out("k2") _, out("k3") _, out("k4") _, out("k5") _, out("k6") _, out("k7") _,
            );
            stamp
        }
    };
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
    // Inside `call!`'s unsafe block: `put` has written the first `F::SLOTS` words, and each branch reads
    // only that many.
    macro_rules! word {
        ($index:literal) => {
            slots[HEADER_WORDS + $index].assume_init()
        };
    }
    let stamp = match const { F::SLOTS } {
        0 => call!(words0, point; "r8"; "r9"; "r10"; "r11"),
        1 => call!(words1, point, "r8" = word!(0); "r9"; "r10"; "r11"),
        2 => call!(words2, point, "r8" = word!(0), "r9" = word!(1); "r10"; "r11"),
        3 => call!(words3, point, "r8" = word!(0), "r9" = word!(1), "r10" = word!(2); "r11"),
        4 => call!(
            words4,
            point,
            "r8" = word!(0),
            "r9" = word!(1),
            "r10" = word!(2),
            "r11" = word!(3)
        ),
        5 => call!(
            words5,
            point,
            "r8" = word!(0),
            "r9" = word!(1),
            "r10" = word!(2),
            "r11" = word!(3),
            "rdx" = word!(4)
        ),
        6 => call!(
            words6,
            point,
            "r8" = word!(0),
            "r9" = word!(1),
            "r10" = word!(2),
            "r11" = word!(3),
            "rdx" = word!(4),
            "rsi" = word!(5)
        ),
        7 => call!(
            words7,
            point,
            "r8" = word!(0),
            "r9" = word!(1),
            "r10" = word!(2),
            "r11" = word!(3),
            "rdx" = word!(4),
            "rsi" = word!(5),
            "rdi" = word!(6)
        ),
        8 => call!(
            words8,
            point,
            "r8" = word!(0),
            "r9" = word!(1),
            "r10" = word!(2),
            "r11" = word!(3),
            "rdx" = word!(4),
            "rsi" = word!(5),
            "rdi" = word!(6),
            "rcx" = word!(7)
        ),
        _ => {
            call!(in_memory, point, "rcx" = slots.as_mut_ptr().add(HEADER_WORDS); "r8"; "r9"; "r10"; "r11")
        }
    };
    Stamp::of_word(stamp)
}

/// Runs through the USDT probe of the point.
///
/// # Safety
/// `row` is that of a loaded object, `slots` are those of a hit of it.
pub(in crate::emit) unsafe fn reach_usdt(row: HotRow, slots: *const u64) {
    // SAFETY: the stub is a leaf that reads nothing, changes `rax` and returns. No `nostack`: the call
    // pushes an address, and kernels that optimise a probe push some more.
    unsafe {
        asm!(
            "call {stub}",
            stub = in(reg) row.stub(),
            in("rdi") slots,
            out("rax") _,
            options(preserves_flags, readonly)
        );
    }
}
