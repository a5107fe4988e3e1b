//! `cargo xtask test`: everything that must hold before a change is good, from a cold start.
//!
//! A test that needs rights or a kernel that this machine lacks says that it is ignored and why.
//! With `CI=true` those that need BPF fail instead: where the machine is known to have it, a test
//! that quietly does not run is a hole. `TRACEBRAID_REQUIRE` set by the caller wins.

use crate::cargo::cargo;
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::{Outcome, Steps};
use crate::tally::Tally;
use crate::tracefs::Tracefs;

/// Runs all steps.
///
/// # Errors
/// The machine cannot be set up, or a step failed.
pub(crate) fn run() -> Result<(), Error> {
    let mut steps = Steps::new("test");
    steps.step("setup", || {
        setup::build()?;
        setup::cpp()?;
        setup::linters()?;
        Ok(Outcome::Passed(String::new()))
    });
    if !steps.all_well() {
        return steps.finish();
    }
    steps.step("format", || plain(&["fmt", "--all", "--check"]));
    steps.step("lints", || {
        plain(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    });
    steps.step("build", || {
        plain(&["build", "--workspace", "--all-targets"])
    });
    steps.step("tests", tests);
    steps.step("interleavings", || crate::interleavings::check(false));
    steps.step("musl", || crate::musl::check(false));
    steps.step("fuzzing", crate::fuzz::check);
    steps.step("foreign target", crate::foreign::check);
    steps.step("other kernels", crate::vm::check);
    steps.finish()
}

/// What tests must be able to use here, as `TRACEBRAID_REQUIRE` names it.
fn required() -> Option<String> {
    let given = std::env::var("TRACEBRAID_REQUIRE").ok();
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    given.or_else(|| is_ci.then(|| "bpf".to_owned()))
}

/// Whether it is a failure if `what` cannot be used here.
pub(crate) fn is_required(what: &str) -> bool {
    required().is_some_and(|list| list.split(',').any(|word| word.trim() == what))
}

fn plain(arguments: &[&str]) -> Result<Outcome, Error> {
    process::run(&mut cargo(arguments))?;
    Ok(Outcome::Passed(String::new()))
}

/// The workspace's tests and doc tests, counted.
fn tests() -> Result<Outcome, Error> {
    let tracefs = Tracefs::mount();
    if let Tracefs::Absent(reason) = &tracefs {
        println!("without tracefs: {reason}");
    }
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if let Some(required) = required() {
        println!("may not be ignored: tests that need one of these: {required}");
        command.env("TRACEBRAID_REQUIRE", required);
    }
    let mut tally = Tally::default();
    let status = process::run_lines(&mut command, |line| {
        println!("{line}");
        tally.read(line);
    })?;
    drop(tracefs);

    tally.print_names();
    if !status.success() {
        return Err(Error::failed(format!("{} ({status})", tally.summary())));
    }
    if tally.passed == 0 {
        return Err(Error::failed("no test ran"));
    }
    Ok(Outcome::Passed(tally.summary()))
}
