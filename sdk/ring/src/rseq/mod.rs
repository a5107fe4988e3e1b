//! Appending inside a restartable sequence (x86-64).
//!
//! The kernel knows the bounds of the sequence (`struct rseq_cs`, include/uapi/linux/rseq.h). When it
//! preempts, migrates or signals a thread inside them, the thread goes on at the abort handler, which
//! starts again. So the ring's head cannot change between its load and the commit's store: on one CPU
//! everything from `cpu_id` to the commit is as if nobody else were there.
//!
//! A descriptor must never outlive its library (a thread that leaves one behind dies at its next
//! preemption after `dlclose`), so the pointer to it is cleared after the commit, and the library is
//! kept loaded by whoever made the ring.

#![allow(unsafe_code)]

mod area;

use std::arch::asm;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::geometry::{Control, sub_buffer_bytes};
use crate::region::Region;
use crate::{Appended, Clock, Mode};

pub use area::{Area, Source};

/// Appends to the rings of a region, on whatever CPU the thread runs.
#[repr(C)]
pub struct Producer {
    controls: *const Control,
    data: *mut u8,
    /// From one ring's data to the next.
    stride: u64,
    mask: u64,
    capacity: u64,
    sub_mask: u64,
    sub_bytes: u64,
    /// CPUs from this one on have no ring; 0 while closed.
    rings: AtomicU32,
    /// What `rings` is while open.
    cpus: u32,
    mode: Mode,
    clock: Clock,
    area: Area,
    region: &'static Region,
}

// SAFETY: the pointers lead into the region, which stays; appends of different threads exclude one
// another by the sequence.
unsafe impl Send for Producer {}
// SAFETY: as above.
unsafe impl Sync for Producer {}

impl Producer {
    /// A producer on the first `rings` rings of a region, one a CPU.
    pub fn new(
        region: &'static Region,
        rings: usize,
        mode: Mode,
        clock: Clock,
        area: Area,
    ) -> Producer {
        let rings = rings.min(region.geometry().rings());
        Producer::on(region, 0..rings, mode, clock, area)
    }

    /// A producer on these rings of a region: the first is that of CPU 0. Several processes may append to
    /// the same rings, as long as they do it in the same mode: a CPU runs one thread at a time, whoever's.
    ///
    /// # Panics
    /// There are no such rings in the region.
    pub fn on(
        region: &'static Region,
        rings: Range<usize>,
        mode: Mode,
        clock: Clock,
        area: Area,
    ) -> Producer {
        assert!(rings.start <= rings.end && rings.end <= region.geometry().rings());
        let ring_bytes = region.geometry().ring_bytes();
        let sub_bytes = sub_buffer_bytes(ring_bytes) as u64;
        let cpus = rings.len() as u32;
        // SAFETY: within the region's mappings.
        let (controls, data) = unsafe {
            (
                region.controls().add(rings.start),
                region.data().add(2 * ring_bytes * rings.start),
            )
        };
        Producer {
            controls,
            data,
            stride: 2 * ring_bytes as u64,
            mask: ring_bytes as u64 - 1,
            capacity: ring_bytes as u64,
            sub_mask: sub_bytes - 1,
            sub_bytes,
            rings: AtomicU32::new(cpus),
            cpus,
            mode,
            clock,
            area,
            region,
        }
    }

    /// The region it appends to.
    pub fn region(&self) -> &'static Region {
        self.region
    }

    /// Lets no append begin: all are [`Appended::Elsewhere`] from here on. Those of this process that are
    /// under way are begun anew, and so end too, by `membarrier(PRIVATE_EXPEDITED_RSEQ)`.
    pub fn close(&self) {
        self.rings.store(0, Ordering::Release);
    }

    /// Takes appends (again).
    pub fn open(&self) {
        self.rings.store(self.cpus, Ordering::Release);
    }

    /// Whether it takes appends.
    pub fn is_open(&self) -> bool {
        self.rings.load(Ordering::Relaxed) != 0
    }

    /// Where the time of its records comes from.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Appends a record. `time` is used with [`Clock::Given`] only. The length is at most an eighth of
    /// the ring in overwrite mode, and at most the ring otherwise; longer ones are [`Appended::Full`].
    #[inline]
    pub fn append(&self, record: &[u64], time: u64) -> Appended {
        let limit = if self.mode == Mode::Overwrite {
            self.sub_bytes
        } else {
            self.capacity
        };
        if record.len() < 2 || record.len() as u64 * 8 > limit {
            return Appended::Full;
        }
        // SAFETY: just checked.
        unsafe { self.append_short(record, || time) }
    }

    /// Appends a record that fits any ring.
    ///
    /// # Safety
    /// It has 2 to 256 words: no more than a sub-buffer of the smallest ring.
    #[inline(always)]
    pub unsafe fn append_short(&self, record: &[u64], time: impl FnOnce() -> u64) -> Appended {
        let (record, words) = (record.as_ptr(), record.len() as u64);
        // SAFETY: the producer's area is this thread's, its pointers lead into its mapped region, and the
        // record has `words` words, which fit.
        unsafe {
            match (self.mode, self.clock) {
                (Mode::Discard, Clock::Tsc) => discard_tsc(self, record, words),
                (Mode::Discard, Clock::Given) => discard_given(self, record, words, time()),
                (Mode::Overwrite, Clock::Tsc) => overwrite_tsc(self, record, words),
                (Mode::Overwrite, Clock::Given) => overwrite_given(self, record, words, time()),
            }
        }
    }

    /// Appends a record to rings that refuse when full and read the counter: nothing is looked up.
    ///
    /// # Safety
    /// The producer is [`Mode::Discard`] and [`Clock::Tsc`]; the record has `words` words, 2 to 256.
    #[inline(always)]
    pub unsafe fn append_discard_tsc(&self, record: *const u64, words: usize) -> Appended {
        // SAFETY: as in `append_short`.
        unsafe { discard_tsc(self, record, words as u64) }
    }

    /// Gets this thread ready after [`Appended::Elsewhere`]: registers an area of our own where the C
    /// library has none. Whether another append is worth trying.
    pub fn prepare_thread(&self) -> bool {
        self.is_open() && self.area.register_this_thread()
    }
}

