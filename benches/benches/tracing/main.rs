//! What `tracebraid::tracing` costs a program that says what it does through `tracing`.
//!
//! ```text
//! off   a process for each state: no subscriber, ours, theirs, ours around theirs; sixteen DEBUG events
//! on    a process for each peer: a subscriber that does nothing, ours around it, and the peer instead
//! ```
//! The processes are interleaved. In `off` ratios pair what ran in one round of one repetition. In `on` ours
//! is a difference: with, minus without, round by round.

#[path = "../on/nobody.rs"]
mod nobody;
mod off;
mod on;
mod sites;

use std::error::Error;
use std::process::{Command, Stdio};

use tracebraid_benches::paired::{self, Sample, Samples, Series};
use tracebraid_benches::part::{Bar, Part, Thoroughness};

/// The first argument of a process that measures.
const CHILD: &str = "measure";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, state, rounds] = &arguments[..]
        && mode == CHILD
    {
        return measure(state, rounds.parse()?);
    }
    let thoroughness = Thoroughness::wanted();
    let (rounds, repetitions) = thoroughness.pick((100, 6), (40, 2), (1, 1));
    let mut samples = Samples::default();
    let mut part = Part::default();
    let mut process = 0;
    for repetition in 0..repetitions {
        for state in off::State::ALL {
            collect(repetition, state.name(), rounds, &mut samples)?;
        }
        for peer in on::Peer::ALL {
            match peer.absence() {
                None => {
                    collect(process, peer.name(), peer.rounds(rounds), &mut samples)?;
                    process += 1;
                }
                Some(reason) if repetition == 0 => {
                    for shape in on::SHAPES {
                        part.skip(&format!("tracing/on/{shape}/{}", peer.name()), &reason);
                    }
                }
                Some(_) => {}
            }
        }
    }
    for name in samples.names() {
        if let Some(time) = samples.time(name) {
            part.time(name.to_owned(), time);
        }
    }
    // A sample of one round says nothing about a ratio.
    if thoroughness != Thoroughness::Smoke {
        for (with, without) in off::State::PAIRS {
            let (with, without) = (with.series(), without.series());
            let ratio = samples
                .ratio(&with, &without)
                .ok_or("a series is missing")?;
            part.bar(&with, ratio, Bar::AtMost(1.05));
        }
        for (shape, limit) in [("3u64", 60.0), ("span", 200.0)] {
            let series = |who: &str| format!("tracing/on/{shape}/{who}");
            let (with, without) = (series("tracebraid"), series("noop"));
            let added = samples
                .difference(&with, &without)
                .ok_or("a series is missing")?;
            part.time(series("added"), added);
            part.bar(&series("added"), added, Bar::AtMost(limit));
        }
    }
    part.write("tracing")?;
    Ok(())
}

/// One process: its series' samples, on the standard output.
fn measure(state: &str, rounds: usize) -> Result<(), Box<dyn Error>> {
    let peer = on::Peer::named(state);
    let series: Vec<Series> = match (off::State::named(state), peer) {
        (Some(state), _) => state.prepare(),
        (None, Some(peer)) => on::prepare(peer)?,
        (None, None) => return Err(format!("there is no state {state}").into()),
    };
    let mut lines = String::new();
    paired::measure(&series, rounds, |Sample { name, round, ns }| {
        lines += &format!("{name} {round} {ns}\n");
    });
    if peer.is_some() {
        on::check()?;
    }
    print!("{lines}");
    Ok(())
}

/// Runs such a process and takes its samples.
fn collect(
    repetition: usize,
    state: &str,
    rounds: usize,
    samples: &mut Samples,
) -> Result<(), Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args([CHILD, state, &rounds.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("measuring {state} failed ({})", output.status).into());
    }
    for line in String::from_utf8(output.stdout)?.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or("a line is short");
        let name = word()?.to_owned();
        let (round, ns) = (word()?.parse()?, word()?.parse()?);
        samples.add(repetition, Sample { name, round, ns });
    }
    Ok(())
}
