//! The instructions of a site on x86-64.
//!
//! ```text
//! off   0f 1f 84 e9 <rel32>     nop DWORD PTR [rcx+rbp*8+rel32]
//! on    0f 1f c0 | e9 <rel32>   nop eax; jmp to the cold block
//! ```
//! Only byte 2 of a key differs, so that the write cannot tear: no alignment, no int3, no stopped
//! threads. (Template texts are Intel syntax but for the notes' arguments.)

/// A key, off.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_key {
    ($($point:literal)*) => {
        "2: .byte 0x0f, 0x1f, 0x84, 0xe9\n.4byte {cold} - . - 4"
    };
}

/// A test of the points' semaphore words.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_test {
    ($($point:literal)*) => {
        concat!("2:\n", $("cmp dword ptr [rip + ", $point, ".semaphore], 0\njne {cold}\n"),*)
    };
}

/// A gate that tests.
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_semaphore {
    ($($site:tt)*) => {
        $crate::__gate! { __asm_test "1" [options(readonly, nostack)] $($site)* }
    };
}

/// The stub: label 5 is its entry, 6 the USDT probe.
///
/// It refers to its own point, so that no linker folds it with another's. A 1-byte nop for the probe,
/// then a 10-byte nop for kernels that can optimise it; never a nop5, which some turn into a call that
/// overwrites the red zone.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_stub {
    ($point:literal) => {
        concat!(
            "5: lea rax, [rip + ",
            $point,
            "]\n",
            "6: nop\n",
            ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n",
            "ret"
        )
    };
}

/// What stands around a slot's offset in the note: the stub's first argument leads to it.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_argument {
    (open) => {
        "@"
    };
    (close) => {
        "(%rdi)"
    };
}

/// Loads the point's address.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_point {
    ($point:literal) => {
        concat!("lea {point}, [rip + ", $point, "]")
    };
}
