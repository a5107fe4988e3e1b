//! How a probe of a kernel function is attached: chosen from what it takes of a call, where it stands, and
//! what this kernel can do.
//!
//! ```text
//!                   entry                                  return
//! trampoline        arguments                              arguments of the entry, what is returned
//! (fentry, fexit)   one program a function; no registers
//! kprobe_multi      registers of arguments                 what is returned
//! (fprobe)          one link for any number of functions
//! kprobe            every register, the stack              every register, what is returned
//!                   at any instruction, in modules; a breakpoint or a jump, and a perf event, each
//! both              -                                      the same, and arguments that the one at the entry
//!                                                          has kept
//! ```
//! The first that will do is taken. What this kernel lacks, or refuses for one function, is made up for by
//! the next, and [`Chosen`] says so.

use std::fmt;
use std::sync::OnceLock;

use libbpf_rs::btf::Btf;
use libbpf_rs::libbpf_sys as sys;

use crate::attach::function::kind;
use crate::error::{Error, ErrorKind};
use crate::kernel;
use crate::plan::{Function, Needs};
use crate::rights;
use crate::spec::{FunctionPlace, ProbeId, Seat};

/// See the module's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// A BPF trampoline at a function's entry or return.
    Trampoline {
        /// fexit, not fentry.
        at_return: bool,
    },
    /// One fprobe link for all.
    KprobeMulti {
        /// Of their returns.
        at_return: bool,
    },
    /// A perf kprobe or kretprobe.
    Kprobe {
        /// A kretprobe.
        at_return: bool,
    },
    /// A perf kretprobe, and a kprobe at the entry that keeps arguments for it.
    KprobePair,
    /// A tracepoint's program that is handed its arguments.
    RawTracepoint,
    /// A tracepoint's program that is handed its event's record.
    Tracepoint,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mechanism::Trampoline { at_return: false } => "fentry",
            Mechanism::Trampoline { at_return: true } => "fexit",
            Mechanism::KprobeMulti { at_return: false } => "kprobe_multi",
            Mechanism::KprobeMulti { at_return: true } => "kprobe_multi at the return",
            Mechanism::Kprobe { at_return: false } => "kprobe",
            Mechanism::Kprobe { at_return: true } => "kretprobe",
            Mechanism::KprobePair => "kretprobe with a kprobe at the entry",
            Mechanism::RawTracepoint => "raw tracepoint",
            Mechanism::Tracepoint => "tracepoint",
        })
    }
}

/// How one probe of a session was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which probe.
    pub probe: ProbeId,
    /// How.
    pub mechanism: Mechanism,
    /// Why no cheaper way was taken, where one was thought of.
    pub because: Option<String>,
}

/// Functions of which each gets a program of its own; of more, a link of many is the cheaper one.
const FEW: usize = 32;

/// Ways to attach a probe, the cheapest first, and why none that is cheaper still comes into question.
pub(crate) struct Ways {
    pub(crate) all: Vec<Mechanism>,
    pub(crate) because: Option<&'static str>,
}

const UNLOADABLE: &str = "anything else would keep the module from being unloaded";
const NO_PLACE: &str = "ftrace cannot trace it";

