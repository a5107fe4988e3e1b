//! Cargo, as the one that called us, and what it says about the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::Error;
use crate::process;

/// A cargo command; this process is in the workspace's directory.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// The workspace's directory.
pub(crate) fn root() -> &'static Path {
    // xtask/ is one below it.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// Where cargo builds: CARGO_TARGET_DIR, a configuration file's, or target/; short, where it is within
/// the workspace.
///
/// # Errors
/// Cargo cannot tell.
pub(crate) fn target_directory() -> Result<PathBuf, Error> {
    let text = process::read(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ]))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(Error::doing("the output of cargo metadata"))?;
    match metadata["target_directory"].as_str() {
        Some(path) => {
            let path = Path::new(path);
            Ok(path.strip_prefix(root()).unwrap_or(path).to_owned())
        }
        None => Err(Error::failed("cargo metadata names no target directory")),
    }
}
