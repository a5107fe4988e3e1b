//! What to probe, as plain data: builds without clang and without rights.
//!
//! A [`Spec`] is what a session is made of. User probes name an open-able file and file offsets (not
//! addresses), with the argument places of each location; kernel events name themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::hit_filter::HitFilter;

/// A probe's number in one session; it comes back with every record and every count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProbeId(pub u32);

/// Everything that one session attaches.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Probes in files: USDT and (later) uprobes.
    pub user: Vec<UserProbe>,
    /// Probes in kernel functions.
    pub functions: Vec<FunctionProbe>,
    /// Tracepoints by the arguments that they are handed.
    pub raw_tracepoints: Vec<RawTracepointProbe>,
    /// Probes at events, which fetch fields of their records.
    pub events: Vec<EventProbe>,
    /// Kernel tracepoints whose payload is copied as their `format` file describes it.
    pub tracepoints: Vec<TracepointProbe>,
    /// Events that are recorded as typed data from raw tracepoints.
    pub kernel: Vec<KernelProbe>,
    /// Whose events are wanted.
    pub filter: Filter,
    /// Which hits are wanted of a probe's location (by its index), of a system call (by its number), or of
    /// any other probe (0). The kernel counts the others and writes nothing of them.
    pub hits: BTreeMap<(ProbeId, u32), HitFilter>,
    /// Bytes of each CPU's ring; rounded up to a power of two of pages. 0 takes the default of 1 MiB.
    pub ring_bytes: usize,
    /// The longest string copied, bytes: 16 to 4096. 0 takes the default of 256; anything else is
    /// refused. All strings of one event together are cut at 48 KiB.
    pub string_limit: usize,
    /// What is taken of the stack at every hit; `None` costs nothing.
    pub stacks: Option<Stacks>,
}

/// What is taken of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// How many addresses of the kernel at most, and as many of the process. The kernel itself gives no
    /// more than `kernel.perf_event_max_stack`.
    pub frames: u16,
    /// How the process's stack is taken.
    pub user: UserStack,
}

impl Stacks {
    /// The largest [`frames`](Stacks::frames).
    pub const MOST_FRAMES: u16 = 1024;
}

/// See [`Stacks::user`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserStack {
    /// The addresses that frame pointers lead to, and the registers and a little of the stack's end.
    Frames,
    /// No addresses, but the registers and so many bytes of the stack (8 to 65,528).
    Memory(u16),
}

impl Spec {
    /// Whether it asks for no probe at all.
    pub fn is_empty(&self) -> bool {
        self.user.is_empty()
            && self.functions.is_empty()
            && self.raw_tracepoints.is_empty()
            && self.events.is_empty()
            && self.tracepoints.is_empty()
            && self.kernel.is_empty()
    }
}

/// One probe of a file: one name, one or more locations.
#[derive(Clone, Debug)]
pub struct UserProbe {
    /// Its number.
    pub id: ProbeId,
    /// A path this process can open; `/proc/PID/map_files/…` and `/proc/PID/root/…` are welcome.
    pub binary: PathBuf,
    /// Every place it stands at.
    pub locations: Vec<Location>,
}

/// One place in a file.
#[derive(Clone, Debug)]
pub struct Location {
    /// Offset in the file (not an address) of the instruction.
    pub offset: u64,
    /// Offset in the file of the 2-byte semaphore that the kernel raises; 0 for none.
    pub semaphore: u64,
    /// What to fetch there.
    pub fetch: Fetch,
}

/// What a user probe fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The slots of a tracebraid tracepoint: an array of 64-bit words that `rdi` leads to.
    Slots {
        /// How many words, 0 to 64.
        count: u8,
        /// Pairs of slots that are the address and length of text: (address slot, length slot).
        text: Vec<(u8, u8)>,
    },
    /// The arguments of any other USDT probe.
    Arguments(Vec<Argument>),
    /// What a probe definition says.
    Program(Program),
}

/// The arguments of a probe definition, as steps that work on one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// In order; each argument begins with one that begins anew.
    pub steps: Vec<Step>,
    /// The probe is hit when the function returns, not when its instruction is reached.
    pub at_return: bool,
    /// Steps at the end whose outputs are for filters, and go into no record.
    pub for_filters: Vec<Step>,
}

