//! Fuzzing: `tests/fuzz` is a workspace of its own, whose programs search, guided by what parts of the
//! code an input reaches, for one that brings a reader down.
//!
//! libFuzzer and the coverage of LLVM work with the stable compiler; only sanitizers would not, and this
//! is Rust. The programs write their own seeds into the corpus, which is kept in the target directory.

use std::path::Path;

use crate::cargo::{cargo, target_directory};
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::Outcome;

/// The programs of `tests/fuzz`.
const TARGETS: &[&str] = &[
    "region",
    "core_dump",
    "elf",
    "dwarf",
    "schema",
    "filter",
    "definition",
    "format",
];
/// How long `cargo xtask test` fuzzes in all, seconds.
const SHORT: u32 = 60;
/// Where the search of `cargo xtask test` begins: whether a change is good must not be a matter of luck.
const SEED: u32 = 20_261_130;
/// How long `cargo xtask fuzz` fuzzes a target, seconds.
pub(crate) const LONG: u32 = 60;
/// The memory that a program may take, MB. A single allocation may take far less (see `tests/fuzz`).
const MEMORY: u32 = 1024;
/// How long one input may take, seconds, on a machine that does other things as well.
const TIMEOUT: u32 = 20;

/// What makes the compiler note where an input leads.
const COVERAGE: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Where the programs run. Named, so that proc macros and build scripts are built without coverage.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Fuzzes all targets for a minute in all.
///
/// # Errors
/// They do not build, or an input was found.
pub(crate) fn check() -> Result<Outcome, Error> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Outcome::Ignored(format!("only for {HOST}")));
    }
    setup::cpp()?;
    fuzz(TARGETS, SHORT / TARGETS.len() as u32, Some(SEED))?;
    Ok(Outcome::Passed(format!(
        "{} targets, {SHORT} s",
        TARGETS.len()
    )))
}

/// Fuzzes one target, or all, each for so many seconds.
///
/// # Errors
/// There is no such target; they do not build; an input was found.
pub(crate) fn run(target: Option<&str>, seconds: u32) -> Result<(), Error> {
    let targets: Vec<&str> = match target {
        None => TARGETS.to_vec(),
        Some(target) if TARGETS.contains(&target) => vec![target],
        Some(other) => {
            let names = TARGETS.join(", ");
            return Err(Error::usage(format!(
                "there is no target {other:?}; there are {names}"
            )));
        }
    };
    setup::build()?;
    setup::cpp()?;
    fuzz(&targets, seconds, None)
}

/// `seed` is where the search begins; another place each time where there is none.
fn fuzz(targets: &[&str], seconds: u32, seed: Option<u32>) -> Result<(), Error> {
    let directory = target_directory()?.join("fuzz");
    let directory =
        std::path::absolute(&directory).map_err(Error::doing(directory.display().to_string()))?;
    let mut build = cargo(&["build", "--release", "--target", HOST]);
    build
        .args(["--manifest-path", "tests/fuzz/Cargo.toml", "--target-dir"])
        .arg(&directory)
        .env("RUSTFLAGS", COVERAGE)
        .env("CARGO_INCREMENTAL", "0");
    for target in targets {
        build.args(["--bin", target]);
    }
    process::run(&mut build)?;
    let mut failed = Vec::new();
    for target in targets {
        if let Err(error) = search(&directory, target, seconds, seed) {
            println!("{error}");
            failed.push(*target);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "an input was found for {}: it is in {}",
        failed.join(", "),
        directory.join("found").display()
    )))
}

fn search(directory: &Path, target: &str, seconds: u32, seed: Option<u32>) -> Result<(), Error> {
    let corpus = directory.join("corpus").join(target);
    let found = directory.join("found");
    for folder in [&corpus, &found] {
        std::fs::create_dir_all(folder).map_err(Error::doing(folder.display().to_string()))?;
    }
    let mut program = std::process::Command::new(directory.join(HOST).join("release").join(target));
    program
        .env("TRACEBRAID_FUZZ_SEEDS", &corpus)
        .arg(&corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-artifact_prefix={}/{target}-", found.display()))
        .args(["-print_final_stats=1", "-verbosity=0"]);
    if let Some(seed) = seed {
        program.arg(format!("-seed={seed}"));
    }
    process::run(&mut program)
}
