//! What a tracepoint costs that is on through its USDT probe, beside the probes of other crates.
//!
//! A counting uprobe of the kernel is on each of them in the same process. Nearly all of the time is
//! the kernel's trap; what a crate adds to it is the difference.

mod counter;

use std::error::Error;

use bridge::target::Binary;
use tracebraid_benches::paired::{self, Run, Samples, Series};
use tracebraid_benches::part::{Part, Thoroughness};

use crate::counter::Counter;

/// `usdt`'s probe: a macro for each function.
#[usdt::provider(provider = "on_uprobe")]
mod usdt_probes {
    fn theirs(round: u64, length: u64, code: i32) {}
}

/// Crate, name of its probe, function.
const PEERS: [(&str, &str, Run); 4] = [
    ("tracebraid", "ours", ours),
    ("usdt", "theirs", usdt_crate),
    ("probe", "eager", probe_eager),
    ("probe_lazy", "lazy", probe_lazy),
];

#[inline(never)]
fn ours(rounds: u64, items: &[u64], code: i32) {
    for round in 0..rounds {
        tracebraid::event!(
            on_uprobe::ours,
            round = round,
            length = items.len(),
            code = code
        );
    }
}

#[inline(never)]
#[allow(unsafe_code, reason = "the peer's macro expands to it")]
fn usdt_crate(rounds: u64, items: &[u64], code: i32) {
    for round in 0..rounds {
        usdt_probes::theirs!(|| (round, items.len() as u64, code));
    }
}

#[inline(never)]
#[allow(unsafe_code, reason = "the peer's macro expands to it")]
fn probe_eager(rounds: u64, items: &[u64], code: i32) {
    for round in 0..rounds {
        probe::probe!(on_uprobe, eager, round, items.len(), code);
    }
}

#[inline(never)]
#[allow(unsafe_code, reason = "the peer's macro expands to it")]
fn probe_lazy(rounds: u64, items: &[u64], code: i32) {
    for round in 0..rounds {
        probe::probe_lazy!(on_uprobe, lazy, round, items.len(), code);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut part = Part::default();
    match counters() {
        Ok(mut counters) => {
            measure(&mut part)?;
            for ((peer, ..), counter) in PEERS.iter().zip(&mut counters) {
                if counter.hits()? == 0 {
                    return Err(format!("the probe of {peer} was never hit").into());
                }
            }
        }
        Err(reason) => part.skip("on/uprobe", &reason.to_string()),
    }
    part.write("on_uprobe")?;
    Ok(())
}

/// A counter on each probe.
fn counters() -> Result<Vec<Counter>, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let binary = Binary::open(&program)?;
    let ours = binary
        .tracepoints()
        .iter()
        .map(|point| (&point.name, point.attachable()));
    let theirs = binary
        .usdt_probes()
        .iter()
        .map(|probe| (&probe.name, probe.attachable()));
    let probes: Vec<_> = ours.chain(theirs).collect();
    let mut counters = Vec::new();
    for (peer, wanted, _) in PEERS {
        let probe = probes.iter().find(|(name, _)| *name == wanted);
        let location = probe.and_then(|(_, probe)| probe.locations.first());
        let location =
            location.ok_or_else(|| format!("{peer} has no probe that can be attached"))?;
        counters.push(Counter::attach(
            &program,
            location.offset,
            location.semaphore,
        )?);
    }
    Ok(counters)
}

fn measure(part: &mut Part) -> Result<(), Box<dyn Error>> {
    // The kernel has raised the semaphores; this is what the helper thread would do a moment later.
    tracebraid::settle()?;
    let series = PEERS.map(|(peer, _, run)| Series {
        name: format!("on/uprobe/{peer}"),
        run,
        elements: 1,
    });
    let rounds = Thoroughness::wanted().pick(2000, 400, 1);
    let mut samples = Samples::default();
    paired::measure(&series, rounds, |sample| samples.add(0, sample));
    for series in &series {
        let time = samples.time(&series.name).ok_or("a series is missing")?;
        part.time(series.name.clone(), time);
    }
    Ok(())
}
