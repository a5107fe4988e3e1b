//! Probes in kernel functions: each by the first way that will do and that the kernel grants.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::{fentry, kprobe_multi};
use crate::capability;
use crate::cost::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::load::{self, Object, Program};
use crate::maps::Maps;
use crate::mechanism::{self, Chosen, Mechanism};
use crate::misses::Guarded;
use crate::perf_event;
use crate::plan::{Function, Needs};
use crate::rights;
use crate::spec::{FunctionPlace, ProbeId};

/// Kprobes of which each has a program of its own, so that it is known what each of them missed.
const FEW_KPROBES: usize = 64;

/// The number of the kprobe PMU.
pub(crate) fn kind() -> Option<u32> {
    let text = std::fs::read_to_string("/sys/bus/event_source/devices/kprobe/type").ok()?;
    text.trim().parse().ok()
}

/// What is attached.
#[derive(Default)]
pub(crate) struct Attached {
    pub(crate) guarded: Vec<Guarded>,
    pub(crate) meters: Vec<Meter>,
    pub(crate) chosen: Vec<Chosen>,
    /// Probes at entries, which keep something for returns: they go last.
    pub(crate) entries: Vec<OwnedFd>,
}

/// A function that is not attached yet.
struct Waiting<'a> {
    function: &'a Function,
    /// What may still do.
    ways: std::vec::IntoIter<Mechanism>,
    /// Why nothing so far did.
    reasons: Vec<String>,
}

impl Waiting<'_> {
    /// The next way that this kernel has.
    fn next(&mut self) -> Option<Mechanism> {
        let reasons = &mut self.reasons;
        self.ways.find(|way| match mechanism::why_not(*way) {
            Some(why) => {
                reasons.push(why.to_owned());
                false
            }
            None => true,
        })
    }
}

/// Attaches all of them.
///
/// # Errors
/// What cannot be attached, and why; what was attached goes with the error.
pub(crate) fn attach(functions: &[Function], maps: &Maps) -> Result<Attached> {
    let eligible = functions
        .iter()
        .filter(|function| function.needs == Needs::Call)
        .count();
    let mut attached = Attached::default();
    let mut errors: Vec<Error> = Vec::new();
    let mut waiting: Vec<Waiting<'_>> = functions
        .iter()
        .map(|function| {
            let ways = mechanism::ways(function, eligible);
            Waiting {
                function,
                ways: ways.all.into_iter(),
                reasons: ways.because.map(str::to_owned).into_iter().collect(),
            }
        })
        .collect();
    // What one round refuses the next one tries in another way.
    while !waiting.is_empty() {
        let mut by_way: Vec<(Mechanism, Vec<Waiting<'_>>)> = Vec::new();
        for mut one in waiting.drain(..) {
            let Some(way) = one.next() else {
                let what = describe(one.function);
                errors.push(mechanism::nothing(&what, &one.reasons));
                continue;
            };
            match by_way.iter_mut().find(|(own, _)| *own == way) {
                Some((_, all)) => all.push(one),
                None => by_way.push((way, vec![one])),
            }
        }
        for (way, all) in by_way {
            let came = attach_by(way, all, maps, &mut attached)?;
            waiting.extend(came.refused);
            errors.extend(came.errors);
        }
    }
    match Error::joined(errors) {
        Some(error) => Err(error),
        None => Ok(attached),
    }
}

/// What a way did not do.
#[derive(Default)]
struct Came<'a> {
    /// Another one may.
    refused: Vec<Waiting<'a>>,
    /// None will.
    errors: Vec<Error>,
}

fn attach_by<'a>(
    way: Mechanism,
    waiting: Vec<Waiting<'a>>,
    maps: &Maps,
    attached: &mut Attached,
) -> Result<Came<'a>> {
    match way {
        Mechanism::Trampoline { at_return } => trampolines(at_return, waiting, maps, attached),
        Mechanism::KprobeMulti { at_return } => multi(at_return, waiting, maps, attached),
        Mechanism::Kprobe { .. }
        | Mechanism::KprobePair
        | Mechanism::RawTracepoint
        | Mechanism::Tracepoint => kprobes(way, waiting, maps, attached),
    }
}

fn trampolines<'a>(
    at_return: bool,
    waiting: Vec<Waiting<'a>>,
    maps: &Maps,
    attached: &mut Attached,
) -> Result<Came<'a>> {
    let functions: Vec<&Function> = waiting.iter().map(|one| one.function).collect();
    let all = fentry::attach(&functions, at_return, maps)?;
    let mut came = Came::default();
    for (mut one, done) in waiting.into_iter().zip(all) {
        match done {
            Ok(fentry::Trampoline { program, link }) => {
                let probe = one.function.probe;
                attached.keep(link, program, vec![probe], true)?;
                attached.note(Mechanism::Trampoline { at_return }, &one);
            }
            Err(why) => {
                one.reasons.push(why);
                came.refused.push(one);
            }
        }
    }
    Ok(came)
}

