//! Attaching: from the options to the last line of the stream.
//!
//! ```text
//! target ─▶ resolve ─▶ session ─▶ ┌ every 10 ms ─────────────┐
//!                                 │ drain ─▶ decode ─▶ merge ─┼─▶ bounded channel ─▶ writer thread
//!                                 └ every 250 ms: new files ──┘
//! ```
//! One thread does everything but writing. It never waits for the writer while probes are attached:
//! while the output is slow it leaves the events in the rings, where the kernel counts what does not fit.
//! Every way of ending goes the same way: detach, drain what is left, write it, sum up.
//!
//! A session of the kernel side is started only where something of it is asked for: application events
//! that come through rings need no rights but those to look at the process.

mod cgroup;
mod counting;
mod descent;
mod follow;
mod later;
mod outside;
mod pump;
mod recorder;
mod stacks;
mod stay;
mod wake;
mod ways;
mod whom;
mod writer;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::condition::{Condition, Conditions};
use crate::error::{Error, ErrorKind, Result};
use crate::export;
use crate::resolve::Resolver;
use crate::resolve::definitions::Written;
use crate::selector::Selector;
use crate::source::sdk_ring::SdkRings;
use crate::stack;
use crate::summary::Summary;
use crate::target::{Process, ProcessEnd};

pub use counting::{Counting, Tally};

use counting::{Counter, Intervals};
use descent::Descent;
use follow::Follow;
use outside::Outside;
use stacks::Stacks;
use stay::{Attached, Sources};
use wake::Waker;
use whom::Way;
use writer::{Output, Writer};

/// What `attach` is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The processes to attach to, as the bridge's user numbers them.
    pub pids: Vec<u32>,
    /// The command to start as the target; empty for none.
    pub command: Vec<OsString>,
    /// What to trace. Empty means all tracepoints of the target, and sched and system calls of it.
    pub selectors: Vec<Selector>,
    /// Probe definitions, beside what `selectors` name.
    pub definitions: Vec<Written>,
    /// Kernel events of all processes.
    pub all_processes: bool,
    /// Only events of this thread.
    pub thread: Option<u32>,
    /// Only events of these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// Only events of tasks in this cgroup and below: its path or its number.
    pub cgroup: Option<String>,
    /// When to end; `None` means at a signal or with the last target.
    pub duration: Option<Duration>,
    /// Where to write; `None` is the standard output.
    pub output: Option<PathBuf>,
    /// Name of the format (`export::formats`).
    pub format: String,
    /// Events are counted only.
    pub count: bool,
    /// Hits are counted where they happen, and no events are wanted of them.
    pub counting: Option<Counting>,
    /// How the target's own tracepoints come.
    pub via: Via,
    /// Events of the target's children too, and of what they start.
    pub follow: bool,
    /// The stack at every hit.
    pub stacks: Option<stack::Wanted>,
    /// The bridge evaluates filters of kernel events and of probes, and not the kernel.
    pub user_filter: bool,
    /// Prints nothing but snapshots of what led up to a moment.
    pub recorder: Option<Recorder>,
    /// Bytes of each CPU's ring; 0 takes the default.
    pub ring_bytes: usize,
    /// The longest string copied; 0 takes the default.
    pub string_limit: usize,
    /// The executable of `bridge-cli`. Started again, it undoes what was written to a target's memory if this
    /// process is killed; `None` leaves that undone.
    pub janitor: Option<PathBuf>,
}

/// How the events of tracebraid tracepoints come from the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Through the rings of its SDK, where the program made them; else through their USDT probes.
    #[default]
    Auto,
    /// Through the rings; it is an error where there are none.
    Ring,
    /// Through their USDT probes, at the price of a trap an event.
    Usdt,
}

/// How `attach` is a flight recorder.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// A hit that fulfils one of these asks for a snapshot.
    pub when: Vec<Condition>,
}

/// Something to say while attaching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The user should know, and nothing stops.
    Warning(String),
    /// Everything is in place; said once.
    Attached {
        /// How many probes.
        probes: usize,
        /// How long it took from the call.
        took: Duration,
    },
    /// For those who asked for more words.
    Detail(String),
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// What was seen and what was lost.
    pub summary: Summary,
    /// Why it ended before it should have.
    pub failure: Option<Error>,
    /// The command's end, if one was started and has ended.
    pub command: Option<ExitStatus>,
}

/// Attaches and stays until a signal, the duration, the last target's end, or the output's.
///
/// SIGINT, SIGTERM and SIGHUP are taken by this call while it runs. Call it on the main thread before
/// others are started: it may enter a mount namespace of its own (see [`crate::mount`]).
///
/// # Errors
/// What keeps it from attaching; then nothing is attached and a command has not run. What goes wrong
/// later is [`Ended::failure`].
pub fn run(options: &Options, say: &mut dyn FnMut(Note)) -> Result<Ended> {
    run_telling(options, say, &mut |_| ControlFlow::Continue(()))
}

