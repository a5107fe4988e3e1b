//! An inlined generic function with assembly of its own beside the tracepoint's: labels of both are
//! numbers, and inlining copies both into many functions.

#![deny(warnings)]

use std::arch::asm;

use tracebraid::{Value, event};

/// Counts to three in assembly with the labels 990 to 994, around a tracepoint.
#[inline(always)]
pub fn labelled<T: Value + Copy>(value: T) -> u64 {
    let mut turns = 0_u64;
    // SAFETY: counts in one register and jumps within itself.
    unsafe {
        asm!(
            "990: inc {turns}",
            "cmp {turns}, 2",
            "jb 990b",
            "jmp 992f",
            "991: ud2",
            "992:",
            turns = inout(reg) turns,
        );
    }
    event!(labelled, value, turns);
    // SAFETY: as above.
    unsafe {
        asm!(
            "jmp 994f",
            "993: ud2",
            "994: inc {turns}",
            turns = inout(reg) turns,
        );
    }
    turns
}
