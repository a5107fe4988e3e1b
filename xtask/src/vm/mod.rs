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
mod guest;
mod image;
mod kernels;
mod suite;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo::{self, cargo};
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::{Outcome, Steps};
use crate::tally::Tally;
use guest::Seen;
use image::Image;
use kernels::Kernels;
use suite::{DATA, MACHINES, Machine, Row, SUITE, TOOLS, Target};

/// What is to run where.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only on these machines; on all, if there are none.
    machines: Vec<String>,
    /// Only test executables whose names hold this.
    only: Option<String>,
    /// Guests that still run then are ended.
    within: Option<Duration>,
    /// Of what programs print only what failed is shown.
    quiet: bool,
    /// Tests that count do so at full length.
    soak: bool,
    /// Of each machine only the rows that `cargo xtask test` runs there.
    brief: bool,
}

impl Options {
    /// From the command line: `[--on MACHINE]… [--brief] [--within MINUTES] [--quiet] [NAME]`.
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
                name if !name.starts_with('-') && options.only.is_none() => {
                    options.only = Some(name.to_owned());
                }
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
            self.only
                .as_ref()
                .is_none_or(|only| name.contains(only.as_str()))
                && machines.iter().any(|machine| machine.has(row, self.brief))
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
        only: Some(GENERATED.to_owned()),
        soak: true,
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

    let executables = Executables::build(&rows, options.only.is_none())?;
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
    let done = report(seen);
    if run.is_over() {
        return out_of_time(done, options.within.unwrap_or_default());
    }
    done
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

/// The suite's executables, built.
struct Executables<'a> {
    rows: Vec<(&'a Row, PathBuf)>,
    /// Optimised: an emulated CPU takes seconds else for what takes none here.
    bridge: PathBuf,
}

impl<'a> Executables<'a> {
    /// Builds them with all that `cargo xtask test` builds, or, for some of them, no more than is needed.
    fn build(rows: &[&'a Row], with_all: bool) -> Result<Executables<'a>, Error> {
        let mut command = cargo(&["test", "--bins", "--no-run"]);
        if with_all {
            command.args(["--workspace", "--tests"]);
        } else {
            for directory in rows.iter().map(|row| row.directory).chain(["bridge-cli"]) {
                let manifest = format!("{directory}/Cargo.toml");
                let id = process::read(&mut cargo(&["pkgid", "--manifest-path", &manifest]))?;
                command.args(["--package", id.trim()]);
            }
            if rows.iter().any(|row| row.target == Target::Library) {
                command.arg("--lib");
            }
            for row in rows {
                if let Target::Test(name) = row.target {
                    command.args(["--test", name]);
                }
            }
        }
        let mut bridges = cargo(&["build", "--package", "bridge-cli", "--bins"]);
        bridges.args(["--profile", "guest"]);
        let mut text = String::new();
        for command in [&mut command, &mut bridges] {
            command.args(["--quiet", "--message-format=json-render-diagnostics"]);
            text += &process::read(command)?;
        }
        let mut paths = HashMap::new();
        let mut bridge = None;
        for line in text.lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let Some(path) = message["executable"].as_str() else {
                continue;
            };
            let target = &message["target"];
            let manifest = message["manifest_path"].as_str().unwrap_or_default();
            let directory = Path::new(manifest).parent().unwrap_or(Path::new(""));
            let directory = directory.strip_prefix(cargo::root()).unwrap_or(directory);
            let words = (
                directory.to_string_lossy().into_owned(),
                target["kind"][0].as_str().unwrap_or_default().to_owned(),
                target["name"].as_str().unwrap_or_default().to_owned(),
            );
            if message["profile"]["test"].as_bool() == Some(true) {
                paths.insert(words, PathBuf::from(path));
            } else if words.1 == "bin" && words.2 == "bridge-cli" {
                // The last one is that of the build for guests.
                bridge = Some(path.into());
            }
        }
        let find = |row: &&'a Row| {
            let found = paths.iter().find(|((directory, kind, name), _)| {
                directory == row.directory
                    && match row.target {
                        Target::Library => kind == "lib" || kind == "rlib",
                        Target::Test(wanted) => kind == "test" && name == wanted,
                    }
            });
            let path = found.map(|(_, path)| (*row, path.clone()));
            path.ok_or_else(|| Error::failed(format!("cargo has built no {}", row.name())))
        };
        Ok(Executables {
            rows: rows.iter().map(find).collect::<Result<_, _>>()?,
            bridge: bridge.ok_or_else(|| Error::failed("cargo has built no bridge-cli"))?,
        })
    }

