//! `snapshot`: what the rings of a process hold, without stopping it, or what a core dump has of them.
//!
//! Of a flight recorder it is what was recorded last; of other rings what their reader has not taken yet,
//! or, where there is none, what the program recorded unasked. Nothing is taken out, nobody is asked: it
//! works beside an attached bridge, on a stopped process, and on one whose helper thread hangs.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Probe};
use crate::export::{self, Outcome, Sink};
use crate::filter::{self, Hits, Machine, ProbeFilter, Refusal, Refusals};
use crate::selector::{Scope, Selector};
use crate::source::sdk_ring;

/// See [`Options::of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// A process, as the bridge's user numbers it.
    Process(u32),
    /// What is left of one: a core dump.
    Core(PathBuf),
}

/// What `snapshot` is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose rings.
    pub of: Of,
    /// Which tracepoints; empty means all.
    pub selectors: Vec<Selector>,
    /// Where to write; `None` is the standard output.
    pub output: Option<PathBuf>,
    /// Name of the format (`export::formats`).
    pub format: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How many events there were.
    pub events: usize,
    /// From the first to the last of them, ns.
    pub span: u64,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Takes a snapshot and writes it.
///
/// # Errors
/// There is no such process, it has no rings, they cannot be looked at, or the output cannot be written.
pub fn run(options: &Options) -> Result<Taken> {
    let format = export::format(&options.format).ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            format!("there is no format {:?}", options.format),
        )
    })?;
    for selector in &options.selectors {
        if !matches!(selector.scope, Scope::Anywhere | Scope::Target) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("-e {selector}: a snapshot is of the process's own tracepoints"),
            ));
        }
    }
    let mut refusals = Refusals::default();
    let machine = Machine::this(None);
    let mut matched = vec![false; options.selectors.len()];
    let mut wish = |probe: &Probe| {
        if options.selectors.is_empty() {
            return Hits::All;
        }
        let all = options.selectors.iter().enumerate();
        let those = all.filter(|(_, selector)| selector.matches(&probe.group, &probe.name));
        let filters = those.map(|(index, selector)| {
            matched[index] = true;
            (index, selector.filters.as_slice())
        });
        ProbeFilter::read(filters, probe, &machine, &mut refusals)
    };
    let held = match &options.of {
        Of::Process(pid) => sdk_ring::held_by(*pid, &mut wish)?,
        Of::Core(path) => sdk_ring::held_in(path, &mut wish)?,
    };
    let unmatched = options.selectors.iter().zip(matched);
    let unmatched = unmatched.filter(|(_, is_matched)| !is_matched);
    let errors = unmatched.map(|(selector, _)| {
        let message = format!("-e {selector}: the rings know no such tracepoint");
        Error::new(ErrorKind::NoMatch, message)
            .hint("without -e all that they hold is shown; list -p PID shows the tracepoints of a process")
    });
    if let Some(error) = Error::several(errors.collect()) {
        return Err(error);
    }
    for (index, selector) in options.selectors.iter().enumerate() {
        if refusals.have_seen(index) {
            continue;
        }
        for filter in &selector.filters {
            filter::check(index, filter, &mut refusals);
        }
    }
    let named = |refusal: &Refusal| match options.selectors.get(refusal.of) {
        Some(selector) => format!("-e {selector}"),
        None => "--filter".to_owned(),
    };
    let awaited = refusals.take_awaited(named);
    if let Some(error) = Error::several(refusals.into_errors(named)) {
        return Err(error);
    }
    let times = held.events.first().zip(held.events.last());
    let taken = Taken {
        events: held.events.len(),
        span: times.map_or(0, |(first, last)| last.time - first.time),
        warnings: held.warnings.into_iter().chain(awaited).collect(),
    };
    let (sink, name): (Sink, String) = match &options.output {
        None => (Box::new(io::stdout()), "the standard output".to_owned()),
        Some(path) => {
            let file = File::create(path).map_err(|error| {
                let message = format!("cannot create {}", path.display());
                Error::new(ErrorKind::Output, message).because(error)
            })?;
            (Box::new(file), path.display().to_string())
        }
    };
    write(&held.events, (format.create)(sink)).map_err(|error| {
        Error::new(ErrorKind::Output, format!("cannot write {name}")).because(error)
    })?;
    Ok(taken)
}

fn write(events: &[Event], mut exporter: Box<dyn export::Exporter>) -> io::Result<()> {
    for event in events {
        if exporter.event(event)? == Outcome::ReaderGone {
            return Ok(());
        }
    }
    // That the reader has gone is no error.
    exporter.finish().map(|_| ())
}
