//! A point's assembly: what the first cold block of a tracepoint leaves in its DSO.
//!
//! All of it stands in one section group named after the point, so that the linker keeps one copy,
//! however many sites, crates and codegen units share the point:
//!
//! ```text
//! .probes             semaphore word: raised by the kernel, and by the process itself
//! tracebraid_schema   names, kinds, print format
//! .text.tracebraid    the stub: the USDT probe's nop
//! .note.stapsdt       the USDT note: where the nop is, where its arguments are
//! .bss.tracebraid     callbacks
//! tracebraid_points   one row that leads to everything above
//! ```
//!
//! Kinds come from types, which a macro cannot see. They enter the text as `const` operands of a
//! generic function, and so does the point's symbol name: other kinds, another point.
//! Rows hold 32-bit self-relative offsets to hidden symbols: no relocation at load time, readable
//! from the file, and linkable into executables, static ones, cdylibs and Rust dylibs alike.
//! `.ifndef` keeps one copy an assembly, the group one a link: fat LTO has many copies in one
//! assembly, separate codegen units have one each.

/// Defines the function that emits an event of one point: it fills the slots and calls the
/// trampoline. It is inlined into cold blocks, where it must not be an ordinary call: that would
/// make the compiler save registers in the hot path.
///
/// `point` holds placeholders for the kinds (`{k0}`…); the texts are escaped for the assembler and
/// for `asm!`. Called by the proc macros only.
#[cfg(tracebraid_keys)]
#[doc(hidden)]
#[macro_export]
macro_rules! __point {
    (
        emit: $emit:ident,
        point: $point:literal,
        provider: $provider:literal,
        name: $name:literal,
        print: $print:literal,
        flags: $flags:literal,
        count: $count:literal,
        kinds: $kinds:ty,
        fields: [$({
            $field:literal $index:tt $lowered:ident $value:ident $separator:literal
            $k:ident $n:ident $w0:ident $o0:ident $w1:ident $o1:ident $w2:ident $o2:ident
        })*]
    ) => {
        #[inline(always)]
        fn $emit<$($lowered: $crate::__private::Lowered),*>(
            _: $crate::__private::Kinds<$kinds>,
            ($($value,)*): ($($lowered,)*),
        ) {
            let mut slots = [::core::mem::MaybeUninit::<u64>::uninit(); $count * $crate::__private::MAX_SLOTS];
            $($crate::__private::put::<$kinds, $index, _>(&mut slots, $value);)*
            let point: *const u8;
            unsafe {
                ::core::arch::asm!(
                    // What the note's addresses are relative to, for readers that expect prelinked files.
                    // Retained: rustc's default linker drops it otherwise, and the notes then say base 0.
                    ".ifndef _.stapsdt.base",
                    ".pushsection .stapsdt.base,\"aGR\",@progbits,.stapsdt.base,comdat",
                    ".weak _.stapsdt.base",
                    ".hidden _.stapsdt.base",
                    "_.stapsdt.base: .space 1",
                    ".size _.stapsdt.base, 1",
                    ".popsection",
                    ".endif",

                    // The ELF note of this DSO: the bounds of its tables (`wire::note`).
                    ".ifndef tracebraid.note",
                    ".hidden __start_tracebraid_sites",
                    ".hidden __stop_tracebraid_sites",
                    ".hidden __start_tracebraid_points",
                    ".hidden __stop_tracebraid_points",
                    // Semaphores begin on a page of their own: rustc's default linker may let the page in front be
                    // mapped twice (RELRO ends in it, .data begins in it), and the kernel then raises a semaphore
                    // in the copy that the program does not see.
                    ".pushsection .probes,\"awGR\",@progbits,tracebraid.note,comdat",
                    ".balign 4096",
                    ".popsection",
                    ".pushsection .bss.tracebraid.control,\"awGR\",@nobits,tracebraid.note,comdat",
                    ".balign 64",
                    "22: .zero 64",
                    ".popsection",
                    ".pushsection .note.tracebraid,\"aGR\",@note,tracebraid.note,comdat",
                    ".balign 4",
                    ".weak tracebraid.note",
                    ".hidden tracebraid.note",
                    "tracebraid.note: .4byte 24f - 23f, 26f - 25f, 1",
                    "23: .asciz \"tracebraid\"",
                    "24: .balign 4",
                    "25: .4byte 1",
                    ".4byte __start_tracebraid_sites - .",
                    ".4byte __stop_tracebraid_sites - .",
                    ".4byte __start_tracebraid_points - .",
                    ".4byte __stop_tracebraid_points - .",
                    ".4byte 22b - .",
                    "26: .balign 4",
                    ".popsection",
                    ".endif",

                    concat!(".ifndef ", $point),

                    // The semaphore word: USDT semaphore, then the process's own wish. In a file-backed
                    // section, since the kernel raises nothing in .bss.
                    concat!(".pushsection .probes,\"awGR\",@progbits,", $point, ",comdat"),
                    ".balign 4",
                    concat!(".weak ", $point, ".semaphore"),
                    concat!(".hidden ", $point, ".semaphore"),
                    concat!($point, ".semaphore: .2byte 0, 0"),
                    ".popsection",

                    concat!(".pushsection tracebraid_schema,\"aGR\",@progbits,", $point, ",comdat"),
                    ".balign 4",
                    "3: .4byte 4f - 3b",
                    ".2byte 1",
                    concat!(".byte ", $flags, ", ", $count),
                    $(concat!(".byte {", stringify!($k), "}"),)*
                    concat!(".asciz \"", $provider, "\""),
                    concat!(".asciz \"", $name, "\""),
                    concat!(".asciz \"", $print, "\""),
                    $(concat!(".asciz \"", $field, "\""),)*
                    "4:",
                    ".popsection",

                    concat!(".pushsection .text.tracebraid,\"axGR\",@progbits,", $point, ",comdat"),
                    $crate::__asm_stub!($point),
                    ".popsection",

                    // The USDT note (SystemTap's "UserSpaceProbeImplementation"): owner, type 3, then the
                    // probe's address, the base's, the semaphore's, and three strings.
                    concat!(".pushsection .note.stapsdt,\"G\",@note,", $point, ",comdat"),
                    ".balign 4",
                    ".4byte 8f - 7f, 20f - 9f, 3",
                    "7: .asciz \"stapsdt\"",
                    "8: .balign 4",
                    "9: .8byte 6b",
                    ".8byte _.stapsdt.base",
                    concat!(".8byte ", $point, ".semaphore"),
                    concat!(".asciz \"", $provider, "\""),
                    concat!(".asciz \"", $name, "\""),
                    // Arguments are slots in memory that the stub's first argument leads to, at their true width and sign. `n` is
                    // how many of a field's slots are among the first twelve.
                    $(
                        concat!(".if {", stringify!($n), "} >= 1"),
                        concat!(".ascii \"", $separator, $crate::__asm_argument!($w0 $o0), "\""),
                        ".endif",
                        concat!(".if {", stringify!($n), "} >= 2"),
                        concat!(".ascii \" ", $crate::__asm_argument!($w1 $o1), "\""),
                        ".endif",
                        concat!(".if {", stringify!($n), "} >= 3"),
                        concat!(".ascii \" ", $crate::__asm_argument!($w2 $o2), "\""),
                        ".endif",
                    )*
                    ".byte 0",
                    "20: .balign 4",
                    ".popsection",

                    concat!(".pushsection .bss.tracebraid,\"awGR\",@nobits,", $point, ",comdat"),
                    ".balign 8",
                    "21: .zero 32",
                    ".popsection",

                    concat!(".pushsection tracebraid_points,\"aGR\",@progbits,", $point, ",comdat"),
                    ".balign 8",
                    concat!(".weak ", $point),
                    concat!(".hidden ", $point),
                    concat!($point, ": .4byte 3b - ."),
                    concat!(".4byte ", $point, ".semaphore - ."),
                    ".4byte 5b - .",
                    ".4byte 6b - .",
                    ".4byte 21b - .",
                    ".4byte {note_slots}",
                    ".4byte {point_flags}, 0",
                    ".popsection",
                    ".endif",

                    $crate::__asm_point!($point),
                    $($k = const $crate::__private::kind::<$lowered>(),)*
                    $($n = const $crate::__private::note_slots_of::<$kinds>($index),)*
                    $($w0 = const $crate::__private::width::<$lowered>(0),)*
                    $($o0 = const $crate::__private::offset::<$kinds>($index, 0),)*
                    $($w1 = const $crate::__private::width::<$lowered>(1),)*
                    $($o1 = const $crate::__private::offset::<$kinds>($index, 1),)*
                    $($w2 = const $crate::__private::width::<$lowered>(2),)*
                    $($o2 = const $crate::__private::offset::<$kinds>($index, 2),)*
                    note_slots = const $crate::__private::note_slots::<$kinds>(),
                    point_flags = const $crate::__private::point_flags::<$kinds>(),
                    point = out(reg) point,
                    options(nomem, nostack, preserves_flags)
                );
            }
            unsafe { $crate::__private::fire::<$kinds, { $count * $crate::__private::MAX_SLOTS }>(point, slots) };
        }
    };
}
