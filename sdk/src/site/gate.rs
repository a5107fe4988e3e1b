//! A gate's assembly: one instruction in the user's function, and its row in the site table.
//!
//! The instruction is a NOP until it is patched into a jump to the cold block; the platform's file says
//! which. Where a site cannot be patched (`gate = "semaphore"`, `--cfg tracebraid_gate="load"`) it
//! tests the semaphore word of its points instead, and its row says so.

/// Defines the function that says whether any of its points is on.
///
/// A site may belong to two points, entry and return: it has one row for each, next to one another,
/// and is on when either is. Called by the proc macros only.
#[cfg(all(tracebraid_keys, not(tracebraid_gate = "load")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_key {
    ($($site:tt)*) => {
        $crate::__gate! { __asm_key "0" [options(nomem, nostack, preserves_flags)] $($site)* }
    };
}

/// The build was asked for sites that test: `--cfg tracebraid_gate="load"`.
#[cfg(all(tracebraid_keys, tracebraid_gate = "load"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_key {
    ($($site:tt)*) => { $crate::__gate_semaphore! { $($site)* } };
}

/// What both kinds of gates share: `code` is the macro that makes the instructions, `flags` are the
/// row's, and the list holds what they need besides.
#[cfg(tracebraid_keys)]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate {
    (
        $code:ident $flags:literal [$($besides:tt)*]
        gate: $gate:ident,
        file: $file:literal,
        file_symbol: $file_symbol:literal,
        line: $line:literal,
        points: [$({ $kinds:ident $tuple:ty, $point:literal [$($lowered:ident)*] [$($operand:ident $chunk:literal)*] })*]
    ) => {
        #[inline(always)]
        fn $gate<$($($lowered: $crate::__private::Lowered,)*)*>(
            $($kinds: $crate::__private::Kinds<$tuple>),*
        ) -> bool {
            $(let _ = $kinds;)*
            unsafe {
                ::core::arch::asm!(
                    $crate::$code!($($point)*),
                    $crate::__site_file!($file_symbol, $file),
                    $($crate::__site_row!($point, $file_symbol, $line, $flags),)*
                    cold = label { return true },
                    $($($operand = const $crate::__private::code::<$tuple>($chunk),)*)*
                    $($besides)*
                );
            }
            false
        }
    };
}

/// The name of a source file, once a DSO.
#[doc(hidden)]
#[macro_export]
macro_rules! __site_file {
    ($symbol:literal, $file:literal) => {
        concat!(
            ".ifndef ",
            $symbol,
            "\n",
            ".pushsection .rodata.tracebraid,\"aG\",@progbits,",
            $symbol,
            ",comdat\n",
            ".weak ",
            $symbol,
            "\n",
            ".hidden ",
            $symbol,
            "\n",
            $symbol,
            ": .asciz \"",
            $file,
            "\"\n",
            ".popsection\n",
            ".endif"
        )
    };
}

/// One row of the site table (`wire::table::SiteRow`); the code is at the local label 2.
#[doc(hidden)]
#[macro_export]
macro_rules! __site_row {
    ($point:literal, $file_symbol:literal, $line:literal, $flags:literal) => {
        concat!(
            ".pushsection tracebraid_sites,\"aR\",@progbits\n",
            ".balign 8\n",
            ".4byte 2b - .\n",
            ".4byte ",
            $point,
            " - .\n",
            ".4byte ",
            $file_symbol,
            " - .\n",
            ".4byte ",
            $line,
            ", ",
            $flags,
            "\n",
            ".4byte {cold} - .\n",
            ".popsection"
        )
    };
}
