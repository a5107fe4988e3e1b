//! `cargo xtask vm`: the tests that face the kernel, on other kernels than this machine's.
//!
//! ```text
//! kernels    fetched from Debian once, kept
//! suite      which test executables, which kernels: a row each
//! image      the executables with all that they need, as an initial RAM disk
//! guest      one kernel under emulation; what its tests say, counted as any other harness's
//! ```
//! Emulation needs no rights and no virtualisation; it is slow, so that guests run beside one another, as
//! many as there are CPUs.

mod compiler;
mod executables;
mod guest;
mod image;
mod kernels;
mod suite;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value, json};

use crate::cargo;
use crate::error::Error;
use crate::setup;
use crate::steps::{Outcome, Steps};
use crate::tally::Tally;
use executables::Executables;
use guest::Seen;
use kernels::Kernels;
use suite::{MACHINES, Machine, Row, SUITE};

/// What is to run where.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only on these machines; on all, if there are none.
    machines: Vec<String>,
    /// Only test executables whose names hold one of these; all, if there are none.
    only: Vec<String>,
    /// Guests that still run then are ended.
    within: Option<Duration>,
    /// Of what programs print only what failed is shown.
    quiet: bool,
    /// Tests that count do so at full length.
    soak: bool,
    /// Of each machine only the rows that `cargo xtask test` runs there.
    brief: bool,
    /// Where a part for the summary of `cargo xtask bench` is written.
    parts: Option<PathBuf>,
}

impl Options {
    /// From the command line: `[--on MACHINE]… [--brief] [--within MINUTES] [--quiet] [NAME]…`.
    ///
    /// # Errors
    /// It makes no sense.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut words = arguments.iter();
        while let Some(&word) = words.next() {
            match word {
                "--on" => {
                    let known: Vec<&str> = MACHINES.iter().map(|machine| machine.name).collect();
                    match words.next() {
                        Some(name) if known.contains(name) => {
                            options.machines.push((*name).to_owned());
                        }
                        _ => {
                            let known = known.join(", ");
                            return Err(Error::usage(format!("--on takes one of {known}")));
                        }
                    }
                }
                "--within" => match words.next().and_then(|minutes| minutes.parse::<u32>().ok()) {
                    Some(minutes) => {
                        options.within = Some(Duration::from_secs(60 * u64::from(minutes)))
                    }
                    None => return Err(Error::usage("--within takes a number of minutes")),
                },
                "--quiet" => options.quiet = true,
                "--brief" => options.brief = true,
                name if !name.starts_with('-') => options.only.push(name.to_owned()),
                _ => return Err(Error::usage(format!("vm does not take {word:?}"))),
            }
        }
        Ok(options)
    }

    fn machines(&self) -> Vec<&'static Machine> {
        let is_wanted = |machine: &&Machine| {
            self.machines.is_empty() || self.machines.iter().any(|name| name == machine.name)
        };
        MACHINES.iter().filter(is_wanted).collect()
    }

    fn rows(&self) -> Result<Vec<&'static Row>, Error> {
        let machines = self.machines();
        let is_wanted = |row: &&Row| {
            let name = row.name();
            let is_meant = match self.only.is_empty() {
                true => !row.measures,
                false => self.only.iter().any(|only| name.contains(only)),
            };
            is_meant && machines.iter().any(|machine| machine.has(row, self.brief))
        };
        let rows: Vec<&Row> = SUITE.iter().filter(is_wanted).collect();
        if rows.is_empty() {
            let names: Vec<String> = SUITE.iter().map(Row::name).collect();
            return Err(Error::usage(format!(
                "these are there: {}",
                names.join(" ")
            )));
        }
        Ok(rows)
    }
}

/// The command.
///
/// # Errors
/// A test failed, or they cannot be run.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let mut steps = Steps::new("vm");
    options.rows()?;
    steps.step("setup", || {
        setup::build().map(|()| Outcome::Passed(String::new()))
    });
    if steps.all_well() {
        steps.step("other kernels", || tests(options));
    }
    steps.finish()
}

/// The generated definitions, many of them, as a step of `cargo xtask soak`.
///
/// # Errors
/// As those of [`run`].
pub(crate) fn soak() -> Result<Outcome, Error> {
    let machines = ["6.1", "6.12", "newest"].map(str::to_owned);
    tests(&Options {
        machines: machines.to_vec(),
        only: vec![GENERATED.to_owned()],
        soak: true,
        ..Options::default()
    })
}