/// One step of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins anew: a register, plus so many bytes.
    Register(Register, i64),
    /// Begins anew: the function's Nth argument, from 0, as it was at the entry; of a [`FunctionProbe`].
    /// Functions take six in registers.
    Argument(u8),
    /// Begins anew: the Nth argument, from 0, of a [`RawTracepointProbe`]; at most 12.
    Given(u8),
    /// Begins anew: what was kept of the call's entry, in a program at the return.
    AtEntry(Kept),
    /// Begins anew: the address of the record of an [`EventProbe`], plus so many bytes.
    Record(u32),
    /// Begins anew: a number in the record of an [`EventProbe`].
    Field {
        /// Bytes from the record's beginning.
        offset: u32,
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Whether it is sign-extended.
        signed: bool,
    },
    /// Begins anew: the address of what a descriptor in the record of an [`EventProbe`] leads to.
    FieldData(Dynamic),
    /// Begins anew: a constant.
    Constant(u64),
    /// Begins anew: the run-time address of the probed place (of the function, at its return), plus so
    /// many bytes.
    Function(i64),
    /// The value becomes the 64-bit word at value + offset.
    Read(i64),
    /// A fault where value + offset is no address of the process, but of the kernel: what follows would
    /// read it there.
    OfProcess(i64),
    /// Keeps the value for [`Step::Back`].
    Keep,
    /// Takes the kept value.
    Back,
    /// Gives the value out.
    Store,
    /// Gives out so many bytes (1 to 512) at value + offset.
    StoreMemory {
        /// Bytes from the value.
        offset: i64,
        /// How many.
        size: u16,
    },
    /// Gives out the NUL-terminated text at value + offset.
    StoreText(i64),
    /// Gives out the text at value + offset, of as many bytes as the value says that was kept; of a
    /// [`UserProbe`].
    StoreSized(i64),
}

/// A word of a call's entry that its return knows, at most 16 of them a program. What could not be read at the
/// entry, and what is not known of it, is a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A register.
    Register(Register),
    /// The 64-bit word at a register and so many bytes.
    Memory(Register, i64),
}

impl Program {
    /// What it knows of the call's entry, each once.
    pub fn kept(&self) -> Vec<Kept> {
        let mut all = Vec::new();
        for step in self.steps.iter().chain(&self.for_filters) {
            if let Step::AtEntry(kept) = step
                && !all.contains(kept)
            {
                all.push(*kept);
            }
        }
        all
    }
}

impl Step {
    /// Whether it gives something out.
    pub fn is_output(&self) -> bool {
        matches!(
            self,
            Step::Store | Step::StoreMemory { .. } | Step::StoreText(_) | Step::StoreSized(_)
        )
    }
}

/// One argument of a USDT note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Width in bytes: 1, 2, 4 or 8.
    pub width: u8,
    /// Whether the value is sign-extended.
    pub signed: bool,
    /// Whether the bits are those of an `f32` or `f64` (`8f@…`). They are fetched as an integer.
    pub float: bool,
    /// Where it is. An argument that cannot be read costs that argument, never the probe.
    pub place: Place,
}

/// Where an argument is at the moment of the hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A constant.
    Constant(i64),
    /// The low `width` bytes of a register. `high` means `ah`, `bh`, `ch` or `dh`.
    Register {
        /// The register.
        register: Register,
        /// Bits 8 to 15 of it.
        high: bool,
    },
    /// Memory at base + index × scale + displacement.
    Memory {
        /// Base register, if any.
        base: Option<Register>,
        /// Index register and scale (1, 2, 4, 8), if any.
        index: Option<(Register, u8)>,
        /// Displacement, bytes.
        displacement: i64,
    },
    /// Memory at an address relative to where the file is mapped: file virtual address
    /// (`sym(%rip)`, `addr(%rip)`). Runs in the bridge's data as rip + `displacement`, where
    /// `displacement` counts from the probe's own address.
    ProbeRelative {
        /// Bytes from the probe's address.
        displacement: i64,
        /// Whether the address itself is the value (`$sym`), or the memory at it.
        address_only: bool,
    },
    /// Not readable, and why: an SSE register, an unresolved symbol.
    Unsupported(String),
}

