//! Whose events: the target from the options, and the filter that the kernel side applies.

use std::fs;

use tracebraid_bpf::spec::{Filter, Spec};

use super::{Note, Options, Via};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::{self, Held};
use crate::selector::Scope;
use crate::source::sdk_ring::{self, SdkRings};
use crate::target::Process;

/// Refuses options that name nobody, or CPUs that are not there.
pub(super) fn check(options: &Options) -> Result<()> {
    let has_target =
        options.pid.is_some() || options.thread.is_some() || !options.command.is_empty();
    let of_files = |scope: &Scope| matches!(scope, Scope::File(_));
    let only_files = !options.selectors.is_empty()
        && options
            .selectors
            .iter()
            .all(|selector| of_files(&selector.scope));
    if !has_target && !options.all_processes && !only_files {
        return Err(Error::new(ErrorKind::Usage, "nobody is named whose events are wanted").hint(
            "give a process (-p PID), a command (-- CMD), or -a for the kernel events of all processes",
        ));
    }
    if options.via == Via::Ring && !options.command.is_empty() {
        return Err(Error::new(
            ErrorKind::Usage,
            "a command that is started here has no rings before it runs: its program makes them",
        )
        .hint("leave --via out, or start it first and attach with -p and --via ring"));
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
        let held = launch::start(&options.command)?;
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
pub(super) fn spec(options: &Options, process: Option<&Process>) -> Result<Spec> {
    let pid = match process {
        None => None,
        Some(process) => Some(
            process
                .initial_namespace_pid()
                .ok_or_else(inner_namespace)?,
        ),
    };
    Ok(Spec {
        filter: Filter {
            processes: pid.into_iter().collect(),
            threads: options.thread.into_iter().collect(),
            cpus: options.cpus.clone(),
            kernel_events_of_all: options.all_processes,
            exclude: vec![std::process::id()],
        },
        ring_bytes: options.ring_bytes,
        string_limit: options.string_limit,
        ..Spec::default()
    })
}

fn inner_namespace() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the bridge runs in a pid namespace of its own, where the kernel's numbers of processes are not known",
    )
    .hint("run it on the host; processes in containers are attached to by the pid that the host gives them")
}

/// The rings of the target's SDK, taken for us, as far as they are asked for.
pub(super) fn regions(
    options: &Options,
    process: &Process,
    spec: &Spec,
    say: &mut dyn FnMut(Note),
) -> Result<Vec<SdkRings>> {
    // A command that is held at its entry point has not made its rings yet.
    if options.via == Via::Usdt || !options.command.is_empty() {
        return Ok(Vec::new());
    }
    let mut regions = Vec::new();
    for path in sdk_ring::regions(process.pid()) {
        match SdkRings::take(&path, process.pid(), &spec.filter) {
            Ok(rings) => regions.push(rings),
            Err(error) if options.via == Via::Auto => {
                say(Note::Warning(format!(
                    "{error:?}; its tracepoints come through their USDT probes"
                )));
            }
            Err(error) => return Err(error),
        }
    }
    if regions.is_empty() && options.via == Via::Ring {
        return Err(Error::new(
            ErrorKind::Target,
            format!(
                "process {} has no rings: its program did not call tracebraid::init()",
                process.pid()
            ),
        )
        .hint("leave --via out, and its tracepoints come through their USDT probes"));
    }
    Ok(regions)
}
