//! What this kernel and these rights allow, found out by asking the kernel and not by its version
//! wherever it can be asked.
//!
//! [`report`] asks everything, for `doctor`. A session asks only what it needs.

use std::io;
use std::path::Path;

use libbpf_rs::ReferencesType;
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapHandle, MapType};

use crate::attach::tracepoint::tracefs;
use crate::attach::user::Way;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{self, Sites};
use crate::mechanism::{self, Mechanism};
use crate::rights::{
    CAP_BPF, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYSLOG, Rights,
    SUDO, is_refusal, lockdown, refused, sysctl,
};
use crate::session::Options;
use crate::spec::Filter;

/// One thing that works here or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// A short name that stays the same, such as `uprobe_multi` or `CAP_BPF`.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub purpose: &'static str,
    /// Whether it works.
    pub state: State,
    /// Why, as far as it is known.
    pub why: String,
    /// What to do about it; empty where it works or nothing can be done.
    pub remedy: String,
}

/// See [`Capability::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It works.
    Yes,
    /// It does not.
    No,
    /// It could not be found out.
    Unknown,
}

/// Where a kernel that was built with them keeps the types of its structures.
pub(crate) const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// How user probes can be attached for a session with this filter.
pub(crate) fn user_way(filter: &Filter, options: &Options) -> Result<Way> {
    if !options.force_perf_uprobes {
        match uprobe_multi() {
            Ok(Multi::ByProcess) => {
                let process = match filter.processes[..] {
                    // Its children's breakpoints are there before they are.
                    _ if options.family.is_some() => 0,
                    // The kernel takes the number as our pid namespace has it.
                    [process] => process,
                    _ => 0,
                };
                return Ok(Way::Multi { process });
            }
            Ok(Multi::AllOnly) => return Ok(Way::Multi { process: 0 }),
            Err(error) if is_refusal(&error) => return Err(refused("user probes", error)),
            Err(_) => {}
        }
    }
    perf_uprobe_kind()
        .map(|kind| Way::Perf { kind })
        .ok_or_else(|| {
            let needs = "CONFIG_UPROBE_EVENTS".to_owned();
            Error::new(
                ErrorKind::Unsupported { needs },
                "this kernel has no user probes: it is built without CONFIG_UPROBE_EVENTS",
            )
        })
}

enum Multi {
    /// Links that can be limited to a process.
    ByProcess,
    /// Links, but the limit is to a thread by mistake (6.6 to 6.9).
    AllOnly,
}

/// Asks with files that cannot be probed: which error comes says how far the kernel got.
fn uprobe_multi() -> io::Result<Multi> {
    use std::os::fd::AsFd;
    let program = kernel::load_trivial(sys::BPF_PROG_TYPE_KPROBE, sys::BPF_TRACE_UPROBE_MULTI, 0)?;
    let sites = Sites::new([(1, 0, 0)]);
    let ask = |process| {
        kernel::link_uprobe_multi(program.as_fd(), Path::new("/"), &sites, process, false)
            .err()
            .and_then(|error| error.raw_os_error())
    };
    match ask(0) {
        // "/" is no regular file: only a kernel that knows the link type looks at the path.
        Some(libc::EBADF) => {}
        error => return Err(io::Error::from_raw_os_error(error.unwrap_or(libc::EINVAL))),
    }
    // The repaired kernels check the process before the path.
    Ok(if ask(u32::MAX) == Some(libc::EINVAL) {
        Multi::ByProcess
    } else {
        Multi::AllOnly
    })
}

/// The number of the uprobe PMU.
fn perf_uprobe_kind() -> Option<u32> {
    let text = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok()?;
    text.trim().parse().ok()
}

/// Whether the tracepoint sched_process_exit has an argument that says a thread was the last (6.16).
pub(crate) fn exit_tells_last() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else {
        return false;
    };
    let Some(prototype) = btf
        .type_by_name::<types::Typedef<'_>>("btf_trace_sched_process_exit")
        .and_then(|alias| types::Ptr::try_from(alias.referenced_type()).ok())
        .and_then(|pointer| types::FuncProto::try_from(pointer.referenced_type()).ok())
    else {
        return false;
    };
    // The probe's own data pointer, the task, and then it.
    prototype.len() >= 3
}

/// Whether the kernel counts what its guard drops of tracepoint programs. It cannot be asked: an
/// older kernel has the same field and leaves it 0.
pub(crate) fn tracepoint_misses_are_counted() -> bool {
    kernel::version() >= (6, 7)
}

/// Everything, in an order to read.
pub fn report() -> Vec<Capability> {
    let mut all = Vec::new();
    rights(&mut all);
    settings(&mut all);
    maps(&mut all);
    programs(&mut all);
    types_and_functions(&mut all);
    all
}