/// A register of x86-64, by its 64-bit name in `pt_regs` terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Register {
    Rax,
    Rbx,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
    Rbp,
    Rsp,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    Rip,
    Flags,
    Cs,
    Ss,
    OrigRax,
}

/// A probe in the kernel's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionProbe {
    /// Its number.
    pub id: ProbeId,
    /// Where.
    pub place: FunctionPlace,
    /// What is known of it.
    pub seat: Seat,
    /// What to fetch there, or when the function returns.
    pub program: Program,
}

/// What it is about a function that decides how it can be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// It is part of the kernel, and, as far as is known, ftrace can trace it.
    Traced,
    /// It is in a module, which must be free to go.
    Module,
    /// It has no place for ftrace.
    Untraced,
}

/// A place in the kernel's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionPlace {
    /// `FUNCTION` or `MODULE:FUNCTION`, and bytes behind its beginning.
    Symbol(String, u64),
    /// An address.
    Address(u64),
}

/// A tracepoint of the kernel's code, whether it has an event or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTracepointProbe {
    /// Its number.
    pub id: ProbeId,
    /// Such as `sched_switch`.
    pub name: String,
    /// What to fetch.
    pub program: Program,
}

/// A probe at an event of the kernel that has a record: one with a tracepoint, or a system call's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventProbe {
    /// Its number.
    pub id: ProbeId,
    /// Such as `sched`.
    pub category: String,
    /// Such as `sched_switch`.
    pub name: String,
    /// What to fetch.
    pub program: Program,
}

/// A kernel tracepoint, by category and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointProbe {
    /// Its number.
    pub id: ProbeId,
    /// Such as `block`.
    pub category: String,
    /// Such as `block_rq_issue`.
    pub name: String,
    /// Bytes of the fixed part of the record, from the `format` file.
    pub size: u32,
    /// Offsets of `__data_loc` fields: the text or array each leads to is copied behind the record.
    pub dynamic: Vec<Dynamic>,
}

/// A field of variable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// Offset of its 4-byte descriptor (low half offset, high half length).
    pub offset: u32,
    /// `__rel_loc`: the offset counts from the end of the descriptor, not from the record.
    pub relative: bool,
}

/// Kernel events with records of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelProbe {
    /// Its number.
    pub id: ProbeId,
    /// Which.
    pub event: KernelEvent,
}

/// See [`KernelProbe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// `sched:sched_switch`; matches the filter by either task.
    SchedSwitch,
    /// `sched:sched_waking`; matches by the task that is woken.
    SchedWaking,
    /// `sched:sched_wakeup`; matches by the task that is woken.
    SchedWakeup,
    /// `sched:sched_wakeup_new`; matches by the task that is woken.
    SchedWakeupNew,
    /// `sched:sched_migrate_task`; matches by the task that moves.
    SchedMigrateTask,
    /// `sched:sched_process_fork`; matches by the parent.
    ProcessFork,
    /// `sched:sched_process_exec`.
    ProcessExec,
    /// `sched:sched_process_exit`.
    ProcessExit,
    /// Entry of system calls; these numbers only, or all when empty.
    SysEnter(Vec<u32>),
    /// Exit of system calls; these numbers only, or all when empty.
    SysExit(Vec<u32>),
}

/// Whose events are wanted. Empty lists mean everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Processes (tgid), as this process's pid namespace numbers them.
    pub processes: Vec<u32>,
    /// Threads (pid of the task); narrows further. Kernel events of all are not narrowed by it.
    pub threads: Vec<u32>,
    /// CPUs; narrows further.
    pub cpus: Vec<u32>,
    /// Kernel events come from all processes (`-a`), user probes still from `processes` only.
    pub kernel_events_of_all: bool,
    /// Never report events of these processes: the bridge's own, with `-a`.
    pub exclude: Vec<u32>,
    /// Only tasks of this cgroup, and of those below it; narrows everything further.
    pub cgroup: Option<Cgroup>,
}

/// A cgroup of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// The inode of its directory, which is its number.
    pub number: u64,
    /// How many cgroups it lies in; 0 is the root.
    pub level: u32,
}
