//! Whose events: the target from the options, and the filter that the kernel side applies.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use tracebraid_bpf::spec::{Filter, Spec};

use super::{Note, Options, Via, cgroup, stacks};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::{self, Held};
use crate::selector::Scope;
use crate::source::sdk_ring::{How, SdkRings};
use crate::target::Process;

/// Refuses options that name nobody, or CPUs that are not there.
pub(super) fn check(options: &Options) -> Result<()> {
    let has_target =
        options.pid.is_some() || options.thread.is_some() || !options.command.is_empty();
    let of_files = |scope: &Scope| matches!(scope, Scope::File(_));
    let asks = !options.selectors.is_empty() || !options.definitions.is_empty();
    let only_files = asks
        && options
            .selectors
            .iter()
            .all(|selector| of_files(&selector.scope));
    let has_cgroup = options.cgroup.is_some();
    if !has_target && !options.all_processes && !has_cgroup && !only_files {
        return Err(Error::new(ErrorKind::Usage, "nobody is named whose events are wanted").hint(
            "give a process (-p PID), a command (-- CMD), a cgroup (-G CGROUP), or -a for the kernel events of all processes",
        ));
    }
    if has_cgroup && (options.via == Via::Ring || options.recorder.is_some()) {
        return Err(Error::new(
            ErrorKind::Usage,
            "-G is decided in the kernel, and what comes through rings does not pass there",
        )
        .hint(
            "leave --via and flight recorders out: the target's tracepoints come through USDT then",
        ));
    }
    if let Ok(possible) = fs::read_to_string("/sys/devices/system/cpu/possible")
        && let Some(last) = possible
            .trim()
            .rsplit(['-', ','])
            .next()
            .and_then(|cpu| cpu.parse().ok())
        && let Some(cpu) = options.cpus.iter().find(|cpu| **cpu > last)
    {
        return Err(
            Error::new(ErrorKind::Usage, format!("this machine has no CPU {cpu}"))
                .hint(format!("its CPUs are {}", possible.trim())),
        );
    }
    Ok(())
}

/// The target: the process named, the thread's process, the command (held at its entry point), or none.
pub(super) fn target(options: &Options) -> Result<(Option<Held>, Option<Process>)> {
    if !options.command.is_empty() {
        // Its SDK waits in `init()` until we have its rings.
        let follow = if options.follow { ",follow" } else { "" };
        let waits = (
            "TRACEBRAID_ATTACH",
            format!("{}{follow}", std::process::id()),
        );
        let uses_rings = options.via != Via::Usdt && options.cgroup.is_none();
        let environment = uses_rings.then_some(waits);
        let held = launch::start(&options.command, environment.as_slice())?;
        let process = Process::open(held.pid())?;
        return Ok((Some(held), Some(process)));
    }
    let pid = match (options.pid, options.thread) {
        (Some(pid), _) => pid,
        (None, Some(tid)) => process_of(tid)?,
        (None, None) => return Ok((None, None)),
    };
    let process = Process::open(pid)?;
    if let Some(tid) = options.thread
        && !process.threads()?.iter().any(|thread| thread.tid == tid)
    {
        return Err(Error::new(
            ErrorKind::Target,
            format!("{tid} is no thread of process {pid}"),
        )
        .hint(format!("list them with: ls /proc/{pid}/task")));
    }
    Ok((None, Some(process)))
}

/// The further processes that are named.
///
/// # Errors
/// One of them cannot be looked at; something is asked for that goes with one process only.
pub(super) fn others(options: &Options) -> Result<Arc<[Process]>> {
    let refused = |what: &str| {
        let message = format!("several processes are named, and {what}");
        Err(Error::new(ErrorKind::Usage, message).hint("name one process; run a bridge for each"))
    };
    if !options.others.is_empty() {
        if options.via == Via::Ring || options.recorder.is_some() {
            return refused("rings are read of one");
        }
        if options.thread.is_some() {
            return refused("a thread (-t) is of one");
        }
    }
    let mut seen = HashSet::new();
    let pids = options.others.iter().filter(|pid| seen.insert(**pid));
    let mut errors = Vec::new();
    let mut opened = Vec::new();
    for &pid in pids {
        match Process::open(pid) {
            Ok(process) => opened.push(process),
            Err(error) => errors.push(error),
        }
    }
    Error::several(errors).map_or(Ok(opened.into()), Err)
}

