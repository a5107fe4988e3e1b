//! What is shared between threads and processes without the compiler's protection, under a model checker:
//! `sdk/ring/tests/interleavings`, built with `--cfg loom` beside the ordinary build.

use crate::cargo::{cargo, target_directory};
use crate::error::Error;
use crate::process;
use crate::steps::Outcome;

/// Runs the models. `soak` tries one preemption more in each.
///
/// # Errors
/// They do not build, or one has found an order in which something goes wrong.
pub(crate) fn check(soak: bool) -> Result<Outcome, Error> {
    let mut command = cargo(&[
        "test",
        "--package",
        "tracebraid-ring",
        "--test",
        "interleavings",
    ]);
    command
        .arg("--target-dir")
        .arg(target_directory()?.join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        // The checker takes most of the time; it is not debugged.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0");
    if soak {
        command.env("TRACEBRAID_SOAK", "1");
    }
    process::run(&mut command)?;
    Ok(Outcome::Passed(String::new()))
}
