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
/// make the compiler save registers in the hot path. Called by the proc macros only.
#[cfg(tracebraid_keys)]
#[doc(hidden)]
#[macro_export]
macro_rules! __point {
    (
        emit: $emit:ident,
        kinds: $kinds:ty,
        count: $count:literal,
        fields: [$({ $index:tt $lowered:ident $value:ident })*],
        text: $text:tt
    ) => {
        #[inline(always)]
        fn $emit<$($lowered: $crate::__private::Lowered),*>(
            _: $crate::__private::Kinds<$kinds>,
            ($($value,)*): ($($lowered,)*),
        ) -> $crate::__private::Entry {
            let mut slots = [::core::mem::MaybeUninit::<u64>::uninit(); $crate::__private::HEADER_WORDS + $count * $crate::__private::MAX_SLOTS];
            $($crate::__private::put::<$kinds, $index, _>(&mut slots, $value);)*
            let point = $crate::__point_text! { $kinds, $text };
            let stamp = unsafe { $crate::__private::fire::<$kinds, { $crate::__private::HEADER_WORDS + $count * $crate::__private::MAX_SLOTS }>(point, slots) };
            $crate::__private::Entry::emitted(stamp)
        }
    };
}

/// Defines the function that knows the point of a return without `ret` and `err`. All of these have the
/// same fields, so that they are emitted by one function of the SDK (`traced`). Called by the proc macros
/// only.
#[cfg(tracebraid_keys)]
#[doc(hidden)]
#[macro_export]
macro_rules! __return_point {
    (address: $address:ident, text: $text:tt) => {
        #[inline(always)]
        fn $address() -> $crate::__private::ReturnPoint {
            let point = $crate::__point_text! { $crate::__private::Return, $text };
            unsafe { $crate::__private::ReturnPoint::new(point) }
        }
    };
}

