//! Raw tracepoints: the scheduler, processes, system calls. One program an event.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use crate::abi;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel;
use crate::load::{Object, Program};
use crate::plan::{Calls, Plan};
use crate::rights;
use crate::spec::ProbeId;

/// An event to attach.
pub(crate) struct Wanted {
    pub(crate) object: Object,
    /// Its program's name in the object.
    pub(crate) program: &'static str,
    pub(crate) tracepoint: &'static CStr,
    /// Whose are the misses of the kernel's guard.
    pub(crate) probe: ProbeId,
}

const TYPED: [(usize, Object, &str, &CStr); abi::EVENTS] = [
    (
        abi::SCHED_SWITCH,
        Object::Sched,
        "sched_switch",
        c"sched_switch",
    ),
    (
        abi::SCHED_WAKING,
        Object::Sched,
        "sched_waking",
        c"sched_waking",
    ),
    (
        abi::SCHED_WAKEUP,
        Object::Sched,
        "sched_wakeup",
        c"sched_wakeup",
    ),
    (
        abi::SCHED_WAKEUP_NEW,
        Object::Sched,
        "sched_wakeup_new",
        c"sched_wakeup_new",
    ),
    (
        abi::SCHED_MIGRATE_TASK,
        Object::Sched,
        "sched_migrate_task",
        c"sched_migrate_task",
    ),
    (
        abi::PROCESS_FORK,
        Object::Process,
        "process_fork",
        c"sched_process_fork",
    ),
    (
        abi::PROCESS_EXEC,
        Object::Process,
        "process_exec",
        c"sched_process_exec",
    ),
    (
        abi::PROCESS_EXIT,
        Object::Process,
        "process_exit",
        c"sched_process_exit",
    ),
];

/// The events of a plan.
pub(crate) fn wanted(plan: &Plan) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for (event, object, program, tracepoint) in TYPED {
        let entry = plan.entries.get(plan.typed[event] as usize);
        if let Some(&(probe, _)) = entry.and_then(|entry| entry.probes.first()) {
            wanted.push(Wanted {
                object,
                program,
                tracepoint,
                probe,
            });
        }
    }
    let calls = [
        ("sys_enter", c"sys_enter", &plan.enter),
        ("sys_exit", c"sys_exit", &plan.exit),
    ];
    for (program, tracepoint, calls) in calls {
        if let Some(calls) = calls {
            let object = Object::Syscalls;
            wanted.push(Wanted {
                object,
                program,
                tracepoint,
                probe: calls.probe,
            });
        }
    }
    wanted
}

/// The probes that a program serves.
pub(crate) fn probes(plan: &Plan, program: &str) -> Vec<ProbeId> {
    let of_calls = |calls: &Calls| {
        let mut entries = calls.numbers.entry.to_vec();
        entries.sort_unstable();
        entries.dedup();
        entries
    };
    let typed = TYPED.iter().find(|(.., name, _)| *name == program);
    let entries = match (typed, program) {
        (Some((event, ..)), _) => vec![plan.typed[*event]],
        (None, "sys_enter") => plan.enter.as_ref().map(of_calls).unwrap_or_default(),
        (None, _) => plan.exit.as_ref().map(of_calls).unwrap_or_default(),
    };
    let entries = entries
        .iter()
        .filter_map(|&entry| plan.entries.get(entry as usize));
    let probes: BTreeSet<ProbeId> = entries
        .flat_map(|entry| entry.probes.iter().map(|&(id, _)| id))
        .collect();
    probes.into_iter().collect()
}

pub(crate) fn attach(wanted: &Wanted, program: &Program) -> Result<OwnedFd> {
    link(wanted.tracepoint, program)
}

/// Hangs a program on a raw tracepoint.
pub(crate) fn link(tracepoint: &CStr, program: &Program) -> Result<OwnedFd> {
    kernel::link_raw_tracepoint(program.fd.as_fd(), tracepoint).map_err(|error| {
        let what = format!("the kernel event {}", tracepoint.to_string_lossy());
        match error.raw_os_error() {
            Some(libc::ENOENT) => Error::new(
                ErrorKind::Unsupported {
                    needs: "a kernel with this tracepoint".into(),
                },
                format!("this kernel has no tracepoint for {what}"),
            )
            .because(error),
            Some(libc::EPERM | libc::EACCES) if rights::missing_right().is_some() => {
                rights::refused(&what, error)
            }
            _ => Error::new(
                ErrorKind::Attach {
                    file: None,
                    offset: None,
                },
                format!("cannot attach to {what}"),
            )
            .because(error),
        }
    })
}