fn multi<'a>(
    at_return: bool,
    waiting: Vec<Waiting<'a>>,
    maps: &Maps,
    attached: &mut Attached,
) -> Result<Came<'a>> {
    let functions: Vec<&Function> = waiting.iter().map(|one| one.function).collect();
    let groups = kprobe_multi::groups(&functions);
    let name = match at_return {
        true => "functions_return",
        false => "functions_entry",
    };
    let more = groups.len().saturating_sub(1);
    let mut programs = load::programs(Object::KprobeMulti, &[name], more, maps)?;
    let Program { fd, copies } = load::take(&mut programs, name)?;
    let is_counted = capability::tracepoint_misses_are_counted();
    let mut refused = Vec::new();
    for (group, program) in groups.into_iter().zip(std::iter::once(fd).chain(copies)) {
        let done = kprobe_multi::attach(group, at_return, program.as_fd());
        refused.extend(done.refused);
        if let Some(link) = done.link {
            let probes = done.functions.iter().map(|function| function.probe);
            let probes: Vec<ProbeId> = probes.collect();
            attached.keep(link, program, probes, is_counted)?;
        }
    }
    let mut came = Came::default();
    for mut one in waiting {
        let is_it = |(function, _): &(&Function, io::Error)| function.probe == one.function.probe;
        match refused.iter().find(|refused| is_it(refused)) {
            None => attached.note(Mechanism::KprobeMulti { at_return }, &one),
            Some((_, error)) => {
                one.reasons
                    .push(format!("the kernel refused kprobe_multi: {error}"));
                came.refused.push(one);
            }
        }
    }
    Ok(came)
}

fn kprobes<'a>(
    way: Mechanism,
    waiting: Vec<Waiting<'a>>,
    maps: &Maps,
    attached: &mut Attached,
) -> Result<Came<'a>> {
    let name = "kernel_function";
    let each = waiting.len() <= FEW_KPROBES;
    let more = if each {
        waiting.len().saturating_sub(1)
    } else {
        0
    };
    // What an entry misses is no miss of the return: such programs are beside the others.
    let is_pair = way == Mechanism::KprobePair;
    let mut programs = load::programs(Object::Kprobe, &[name], more + usize::from(is_pair), maps)?;
    let Program { fd, mut copies } = load::take(&mut programs, name)?;
    let at_entries = if is_pair { copies.pop() } else { None };
    let is_counted = each && capability::tracepoint_misses_are_counted();
    let mut programs = std::iter::once(fd).chain(copies);
    let shared = if each { None } else { programs.next() };
    if let Some(program) = &shared {
        let probes = waiting.iter().map(|one| one.function.probe).collect();
        attached.meters.push(Meter::new(program, probes)?);
    }
    let mut came = Came::default();
    for one in waiting {
        let probes = vec![one.function.probe];
        let own = programs.next();
        if let Some(program) = &own {
            attached.meters.push(Meter::new(program, probes.clone())?);
        }
        let Some(program) = own.as_ref().or(shared.as_ref()) else {
            break;
        };
        match kprobe(one.function, program.as_fd(), at_entries.as_ref()) {
            Ok((link, entry)) => {
                attached.entries.extend(entry);
                attached
                    .guarded
                    .push(Guarded::link(link, own, probes, is_counted));
                attached.note(way, &one);
            }
            Err(error) => came.errors.push(error),
        }
    }
    Ok(came)
}

impl Attached {
    /// Keeps a link whose program serves these probes and no others.
    fn keep(
        &mut self,
        link: OwnedFd,
        program: OwnedFd,
        probes: Vec<ProbeId>,
        is_counted: bool,
    ) -> Result<()> {
        self.meters.push(Meter::new(&program, probes.clone())?);
        self.guarded
            .push(Guarded::link(link, Some(program), probes, is_counted));
        Ok(())
    }

    fn note(&mut self, mechanism: Mechanism, one: &Waiting<'_>) {
        self.chosen.push(Chosen {
            probe: one.function.probe,
            mechanism,
            because: (!one.reasons.is_empty()).then(|| one.reasons.join("; ")),
        });
    }
}

/// Attaches one by a kprobe; with the program of one at the entry, by both.
fn kprobe(
    function: &Function,
    program: BorrowedFd<'_>,
    at_entry: Option<&OwnedFd>,
) -> Result<(OwnedFd, Option<OwnedFd>)> {
    let kind = kind().unwrap_or_default();
    let one = |at_return: bool, program: BorrowedFd<'_>, cookie: u32| {
        perf_event::open_kprobe(kind, &function.place, at_return)
            .and_then(|event| perf_event::link(program, &event, cookie.into()))
            .map_err(|error| refused(function, error))
    };
    match (at_entry, function.pair) {
        (Some(at_entry), Some(pair)) => {
            let entry = one(false, at_entry.as_fd(), pair.entry)?;
            Ok((one(true, program, pair.at_return)?, Some(entry)))
        }
        _ => Ok((one(function.at_return, program, function.location)?, None)),
    }
}

fn describe(function: &Function) -> String {
    let place = match &function.place {
        FunctionPlace::Symbol(symbol, 0) => symbol.clone(),
        FunctionPlace::Symbol(symbol, offset) => format!("{symbol}+{offset:#x}"),
        FunctionPlace::Address(address) => format!("{address:#x}"),
    };
    match function.at_return {
        true => format!("the probe of the kernel at the return of {place}"),
        false => format!("the probe of the kernel at {place}"),
    }
}

fn refused(function: &Function, error: io::Error) -> Error {
    let what = describe(function);
    let why = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => return rights::refused(&what, error),
        Some(libc::ENOENT) => "there is no such function",
        Some(libc::EADDRNOTAVAIL) => "several functions have this name",
        Some(libc::EILSEQ) => "no instruction begins there",
        Some(libc::EINVAL) => {
            "it cannot be probed: it is part of the tracing machinery (notrace, blacklisted) or no code"
        }
        _ => "the kernel refused",
    };
    let kind = ErrorKind::Attach {
        file: None,
        offset: None,
    };
    Error::new(kind, format!("cannot attach {what}: {why}")).because(error)
}