fn rights(all: &mut Vec<Capability>) {
    let rights = Rights::read();
    let wanted = [
        (CAP_BPF, "CAP_BPF", "loading BPF programs"),
        (
            CAP_PERFMON,
            "CAP_PERFMON",
            "attaching them to probes and tracepoints",
        ),
        (
            CAP_SYS_PTRACE,
            "CAP_SYS_PTRACE",
            "looking into processes of other users",
        ),
        (
            CAP_DAC_READ_SEARCH,
            "CAP_DAC_READ_SEARCH",
            "reading tracefs",
        ),
        (CAP_SYSLOG, "CAP_SYSLOG", "kernel symbol addresses"),
    ];
    for (bit, name, purpose) in wanted {
        let (state, why) = match &rights {
            None => (
                State::Unknown,
                "/proc/self/status cannot be read".to_owned(),
            ),
            Some(rights) if rights.has_itself(bit) => {
                (State::Yes, "in the effective set".to_owned())
            }
            Some(rights) if rights.has(bit) => {
                (State::Yes, "CAP_SYS_ADMIN stands for it".to_owned())
            }
            Some(_) => (State::No, "not in the effective set".to_owned()),
        };
        push(all, name, purpose, state, why, SUDO);
    }
}

fn settings(all: &mut Vec<Capability>) {
    let lockdown = lockdown();
    let (state, why) = match lockdown.as_deref() {
        Some("confidentiality") => (State::No, "lockdown is \"confidentiality\"".to_owned()),
        Some(level) => (State::Yes, format!("lockdown is {level:?}")),
        None => (
            State::Unknown,
            "securityfs is not mounted or has no lockdown file".to_owned(),
        ),
    };
    let remedy = match state {
        State::No => "boot without lockdown=confidentiality",
        _ => "mount -t securityfs none /sys/kernel/security",
    };
    push(
        all,
        "kernel memory",
        "programs may read kernel memory",
        state,
        why,
        remedy,
    );

    let paranoid = sysctl("kernel/perf_event_paranoid");
    let privileged = Rights::read().is_some_and(|rights| rights.has(CAP_PERFMON));
    let (state, why) = match paranoid {
        None => (
            State::No,
            "this kernel has no perf events (CONFIG_PERF_EVENTS)".to_owned(),
        ),
        Some(level) if privileged => (
            State::Yes,
            format!("kernel.perf_event_paranoid is {level}; CAP_PERFMON stands above it"),
        ),
        Some(level) => (
            if level < 0 { State::Yes } else { State::No },
            format!("kernel.perf_event_paranoid is {level}"),
        ),
    };
    push(
        all,
        "perf events",
        "tracepoints by name, user probes before 6.6",
        state,
        why,
        SUDO,
    );

    let (state, why) = match tracefs() {
        Some(path) if std::fs::read_dir(path.join("events")).is_ok() => {
            (State::Yes, format!("mounted at {}", path.display()))
        }
        Some(path) => (State::No, format!("{} cannot be read", path.display())),
        None => (State::No, "not mounted".to_owned()),
    };
    let remedy = "mount -t tracefs none /sys/kernel/tracing";
    push(
        all,
        "tracefs",
        "names and layouts of kernel tracepoints",
        state,
        why,
        remedy,
    );
}

fn maps(all: &mut Vec<Capability>) {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let size = crate::memory::page_size() as u32;
    let made = MapHandle::create(
        MapType::RingBuf,
        Some("tracebraid_ask"),
        0,
        0,
        size,
        &options,
    );
    let (state, why) = match made {
        Ok(_) => (State::Yes, "one was made".to_owned()),
        Err(error) => (State::No, error.to_string()),
    };
    push(
        all,
        "ring buffers",
        "how events reach the bridge",
        state,
        why,
        "Linux 5.8 or later",
    );
}

