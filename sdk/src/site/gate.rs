//! A gate's assembly: the 8-byte NOP in the user's function, and its row in the site table.
//!
//! ```text
//! off   0f 1f 84 e9 <rel32>     nop DWORD PTR [rcx+rbp*8+rel32]
//! on    0f 1f c0 | e9 <rel32>   nop eax; jmp to the cold block
//! ```
//! Only byte 2 differs, so the write cannot tear: no alignment, no int3, no stopped threads.
//! Where a site cannot be patched (`gate = "semaphore"`, `--cfg tracebraid_gate="load"`) it tests
//! the semaphore word of its points instead; its row says so.

/// Defines the function that says whether any of its points is on. It is one NOP in the hot path.
///
/// A site may belong to two points, entry and return: it has one row for each, next to one another,
/// and is on when either is. Called by the proc macros only.
#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(miri),
    not(tracebraid_gate = "load")
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_key {
    (
        gate: $gate:ident,
        file: $file:literal,
        file_symbol: $file_symbol:literal,
        line: $line:literal,
        points: [$({ $kinds:ident $point:literal [$($lowered:ident $k:ident)*] })*]
    ) => {
        #[inline(always)]
        fn $gate<$($($lowered: $crate::__private::Lowered,)*)*>(
            $($kinds: $crate::__private::Kinds<($($lowered,)*)>),*
        ) -> bool {
            $(let _ = $kinds;)*
            unsafe {
                ::core::arch::asm!(
                    "2: .byte 0x0f, 0x1f, 0x84, 0xe9",
                    ".4byte {cold} - . - 4",
                    $crate::__site_file!($file_symbol, $file),
                    $($crate::__site_row!($point, $file_symbol, $line, "0"),)*
                    cold = label { return true },
                    $($($k = const $crate::__private::kind::<$lowered>(),)*)*
                    options(nomem, nostack, preserves_flags)
                );
            }
            false
        }
    };
}

/// The build was asked for sites that test: `--cfg tracebraid_gate="load"`.
#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(miri),
    tracebraid_gate = "load"
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_key {
    ($($site:tt)*) => { $crate::__gate_semaphore! { $($site)* } };
}

/// The same for a site that tests the semaphore word.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate_semaphore {
    (
        gate: $gate:ident,
        file: $file:literal,
        file_symbol: $file_symbol:literal,
        line: $line:literal,
        points: [$({ $kinds:ident $point:literal [$($lowered:ident $k:ident)*] })*]
    ) => {
        #[inline(always)]
        fn $gate<$($($lowered: $crate::__private::Lowered,)*)*>(
            $($kinds: $crate::__private::Kinds<($($lowered,)*)>),*
        ) -> bool {
            $(let _ = $kinds;)*
            unsafe {
                ::core::arch::asm!(
                    "2:",
                    $(
                        concat!("cmp dword ptr [rip + ", $point, ".semaphore], 0"),
                        "jne {cold}",
                    )*
                    $crate::__site_file!($file_symbol, $file),
                    $($crate::__site_row!($point, $file_symbol, $line, "1"),)*
                    cold = label { return true },
                    $($($k = const $crate::__private::kind::<$lowered>(),)*)*
                    options(readonly, nostack)
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
            ", 0\n",
            ".popsection"
        )
    };
}
