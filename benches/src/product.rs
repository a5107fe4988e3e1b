//! The workspace's own programs, built as users build them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generated;

/// Builds a program of a package, optimised, and tells where it is.
///
/// # Errors
/// It cannot be built, or the target directory cannot be told.
pub fn build(package: &str, program: &str) -> io::Result<PathBuf> {
    let mut command = Command::new(generated::cargo());
    command
        .args(["build", "--release", "--quiet", "--package", package])
        .args(["--bin", program])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    match command.status()? {
        status if status.success() => {
            Ok(generated::target_directory()?.join("release").join(program))
        }
        status => Err(io::Error::other(format!(
            "building {program} failed ({status})"
        ))),
    }
}
