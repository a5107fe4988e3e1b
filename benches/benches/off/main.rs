//! What a site costs that is switched off, beside its peers, in one binary.
//!
//! ```text
//! this process ──▶ itself, once for each state of `tracing` and repetition ──▶ samples ──▶ part
//! ```
//! A process can have one `tracing` subscriber in its life, so each state has processes of its own;
//! every peer runs in each of them, and ratios pair what ran in one round of one process.

mod sites;
mod subscriber;

use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tracebraid_benches::paired::{self, Sample, Samples, Series};
use tracebraid_benches::part::{Bar, Part, Thoroughness};

use crate::sites::{PEERS, Shape};
use crate::subscriber::Subscriber;

/// The first argument of a process that measures.
const CHILD: &str = "measure";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, subscriber, rounds] = &arguments[..]
        && mode == CHILD
    {
        let subscriber = Subscriber::named(subscriber).ok_or("no such subscriber")?;
        return measure(subscriber, rounds.parse()?);
    }

    let thoroughness = Thoroughness::wanted();
    let rounds = thoroughness.pick(400, 80, 1);
    let repetitions = thoroughness.pick(5, 2, 1);
    let mut samples = Samples::default();
    for process in 0..repetitions * Subscriber::ALL.len() {
        let subscriber = Subscriber::ALL[process % Subscriber::ALL.len()];
        collect(process, subscriber, rounds, &mut samples)?;
    }

    let mut part = Part::default();
    for name in samples.names() {
        if let Some(time) = samples.time(name) {
            part.time(name.to_owned(), time);
        }
    }
    // A sample of one round says nothing about a ratio.
    if thoroughness != Thoroughness::Smoke {
        for shape in [Shape::X16, Shape::X16Fields] {
            bars(shape, &samples, &mut part)?;
        }
    }
    part.write("off")?;
    Ok(())
}

/// One process: all peers and shapes, with the subscriber, on the standard output.
fn measure(subscriber: Subscriber, rounds: usize) -> Result<(), Box<dyn Error>> {
    tracebraid::init();
    static_keys::global_init();
    usdt::register_probes()?;
    subscriber.install();

    let mut series = Vec::new();
    for shape in Shape::ALL {
        for peer in PEERS {
            let peer_name = if peer.name == "tracing" {
                subscriber.name()
            } else {
                peer.name
            };
            let name = format!("off/{}/{peer_name}", shape.name());
            let mut sites = Series::new(name, peer.run(shape));
            sites.elements = shape.sites();
            series.push(sites);
        }
    }
    let mut lines = String::new();
    paired::measure(&series, rounds, |Sample { name, round, ns }| {
        lines += &format!("{name} {round} {ns}\n");
    });
    std::io::stdout().write_all(lines.as_bytes())?;
    Ok(())
}

/// Runs such a process and takes its samples.
fn collect(
    process: usize,
    subscriber: Subscriber,
    rounds: usize,
    samples: &mut Samples,
) -> Result<(), Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args([CHILD, subscriber.name(), &rounds.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("measuring with {subscriber:?} failed ({})", output.status).into());
    }
    for line in String::from_utf8(output.stdout)?.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or("a line is short");
        let name = word()?.to_owned();
        let (round, ns) = (word()?.parse()?, word()?.parse()?);
        samples.add(process, Sample { name, round, ns });
    }
    Ok(())
}

/// Holds ours against its peers.
fn bars(shape: Shape, samples: &Samples, part: &mut Part) -> Result<(), Box<dyn Error>> {
    let series = |peer: &str| format!("off/{}/{peer}", shape.name());
    let ours = series("tracebraid");
    let ratio = |of: &str, to: &str| samples.ratio(of, to).ok_or("a series is missing");
    let keys = series("static-keys");
    part.bar(&keys, ratio(&ours, &keys)?, Bar::AtMost(1.1));
    for peer in ["probe_lazy", "usdt", "tracing"] {
        let theirs = series(peer);
        part.bar(&theirs, ratio(&theirs, &ours)?, Bar::AtLeast(2.5));
    }
    Ok(())
}
