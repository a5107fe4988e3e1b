//! What `bridge-cli` takes to read a program's rings, and how fast the program may be.
//!
//! ```text
//! this program, pinned to CPU 0 and paced: so many events a second
//!     └─▶ rings of 16 MiB ─▶ bridge-cli attach -o /dev/null: counting only, JSON lines, text
//! ```
//! `drain/…/cpu` is the CPU time of the bridge an event, by its own account, at a rate that is easy for it.
//! `drain/…/rate` is the highest rate of those tried at which nothing was lost, and where loss begins the
//! next of them. `drain/minute` is the rate that is promised, for a whole minute. Every event is read or
//! counted as lost: that is checked for each run.

#![allow(unsafe_code)]

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::product;

/// Says in the environment that this process is the program, and at which rate it is to write.
const RATE: &str = "TRACEBRAID_DRAIN_RATE";
const SECONDS: &str = "TRACEBRAID_DRAIN_SECONDS";
/// Bytes of a ring.
const RING: usize = 16 << 20;
/// Events a second for the CPU time of one.
const EASY: u64 = 200_000;
/// Rates that are tried, events a second.
const RATES: &[u64] = &[
    250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000,
    5_000_000, 6_000_000,
];
/// Those that are tried where there is little time.
const FEW_RATES: &[u64] = &[1_000_000, 2_000_000, 4_000_000];
/// The rate that is to be read for a minute without a loss.
const PROMISED: u64 = 2_000_000;
/// What the bridge is asked to do with events.
const WAYS: [(&str, &[&str]); 3] = [
    ("count", &["--count"]),
    ("json", &["--format", "json"]),
    ("text", &["--format", "text"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(rate) = std::env::var(RATE) {
        return produce(rate.parse()?, std::env::var(SECONDS)?.parse()?);
    }
    let thoroughness = Thoroughness::wanted();
    let mut part = Part::default();
    if thoroughness == Thoroughness::Smoke {
        part.skip("drain", "it takes a release build of bridge-cli");
        return Ok(());
    }
    let seconds = thoroughness.pick(10, 1, 1);
    let bridge = product::build("bridge-cli", "bridge-cli")?;
    for (name, arguments) in WAYS {
        let run = run(&bridge, arguments, EASY, seconds)?;
        part.number(
            format!("drain/{name}/cpu"),
            "ns",
            run.cpu.as_nanos() as f64 / run.read.max(1) as f64,
        );
        let rate_name = format!("drain/{name}/rate");
        let mut best = 0;
        for &rate in thoroughness.pick(RATES, FEW_RATES, &[]) {
            if self::run(&bridge, arguments, rate, seconds)?.lost > 0 {
                part.number(rate_name.clone(), "loss_begins_at", rate as f64);
                break;
            }
            best = rate;
        }
        part.number(rate_name, "per_second", best as f64);
    }
    if thoroughness == Thoroughness::Full {
        let minute = run(&bridge, WAYS[0].1, PROMISED, 60)?;
        let cpu = minute.cpu.as_nanos() as f64 / minute.read.max(1) as f64;
        part.number("drain/minute".to_owned(), "events", minute.read as f64);
        part.number("drain/minute".to_owned(), "ns", cpu);
        part.exact_bar("drain/minute/lost", minute.lost as f64, Bar::AtMost(0.0));
    }
    part.write("drain")?;
    Ok(())
}

/// What a run came to.
#[derive(Debug)]
struct Run {
    read: u64,
    lost: u64,
    cpu: Duration,
}

fn run(bridge: &Path, arguments: &[&str], rate: u64, seconds: u64) -> Result<Run, Box<dyn Error>> {
    let mut producer = Producer::start(rate, seconds)?;
    let mut attached = Command::new(bridge)
        .args(["attach", "-v", "--via", "ring", "-o", "/dev/null"])
        .args(["-e", "drain:*", "-p", &producer.child.id().to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut errors = BufReader::new(attached.stderr.take().ok_or("no error output")?);
    let mut text = String::new();
    while !text.contains("bridge-cli: attached ") {
        if errors.read_line(&mut text)? == 0 {
            return Err(format!("bridge-cli did not attach: {text}").into());
        }
    }
    let written = producer.go()?;
    // It ends with the program.
    producer.end()?;
    std::io::Read::read_to_string(&mut errors, &mut text)?;
    attached.wait()?;
    let run = read_summary(&text).ok_or_else(|| format!("no summary in {text}"))?;
    if run.read + run.lost != written {
        return Err(format!("{written} written, but {run:?}").into());
    }
    Ok(run)
}

/// `bridge-cli: 10 events in 1.00 s, 0 lost, …` and `bridge-cli: took 0.5 s of CPU, …`.
fn read_summary(text: &str) -> Option<Run> {
    let line = text.lines().find(|line| line.contains(" events in "))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let cpu = text.lines().find_map(|line| line.split_once("took "))?.1;
    Some(Run {
        read: words.get(1)?.parse().ok()?,
        lost: words.get(6)?.parse().ok()?,
        cpu: Duration::from_secs_f64(cpu.split(' ').next()?.parse().ok()?),
    })
}

/// This program, started as the one that writes.
struct Producer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Producer {
    fn start(rate: u64, seconds: u64) -> Result<Producer, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(RATE, rate.to_string())
            .env(SECONDS, seconds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut producer = Producer { child, output };
        producer.line()?;
        Ok(producer)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Lets it write. How many events it wrote.
    fn go(&mut self) -> Result<u64, Box<dyn Error>> {
        writeln!(self.child.stdin.as_mut().ok_or("no input")?, "go")?;
        Ok(self.line()?.parse()?)
    }

    fn end(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

/// Writes `rate` events a second for so long: pieces of 100 µs, each in its time.
fn produce(rate: u64, seconds: u64) -> Result<(), Box<dyn Error>> {
    const PIECES: u64 = 10_000;
    tracebraid::init_with(tracebraid::Options::new().ring(RING))?;
    pin()?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let start = Instant::now();
    let mut written = 0;
    for piece in 0..PIECES * seconds {
        let end = rate * (piece + 1) / PIECES;
        while written < end {
            tracebraid::event!(drain::three, one = written, two = 2_u64, three = 3_u64);
            written += 1;
        }
        let due = Duration::from_nanos((piece + 1) * 1_000_000_000 / PIECES);
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
    }
    println!("{written}");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn pin() -> Result<(), Box<dyn Error>> {
    // SAFETY: plain memory that the calls fill and read.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}