/// The process that a thread belongs to.
fn process_of(tid: u32) -> Result<u32> {
    let missing = || Error::new(ErrorKind::Target, format!("there is no thread {tid}"));
    let status = fs::read_to_string(format!("/proc/{tid}/status"))
        .map_err(|error| missing().because(error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|pid| pid.trim().parse().ok())
        .ok_or_else(missing)
}

/// What every session of this run has in common: filter and sizes, no probes.
///
/// # Errors
/// The cgroup that is named is not there.
pub(super) fn spec(options: &Options, process: Option<&Process>) -> Result<Spec> {
    let cgroup = options.cgroup.as_deref().map(cgroup::find).transpose()?;
    let (stacks, ring_bytes) = stacks::spec(options);
    Ok(Spec {
        stacks,
        filter: Filter {
            processes: process
                .map(Process::pid)
                .into_iter()
                .chain(options.others.iter().copied())
                .collect(),
            threads: options.thread.into_iter().collect(),
            cpus: options.cpus.clone(),
            // Without a target the cgroup is it.
            kernel_events_of_all: options.all_processes || cgroup.is_some() && process.is_none(),
            exclude: vec![std::process::id()],
            cgroup,
        },
        ring_bytes,
        string_limit: options.string_limit,
        ..Spec::default()
    })
}

/// Refuses sessions of the kernel side where the kernel's numbers of processes are not known.
///
/// # Errors
/// [`ErrorKind::Unsupported`] where this process lives in an inner pid namespace.
pub(super) fn check_numbers(process: &Process) -> Result<()> {
    if process.initial_namespace_pid().is_some() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "the bridge runs in a pid namespace of its own, where the kernel's numbers of processes are not known",
    )
    .hint("run it on the host; processes in containers are attached to by the pid that the host gives them"))
}

/// How the target's own tracepoints are to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// Through its rings, whether it has any yet or not.
    pub(super) rings_only: bool,
    /// Through their USDT probes after all, if it turns out to make none.
    pub(super) may_fall_back: bool,
}

/// The rings of the target's SDK, taken for us, and those to come, as far as they are asked for.
///
/// # Errors
/// Rings are asked for, and there are none, nor will be, or they cannot be taken.
pub(super) fn rings(
    options: &Options,
    process: &Process,
    spec: &Spec,
    say: &mut dyn FnMut(Note),
) -> Result<(Option<SdkRings>, Way)> {
    // Whose a record in a ring is, is known by its thread; in which cgroup that was, by nobody.
    if options.via == Via::Usdt || options.cgroup.is_some() || !options.others.is_empty() {
        return Ok((None, Way::default()));
    }
    let must = options.via == Via::Ring || options.recorder.is_some();
    let is_command = !options.command.is_empty();
    // A command has not made its rings yet. That it links the SDK says that it will.
    let links_sdk = (must || is_command) && links_sdk(process)?;
    let how = How {
        follow: options.follow,
        recorder: options.recorder.is_some(),
        started: is_command && links_sdk,
        count_only: options.counting.is_some(),
    };
    let (rings, errors) = SdkRings::of(process.pid(), &spec.filter, how);
    match Error::several(errors) {
        None => {}
        Some(error) if must => return Err(error),
        Some(error) => say(Note::Warning(format!(
            "{}; its tracepoints come through their USDT probes",
            error.with_causes()
        ))),
    }
    if !rings.has_rings() && must && !is_command {
        let pid = process.pid();
        if !links_sdk {
            return Err(Error::new(
                ErrorKind::Target,
                format!("process {pid} has no rings: its program does not link the SDK"),
            )
            .hint("leave --via out, and its tracepoints come through their USDT probes"));
        }
        say(Note::Warning(format!(
            "process {pid} has no rings: its program has not called tracebraid::init(); waiting for it"
        )));
    }
    let way = Way {
        rings_only: must || how.started,
        may_fall_back: !must && how.started,
    };
    Ok((Some(rings), way))
}

/// Gives rings back on which nobody switches anything on for us, where there is another way. To be asked
/// once they were listed: only then has a helper thread that can serve nobody said so.
pub(super) fn served(
    options: &Options,
    rings: Option<SdkRings>,
    say: &mut dyn FnMut(Note),
) -> Option<SdkRings> {
    let rings = rings?;
    // What a command makes is not there yet.
    if !options.command.is_empty() || !rings.has_rings() || rings.has_helper() {
        return Some(rings);
    }
    let why = format!(
        "nobody in process {} switches tracepoints on for rings: its program starts no helper thread, or has \
         closed the SDK's descriptors",
        rings.target()
    );
    let keep = options.via == Via::Ring || options.recorder.is_some();
    say(Note::Warning(match keep {
        true => format!("{why}; only what it records unasked comes"),
        false => format!("{why}; its tracepoints come through their USDT probes"),
    }));
    if !keep && !options.follow {
        return None;
    }
    let mut rings = rings;
    if !keep {
        // Children may make rings of their own.
        rings.give_back_target();
    }
    Some(rings)
}

fn links_sdk(process: &Process) -> Result<bool> {
    let scan = process.binaries()?;
    let mut binaries = scan.binaries.iter();
    Ok(binaries.any(|binary| !binary.tracepoints().is_empty()))
}
