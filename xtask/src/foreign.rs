//! A check for a target that is not Linux, where tracepoints expand to nothing and their fields
//! are type-checked all the same.

use crate::cargo::cargo;
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::Outcome;

/// Targets that will do, and none needs a linker for a check.
const TARGETS: [&str; 3] = [
    "x86_64-pc-windows-gnu",
    "aarch64-apple-darwin",
    "wasm32-unknown-unknown",
];

/// Checks an example that uses the SDK for the first of the targets that can be had.
///
/// # Errors
/// It does not compile there.
pub(crate) fn check() -> Result<Outcome, Error> {
    let installed = TARGETS.iter().find(|target| setup::has_target(target));
    let target = match installed {
        Some(target) => target,
        None => match setup::target(TARGETS[0]) {
            Ok(()) => &TARGETS[0],
            Err(error) => {
                let targets = TARGETS.join(", ");
                let reason = format!("no std for {targets}, and it cannot be added: {error}");
                return Ok(Outcome::Ignored(reason));
            }
        },
    };
    process::run(&mut cargo(&[
        "check",
        "--package",
        "examples",
        "--bin",
        "quickstart",
        "--target",
        target,
    ]))?;
    Ok(Outcome::Passed((*target).to_owned()))
}
