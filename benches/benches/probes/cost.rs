//! What a hit costs the program that is probed, with what it takes to fetch three arguments; and what a hit costs
//! that a filter refuses.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::statistics::Median;

use crate::target::{Program, Target};
use crate::tracer::{Tracer, What};

/// Hits of one measurement: fewer than fill a time slice, so that others that run on this CPU are in some only.
const HITS: u64 = 500;
/// Measurements, of which the best counts.
const RUNS: usize = 120;
/// Between two measurements, so that readers keep up: what finds no room costs less.
const PAUSE: Duration = Duration::from_millis(2);
/// Those that take long to start are measured in one of so many rounds.
const SELDOM: usize = 3;
/// How often a round is tried where its reader was too slow.
const TRIES: usize = 5;

/// Of each tracer its nanoseconds a hit, by round.
type Times = BTreeMap<&'static str, BTreeMap<usize, f64>>;

/// Nanoseconds a hit of each, and how many times ours that is, round by round.
pub(crate) fn measure(
    bridge: &Path,
    program: &Program,
    thoroughness: Thoroughness,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let rounds = thoroughness.pick(24, 3, 1);
    for what in What::ALL {
        let mut times = Times::new();
        let mut skipped: BTreeMap<&str, String> = BTreeMap::new();
        let mut target = program.start()?;
        for round in 0..rounds {
            let mut tracers = Tracer::ALL;
            // Neither is always the first.
            if round % 2 == 1 {
                tracers.swap(0, 1);
            }
            for tracer in tracers {
                let name = tracer.name();
                let is_its_turn = tracer.is_close() || round % SELDOM == 0;
                if !is_its_turn || skipped.contains_key(name) {
                    continue;
                }
                match one(tracer, what, bridge, program, &mut target) {
                    Ok(Some(time)) => drop(times.entry(name).or_default().insert(round, time)),
                    Ok(None) => {}
                    Err(Trouble::Absent(reason)) if tracer != Tracer::Ours => {
                        skipped.insert(name, reason);
                    }
                    Err(Trouble::Absent(reason) | Trouble::Failed(reason)) => {
                        return Err(format!("{name}, {}: {reason}", what.name()).into());
                    }
                }
            }
        }
        report(what, &times, &skipped, part)?;
    }
    Ok(())
}

enum Trouble {
    /// It cannot be had here.
    Absent(String),
    Failed(String),
}

/// Nanoseconds that a hit takes longer than without anybody, which is measured right before. `None`: each time
/// some were lost, which cost less than the others.
fn one(
    tracer: Tracer,
    what: What,
    bridge: &Path,
    program: &Program,
    target: &mut Target,
) -> Result<Option<f64>, Trouble> {
    let failed = |error: Box<dyn Error>| Trouble::Failed(error.to_string());
    for _ in 0..TRIES {
        let alone = best(target, what).map_err(failed)?;
        let tracing = tracer
            .start(what, bridge, program, target)
            .map_err(|error| Trouble::Absent(error.to_string()))?;
        let traced = best(target, what).map_err(failed)?;
        let has_lost = tracing.end().map_err(failed)?;
        if !has_lost {
            return Ok(Some(traced - alone));
        }
    }
    Ok(None)
}

/// Nanoseconds a hit, in the best of some runs: what comes between is not the hit's.
fn best(target: &mut Target, what: What) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        best = best.min(target.ask(what.request(), HITS)? / HITS as f64);
        std::thread::sleep(PAUSE);
    }
    Ok(best)
}

fn report(
    what: What,
    times: &Times,
    skipped: &BTreeMap<&str, String>,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let name = what.name();
    let ours = times
        .get(Tracer::Ours.name())
        .ok_or("the bridge was too slow in each round, and lost events")?;
    for tracer in Tracer::ALL {
        let entry = format!("probes/{name}/{}", tracer.name());
        if let Some(reason) = skipped.get(tracer.name()) {
            part.skip(&entry, reason);
            continue;
        }
        let Some(all) = times.get(tracer.name()) else {
            continue;
        };
        if let Some(time) = Median::of(all.values().copied().collect()) {
            part.time(entry.clone(), time);
        }
        let pairs = all
            .iter()
            .filter_map(|(round, theirs)| Some(ours.get(round)? / theirs));
        let ratio = Median::of(pairs.collect());
        match (tracer, what, ratio) {
            (Tracer::Ours, ..) | (_, _, None) => {}
            // The kernel's own with a reader is there to compare the other with.
            (Tracer::TracefsRead, _, Some(ratio))
            | (_, What::RefusedFunction | What::RefusedTracepoint, Some(ratio)) => {
                part.ratio(format!("probes/{name}/tracebraid"), ratio, tracer.name());
            }
            (_, What::Function | What::Tracepoint, Some(ratio)) => {
                part.bar(&entry, ratio, Bar::AtMost(1.0));
            }
        }
    }
    Ok(())
}