/// The assembly of a point, and its address.
///
/// `point` holds placeholders for the codes of its fields (`{c0}`…, see `fields::code`); texts are
/// escaped for the assembler and for `asm!`, and `names` are those of all fields, each with its NUL.
///
/// It is one text with few operands, since programs have thousands of these: every operand is a
/// constant to evaluate, every macro inside is one to expand. The assembler works out the rest.
#[cfg(tracebraid_keys)]
#[doc(hidden)]
#[macro_export]
macro_rules! __point_text {
    ($kinds:ty, {
        point: $point:literal,
        provider: $provider:literal,
        name: $name:literal,
        print: $print:literal,
        names: $names:literal,
        flags: $flags:literal,
        count: $count:literal,
        codes: [$($code:ident $chunk:literal)*],
        fields: [$($of:ident $shift:literal)*]
    }) => {{
        let point: *const u8;
        unsafe {
            ::core::arch::asm!(
                concat!(
                    // What the note's addresses are relative to, for readers that expect prelinked files.
                    // Retained: rustc's default linker drops it otherwise, and the notes then say base 0.
                    // In the segment of the text: perf takes the distance between a probe's address and its
                    // file offset from this section's, and rustc's linker has another one for each segment.
                    ".ifndef _.stapsdt.base\n",
                    ".pushsection .stapsdt.base,\"axGR\",@progbits,.stapsdt.base,comdat\n",
                    ".weak _.stapsdt.base\n",
                    ".hidden _.stapsdt.base\n",
                    "_.stapsdt.base: .space 1\n",
                    ".size _.stapsdt.base, 1\n",
                    ".popsection\n",
                    ".endif\n",

                    // The ELF note of this DSO: the bounds of its tables (`wire::note`).
                    ".ifndef tracebraid.note\n",
                    // A point may come without a site: by a future's drop, which is compiled also where
                    // nobody polls it. Its bounds are of this section, then empty.
                    ".pushsection tracebraid_sites,\"aR\",@progbits\n",
                    ".balign 8\n",
                    ".popsection\n",
                    ".hidden __start_tracebraid_sites\n",
                    ".hidden __stop_tracebraid_sites\n",
                    ".hidden __start_tracebraid_points\n",
                    ".hidden __stop_tracebraid_points\n",
                    // Semaphores begin on a page of their own: rustc's default linker may let the page in
                    // front be mapped twice (RELRO ends in it, .data begins in it), and the kernel then
                    // raises a semaphore in the copy that the program does not see.
                    ".pushsection .probes,\"awGR\",@progbits,tracebraid.note,comdat\n",
                    ".balign 4096\n",
                    ".popsection\n",
                    ".pushsection .data.tracebraid.control,\"awGR\",@progbits,tracebraid.note,comdat\n",
                    ".balign 64\n",
                    "22: .8byte 0, 0, {owner}, 0, 0, 0, 0, 0\n",
                    ".popsection\n",
                    ".pushsection .note.tracebraid,\"aGR\",@note,tracebraid.note,comdat\n",
                    ".balign 4\n",
                    ".weak tracebraid.note\n",
                    ".hidden tracebraid.note\n",
                    "tracebraid.note: .4byte 24f - 23f, 26f - 25f, 1\n",
                    "23: .asciz \"tracebraid\"\n",
                    "24: .balign 4\n",
                    "25: .4byte 1\n",
                    ".4byte __start_tracebraid_sites - .\n",
                    ".4byte __stop_tracebraid_sites - .\n",
                    ".4byte __start_tracebraid_points - .\n",
                    ".4byte __stop_tracebraid_points - .\n",
                    ".4byte 22b - .\n",
                    "26: .balign 4\n",
                    ".popsection\n",
                    ".endif\n",

                    ".ifndef ", $point, "\n",

                    // The semaphore word: USDT semaphore, then the process's own wish. In a file-backed
                    // section, since the kernel raises nothing in .bss.
                    ".pushsection .probes,\"awGR\",@progbits,", $point, ",comdat\n",
                    ".balign 4\n",
                    ".weak ", $point, ".semaphore\n",
                    ".hidden ", $point, ".semaphore\n",
                    $point, ".semaphore: .2byte 0, 0\n",
                    ".popsection\n",

                    ".pushsection tracebraid_schema,\"aGR\",@progbits,", $point, ",comdat\n",
                    ".balign 4\n",
                    "3: .4byte 4f - 3b\n",
                    ".2byte 1\n",
                    ".byte ", $flags, ", ", $count, "\n",
                    $(".byte ({", stringify!($of), "} >> ", $shift, ") & 255\n",)*
                    ".asciz \"", $provider, "\"\n",
                    ".asciz \"", $name, "\"\n",
                    ".asciz \"", $print, "\"\n",
                    ".ascii \"", $names, "\"\n",
                    "4:\n",
                    ".popsection\n",

                    ".pushsection .text.tracebraid,\"axGR\",@progbits,", $point, ",comdat\n",
                    $crate::__asm_stub!($point), "\n",
                    ".popsection\n",

                    // The USDT note (SystemTap's "UserSpaceProbeImplementation"): owner, type 3, then the
                    // probe's address, the base's, the semaphore's, and three strings.
                    ".pushsection .note.stapsdt,\"G\",@note,", $point, ",comdat\n",
                    ".balign 4\n",
                    ".4byte 8f - 7f, 20f - 9f, 3\n",
                    "7: .asciz \"stapsdt\"\n",
                    "8: .balign 4\n",
                    "9: .8byte 6b\n",
                    ".8byte _.stapsdt.base\n",
                    ".8byte ", $point, ".semaphore\n",
                    ".asciz \"", $provider, "\"\n",
                    ".asciz \"", $name, "\"\n",
                    $crate::__note_arguments!($($of $shift)*),
                    ".byte 0\n",
                    "20: .balign 4\n",
                    ".popsection\n",

                    ".pushsection .bss.tracebraid,\"awGR\",@nobits,", $point, ",comdat\n",
                    ".balign 8\n",
                    "21: .zero 48\n",
                    ".popsection\n",

                    ".pushsection tracebraid_points,\"aGR\",@progbits,", $point, ",comdat\n",
                    ".balign 8\n",
                    ".weak ", $point, "\n",
                    ".hidden ", $point, "\n",
                    $point, ": .4byte 3b - .\n",
                    ".4byte ", $point, ".semaphore - .\n",
                    ".4byte 5b - .\n",
                    ".4byte 6b - .\n",
                    ".4byte 21b - .\n",
                    ".4byte .Ltracebraid_shown\n",
                    // A return (schema::FLAG_RETURN) is table::POINT_RETURN.
                    ".4byte .Ltracebraid_flags | .Ltracebraid_words | (", $flags, " << 2), ", $count, "\n",
                    ".popsection\n",
                    ".endif\n",

                    $crate::__asm_point!($point)
                ),
                $($code = const $crate::__private::code::<$kinds>($chunk),)*
                owner = sym $crate::__private::OWNER,
                point = out(reg) point,
                options(nomem, nostack, preserves_flags)
            );
        }
        point
    }};
}