/// What hits in functions of the kernel cost on the kernels that have such probes, as a part of `cargo xtask
/// bench`'s summary in this directory.
///
/// # Errors
/// As those of [`run`].
pub(crate) fn bench(parts: &Path) -> Result<Outcome, Error> {
    // Those that have each way to probe a function.
    let machines = ["6.12", "newest"].map(str::to_owned);
    tests(&Options {
        machines: machines.to_vec(),
        only: vec![COSTS.to_owned()],
        quiet: true,
        parts: Some(parts.to_owned()),
        ..Options::default()
    })
}

/// The step of `cargo xtask test`: of each machine the rows that stand for it, where `TRACEBRAID_REQUIRE` names
/// `vm`.
///
/// # Errors
/// As [`tests`].
pub(crate) fn check() -> Result<Outcome, Error> {
    if !crate::test::is_required("vm") {
        let reason = "TRACEBRAID_REQUIRE does not name vm; `cargo xtask vm` runs them";
        return Ok(Outcome::Ignored(reason.to_owned()));
    }
    tests(&Options {
        brief: true,
        quiet: true,
        within: Some(WITHIN),
        ..Options::default()
    })
}

/// The row that counts more in a long run.
pub(crate) const GENERATED: &str = "bridge-cli:definition_judge";

/// The row that measures.
const COSTS: &str = "bridge-cli:function_costs";

/// The longest that the step of `cargo xtask test` may take: about twice as long as it should.
const WITHIN: Duration = Duration::from_secs(25 * 60);

/// The tests on other kernels, as a step. Where they cannot be run they are ignored with the reason, and
/// have failed where `TRACEBRAID_REQUIRE` names `vm`.
///
/// # Errors
/// A test failed, or they cannot be run though they must be.
fn tests(options: &Options) -> Result<Outcome, Error> {
    let rows = options.rows()?;
    let mut machines = options.machines();
    machines.retain(|machine| rows.iter().any(|row| machine.has(row, options.brief)));
    let target = absolute(&cargo::target_directory()?)?;
    let run = guest::Run {
        end: options.within.map(|within| Instant::now() + within),
        quiet: options.quiet,
    };
    let fetched = setup::emulation().and_then(|()| Kernels::fetch(&machines, &target, run.end));
    let kernels = match fetched {
        Ok(kernels) => kernels,
        Err(error) if crate::test::is_required("vm") => return Err(error),
        Err(error) => return Ok(Outcome::Ignored(error.to_string())),
    };
    let directory = target.join("vm");
    std::fs::create_dir_all(&directory).map_err(Error::doing(directory.display().to_string()))?;

    let _alone = alone_in(&directory)?;
    let executables = Executables::build(&rows, options.only.is_empty())?;
    executables.run_builders()?;
    let archive = directory.join("initrd");
    let environment = environment(options.soak);
    executables.pack(&target, &directory.join("stage"), &archive, &environment)?;

    let prepared = Prepared {
        executables,
        kernels,
        archive,
        directory,
        run,
    };
    let waiting = Mutex::new(machines.iter());
    let seen = Mutex::new(Vec::new());
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..lanes.min(machines.len()) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
                    let Some(&machine) = next else { break };
                    let came = prepared.run(machine, &machine.rows(&rows, options.brief));
                    if let Ok(mut seen) = seen.lock() {
                        seen.push((machine, came));
                    }
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap_or_default();
    if let Some(directory) = &options.parts {
        write_measured(directory, &seen)?;
    }
    let done = report(seen);
    if run.is_over() {
        return out_of_time(done, options.within.unwrap_or_default());
    }
    done
}

/// Archives and consoles have their names for themselves as long as this is open: others wait.
fn alone_in(directory: &Path) -> Result<File, Error> {
    let path = directory.join("lock");
    let lock = File::create(&path).map_err(Error::doing(path.display().to_string()))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        println!("another `cargo xtask vm` runs in this target directory: waiting for its end");
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(std::io::Error::from)
            .map_err(Error::doing(path.display().to_string()))?;
    }
    Ok(lock)
}

/// All that guests need.
struct Prepared<'a> {
    executables: Executables<'a>,
    kernels: Kernels,
    /// What is the same for all of them.
    archive: PathBuf,
    directory: PathBuf,
    run: guest::Run,
}

impl Prepared<'_> {
    /// Runs these rows on a machine.
    fn run(&self, machine: &Machine, rows: &[&Row]) -> Result<Seen, Error> {
        let module = self.kernels.module(machine);
        let module = std::fs::read(&module).map_err(Error::doing(module.display().to_string()))?;
        let suite = self.executables.suite(rows).into_bytes();
        let files = [("/vm/suite", suite), ("/vm/dummy.ko", module)];
        let stage = self.directory.join(format!("{}.stage", machine.name));
        let own = self.directory.join(format!("{}.initrd", machine.name));
        image::with_files(&self.archive, &files, stage, &own)?;
        let kernel = self.kernels.image(machine);
        let once = || guest::run(machine, &kernel, &own, rows, &self.directory, self.run);
        let mut seen = once();
        // Where no program of ours has begun, that is the emulator's doing, or this machine's.
        if seen.as_ref().is_ok_and(|seen| !seen.is_up) && !self.run.is_over() {
            println!("{} did not come up: once more", machine.name);
            seen = once();
        }
        // It can be made again, and is large.
        let _ = std::fs::remove_file(&own);
        seen
    }
}

