//! What it costs a service to be watched while it works as hard as it can: requests a second of the example
//! service, with a disk that it waits for and without.
//!
//! ```text
//! for each watcher, in turn, many times:   alone │ watched        watched │ alone      …
//!                                          └──── a pair ─┘        └─── a pair ┘
//! ```
//! The service, the load driver and the watcher share the machine: what the watcher takes of it counts as
//! well. Ours writes its text to /dev/null, as `perf trace` and `strace` do; bpftrace only counts. A ratio
//! is that of a pair, and its median is given.

mod service;
mod watcher;

use std::error::Error;
use std::path::Path;

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::statistics::Median;
use tracebraid_benches::{generated, product};

use crate::service::{Service, Work};
use crate::watcher::{Asked, Programs, Seen, Watcher};

/// Seconds of one measurement.
const SECONDS: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let thoroughness = Thoroughness::wanted();
    let mut part = Part::default();
    if thoroughness == Thoroughness::Smoke {
        part.skip("orders", "it takes release builds");
        return Ok(());
    }
    let programs = Programs {
        bridge: product::build("bridge-cli", "bridge-cli")?,
        service: product::build("examples", "orders")?,
        load: product::build("examples", "orders-load")?,
    };
    let directory = generated::target_directory()?.join("bench").join("orders");
    let modes: &[_] = match thoroughness {
        Thoroughness::Full => &[("fsync", true), ("no-fsync", false)],
        _ => &[("no-fsync", false)],
    };
    for (mode, fsync) in modes {
        let service = Service::start(&programs.service, directory.clone(), *fsync)?;
        let watchers = match thoroughness {
            Thoroughness::Full => &Watcher::ALL[..],
            _ => &[Watcher::Bridge(Asked::All), Watcher::Bridge(Asked::Own)],
        };
        let mut runs: Vec<Run> = watchers.iter().map(|&watcher| Run::new(watcher)).collect();
        // A database that is new grows faster than one that is in use.
        service.work(&programs.load, 2 * SECONDS)?;
        for pair in 0..thoroughness.pick(20, 6, 0) {
            for run in &mut runs {
                run.pair(&programs, &service, pair % 2 == 0)?;
            }
        }
        report(mode, &runs, thoroughness, &mut part);
    }
    part.write("orders")?;
    Ok(())
}

/// What came of a watcher.
struct Run {
    watcher: Watcher,
    /// Alone and watched, pair by pair.
    pairs: Vec<(Work, Work)>,
    seen: Seen,
    /// Why it cannot be had here.
    absent: Option<String>,
}

impl Run {
    fn new(watcher: Watcher) -> Run {
        Run {
            watcher,
            pairs: Vec::new(),
            seen: Seen::default(),
            absent: None,
        }
    }

    /// Measures a pair, in this order or the other.
    fn pair(
        &mut self,
        programs: &Programs,
        service: &Service,
        alone_first: bool,
    ) -> Result<(), Box<dyn Error>> {
        if self.absent.is_some() {
            return Ok(());
        }
        let alone = |load: &Path| service.work(load, SECONDS);
        let before = match alone_first {
            true => Some(alone(&programs.load)?),
            false => None,
        };
        let watched = self.watched(programs, service);
        let watched = match watched? {
            Ok(work) => work,
            // What worked must go on working, and where it is required must work.
            Err(reason) if is_ours(self.watcher) && (!self.pairs.is_empty() || is_required()) => {
                return Err(reason.into());
            }
            // Another tool may fail at times on a machine that is busy: that pair is none.
            Err(reason) => {
                self.absent = self.pairs.is_empty().then_some(reason);
                return Ok(());
            }
        };
        let alone = match before {
            Some(work) => work,
            None => alone(&programs.load)?,
        };
        self.pairs.push((alone, watched));
        Ok(())
    }

    /// What it does while it is watched. The inner error is why it cannot be.
    fn watched(
        &mut self,
        programs: &Programs,
        service: &Service,
    ) -> Result<Result<Work, String>, Box<dyn Error>> {
        let started = self
            .watcher
            .start(&programs.bridge, &programs.service, service.pid());
        let watching = match started {
            Ok(watching) => watching,
            Err(reason) => return Ok(Err(reason)),
        };
        let work = service.work(&programs.load, SECONDS)?;
        Ok(watching.end().map(|seen| {
            let seen = seen.unwrap_or_default();
            self.seen.events += seen.events;
            self.seen.lost += seen.lost;
            self.seen.cpu += seen.cpu;
            work
        }))
    }
}

fn is_ours(watcher: Watcher) -> bool {
    matches!(watcher, Watcher::Bridge(_))
}

fn is_required() -> bool {
    let required = std::env::var("TRACEBRAID_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word == "bpf")
}

fn report(mode: &str, runs: &[Run], thoroughness: Thoroughness, part: &mut Part) {
    let alone: Vec<Work> = runs
        .iter()
        .flat_map(|run| &run.pairs)
        .map(|pair| pair.0)
        .collect();
    rows(&format!("orders/{mode}/detached"), &alone, part);
    for run in runs {
        let name = format!("orders/{mode}/{}", run.watcher.name());
        if let Some(reason) = &run.absent {
            part.skip(&name, reason);
            continue;
        }
        let watched: Vec<Work> = run.pairs.iter().map(|pair| pair.1).collect();
        let ratios = run
            .pairs
            .iter()
            .map(|(alone, watched)| watched.rate / alone.rate);
        let Some(ratio) = Median::of(ratios.collect()) else {
            continue;
        };
        rows(&name, &watched, part);
        part.ratio(name.clone(), ratio, "detached");
        if is_ours(run.watcher) {
            part.number(name.clone(), "events", run.seen.events as f64);
            part.number(name.clone(), "lost", run.seen.lost as f64);
            let cpu = run.seen.cpu * 1e9 / run.seen.events.max(1) as f64;
            part.number(name.clone(), "bridge_ns_an_event", cpu);
        }
        if run.watcher == Watcher::Bridge(Asked::All) && thoroughness == Thoroughness::Full {
            part.bar(&name, ratio, Bar::AtLeast(0.95));
        }
    }
}

/// The medians of what the service did.
fn rows(name: &str, work: &[Work], part: &mut Part) {
    if let Some(rate) = Median::of(work.iter().map(|work| work.rate).collect()) {
        part.rate(name.to_owned(), rate);
    }
    if let Some(cpu) = Median::of(work.iter().map(|work| work.cpu_us).collect()) {
        part.number(name.to_owned(), "service_cpu_us", cpu.value);
    }
}