/// One append as one sequence.
///
/// `$room` makes sure that there is room, leaves the new head in `{t}` and adds the place to write at to
/// `{h}`; `$time` leaves the time in `rax`. Both may use `rax` and `rdx`. What is named here and the two are
/// eight registers, one fewer than a function may use without saving any: that one is left for what its
/// caller has to know if this fails. A restart finds `p`, `record` and `words` as they were.
macro_rules! sequence {
    ($name:ident ( $($time_arg:ident)? ) [$($extra:ident)*], [$($room:literal)*], [$($time:literal)*]) => {
        /// # Safety
        /// The producer's area is this thread's; its region is mapped; `record` has `words` words, at least 2
        /// and no more than fit.
        #[inline(always)]
        unsafe fn $name(
            producer: *const Producer, record: *const u64, words: u64 $(, $time_arg: u64)?
        ) -> Appended {
            let (code, time): (u64, u64);
            // SAFETY: the caller's promises. Between labels 20 and 21 only the ring and scratch registers
            // change, and the stores before 21 are in room that nobody reads before the commit.
            unsafe {
                asm!(
                    // struct rseq_cs: version, flags, start, length, abort handler.
                    ".pushsection __rseq_cs, \"aw\", @progbits",
                    ".balign 32",
                    "3: .long 0, 0",
                    ".quad 20f, 21f - 20f, 22f",
                    ".popsection",
                    "26:",
                    "mov {h}, [{p} + {AREA}]",
                    "lea {t}, [rip + 3b]",
                    "mov fs:[{h} + 8], {t}",
                    "20:",
                    // cpu_id; also -1 (not registered) and -2 (cannot be) are no ring.
                    "mov {ring:e}, fs:[{h} + 4]",
                    "cmp {ring:e}, [{p} + {RINGS}]",
                    "jae 27f",
                    "mov {h}, {ring}",
                    "imul {h}, [{p} + {STRIDE}]",
                    "add {h}, [{p} + {DATA}]",
                    "shl {ring}, 8",
                    "add {ring}, [{p} + {CONTROLS}]",
                    $($room,)*
                    // Copy all but the second word, which is the time.
                    "mov rax, [{record}]",
                    "mov [{h}], rax",
                    "mov edx, 2",
                    "cmp rdx, {words}",
                    "jae 32f",
                    // So that the loop lies in one line of the cache.
                    ".p2align 5",
                    "23: mov rax, [{record} + rdx*8]",
                    "mov [{h} + rdx*8], rax",
                    "inc rdx",
                    "cmp rdx, {words}",
                    "jb 23b",
                    "32:",
                    $($time,)*
                    "mov [{h} + 8], rax",
                    // Commit.
                    "mov [{ring} + {HEAD}], {t}",
                    "21:",
                    "mov {h}, [{p} + {AREA}]",
                    "xor edx, edx",
                    "mov fs:[{h} + 8], rdx",
                    "25:",
                    // Behind the function: what seldom runs.
                    ".subsection 1",
                    "24: mov edx, 1",
                    "jmp 28f",
                    "27: mov edx, 2",
                    "28: mov {h}, [{p} + {AREA}]",
                    "mov qword ptr fs:[{h} + 8], 0",
                    "jmp 25b",
                    // The signature that the area was registered with, in an instruction (ud1).
                    ".byte 0x0f, 0xb9, 0x3d",
                    ".long 0x53053053",
                    "22: jmp 26b",
                    ".subsection 0",
                    p = in(reg) producer,
                    record = in(reg) record,
                    words = in(reg) words,
                    $($time_arg = in(reg) $time_arg,)?
                    $($extra = out(reg) _,)*
                    t = out(reg) _,
                    ring = out(reg) _,
                    h = out(reg) _,
                    out("rax") time,
                    out("rdx") code,
                    AREA = const offset_of!(Producer, area.offset),
                    RINGS = const offset_of!(Producer, rings),
                    STRIDE = const offset_of!(Producer, stride),
                    DATA = const offset_of!(Producer, data),
                    CONTROLS = const offset_of!(Producer, controls),
                    CAPACITY = const offset_of!(Producer, capacity),
                    MASK = const offset_of!(Producer, mask),
                    SUB_MASK = const offset_of!(Producer, sub_mask),
                    SUB_BYTES = const offset_of!(Producer, sub_bytes),
                    HEAD = const offset_of!(Control, head),
                    TIME = const offset_of!(Control, time),
                    OLDEST = const offset_of!(Control, oldest),
                    TAIL = const offset_of!(Control, tail),
                    options(nostack)
                );
            }
            match code {
                0 => Appended::Yes(time),
                1 => Appended::Full,
                _ => Appended::Elsewhere,
            }
        }
    };
}