fn programs(all: &mut Vec<Capability>) {
    let kprobe = sys::BPF_PROG_TYPE_KPROBE;
    let sleepable = sys::BPF_F_SLEEPABLE;
    let kinds: [(&'static str, &'static str, u32, u32, &'static str); 4] = [
        (
            "raw tracepoints",
            "scheduler, process and system call events",
            sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
            0,
            "a kernel with CONFIG_BPF_EVENTS",
        ),
        (
            "tracepoints",
            "all other kernel tracepoints",
            sys::BPF_PROG_TYPE_TRACEPOINT,
            0,
            "a kernel with CONFIG_BPF_EVENTS",
        ),
        (
            "user probes",
            "USDT and application tracepoints",
            kprobe,
            0,
            "a kernel with CONFIG_UPROBE_EVENTS",
        ),
        (
            "sleepable user probes",
            "strings in memory that nobody has touched yet",
            kprobe,
            sleepable,
            "Linux 6.0 or later",
        ),
    ];
    for (name, purpose, kind, flags, remedy) in kinds {
        let (state, why) = match kernel::load_trivial(kind, 0, flags) {
            Ok(_) => (State::Yes, "such a program loads".to_owned()),
            Err(error) => (State::No, error.to_string()),
        };
        push(all, name, purpose, state, why, remedy);
    }

    let (state, why, remedy) = match uprobe_multi() {
        Ok(Multi::ByProcess) => (State::Yes, "the kernel knows the link", ""),
        Ok(Multi::AllOnly) => (
            State::Yes,
            "the kernel knows the link, but cannot limit it to a process",
            "Linux 6.10",
        ),
        Err(_) => (
            State::No,
            "the kernel does not know the link",
            "Linux 6.6 or later; until then each probe is attached by itself, which is slower",
        ),
    };
    push(
        all,
        "uprobe_multi",
        "many user probes at once",
        state,
        why.into(),
        remedy,
    );

    let admin = Rights::read().is_none_or(|rights| rights.has(CAP_SYS_ADMIN));
    let (state, why, remedy) = match perf_uprobe_kind() {
        Some(_) if admin => (State::Yes, "the perf PMU \"uprobe\" is there", ""),
        Some(_) => (
            State::No,
            "the perf PMU \"uprobe\" asks for CAP_SYS_ADMIN",
            "run with sudo",
        ),
        None => (
            State::No,
            "there is no perf PMU \"uprobe\"",
            "a kernel with CONFIG_UPROBE_EVENTS",
        ),
    };
    push(
        all,
        "perf uprobes",
        "user probes before 6.6",
        state,
        why.into(),
        remedy,
    );

    let (state, why) = if has_kprobes() {
        (State::Yes, "the perf PMU \"kprobe\" is there")
    } else {
        (
            State::No,
            "built without CONFIG_KPROBES or CONFIG_KPROBE_EVENTS",
        )
    };
    let remedy = "a kernel with CONFIG_KPROBE_EVENTS";
    push(
        all,
        "kprobes",
        "probes at any kernel function",
        state,
        why.into(),
        remedy,
    );
    let at_return = false;
    let ways = [
        (
            "kprobe_multi",
            "many kernel functions at once",
            Mechanism::KprobeMulti { at_return },
            "Linux 5.18 or later with CONFIG_FPROBE; until then kprobes",
        ),
        (
            "trampolines",
            "fentry and fexit: the cheapest probes of kernel functions",
            Mechanism::Trampoline { at_return },
            "a kernel with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS; until then kprobes",
        ),
    ];
    for (name, purpose, way, remedy) in ways {
        let (state, why) = match mechanism::why_not(way) {
            None => (State::Yes, "one was attached"),
            Some(why) => (State::No, why),
        };
        push(all, name, purpose, state, why.into(), remedy);
    }
}

fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe/type").exists()
}

/// Why no function of this kernel can be probed, where that is so, as a sentence.
pub fn no_function_probes() -> Option<&'static str> {
    (!has_kprobes()).then_some(
        "this kernel has no probes in kernel functions: it is built without CONFIG_KPROBES or \
         CONFIG_KPROBE_EVENTS",
    )
}

fn types_and_functions(all: &mut Vec<Capability>) {
    let btf = Btf::from_vmlinux();
    let (state, why) = match &btf {
        Ok(_) => (State::Yes, format!("{KERNEL_TYPES} is there")),
        Err(error) => (State::No, error.to_string()),
    };
    let remedy = "a kernel with CONFIG_DEBUG_INFO_BTF";
    push(
        all,
        "BTF",
        "scheduler and process events on any kernel",
        state,
        why,
        remedy,
    );
    let functions = [
        (
            "bpf_local_irq_save",
            "records of a CPU in order of time",
            "Linux 6.14 or later",
        ),
        (
            "bpf_preempt_disable",
            "the same, but for interrupts",
            "Linux 6.10 or later",
        ),
    ];
    for (name, purpose, remedy) in functions {
        let (state, why) = match &btf {
            Err(_) => (State::Unknown, "there is no BTF to look in"),
            Ok(btf) if btf.type_by_name::<types::Func<'_>>(name).is_some() => {
                (State::Yes, "the kernel offers it to programs")
            }
            Ok(_) => (State::No, "not in this kernel; the bridge sorts instead"),
        };
        push(all, name, purpose, state, why.into(), remedy);
    }
    let (state, why) = if tracepoint_misses_are_counted() {
        (State::Yes, "Linux 6.7 or later")
    } else {
        (State::No, "before Linux 6.7")
    };
    let purpose = "counts of events that the kernel's recursion guard drops";
    push(
        all,
        "recursion misses",
        purpose,
        state,
        why.into(),
        "Linux 6.7 or later",
    );
}

fn push(
    all: &mut Vec<Capability>,
    name: &'static str,
    purpose: &'static str,
    state: State,
    why: String,
    remedy: &str,
) {
    let remedy = if state == State::Yes {
        String::new()
    } else {
        remedy.to_owned()
    };
    all.push(Capability {
        name,
        purpose,
        state,
        why,
        remedy,
    });
}
