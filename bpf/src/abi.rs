//! What the programs and the bridge share, as `bpf/abi.h` and `bpf/scratch.h` say it in C.
//!
//! The layouts are asserted on both sides when they are compiled. Only plain integers stand here, so
//! every pattern of bytes is a value and every value has no padding: [`Plain`] rests on that.
#![allow(unsafe_code)]

pub(crate) const COMM: usize = 16;
pub(crate) const WORDS: usize = 64;
pub(crate) const REGISTERS: usize = 34;
/// Where `arguments.bpf.c` puts the arguments of a tracepoint, and how many at most.
pub(crate) const FIRST_GIVEN: u16 = 21;
pub(crate) const MOST_GIVEN: u8 = 12;
/// Where `event.bpf.c` puts the address of an event's record.
pub(crate) const RECORD_WORD: u16 = 21;
pub(crate) const TEXTS: usize = 32;
pub(crate) const KEPT: usize = 16;
pub(crate) const CALLS: u32 = 16384;
pub(crate) const STRING_LIMIT: usize = 4096;
pub(crate) const CHAIN: usize = 4;
pub(crate) const STACK_MEMORY: u32 = 65528;
pub(crate) const CPUS: usize = 4096;
pub(crate) const SYSCALLS: usize = 1024;
pub(crate) const DYNAMIC: usize = 16;
pub(crate) const TRACEPOINT_BYTES: usize = 8192;
pub(crate) const NO_ENTRY: u32 = u32::MAX;
pub(crate) const RELATIVE: u32 = 0x8000_0000;
pub(crate) const NO_REGISTER: u16 = 0xffff;

pub(crate) const SCHED_SWITCH: usize = 0;
pub(crate) const SCHED_WAKING: usize = 1;
pub(crate) const SCHED_WAKEUP: usize = 2;
pub(crate) const SCHED_WAKEUP_NEW: usize = 3;
pub(crate) const SCHED_MIGRATE_TASK: usize = 4;
pub(crate) const PROCESS_FORK: usize = 5;
pub(crate) const PROCESS_EXEC: usize = 6;
pub(crate) const PROCESS_EXIT: usize = 7;
pub(crate) const EVENTS: usize = 8;

/// Asserted in C as well.
pub(crate) const SLOTS: u32 = 7;

pub(crate) const FETCH_SLOTS: u8 = 0;
pub(crate) const FETCH_ARGUMENTS: u8 = 1;
pub(crate) const FETCH_PROGRAM: u8 = 2;
pub(crate) const FETCH_KEEP: u8 = 3;

pub(crate) const PLACE_TEXT: u8 = 0;
pub(crate) const PLACE_CONSTANT: u8 = 1;
pub(crate) const PLACE_REGISTER: u8 = 2;
pub(crate) const PLACE_MEMORY: u8 = 3;
pub(crate) const PLACE_ADDRESS: u8 = 4;
pub(crate) const PLACE_NONE: u8 = 5;
pub(crate) const STEP_REGISTER: u8 = 6;
pub(crate) const STEP_CONSTANT: u8 = 7;
pub(crate) const STEP_FUNCTION: u8 = 8;
pub(crate) const STEP_READ: u8 = 9;
pub(crate) const STEP_KEEP: u8 = 10;
pub(crate) const STEP_BACK: u8 = 11;
pub(crate) const STEP_STORE: u8 = 12;
pub(crate) const STEP_STORE_MEMORY: u8 = 13;
pub(crate) const STEP_STORE_TEXT: u8 = 14;
pub(crate) const STEP_SHOWN: u8 = 15;
pub(crate) const STEP_FIELD: u8 = 16;
pub(crate) const STEP_FIELD_DATA: u8 = 17;
pub(crate) const STEP_KEPT: u8 = 18;
pub(crate) const STEP_STORE_SIZED: u8 = 19;
pub(crate) const STEP_OF_PROCESS: u8 = 20;

pub(crate) const TEXT_READ: u32 = 0;
pub(crate) const TEXT_NULL: u32 = 1;
pub(crate) const TEXT_CUT: u32 = 3;
pub(crate) const TEXT_NO_ROOM: u32 = 4;

pub(crate) const FILTER_ROOM: usize = 4096;
pub(crate) const FILTER_MARK: i32 = 0x7ab1_e5f0;
/// Of `struct solo_ring`: where positions are, and where the data.
pub(crate) const SOLO_READ: usize = 0;
pub(crate) const SOLO_BEGUN: usize = 64;
pub(crate) const SOLO_DONE: usize = 72;
pub(crate) const SOLO_DATA: usize = 4096;
/// Bytes behind its data.
pub(crate) const SOLO_MORE: usize = 12288;

pub(crate) const FETCH_CODE_ROOM: usize = 4096;
pub(crate) const FETCH_CODE_MARK: i32 = 0x7ab1_e5f1;
pub(crate) const PATTERN: usize = 256;
pub(crate) const TEXT_ENDS_IN_NUL: i32 = 0x4000_0000;

