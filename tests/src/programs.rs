//! Building the programs of `tests/programs` as their user would, without the settings of the build that
//! runs the tests (`variant` builds some of them in many ways); and the bridge, with these settings.

use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo COMMAND` in the workspace of the programs, for one target; `directory` is kept from run to run
/// (`CARGO_TARGET_TMPDIR`), and what is built is in `programs/TARGET/release` there.
#[must_use]
pub fn cargo(command: &str, target: &str, directory: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PROFILE") || name.starts_with("CARGO_BUILD") {
            cargo.env_remove(name.as_ref());
        }
    }
    cargo
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "")
        .args([command, "--quiet", "--release", "--target", target])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/Cargo.toml"))
        .arg("--target-dir")
        .arg(directory.join("programs"));
    cargo
}

/// The targets, separated by commas, for which everything was built before, where nothing could be built
/// now: in the guests of `cargo xtask vm`.
pub(crate) fn built_for() -> Option<String> {
    std::env::var("TRACEBRAID_BUILT").ok()
}

/// Runs it.
///
/// # Panics
/// It fails; the compiler's words are in the text.
pub fn build(cargo: &mut Command) {
    if built_for().is_some() {
        return;
    }
    let output = cargo.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "{cargo:?}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Builds the bridge as the tests are built, beside them; its path.
///
/// # Panics
/// It does not build.
#[must_use]
pub fn bridge(directory: &Path) -> PathBuf {
    let target = directory.parent().expect("the build's directory");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--quiet",
            "--package",
            "bridge-cli",
            "--bin",
            "bridge-cli",
        ])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    let profile = match cfg!(debug_assertions) {
        true => "debug",
        false => {
            cargo.arg("--release");
            "release"
        }
    };
    build(&mut cargo);
    target.join(profile).join("bridge-cli")
}
