//! Whose events: the targets from the options, and the filter that the kernel side applies.

use std::fs;

use tracebraid_bpf::spec::{Filter, Spec};

use super::{Note, Options, Via, cgroup, stacks};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::{self, Held};
use crate::selector::Scope;
use crate::source::sdk_ring::{How, SdkRings};
use crate::target::{Process, Targets};

/// Refuses options that name nobody, or CPUs that are not there.
pub(super) fn check(options: &Options) -> Result<()> {
    let has_target =
        !options.pids.is_empty() || options.thread.is_some() || !options.command.is_empty();
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

/// The targets: the processes named, the thread's process, the command (held at its entry point), or none.
pub(super) fn targets(options: &Options) -> Result<(Option<Held>, Targets)> {
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
        return Ok((Some(held), process.into()));
    }
    let targets = match (&options.pids[..], options.thread) {
        ([], Some(tid)) => Targets::open(&[process_of(tid)?])?,
        (pids, _) => Targets::open(pids)?,
    };
    if let Some(tid) = options.thread {
        let mut threads = Vec::new();
        for process in targets.iter() {
            threads.extend(process.threads()?);
        }
        if !threads.iter().any(|thread| thread.tid == tid) {
            let pids = numbers(&targets.pids());
            let message = format!("{tid} is no thread of process {pids}");
            let hint = format!("list them with: ls /proc/{}/task", options.pids[0]);
            return Err(Error::new(ErrorKind::Target, message).hint(hint));
        }
    }
    Ok((None, targets))
}

/// Numbers of processes in words.
fn numbers(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(", ")
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
pub(super) fn spec(options: &Options, targets: &Targets) -> Result<Spec> {
    let cgroup = options.cgroup.as_deref().map(cgroup::find).transpose()?;
    let (stacks, ring_bytes) = stacks::spec(options);
    Ok(Spec {
        stacks,
        filter: Filter {
            processes: targets.pids(),
            threads: options.thread.into_iter().collect(),
            cpus: options.cpus.clone(),
            // Without a target the cgroup is it.
            kernel_events_of_all: options.all_processes || cgroup.is_some() && targets.is_empty(),
            exclude: vec![std::process::id()],
            cgroup,
        },
        ring_bytes,
        string_limit: options.string_limit,
        ..Spec::default()
    })
}

/// How the target's own tracepoints are to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// Through its rings, whether it has any yet or not.
    pub(super) rings_only: bool,
    /// Through their USDT probes after all, if it turns out to make none.
    pub(super) may_fall_back: bool,
}

/// The rings of the targets' SDK, taken for us, and those to come, as far as they are asked for.
///
/// # Errors
/// Rings are asked for, and there are none, nor will be, or they cannot be taken.
pub(super) fn rings(
    options: &Options,
    targets: &Targets,
    spec: &Spec,
    say: &mut dyn FnMut(Note),
) -> Result<(Option<SdkRings>, Way)> {
    // Whose a record in a ring is, is known by its thread; in which cgroup that was, by nobody.
    if options.via == Via::Usdt || options.cgroup.is_some() {
        return Ok((None, Way::default()));
    }
    let must = options.via == Via::Ring || options.recorder.is_some();
    let is_command = !options.command.is_empty();
    // A command has not made its rings yet. That it links the SDK says that it will.
    let linking = match must || is_command {
        true => linking_sdk(targets, &targets.pids())?,
        false => Vec::new(),
    };
    let how = How {
        follow: options.follow,
        recorder: options.recorder.is_some(),
        started: is_command && !linking.is_empty(),
        count_only: options.counting.is_some(),
    };
    let (rings, errors) = SdkRings::of(&targets.pids(), &spec.filter, how);
    match Error::several(errors) {
        None => {}
        Some(error) if must => return Err(error),
        Some(error) => say(Note::Warning(format!(
            "{}; its tracepoints come through their USDT probes",
            error.with_causes()
        ))),
    }
    if must && !is_command {
        let mut without = rings.without_rings();
        if linking.is_empty() {
            let message = format!(
                "process {} has no rings: its program does not link the SDK",
                numbers(&without)
            );
            let hint = match options.recorder.is_some() {
                true => "--flight-recorder and --snapshot-when are about rings: leave them out",
                false => "leave --via out, and its tracepoints come through their USDT probes",
            };
            return Err(Error::new(ErrorKind::Target, message).hint(hint));
        }
        without.retain(|pid| linking.contains(pid));
        if !without.is_empty() {
            say(Note::Warning(format!(
                "process {} has no rings: its program has not called tracebraid::init(); waiting for it",
                numbers(&without)
            )));
        }
    }
    let way = Way {
        rings_only: must || how.started,
        may_fall_back: !must && how.started,
    };
    Ok((Some(rings), way))
}

/// Gives rings back on which nobody switches anything on for us, where there is another way; and all of them
/// where another target has none to give, since a tracepoint comes from everybody in one way. To be asked
/// once they were listed: only then has a helper thread that can serve nobody said so.
///
/// # Errors
/// Those of looking at the targets.
pub(super) fn served(
    options: &Options,
    targets: &Targets,
    rings: Option<SdkRings>,
    say: &mut dyn FnMut(Note),
) -> Result<Option<SdkRings>> {
    let Some(mut rings) = rings else {
        return Ok(None);
    };
    // What a command makes is not there yet.
    if !options.command.is_empty() || !rings.has_rings() {
        return Ok(Some(rings));
    }
    let keep = options.via == Via::Ring || options.recorder.is_some();
    let unserved = rings.without_helper();
    let without = match keep {
        true => Vec::new(),
        false => linking_sdk(targets, &rings.without_rings())?,
    };
    let why = match (&unserved[..], &without[..]) {
        ([], []) => return Ok(Some(rings)),
        ([], pids) => format!(
            "process {} has no rings: its program has not called tracebraid::init()",
            numbers(pids)
        ),
        (pids, _) => format!(
            "nobody in process {} switches tracepoints on for rings: its program starts no helper thread, or \
             has closed the SDK's descriptors",
            numbers(pids)
        ),
    };
    let whose = match targets.pids().len() {
        1 => "its tracepoints come",
        _ => "everybody's tracepoints come",
    };
    say(Note::Warning(match keep {
        true => format!("{why}; only what it records unasked comes"),
        false => format!("{why}; {whose} through their USDT probes"),
    }));
    if keep {
        return Ok(Some(rings));
    }
    if !options.follow {
        return Ok(None);
    }
    // Children may make rings of their own.
    rings.give_back_targets();
    Ok(Some(rings))
}

/// Those of the targets with these numbers whose programs link the SDK.
fn linking_sdk(targets: &Targets, pids: &[u32]) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for process in targets.iter().filter(|it| pids.contains(&it.pid())) {
        let scan = match process.binaries() {
            Ok(scan) => scan,
            Err(_) if !process.is_alive() && targets.living().next().is_some() => continue,
            Err(error) => return Err(error),
        };
        let mut binaries = scan.binaries.iter();
        if binaries.any(|binary| !binary.tracepoints().is_empty()) {
            found.push(process.pid());
        }
    }
    Ok(found)
}