/// What has failed has failed; but that there was no time for all is a failure only where it must be run.
fn out_of_time(done: Result<Outcome, Error>, within: Duration) -> Result<Outcome, Error> {
    let told = match &done {
        Ok(Outcome::Passed(summary)) => summary.clone(),
        Ok(Outcome::Ignored(reason)) => reason.clone(),
        Err(_) => return done,
    };
    let reason = format!(
        "not all of it within {} minutes; {told}",
        within.as_secs() / 60
    );
    match crate::test::is_required("vm") {
        true => Err(Error::failed(reason)),
        false => Ok(Outcome::Ignored(reason)),
    }
}

/// Writes what guests have measured as a part of the benches' summary.
fn write_measured(directory: &Path, seen: &[(&Machine, Result<Seen, Error>)]) -> Result<(), Error> {
    let mut entries = Map::new();
    for (machine, came) in seen {
        for (name, time) in came.iter().flat_map(|came| &came.measured) {
            let entry = json!({"ns": time, "emulated": true});
            entries.insert(format!("functions/{}/{name}", machine.name), entry);
        }
    }
    let file = directory.join("functions.json");
    let text = format!("{:#}\n", Value::Object(entries));
    std::fs::write(&file, text).map_err(Error::doing(file.display().to_string()))
}

/// What came of all guests.
fn report(seen: Vec<(&Machine, Result<Seen, Error>)>) -> Result<Outcome, Error> {
    let mut total = Tally::default();
    let (mut trouble, mut unfinished) = (Vec::new(), Vec::new());
    println!();
    for (machine, came) in seen {
        let name = machine.name;
        let came = match came {
            Ok(came) => came,
            Err(error) => {
                trouble.push(format!("{name}: {error}"));
                continue;
            }
        };
        let time: Duration = came.times.iter().map(|took| took.time).sum();
        let cpu: Duration = came.times.iter().map(|took| took.cpu).sum();
        println!(
            "{name}: {} in {time:.0?}, {cpu:.0?} of CPU",
            came.tally.summary()
        );
        for took in came.times.iter().filter(|took| took.time.as_secs() >= 10) {
            println!("  {:>5.0?} {:>5.0?} {}", took.time, took.cpu, took.program);
        }
        trouble.extend(came.trouble.iter().map(|what| format!("{name}: {what}")));
        unfinished.extend(came.unfinished.iter().map(|what| format!("{name}: {what}")));
        total.add_all(&came.tally, name);
    }
    total.print_names();
    if !trouble.is_empty() {
        println!("\ntrouble:\n  {}", trouble.join("\n  "));
    }
    if !unfinished.is_empty() {
        println!("\nnot in time:\n  {}", unfinished.join("\n  "));
    }
    if total.failed > 0 || !trouble.is_empty() {
        return Err(Error::failed(total.summary()));
    }
    if total.passed == 0 && unfinished.is_empty() {
        return Err(Error::failed("no test ran"));
    }
    Ok(Outcome::Passed(total.summary()))
}

/// What tests are told in a guest: its kernels are known to do BPF, its CPUs are slow, and what cargo builds
/// was built before, for these targets.
fn environment(soak: bool) -> String {
    let targets: Vec<&str> = TARGETS
        .into_iter()
        .filter(|target| crate::setup::has_target(target))
        .collect();
    let built = targets.join(",");
    let mut environment = format!(
        "export TRACEBRAID_REQUIRE=bpf TRACEBRAID_SHORT=1 TRACEBRAID_BUILT={built} TRACEBRAID_MODULE=/vm/dummy.ko\n"
    );
    if soak || std::env::var_os("TRACEBRAID_SOAK").is_some() {
        environment.push_str("export TRACEBRAID_SOAK=1\n");
    }
    let seed = std::env::var("TRACEBRAID_SEED").ok();
    if let Some(seed) = seed.and_then(|seed| seed.parse::<u64>().ok()) {
        environment.push_str(&format!("export TRACEBRAID_SEED={seed}\n"));
    }
    environment
}

/// Targets that tests build programs for, and the guests can run.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"];

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::doing(path.display().to_string()))
}