/// Each way to make room with each clock. (Constants that a variant does not use stand in a comment:
/// `asm!` wants each used.)
macro_rules! variants {
    ($($name:ident ($($time_arg:ident)?) $room:ident $time:ident;)*) => {$(
        variants!(@room $name ($($time_arg)?) $room $time);
    )*};
    (@room $name:ident ($($a:ident)?) discard $time:ident) => {
        variants!(@time $name ($($a)?) [] [
            "mov rax, [{ring} + {HEAD}]"
            "lea {t}, [rax + {words}*8]"
            "mov rdx, {t}"
            "sub rdx, [{ring} + {TAIL}]"
            "cmp rdx, [{p} + {CAPACITY}]"
            "ja 24f"
            "and rax, [{p} + {MASK}]"
            "add {h}, rax"
            "# {SUB_MASK} {SUB_BYTES} {OLDEST}"
        ] $time);
    };
    (@room $name:ident ($($a:ident)?) overwrite $time:ident) => {
        variants!(@time $name ($($a)?) [d i] [
            // Bytes from the head to the end of its sub-buffer, in rdx, and whether they suffice.
            "mov {d}, [{ring} + {HEAD}]"
            "mov {t}, {d}"
            "and {t}, [{p} + {SUB_MASK}]"
            "mov rdx, [{p} + {SUB_BYTES}]"
            "sub rdx, {t}"
            "lea {i}, [{words}*8]"
            "mov {t}, {d}"
            "cmp {i}, rdx"
            "jbe 29f"
            "add {t}, rdx"
            "29: add {t}, {i}"
            // What is about to be overwritten is gone before the first byte of it is; and it stays gone: a
            // longer record, restarted or given up here, may already have written further.
            "mov {i}, {t}"
            "sub {i}, [{p} + {CAPACITY}]"
            "jbe 30f"
            "cmp {i}, [{ring} + {OLDEST}]"
            "jbe 30f"
            "mov [{ring} + {OLDEST}], {i}"
            "30:"
            // Padding up to the next sub-buffer: a header of event 0 with its length.
            "lea {i}, [{words}*8]"
            "cmp {i}, rdx"
            "jbe 31f"
            "mov {i}, {d}"
            "and {i}, [{p} + {MASK}]"
            "mov rax, rdx"
            "shr rax, 3"
            "mov [{h} + {i}], rax"
            "add {d}, rdx"
            "31:"
            "and {d}, [{p} + {MASK}]"
            "add {h}, {d}"
            "# {TAIL}"
        ] $time);
    };
    (@time $name:ident ($($a:ident)?) [$($extra:ident)*] [$($room:literal)*] tsc) => {
        sequence!($name($($a)?) [$($extra)*], [$($room)*], [
            "rdtsc"
            "shl rdx, 32"
            "or rax, rdx"
            "# {TIME}"
        ]);
    };
    (@time $name:ident ($($a:ident)?) [$($extra:ident)*] [$($room:literal)*] given) => {
        sequence!($name($($a)?) [$($extra)*], [$($room)*], [
            // Read before the sequence, so perhaps before another record's: never go backwards. A floor
            // that is raised without a commit does no harm.
            "mov rax, {time}"
            "mov rdx, [{ring} + {TIME}]"
            "cmp rax, rdx"
            "cmovb rax, rdx"
            "mov [{ring} + {TIME}], rax"
        ]);
    };
}

variants! {
    discard_tsc () discard tsc;
    discard_given (time) discard given;
    overwrite_tsc () overwrite tsc;
    overwrite_given (time) overwrite given;
}