/// The note's arguments: slots in memory that the stub's first argument leads to, at their true width and
/// sign. Those of a field are all among the first twelve slots of the event, or left out.
///
/// A field is a number of 20 bits (`fields::code`), from which the assembler takes what there is to say;
/// it also counts the slots (`.Ltracebraid_slot`), those that are shown (`.Ltracebraid_shown`), and
/// gathers the row's flags.
#[cfg(tracebraid_keys)]
#[doc(hidden)]
#[macro_export]
macro_rules! __note_arguments {
    ($($code:ident $shift:literal)*) => {
        concat!(
            ".set .Ltracebraid_slot, 0\n",
            ".set .Ltracebraid_shown, 0\n",
            ".set .Ltracebraid_flags, 0\n",
            // table::POINT_WORDS, until a field is more, or less, than one slot of 8 bytes.
            ".set .Ltracebraid_words, 2\n",
            $(
                ".set .Ltracebraid_field, {", stringify!($code), "} >> ", $shift, "\n",
                ".set .Ltracebraid_flags, .Ltracebraid_flags | ((.Ltracebraid_field >> 19) & 1)\n",
                ".if ((.Ltracebraid_field >> 8) & 15) - 13\n.set .Ltracebraid_words, 0\n.endif\n",
                ".set .Ltracebraid_next, .Ltracebraid_slot + ((.Ltracebraid_field >> 8) & 3)\n",
                ".if .Ltracebraid_next <= 12\n",
                ".set .Ltracebraid_shown, .Ltracebraid_shown + ((.Ltracebraid_field >> 8) & 3)\n",
                ".set .Ltracebraid_field, .Ltracebraid_field >> 10\n",
                ".rept .Ltracebraid_next - .Ltracebraid_slot\n",
                ".if .Ltracebraid_slot\n.ascii \" \"\n.endif\n",
                ".if .Ltracebraid_field & 4\n.ascii \"-\"\n.endif\n",
                ".byte 48 + (1 << (.Ltracebraid_field & 3))\n",
                ".ascii \"", $crate::__asm_argument!(open), "\"\n",
                ".if .Ltracebraid_slot * 8 >= 10\n.byte 48 + .Ltracebraid_slot * 8 / 10\n.endif\n",
                ".byte 48 + .Ltracebraid_slot * 8 % 10\n",
                ".ascii \"", $crate::__asm_argument!(close), "\"\n",
                ".set .Ltracebraid_field, .Ltracebraid_field >> 3\n",
                ".set .Ltracebraid_slot, .Ltracebraid_slot + 1\n",
                ".endr\n",
                ".endif\n",
                ".set .Ltracebraid_slot, .Ltracebraid_next\n",
            )*
        )
    };
}
