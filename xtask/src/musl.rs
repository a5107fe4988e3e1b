//! The rings' tests with another C library, which registers no rseq area and counts CPUs in its own way.

use crate::cargo::cargo;
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::Outcome;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// Runs the tests of appends in `sdk/ring` for musl. `soak` runs them optimised and at full length.
///
/// # Errors
/// They do not build, or one failed.
pub(crate) fn check(soak: bool) -> Result<Outcome, Error> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Outcome::Ignored(format!("{TARGET} does not run here")));
    }
    if let Err(error) = setup::target(TARGET) {
        return Ok(Outcome::Ignored(format!("no std for {TARGET}: {error}")));
    }
    let mut command = cargo(&[
        "test",
        "--package",
        "tracebraid-ring",
        "--test",
        "append",
        "--test",
        "storms",
    ]);
    command.args(["--target", TARGET]);
    if soak {
        command.arg("--release").env("TRACEBRAID_SOAK", "1");
    }
    process::run(&mut command)?;
    Ok(Outcome::Passed(String::new()))
}
