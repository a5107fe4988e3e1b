//! How fast `bridge-cli` attaches to a thousand tracepoints, shows their events, and lets go.
//!
//! ```text
//! program, 10,000 events/s ─▶ bridge-cli attach ─▶ pipe ─▶ this program: how old is each line?
//!                              │        │      └ interrupted: until it has ended
//!                              │        └ until the first line
//!                              └ until it says that it is attached
//! ```
//! The program's events come through their USDT probes or through its rings; both are measured, in
//! turn. All times begin where the process is started. Where the rights or the kernel do not allow to attach,
//! that is reported; with `TRACEBRAID_REQUIRE=bpf` it is an error.

mod clock;

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tracebraid_benches::children::{self, interrupt};
use tracebraid_benches::generated::{FUNCTIONS, Flavour, Program};
use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::product;
use tracebraid_benches::statistics::{Median, percentile};

use crate::clock::monotonic_seconds;

/// Events a second of the program.
const RATE: u32 = 10_000;
/// How events come.
const WAYS: [&str; 2] = ["usdt", "ring"];
/// Every tracepoint of the program.
const TRACEPOINTS: &str = "generated_tracebraid_1000:*";

fn main() -> Result<(), Box<dyn Error>> {
    let thoroughness = Thoroughness::wanted();
    let mut part = Part::default();
    if thoroughness == Thoroughness::Smoke {
        part.skip("bridge", "it takes a release build of bridge-cli");
        return Ok(());
    }
    let (repetitions, milliseconds) = thoroughness.pick((10, 5000), (3, 1000), (1, 1000));
    let bridge = product::build("bridge-cli", "bridge-cli")?;
    let package = Program {
        flavour: Flavour::Tracebraid,
        events: FUNCTIONS,
    }
    .write()?;
    if !package.build()?.status()?.success() {
        return Err("building the program failed".into());
    }
    let target = Target::start(&package.program()?)?;

    let read_for = Duration::from_millis(milliseconds);
    let mut runs = WAYS.map(|_| Ok(Vec::new()));
    for _ in 0..repetitions {
        for (way, runs) in WAYS.iter().zip(&mut runs) {
            let Ok(done) = runs else { continue };
            match attach(&bridge, way, target.child.id(), read_for)? {
                Ok(run) => done.push(run),
                Err(reason) if is_required() => return Err(reason.into()),
                Err(reason) => *runs = Err(reason),
            }
        }
    }
    for (way, runs) in WAYS.iter().zip(runs) {
        match runs {
            Ok(runs) => report(way, &runs, &mut part),
            Err(reason) => part.skip(&format!("bridge/{way}"), &reason),
        }
    }
    part.write("bridge")?;
    Ok(())
}

fn is_required() -> bool {
    let required = std::env::var("TRACEBRAID_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word == "bpf")
}

/// The program that is attached to; it ends when its input does.
struct Target {
    child: Child,
}

impl Target {
    fn start(program: &Path) -> Result<Target, Box<dyn Error>> {
        let mut command = Command::new(program);
        command
            .arg(RATE.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut target = Target {
            child: command.spawn()?,
        };
        let output = target.child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line != "ready\n" {
            return Err("the program did not start".into());
        }
        Ok(target)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It has ended or cannot be waited for; nothing is left to do in either case.
        let _ = self.child.wait();
    }
}

/// One attachment.
#[derive(Debug)]
struct Run {
    attached: Duration,
    first_event: Duration,
    detached: Duration,
    /// Age of each line when it was read, in milliseconds; without those of the first half second,
    /// in which the program's code is being switched.
    ages: Vec<f64>,
}

/// Attaches, reads for so long, and interrupts it. The inner error is why it did not attach.
fn attach(
    bridge: &Path,
    way: &str,
    pid: u32,
    read_for: Duration,
) -> Result<Result<Run, String>, Box<dyn Error>> {
    let start = Instant::now();
    let mut command = Command::new(bridge);
    command
        .args([
            "attach",
            "--verbose",
            "--pid",
            &pid.to_string(),
            "--via",
            way,
            "--event",
            TRACEPOINTS,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = children::spawn(&mut command)?;
    let errors = child.stderr.take().ok_or("no error output")?;
    let (sender, attached) = mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut text = String::new();
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            if line.contains("attached 1000 probes") {
                // The receiver has gone only where the run has failed already.
                let _ = sender.send(start.elapsed());
            }
            text += &line;
            text.push('\n');
        }
        text
    });

    let mut first_event = None;
    let mut ages = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    while first_event.is_none_or(|first| start.elapsed() < first + read_for) {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            break;
        }
        let now = monotonic_seconds();
        let first = *first_event.get_or_insert_with(|| start.elapsed());
        if start.elapsed() > first + Duration::from_millis(500) {
            let time = time_of(&line).ok_or_else(|| format!("no time in {line:?}"))?;
            ages.push((now - time) * 1e3);
        }
    }
    let interrupted = Instant::now();
    // It has ended by itself where it could not attach.
    let _ = interrupt(&child);
    std::io::copy(&mut lines, &mut std::io::sink())?;
    let status = child.wait()?;
    let detached = interrupted.elapsed();
    let text = listener.join().map_err(|_| "the listener panicked")?;
    let Some(first_event) = first_event else {
        return Ok(Err(format!(
            "bridge-cli ({status}): {}",
            text.trim().replace('\n', "; ")
        )));
    };
    let attached = attached
        .try_recv()
        .map_err(|_| format!("it did not attach to all tracepoints: {text}"))?;
    Ok(Ok(Run {
        attached,
        first_event,
        detached,
        ages,
    }))
}

/// The time in a line: `comm-tid [cpu] seconds: event: …`, with no space in the program's name.
fn time_of(line: &str) -> Option<f64> {
    line.split_whitespace()
        .nth(2)?
        .strip_suffix(':')?
        .parse()
        .ok()
}

fn report(way: &str, runs: &[Run], part: &mut Part) {
    let median = |value: fn(&Run) -> Duration| {
        Median::of(
            runs.iter()
                .map(|run| value(run).as_secs_f64() * 1e3)
                .collect(),
        )
    };
    let bars = [
        ("attach-1000-ms", median(|run| run.attached), 500.0),
        ("first-event-ms", median(|run| run.first_event), 500.0),
        ("detach-1000-ms", median(|run| run.detached), 500.0),
        ("p99-event-to-line-ms", p99(runs), 100.0),
    ];
    for (name, value, limit) in bars {
        if let Some(value) = value {
            part.bar(&format!("bridge/{way}/{name}"), value, Bar::AtMost(limit));
        }
    }
    let lines: usize = runs.iter().map(|run| run.ages.len()).sum();
    if lines > 0 {
        part.number(
            format!("bridge/{way}/lines-measured"),
            "lines",
            lines as f64,
        );
    }
}

/// The median over all runs of their 99th percentile.
fn p99(runs: &[Run]) -> Option<Median> {
    Median::of(
        runs.iter()
            .filter_map(|run| percentile(run.ages.clone(), 0.99))
            .collect(),
    )
}