/// What will do for a function, among so many that could have trampolines.
pub(crate) fn ways(function: &Function, trampolines: usize) -> Ways {
    let at_return = function.at_return;
    let trampoline = Mechanism::Trampoline { at_return };
    let multi = Mechanism::KprobeMulti { at_return };
    let kprobe = Mechanism::Kprobe { at_return };
    let at_entry = matches!(function.place, FunctionPlace::Symbol(_, 0));
    let (all, because) = match function.needs {
        Needs::Both => (
            vec![Mechanism::KprobePair],
            Some("it takes arguments of the entry and registers of the return"),
        ),
        Needs::EntryArguments => match function.seat {
            Seat::Traced => (vec![trampoline, Mechanism::KprobePair], None),
            Seat::Module => (vec![Mechanism::KprobePair], Some(UNLOADABLE)),
            Seat::Untraced => (vec![Mechanism::KprobePair], Some(NO_PLACE)),
        },
        _ if !at_entry => (vec![kprobe], Some("it stands inside the function")),
        _ if function.seat == Seat::Module => (vec![kprobe], Some(UNLOADABLE)),
        _ if function.seat == Seat::Untraced => (vec![kprobe], Some(NO_PLACE)),
        Needs::Registers => (
            vec![kprobe],
            Some("it takes registers that hold no argument"),
        ),
        Needs::ArgumentRegisters => (
            vec![multi, kprobe],
            Some("it takes registers by their names"),
        ),
        Needs::Call if trampolines > FEW => (vec![multi, kprobe], Some("there are many")),
        Needs::Call => (vec![trampoline, multi, kprobe], None),
    };
    Ways { all, because }
}

/// Why there is a mechanism here or not, found out once.
pub(crate) fn why_not(mechanism: Mechanism) -> Option<&'static str> {
    static TRAMPOLINES: OnceLock<Option<String>> = OnceLock::new();
    static MULTI: OnceLock<Option<String>> = OnceLock::new();
    let known = match mechanism {
        Mechanism::Trampoline { .. } => TRAMPOLINES.get_or_init(|| ask_trampoline().err()),
        Mechanism::KprobeMulti { .. } => MULTI.get_or_init(|| ask_multi().err()),
        Mechanism::Kprobe { .. } | Mechanism::KprobePair => {
            const NONE: &str =
                "this kernel is built without CONFIG_KPROBES or CONFIG_KPROBE_EVENTS";
            return kind().is_none().then_some(NONE);
        }
        Mechanism::RawTracepoint | Mechanism::Tracepoint => return None,
    };
    known.as_deref()
}

/// A function that is there to be asked with: nobody calls it but the kernel's test of trampolines.
pub(crate) const HARMLESS: &str = "bpf_fentry_test1";

fn ask_trampoline() -> Result<(), String> {
    use std::os::fd::AsFd as _;
    let types = Btf::from_vmlinux()
        .map_err(|_| "this kernel has no type information (CONFIG_DEBUG_INFO_BTF)".to_owned())?;
    let function = kernel::function_type(&types, HARMLESS)
        .ok_or("this kernel has no BPF trampolines (CONFIG_BPF_JIT, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)")?;
    kernel::load_trivial_for(
        sys::BPF_PROG_TYPE_TRACING,
        sys::BPF_TRACE_FENTRY,
        0,
        function,
    )
    .and_then(|program| kernel::link_trampoline(program.as_fd(), 0, false))
    .map(drop)
    .map_err(|error| {
        let lockdown = rights::lockdown().filter(|level| level != "none");
        let locked = lockdown.map(|level| format!(" (lockdown is {level:?})"));
        format!(
            "this kernel refuses BPF trampolines: {error}{}; they need CONFIG_FUNCTION_TRACER and \
                 CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
            locked.unwrap_or_default()
        )
    })
}

fn ask_multi() -> Result<(), String> {
    use std::os::fd::AsFd as _;
    kernel::load_trivial(sys::BPF_PROG_TYPE_KPROBE, sys::BPF_TRACE_KPROBE_MULTI, 0)
        .and_then(|program| kernel::link_kprobe_multi(program.as_fd(), [(HARMLESS, 0)], false))
        .map(drop)
        .map_err(|error| {
            format!(
                "this kernel has no kprobe_multi ({error}): it needs Linux 5.18 and CONFIG_FPROBE"
            )
        })
}

/// Nothing will do.
pub(crate) fn nothing(what: &str, reasons: &[String]) -> Error {
    let needs = "CONFIG_KPROBE_EVENTS, CONFIG_FPROBE or BPF trampolines".to_owned();
    let message = format!("cannot attach {what}: {}", reasons.join("; "));
    Error::new(ErrorKind::Unsupported { needs }, message)
}
