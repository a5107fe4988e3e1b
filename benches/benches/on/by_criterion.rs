//! The same series as criterion measures them, each by itself: it keeps a history on one's own machine.
//!
//! Entries are called `criterion/on/…`. A process that measures so is given its configuration in the
//! environment, since criterion reads the command line.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::Criterion;
use tracebraid_benches::paired::Series;

use crate::configuration::{Configuration, Prepared};

/// The configuration and the directory of LTTng's libraries.
const CONFIGURATION: &str = "TRACEBRAID_ON_CONFIGURATION";
const LTTNG: &str = "TRACEBRAID_ON_LTTNG";
/// Events between two preparations; what they write fits into a ring.
const CHUNK: u64 = 2000;

/// Starts a process for the configuration, which takes this one's arguments.
pub(crate) fn run(
    configuration: Configuration,
    lttng: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(std::env::args_os().skip(1))
        .env(CONFIGURATION, configuration.name());
    if let Some(directory) = lttng {
        command.env(LTTNG, directory);
    }
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("criterion with {configuration:?} failed ({status})").into()),
    }
}

/// In such a process: measures, and says so.
pub(crate) fn is_wanted() -> Result<bool, Box<dyn Error>> {
    let Ok(name) = std::env::var(CONFIGURATION) else {
        return Ok(false);
    };
    let configuration = Configuration::named(&name).ok_or("no such configuration")?;
    let lttng = std::env::var_os(LTTNG);
    let prepared = Prepared::new(configuration, lttng.as_deref().map(Path::new))?;
    let mut criterion = settings(configuration).configure_from_args();
    for series in prepared.series() {
        // What is in every process for the sake of pairs is measured in one of them.
        let is_shared = series.name.starts_with("floor/") || series.name.ends_with("/tracebraid");
        if is_shared && configuration != Configuration::Noop {
            continue;
        }
        criterion.bench_function(&format!("criterion/{}", series.name), |bencher| {
            bencher.iter_custom(|events| time(&series, events));
        });
    }
    criterion.final_summary();
    Ok(true)
}

/// Time of so many events on a machine where others run too: each chunk is run three times and the best
/// counts, since whoever interrupts only adds.
fn time(series: &Series, events: u64) -> Duration {
    let items = black_box([1, 2, 3, 4]);
    let mut sum = Duration::ZERO;
    for first in (0..events).step_by(CHUNK as usize) {
        let count = CHUNK.min(events - first);
        let best = (0..3).map(|_| {
            (series.prepare)();
            let start = Instant::now();
            (series.run)(black_box(count), &items, -7);
            start.elapsed()
        });
        sum += best.min().unwrap_or_default();
    }
    sum
}

fn settings(configuration: Configuration) -> Criterion {
    let milliseconds = Duration::from_millis;
    match configuration {
        // All that Tracy records is kept in memory.
        Configuration::Tracy => Criterion::default()
            .sample_size(10)
            .warm_up_time(milliseconds(2))
            .measurement_time(milliseconds(10)),
        _ => Criterion::default()
            .sample_size(50)
            .warm_up_time(milliseconds(200))
            .measurement_time(milliseconds(600)),
    }
}
