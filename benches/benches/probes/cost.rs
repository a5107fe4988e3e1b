//! What a hit costs the program that is probed, with what it takes to fetch three arguments.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::statistics::Median;

use crate::target::{Program, Target};
use crate::tracer::{Tracer, What};

/// Hits of one measurement: fewer than fill a time slice, so that others that run on this CPU are in some only.
const HITS: u64 = 500;
/// Measurements, of which the best counts.
const RUNS: usize = 200;

/// Nanoseconds a hit of each, and how many times ours that is, round by round.
pub(crate) fn measure(
    bridge: &Path,
    program: &Program,
    thoroughness: Thoroughness,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let rounds = thoroughness.pick(12, 1, 1);
    for what in What::ALL {
        let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut skipped: BTreeMap<&str, String> = BTreeMap::new();
        let mut target = program.start()?;
        for _ in 0..rounds {
            for tracer in Tracer::ALL {
                let name = tracer.name();
                if skipped.contains_key(name) {
                    continue;
                }
                // Without anybody, right before.
                let alone = best(&mut target, what)?;
                let tracing = match tracer.start(what, bridge, program, &mut target) {
                    Ok(tracing) => tracing,
                    Err(reason) if tracer == Tracer::Ours => return Err(reason),
                    Err(reason) => {
                        skipped.insert(name, reason.to_string());
                        continue;
                    }
                };
                let traced = best(&mut target, what)?;
                tracing
                    .end()
                    .map_err(|error| format!("{name}, {}: {error}", what.name()))?;
                times.entry(name).or_default().push(traced - alone);
            }
        }
        report(what, &times, &skipped, part);
    }
    Ok(())
}

/// Nanoseconds a hit, in the best of some runs: what comes between is not the hit's.
fn best(target: &mut Target, what: What) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        best = best.min(target.ask(what.request(), HITS)? / HITS as f64);
    }
    Ok(best)
}

fn report(
    what: What,
    times: &BTreeMap<&str, Vec<f64>>,
    skipped: &BTreeMap<&str, String>,
    part: &mut Part,
) {
    let name = what.name();
    for tracer in Tracer::ALL.map(Tracer::name) {
        match (times.get(tracer), skipped.get(tracer)) {
            (Some(all), None) => {
                if let Some(time) = Median::of(all.clone()) {
                    part.time(format!("probes/{name}/{tracer}"), time);
                }
            }
            (_, Some(reason)) => part.skip(&format!("probes/{name}/{tracer}"), reason),
            (None, None) => {}
        }
    }
    let ours = Tracer::Ours.name();
    for (peer, all) in times.iter().filter(|(peer, _)| **peer != ours) {
        let pairs = times[ours].iter().zip(all);
        if let Some(ratio) = Median::of(pairs.map(|(ours, theirs)| ours / theirs).collect()) {
            part.bar(&format!("probes/{name}/{peer}"), ratio, Bar::AtMost(1.0));
        }
    }
}