pub(crate) const SHAPE_WHOLE: u32 = 0;
pub(crate) const SHAPE_FRONT: u32 = 1;
pub(crate) const SHAPE_END: u32 = 2;
pub(crate) const SHAPE_MIDDLE: u32 = 3;
pub(crate) const SHAPE_PARTS: u32 = 4;

pub(crate) const PART_MORE: u64 = 1 << 48;
pub(crate) const PART_NEGATED: u64 = 1 << 49;
pub(crate) const PART_RUN: u64 = 1 << 50;

pub(crate) const ARRAY_BYTES: usize = 512;
pub(crate) const OUTPUT_HEAD: usize = 8;

/// A type that may be seen as its bytes.
///
/// # Safety
/// No padding and no invariants: `repr(C)` of integers, and arrays of them, only.
pub(crate) unsafe trait Plain: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the trait promises that every byte of the value is initialised.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

macro_rules! plain {
    ($($(#[$doc:meta])* struct $name:ident ($size:expr) { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)* }
        // SAFETY: integers and arrays of integers; the assertion below leaves no room for padding.
        unsafe impl Plain for $name {}
        const _: () = assert!(size_of::<$name>() == $size);
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
    )*};
}

plain! {
    struct Settings(96 + 4 * EVENTS + CPUS / 8) {
        entries: u32,
        string_limit: u32,
        text_bytes: u32,
        scratch_slots: u32,
        registers: u32,
        first_argument: u32,
        instruction_pointer: u32,
        single_process: u32,
        filter_processes: u32,
        filter_threads: u32,
        filter_excluded: u32,
        filter_cpus: u32,
        kernel_events_of_all: u32,
        exit_tells_last: u32,
        fetch_room: u32,
        count_only: u32,
        filters: u32,
        keeps: u32,
        keeps_registers: u32,
        asks_function: u32,
        solo_bytes: u32,
        cgroup_level: u32,
        cgroup: u64,
        kernel_entry: [u32; EVENTS],
        cpu_mask: [u64; CPUS / 64],
    }
    /// Entries of system calls by number; the last is for all numbers above.
    struct Numbers(4 * (SYSCALLS + 1)) {
        entry: [u32; SYSCALLS + 1],
    }
    struct Stacks(32) {
        room: u32,
        kernel_frames: u32,
        user_frames: u32,
        memory: u32,
        instruction_pointer: u32,
        stack_pointer: u32,
        frame_pointer: u32,
        reserved: u32,
    }
    struct Counter(32) {
        hits: u64,
        ring_full: u64,
        no_scratch: u64,
        filtered: u64,
    }
    struct TextTest(8 + 8 * PATTERN) {
        shape: u32,
        length: u32,
        words: [u64; PATTERN],
    }
    struct Location(20) {
        entry: u32,
        next: u32,
        first_place: u32,
        fetch: u8,
        words: u8,
        texts: u8,
        keeps: u8,
        code: u32,
    }
    struct Place(16) {
        displacement: i64,
        base: u16,
        index: u16,
        kind: u8,
        width: u8,
        shift: u8,
        reserved: u8,
    }
    struct Tracepoint(12 + 4 * DYNAMIC) {
        entry: u32,
        size: u32,
        dynamic_count: u32,
        dynamic: [u32; DYNAMIC],
    }
}

/// Bytes of `struct call` and of `struct kept`.
pub(crate) const CALL_BYTES: u32 = 16;
pub(crate) const KEPT_BYTES: u32 = 8 + 8 * KEPT as u32;

/// Sizes of the records' fixed parts; `decode` reads them field by field.
pub(crate) mod record {
    pub(crate) const HEADER: usize = 40;
    pub(crate) const TASK: usize = 32;
    pub(crate) const TEXT_HEAD: usize = 16;
    pub(crate) const STACK: usize = 40;
    /// Where in `struct scratch` the bytes of outputs are told, the registers are, the value of a fetch program,
    /// and whether it was read.
    pub(crate) const SCRATCH_USED: usize = 4;
    pub(crate) const SCRATCH_REGISTERS: usize = 32;
    pub(crate) const SCRATCH_VALUE: usize = SCRATCH_REGISTERS + 8 * super::REGISTERS;
    pub(crate) const SCRATCH_FAILED: usize = SCRATCH_VALUE + 24;
    /// Where in `struct scratch` the header of the record is.
    pub(crate) const SCRATCH_RECORD: usize = 128 + 8 * super::KEPT + 8 * super::REGISTERS;
    /// Where the words behind the record are, of which its `valid` tells.
    pub(crate) const SCRATCH_WORDS: usize = SCRATCH_RECORD + HEADER + 16;
    /// Where the heads of texts are.
    pub(crate) const SCRATCH_HEADS: usize = SCRATCH_WORDS + 8 * super::WORDS;
    /// `struct scratch` without the text behind it.
    pub(crate) const SCRATCH: usize =
        240 + 8 * super::KEPT + 8 * super::REGISTERS + 8 * super::WORDS + 16 * super::TEXTS;
}
