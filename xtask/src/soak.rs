//! `cargo xtask soak`: the tests that count for long, at full length.
//!
//! The same tests run in `cargo xtask test`, with fewer rounds. They read `TRACEBRAID_SOAK`. What needs
//! other kernels runs on them, as in `cargo xtask vm`.

use crate::cargo::cargo;
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::{Outcome, Steps};
use crate::tracefs::Tracefs;

/// Runs the tests with `TRACEBRAID_SOAK=1`, optimised; only those with `name` in theirs, if given.
///
/// # Errors
/// The machine cannot be set up, or a test failed.
pub(crate) fn run(name: Option<&str>) -> Result<(), Error> {
    let mut steps = Steps::new("soak");
    steps.step("setup", || {
        setup::build().map(|()| Outcome::Passed(String::new()))
    });
    if !steps.all_well() {
        return steps.finish();
    }
    // The executable of that name is one for other kernels, and none of its tests is called so.
    let is_for_guests = name.is_some() && crate::vm::GENERATED.split(':').next_back() == name;
    if !is_for_guests {
        steps.step("tests", || {
            let tracefs = Tracefs::mount();
            if let Tracefs::Absent(reason) = &tracefs {
                println!("without tracefs: {reason}");
            }
            let mut command = cargo(&[
                "test",
                "--release",
                "--workspace",
                "--tests",
                "--no-fail-fast",
            ]);
            command.env("TRACEBRAID_SOAK", "1").arg("--").args(name);
            process::run(&mut command)?;
            Ok(Outcome::Passed(String::new()))
        });
    }
    if name.is_none_or(|name| crate::vm::GENERATED.contains(name)) {
        steps.step("generated definitions", crate::vm::soak);
    }
    if name.is_none() {
        steps.step("interleavings", || crate::interleavings::check(true));
        steps.step("musl", || crate::musl::check(true));
    }
    steps.finish()
}
