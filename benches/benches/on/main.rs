//! What an event costs that is on, beside its peers: one table.
//!
//! ```text
//! this process ─┬▶ sessions of LTTng, where it is installed
//!               ├▶ itself, once for each configuration and repetition ──▶ samples ──▶ part
//!               └▶ itself, once for each configuration ──▶ criterion
//! ```
//! Ratios pair what ran in one round of one process. `floor/rdtsc` is a loop that reads the time stamp
//! counter and does nothing else.

#![allow(unsafe_code)]

mod by_criterion;
mod configuration;
mod counter;
mod lttng;
mod nobody;
mod shapes;
mod sites;
mod subscriber;
#[cfg(feature = "tracy")]
mod zones;

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use tracebraid_benches::generated;
use tracebraid_benches::paired::{self, Sample, Samples};
use tracebraid_benches::part::{Bar, Part, Thoroughness};

use crate::configuration::{Configuration, Prepared};
use crate::lttng::Sessions;
use crate::shapes::Shape;

/// The first argument of a process that measures.
const CHILD: &str = "measure";

/// Configurations that this machine cannot have, and why.
type Absent = Vec<(Configuration, String)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, configuration, rounds, lttng] = &arguments[..]
        && mode == CHILD
    {
        let configuration = Configuration::named(configuration).ok_or("no such configuration")?;
        let lttng = Some(Path::new(lttng)).filter(|path| path.is_absolute());
        return measure(configuration, rounds.parse()?, lttng);
    }

    if by_criterion::is_wanted()? {
        return Ok(());
    }

    let thoroughness = Thoroughness::wanted();
    let mut part = Part::default();
    let directory = generated::target_directory()?.join("bench").join("lttng");
    let sessions = Sessions::start(directory).map_err(|error| error.to_string());
    let lttng = sessions.as_ref().ok().map(Sessions::directory);
    let (samples, absent) = pairs(thoroughness, lttng)?;
    report(&samples, &mut part);
    for (configuration, reason) in &absent {
        for peer in configuration.peers() {
            part.skip(&format!("on/3u64/{peer}"), reason);
        }
    }
    match &sessions {
        Ok(sessions) => {
            let discarded = sessions.discarded()? as f64;
            part.number("on/lttng-ust-discard/lost".to_owned(), "events", discarded);
        }
        Err(reason) => {
            part.skip("on/3u64/lttng-ust-discard", reason);
            part.skip("on/3u64/lttng-ust-overwrite", reason);
        }
    }
    // A sample of one round says nothing about a ratio.
    if thoroughness != Thoroughness::Smoke {
        bars(&samples, &mut part)?;
    }
    if thoroughness == Thoroughness::Full {
        for configuration in Configuration::ALL {
            if !absent.iter().any(|(other, _)| *other == configuration) {
                by_criterion::run(configuration, lttng)?;
            }
        }
    }
    part.write("on")?;
    Ok(())
}

/// The samples of all processes.
fn pairs(
    thoroughness: Thoroughness,
    lttng: Option<&Path>,
) -> Result<(Samples, Absent), Box<dyn Error>> {
    let (rounds, repetitions) = thoroughness.pick((300, 3), (120, 1), (1, 1));
    let mut samples = Samples::default();
    let mut absent = Absent::new();
    let mut process = 0;
    for _ in 0..repetitions {
        for configuration in Configuration::ALL {
            if absent.iter().any(|(other, _)| *other == configuration) {
                continue;
            }
            let rounds = configuration.rounds(rounds);
            match collect(process, configuration, rounds, lttng, &mut samples) {
                Ok(()) => process += 1,
                Err(reason) if configuration.may_be_absent() => {
                    absent.push((configuration, reason.to_string()));
                }
                Err(reason) => {
                    return Err(format!("{}: {reason}", configuration.name()).into());
                }
            }
        }
    }
    Ok((samples, absent))
}

/// One process: its series' samples, on the standard output.
fn measure(
    configuration: Configuration,
    rounds: usize,
    lttng: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    let mut prepared = Prepared::new(configuration, lttng)?;
    let mut lines = String::new();
    paired::measure(&prepared.series(), rounds, |Sample { name, round, ns }| {
        lines += &format!("{name} {round} {ns}\n");
    });
    prepared.check()?;
    print!("{lines}");
    Ok(())
}

/// Runs such a process and takes its samples.
fn collect(
    process: usize,
    configuration: Configuration,
    rounds: usize,
    lttng: Option<&Path>,
    samples: &mut Samples,
) -> Result<(), Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args([CHILD, configuration.name(), &rounds.to_string()])
        .arg(lttng.unwrap_or(Path::new("-")))
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.trim().replace('\n', "; ").into());
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

/// A row for each peer and shape, with how often ours fits into it.
fn report(samples: &Samples, part: &mut Part) {
    for floor in ["floor/rdtsc", "floor/clock_gettime"] {
        if let Some(time) = samples.time(floor) {
            part.time(floor.to_owned(), time);
        }
    }
    let mut row = |name: String, to: &str, word: &str| {
        if let (Some(time), Some(ratio)) = (samples.time(&name), samples.ratio(&name, to)) {
            part.time(name.clone(), time);
            part.ratio(name, ratio, word);
        }
    };
    for shape in Shape::ALL {
        let name = |peer: &str| format!("on/{}/{peer}", shape.name());
        for ours in [Configuration::Noop.ours(), Configuration::Overwrite.ours()] {
            row(name(ours), "floor/rdtsc", "rdtsc");
        }
        for configuration in Configuration::ALL {
            for peer in configuration.peers() {
                row(name(peer), &name(configuration.ours()), "ours");
            }
        }
    }
}

/// What was promised of ours.
fn bars(samples: &Samples, part: &mut Part) -> Result<(), Box<dyn Error>> {
    let ours = |shape: Shape| format!("on/{}/tracebraid", shape.name());
    for (shape, limit) in [
        (Shape::Three, 1.5),
        (Shape::Text16, 2.0),
        (Shape::Pair, 3.0),
    ] {
        let ratio = samples.ratio(&ours(shape), "floor/rdtsc");
        let name = format!("on/{}/rdtsc", shape.name());
        part.bar(
            &name,
            ratio.ok_or("a series is missing")?,
            Bar::AtMost(limit),
        );
    }
    let theirs = "on/3u64/lttng-ust-discard";
    if let Some(ratio) = samples.ratio(theirs, &ours(Shape::Three)) {
        part.bar(theirs, ratio, Bar::AtLeast(6.0));
    }
    Ok(())
}