/// The same, where `told` is told at intervals what was counted ([`Options::counting`]), and says whether to
/// go on.
///
/// # Errors
/// Those of [`run`].
pub fn run_telling(
    options: &Options,
    say: &mut dyn FnMut(Note),
    told: &mut dyn FnMut(&Tally) -> ControlFlow<()>,
) -> Result<Ended> {
    let start = Instant::now();
    let format = match options.count || options.counting.is_some() {
        true => &export::NOTHING,
        false => export::format(&options.format).ok_or_else(|| unknown_format(&options.format))?,
    };
    whom::check(options)?;
    let (held, targets) = whom::targets(options)?;
    let ends = targets.iter().map(Process::pid).map(ProcessEnd::of);
    let ends: Vec<ProcessEnd> = ends.collect::<Result<_>>()?;
    let spec = whom::spec(options, &targets)?;
    // Before anything is attached: what is mapped from now on is known.
    let stacks = options
        .stacks
        .map(|wanted| Stacks::start(wanted, options, &targets, say));
    let (stacks, named) = stacks.unzip();
    // What is only counted is not named.
    let named = named.filter(|_| !options.count);
    let mut resolver = Resolver::new(
        &options.selectors,
        &options.definitions,
        !targets.is_empty(),
    )?;
    resolver.separate_calls(options.counting.is_some());
    resolver.filter_here(options.user_filter);
    let (follow, sdk, way, mut resolved) = match targets.is_empty() {
        false => {
            let (mut sdk, way) = whom::rings(options, &targets, &spec, say)?;
            resolver.use_rings_only(way.rings_only);
            let mut listed = sdk.as_mut().map(SdkRings::listed).unwrap_or_default();
            sdk = whom::served(options, &targets, sdk, say)?;
            if !sdk.as_ref().is_some_and(SdkRings::has_rings) {
                listed.clear();
            }
            resolver.await_made(sdk.is_some());
            let mut follow = Follow::new(targets, resolver)?;
            let resolved = follow.first(&listed)?;
            if let Some(rings) = sdk.as_mut() {
                rings.want_later(follow.patterns());
            }
            (Some(follow), sdk, way, resolved)
        }
        true => (None, None, Way::default(), resolver.resolve(&targets, &[])?),
    };
    let has_cgroup = options.cgroup.is_some();
    if follow.is_none()
        && !options.all_processes
        && !has_cgroup
        && !resolved.spec.functions.is_empty()
    {
        return Err(Error::new(
            ErrorKind::Usage,
            "nobody is named whose calls of kernel functions are wanted",
        )
        .hint("give a process (-p PID), a command (-- CMD), or -a for those of all processes"));
    }
    if let Some(recorder) = &options.recorder {
        let probes = resolved.recorded.iter().map(|wanted| &*wanted.what);
        Conditions::new(recorder.when.clone()).check(probes)?;
    }
    for warning in std::mem::take(&mut resolved.warnings) {
        say(Note::Warning(warning));
    }
    if options.stacks.is_some() && !resolved.recorded.is_empty() {
        say(Note::Warning(format!(
            "{} tracepoints come through rings, where events have no stack; with --via usdt they have",
            resolved.recorded.len()
        )));
    }
    let output = Output::open(options.output.as_deref())?;
    let outside = Outside::new(options.janitor.clone());
    let counting = options.counting.map(|counting| Counter::new(counting, say));
    let mut attached = Attached::start(
        resolved,
        Sources {
            sdk,
            spec,
            descent: Descent::new(options.follow),
            outside,
            counting,
            stacks,
        },
        follow,
        options.recorder.as_ref(),
        say,
    )?;
    attached.may_fall_back = way.may_fall_back;
    // From here on signals end it in order; until here they end the process, and the kernel takes away
    // what it had attached. Before the first thread, so that all have them blocked.
    let mut waker = Waker::new(ends)?;
    let writer = Writer::start(format, output, named)?;
    attached.pump.reuse(writer.spent());
    if let Some(held) = held {
        attached.command = Some(held.release()?);
    }
    if let Some(filters) = attached.filters() {
        say(Note::Detail(filters));
    }
    say(Note::Attached {
        probes: attached.probes(),
        took: start.elapsed(),
    });
    let since = Instant::now();
    let interval = options.counting.and_then(|counting| counting.interval);
    let mut intervals = Intervals::new(interval, told);
    let failure = attached
        .stay(options.duration, &mut waker, &writer, &mut intervals, say)
        .err();
    let mut ended = attached.end(&mut waker, writer, say);
    ended.summary.duration = since.elapsed();
    ended.failure = failure.or(ended.failure);
    Ok(ended)
}

fn unknown_format(name: &str) -> Error {
    let names: Vec<&str> = export::formats().iter().map(|format| format.name).collect();
    Error::new(ErrorKind::Usage, format!("there is no format {name:?}"))
        .hint(format!("there are {}", names.join(", ")))
}
