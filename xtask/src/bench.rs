//! `cargo xtask bench`: runs the benches and merges what they found into one summary.
//!
//! ```text
//! <target>/criterion/…/new/{benchmark,estimates}.json   what criterion measured in this run
//! <target>/bench/parts/*.json                           what other bench programs dropped
//!        └─▶ <target>/bench/summary.json                one object: "off/x16/tracebraid": {"ns": 0.05, …}
//! ```
//! `ns` is the median time of one element where a bench declares how many it does (16 sites in a
//! loop), of one iteration otherwise; `low` and `high` bound its 95 % confidence interval. A part is
//! an object of the same form with whatever numbers its program measured. An entry with `met` is a bar:
//! where it says false, the command fails once all is measured. Bench programs read
//! `TRACEBRAID_BENCH_PARTS`, the directory for parts, and `TRACEBRAID_BENCH_QUICK`, which asks for
//! a run that is over within three minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::cargo::{cargo, target_directory};
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::Outcome;
use crate::summary;

/// How long a run may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// As long as the benches want.
    Full,
    /// Three minutes.
    Quick,
}

/// Runs the benches, prints a table and writes the summary.
///
/// # Errors
/// A bench failed, its results cannot be read, or a bar is not met.
pub(crate) fn run(length: Length) -> Result<(), Error> {
    setup::build()?;
    setup::counting();
    setup::peers();
    let target = target_directory()?;
    let directory = target.join("bench");
    let parts = directory.join("parts");
    clear(&parts)?;

    // Built before the clock: only what is measured from here on belongs to this run.
    let mut benches = vec![
        "bench",
        "--package",
        "tracebraid-benches",
        "--benches",
        "--no-fail-fast",
    ];
    if setup::has_cpp() {
        benches.extend(["--features", "tracy"]);
    }
    process::run(as_released(&benches).arg("--no-run"))?;
    let programs = ["--package", "bridge-cli", "--package", "examples", "--bins"];
    process::run(as_released(&["build", "--release"]).args(programs))?;
    let start = SystemTime::now();
    let mut command = as_released(&benches);
    command.env("TRACEBRAID_BENCH_PARTS", &parts);
    if length == Length::Quick {
        command.env("TRACEBRAID_BENCH_QUICK", "1");
    }
    let ran = process::run(&mut command);
    // Emulated machines take minutes.
    let emulated = match length {
        Length::Full => crate::vm::bench(&parts),
        Length::Quick => Ok(Outcome::Ignored("it takes minutes".to_owned())),
    };

    let took = start.elapsed().unwrap_or_default();

    let mut entries = Map::new();
    measured(&target.join("criterion"), start, &mut entries)?;
    dropped(&parts, &mut entries)?;
    print!("\n{}", summary::table(&entries));
    let missed = summary::missed_bars(&entries).join(", ");
    let file = directory.join("summary.json");
    let text = format!("{:#}\n", Value::Object(entries));
    fs::write(&file, text).map_err(Error::doing(file.display().to_string()))?;
    println!(
        "written: {}, measured in {:.0} s",
        file.display(),
        took.as_secs_f64()
    );
    ran?;
    if let Outcome::Ignored(reason) = emulated? {
        println!("functions of other kernels were not measured: {reason}");
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(Error::failed(format!("bars that are not met: {missed}")))
}

/// A cargo command that builds what users get: a compiler that works incrementally, as the environment may
/// ask, cuts crates into so many pieces that an event takes a fifth longer.
fn as_released(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.env("CARGO_INCREMENTAL", "0");
    command
}

/// An empty directory: parts of an earlier run are not of this one.
fn clear(directory: &Path) -> Result<(), Error> {
    let name = directory.display().to_string();
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::doing(name)(error));
        }
        _ => {}
    }
    fs::create_dir_all(directory).map_err(Error::doing(name))
}

/// Adds what criterion measured since `start`.
fn measured(
    directory: &Path,
    start: SystemTime,
    summary: &mut Map<String, Value>,
) -> Result<(), Error> {
    for entry in entries(directory)? {
        if !entry.is_dir() {
            continue;
        }
        if !entry.ends_with("new") {
            measured(&entry, start, summary)?;
            continue;
        }
        let estimates = entry.join("estimates.json");
        let is_new = estimates
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|written| written >= start);
        if is_new {
            let benchmark = read_json(&entry.join("benchmark.json"))?;
            let (name, entry) = entry_of(&benchmark, &read_json(&estimates)?)
                .ok_or_else(|| Error::failed(format!("{} is damaged", estimates.display())))?;
            insert(summary, name, entry)?;
        }
    }
    Ok(())
}

/// Criterion's two files of a benchmark as an entry of the summary.
fn entry_of(benchmark: &Value, estimates: &Value) -> Option<(String, Value)> {
    let name = benchmark["full_id"].as_str()?.to_owned();
    let elements = benchmark["throughput"]["Elements"].as_f64().unwrap_or(1.0);
    let median = &estimates["median"];
    let of_one = |value: &Value| value.as_f64().map(|ns| ns / elements);
    let interval = &median["confidence_interval"];
    let entry = json!({
        "ns": of_one(&median["point_estimate"])?,
        "low": of_one(&interval["lower_bound"])?,
        "high": of_one(&interval["upper_bound"])?,
    });
    Some((name, entry))
}

/// Adds the entries of each file in `directory`.
fn dropped(directory: &Path, summary: &mut Map<String, Value>) -> Result<(), Error> {
    for file in entries(directory)? {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Value::Object(part) = read_json(&file)? else {
            return Err(Error::failed(format!("{} is no object", file.display())));
        };
        for (name, entry) in part {
            insert(summary, name, entry)?;
        }
    }
    Ok(())
}

/// One name is one measurement.
fn insert(summary: &mut Map<String, Value>, name: String, entry: Value) -> Result<(), Error> {
    if summary.contains_key(&name) {
        return Err(Error::failed(format!("two benches are called {name:?}")));
    }
    summary.insert(name, entry);
    Ok(())
}

/// What is in a directory, in order; nothing, if there is none.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let name = directory.display().to_string();
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(Error::doing(name.clone()))?,
    };
    let paths = listing.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths
        .collect::<Result<Vec<_>, _>>()
        .map_err(Error::doing(name))?;
    paths.sort();
    Ok(paths)
}

fn read_json(file: &Path) -> Result<Value, Error> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(Error::doing(name.clone()))?;
    serde_json::from_str(&text).map_err(Error::doing(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_of_sixteen_elements_is_reported_per_element() {
        let benchmark = json!({"full_id": "off/x16/tracebraid", "throughput": {"Elements": 16}});
        let estimates = json!({"median": {
            "point_estimate": 0.8,
            "confidence_interval": {"lower_bound": 0.64, "upper_bound": 0.96}
        }});
        let (name, entry) = entry_of(&benchmark, &estimates).expect("complete files");
        assert_eq!(name, "off/x16/tracebraid");
        assert_eq!(entry, json!({"ns": 0.05, "low": 0.04, "high": 0.06}));
    }

    #[test]
    fn a_bench_without_a_median_is_damaged() {
        let benchmark = json!({"full_id": "off/lone/log", "throughput": null});
        assert_eq!(entry_of(&benchmark, &json!({"mean": {}})), None);
    }

    #[test]
    fn two_benches_of_one_name_are_an_error() {
        let mut summary = Map::new();
        assert!(insert(&mut summary, "off/x16/log".to_owned(), json!({"ns": 1.0})).is_ok());
        assert!(insert(&mut summary, "off/x16/log".to_owned(), json!({"ns": 2.0})).is_err());
    }
}