    /// Runs those tests that build programs, here.
    fn run_builders(&self) -> Result<(), Error> {
        for (row, path) in &self.rows {
            if let Some(test) = row.built_by {
                // Cargo runs tests in their package's directory.
                process::run(
                    Command::new(path)
                        .arg(test)
                        .args(row.arguments)
                        .current_dir(row.directory),
                )?;
            }
        }
        Ok(())
    }

    /// These rows, as `tests/vm/init` reads them.
    fn suite(&self, rows: &[&Row]) -> String {
        let is_wanted = |row: &Row| rows.iter().any(|wanted| wanted.name() == row.name());
        let mut suite = String::new();
        for (row, path) in self.rows.iter().filter(|(row, _)| is_wanted(row)) {
            // The guest's serial line is a terminal.
            let arguments = [&["--color=never"], row.arguments].concat().join(" ");
            let (name, limit) = (row.name(), row.limit);
            // Cargo runs tests in their package's directory.
            let directory = cargo::root().join(row.directory);
            let place = format!("{}\t{}", directory.display(), path.display());
            suite.push_str(&format!("{name}\t{limit}\t{place}\t{arguments}\n"));
        }
        suite
    }

    /// Packs them with all that they need.
    fn pack(
        &self,
        target: &Path,
        stage: &Path,
        archive: &Path,
        environment: &str,
    ) -> Result<(), Error> {
        let mut image = Image::new(stage.to_owned())?;
        let root = cargo::root();
        for name in TOOLS {
            if let Some(path) = process::find_program(name) {
                image.add_program(&path);
            }
        }
        for directory in DATA {
            image.add_tree(&root.join(directory));
        }
        compiler::add(&mut image, &c_sources(root));
        for file in ["/etc/passwd", "/etc/group", "/etc/ld.so.cache"] {
            image.add(Path::new(file));
        }
        // Where tests look for it.
        image.add_stripped(&self.bridge, &target.join("debug/bridge-cli"))?;
        for (row, path) in &self.rows {
            image.add_stripped(path, path)?;
            image.add(&root.join(row.directory));
            for built in row.built {
                let built = target.join("tmp").join(built);
                match built.is_dir() {
                    true => image.add_tree(&built),
                    false => image.add_program(&built),
                }
            }
        }
        image.add(&target.join("tmp"));
        let init = std::fs::read("tests/vm/init").map_err(Error::doing("tests/vm/init"))?;
        image.write(Path::new("/init"), &init, 0o755)?;
        image.write(Path::new("/vm/environment"), environment.as_bytes(), 0o644)?;
        let busybox = process::find_program("busybox")
            .ok_or_else(|| Error::failed("busybox is not installed"))?;
        let busybox = std::fs::read(&busybox).map_err(Error::doing("busybox"))?;
        image.write(Path::new("/vm/busybox"), &busybox, 0o755)?;
        image.pack(archive)?;
        let size = std::fs::metadata(archive).map_or(0, |meta| meta.len() >> 20);
        println!("{}: {size} MiB", archive.display());
        Ok(())
    }
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
    if soak {
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

fn c_sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = DATA.iter().map(|data| root.join(data)).collect();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "c") {
                found.push(path);
            }
        }
    }
    found
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::doing(path.display().to_string()))
}
