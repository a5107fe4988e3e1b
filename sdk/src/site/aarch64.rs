//! The instructions of a site on AArch64.
//!
//! ```text
//! off   d503201f   nop
//! on    14 <imm26> b to the cold block
//! ```
//! The architecture allows these two to replace one another while other cores run through them
//! (Arm ARM, B2.2.5 "Concurrent modification and execution of instructions").

/// A key, off.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_key {
    ($($point:literal)*) => {
        "2: nop"
    };
}

/// A test of the points' semaphore words.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_test {
    ($($point:literal)*) => {
        concat!(
            "2:\n",
            $("adrp x16, ", $point, ".semaphore\n",
            "ldr w16, [x16, :lo12:", $point, ".semaphore]\n",
            "cbnz w16, {cold}\n"),*
        )
    };
}

/// A gate that tests.
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_semaphore {
    ($($site:tt)*) => {
        $crate::__gate! { __asm_test "1" [out("x16") _, options(readonly, nostack)] $($site)* }
    };
}

/// The stub: label 5 is its entry, 6 the USDT probe. It refers to its own point, so that no linker
/// folds it with another's.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_stub {
    ($point:literal) => {
        concat!(
            "5: adrp x9, ",
            $point,
            "\n",
            "add x9, x9, :lo12:",
            $point,
            "\n",
            "6: nop\n",
            "ret"
        )
    };
}

/// What stands around a slot's offset in the note: the stub's first argument leads to it.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_argument {
    (open) => {
        "@[x0, "
    };
    (close) => {
        "]"
    };
}

/// Loads the point's address.
#[doc(hidden)]
#[macro_export]
macro_rules! __asm_point {
    ($point:literal) => {
        concat!(
            "adrp {point}, ",
            $point,
            "\nadd {point}, {point}, :lo12:",
            $point
        )
    };
}
