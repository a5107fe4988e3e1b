//! What comes out of the rings: one [`Record`] an event, decoded from bytes that were copied first.

use crate::spec::ProbeId;

/// One event of one CPU.
#[derive(Clone, Debug)]
pub struct Record {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The process it happened in (numbered as in the reader's pid namespace). 0 is the idle task.
    pub tgid: u32,
    /// The thread it happened in.
    pub tid: u32,
    /// The thread's name at that moment; at most 15 bytes, NUL-padded, any bytes.
    pub comm: [u8; 16],
    /// Which probe.
    pub probe: ProbeId,
    /// What it carries.
    pub body: Body,
    /// The stack at that moment, where [`Spec::stacks`](crate::spec::Spec::stacks) asks for it.
    pub stack: Option<Box<Stack>>,
}

/// A stack as it was taken: what could be read of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Addresses of the kernel, innermost first. Those of events with records of their own begin in the
    /// program that took them.
    pub kernel: Vec<u64>,
    /// Addresses of the process that frame pointers lead to, innermost first.
    pub user: Vec<u64>,
    /// The registers with which the process goes on.
    pub registers: UserRegisters,
    /// What lies at the process's stack pointer and behind it.
    pub memory: Box<[u8]>,
}

/// See [`Stack::registers`]. Of a thread of the kernel they mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserRegisters {
    /// The next instruction.
    pub instruction_pointer: u64,
    /// The end of the stack.
    pub stack_pointer: u64,
    /// Where the frame of the function is, if it has one.
    pub frame_pointer: u64,
}

/// What a record carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A tracebraid tracepoint: its slots, and the text that pairs of them led to, in the order of
    /// `Fetch::Slots::text`.
    Slots {
        /// The words. `None`: the stack could not be read.
        slots: Option<Vec<u64>>,
        /// One for each text pair.
        texts: Vec<Text>,
    },
    /// Another USDT probe: one a fetched argument. `location` is the index in `UserProbe::locations`.
    Arguments {
        /// Which location was hit.
        location: u32,
        /// `None` where memory could not be read or the place is unsupported.
        values: Vec<Option<u64>>,
    },
    /// A probe definition: one a step that gives something out.
    Program(Vec<Output>),
    /// The raw record of a kernel tracepoint, laid out as its `format` file says; its first 8 bytes
    /// mean nothing. `__data_loc` contents follow, at the offsets that their descriptors say.
    Tracepoint(Vec<u8>),
    /// `sched_switch`.
    SchedSwitch {
        /// Who leaves.
        prev: Task,
        /// State bits of who leaves, as the tracepoint prints them (0 runnable; bit 8 is `+`, preempted).
        prev_state: u64,
        /// Who comes.
        next: Task,
    },
    /// `sched_waking`, `sched_wakeup`, `sched_wakeup_new`: who is woken, and onto which CPU.
    Wake {
        /// Who.
        task: Task,
        /// Where to.
        target_cpu: u32,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// Who.
        task: Task,
        /// From which CPU.
        from: u32,
        /// To which CPU.
        to: u32,
    },
    /// `sched_process_fork`.
    Fork {
        /// The parent's thread.
        parent: Task,
        /// The new task (a thread where `tgid` is the parent's).
        child: Task,
    },
    /// `sched_process_exec`: the file, and the tid before.
    Exec {
        /// As given to execve.
        filename: Text,
        /// The thread id that called it.
        old_tid: u32,
    },
    /// `sched_process_exit`.
    Exit {
        /// Who.
        task: Task,
        /// Whether it was the last thread of its process.
        group_dead: bool,
    },
    /// Entry of a system call.
    SysEnter {
        /// Its number.
        number: i64,
        /// All six arguments.
        args: [u64; 6],
    },
    /// Exit of a system call.
    SysExit {
        /// Its number.
        number: i64,
        /// What it returns.
        result: i64,
    },
}

/// What a step of a fetch program gave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The bytes: 8 of a value, as many as were asked for of memory, those before the NUL of text.
    Read(Vec<u8>),
    /// The same of text that is longer than the limit.
    Cut(Vec<u8>),
    /// The memory could not be read.
    Fault,
    /// The record was full.
    NoRoom,
}

/// A task as scheduler events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// Priority as the tracepoint prints it (120 is nice 0).
    pub prio: i32,
    /// Name, NUL-padded.
    pub comm: [u8; 16],
}

/// Text copied from memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// The bytes, and whether they were cut at the limit.
    Bytes {
        /// What was copied.
        bytes: Vec<u8>,
        /// How long it was in truth, where that is known; larger than `bytes.len()` means cut.
        full_length: u64,
    },
    /// The address was null: an absent `Option`, or a null pointer.
    Null,
    /// The memory could not be read.
    Fault,
}

/// Events that were produced and are not in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which probe.
    pub probe: ProbeId,
    /// On which CPU; [`Lost::UNKNOWN_CPU`] where the kernel counts without telling.
    pub cpu: u32,
    /// How many since the last such report.
    pub count: u64,
    /// They were lost after this time (ns, CLOCK_MONOTONIC) …
    pub after: u64,
    /// … and before this one.
    pub before: u64,
    /// Why.
    pub reason: LostReason,
}

impl Lost {
    /// The `cpu` of losses that the kernel counts for all CPUs together (its recursion guard).
    pub const UNKNOWN_CPU: u32 = u32::MAX;
}

/// Why events were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// The ring was full.
    RingFull,
    /// The kernel's recursion guard (`recursion_misses` of the program).
    Recursion,
    /// More threads were inside user probes at once than there is scratch space for.
    Busy,
}
