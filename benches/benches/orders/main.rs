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

use crate::service::Service;
use crate::watcher::{Programs, Seen, Watcher};

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
            _ => &[Watcher::Ring],
        };
        let mut runs: Vec<Run> = watchers.iter().map(|&watcher| Run::new(watcher)).collect();
        // A database that is new grows faster than one that is in use.
        service.rate(&programs.load, 2 * SECONDS)?;
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
    /// Requests a second alone and watched, pair by pair.
    pairs: Vec<(f64, f64)>,
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
        let alone = |load: &Path| service.rate(load, SECONDS);
        let before = match alone_first {
            true => Some(alone(&programs.load)?),
            false => None,
        };
        let watched = self.watched(programs, service);
        let watched = match watched? {
            Ok(rate) => rate,
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
            Some(rate) => rate,
            None => alone(&programs.load)?,
        };
        self.pairs.push((alone, watched));
        Ok(())
    }

    /// Requests a second while it is watched. The inner error is why it cannot be.
    fn watched(
        &mut self,
        programs: &Programs,
        service: &Service,
    ) -> Result<Result<f64, String>, Box<dyn Error>> {
        let started = self
            .watcher
            .start(&programs.bridge, &programs.service, service.pid());
        let watching = match started {
            Ok(watching) => watching,
            Err(reason) => return Ok(Err(reason)),
        };
        let rate = service.rate(&programs.load, SECONDS)?;
        Ok(watching.end().map(|seen| {
            let seen = seen.unwrap_or_default();
            self.seen.events += seen.events;
            self.seen.lost += seen.lost;
            self.seen.cpu += seen.cpu;
            rate
        }))
    }
}

fn is_ours(watcher: Watcher) -> bool {
    matches!(watcher, Watcher::Ring | Watcher::Usdt)
}

fn is_required() -> bool {
    let required = std::env::var("TRACEBRAID_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word == "bpf")
}

fn report(mode: &str, runs: &[Run], thoroughness: Thoroughness, part: &mut Part) {
    let all_alone = runs.iter().flat_map(|run| &run.pairs).map(|pair| pair.0);
    if let Some(rate) = Median::of(all_alone.collect()) {
        part.rate(format!("orders/{mode}/detached"), rate);
    }
    for run in runs {
        let name = format!("orders/{mode}/{}", run.watcher.name());
        if let Some(reason) = &run.absent {
            part.skip(&name, reason);
            continue;
        }
        let watched = Median::of(run.pairs.iter().map(|pair| pair.1).collect());
        let ratio = Median::of(run.pairs.iter().map(|pair| pair.1 / pair.0).collect());
        let (Some(watched), Some(ratio)) = (watched, ratio) else {
            continue;
        };
        part.rate(name.clone(), watched);
        part.ratio(name.clone(), ratio, "detached");
        if is_ours(run.watcher) {
            part.number(name.clone(), "events", run.seen.events as f64);
            part.number(name.clone(), "lost", run.seen.lost as f64);
            part.number(name.clone(), "cpu_seconds", run.seen.cpu);
        }
        if run.watcher == Watcher::Ring && thoroughness == Thoroughness::Full {
            part.bar(&name, ratio, Bar::AtLeast(0.95));
        }
    }
}
