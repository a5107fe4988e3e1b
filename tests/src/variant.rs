//! The programs of `tests/programs`, built in one of many ways.
//!
//! All variants share a target directory and two profiles; what differs is passed on the command
//! line, so that cargo builds the proc macros once and keeps the variants' crates beside one another.
//! A target is always named, since `RUSTFLAGS` then concern the programs and not the proc macros.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::programs;

/// The usual target.
pub const GNU: &str = "x86_64-unknown-linux-gnu";

/// A way to build the programs.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What it is called.
    pub name: &'static str,
    /// `dev` or `release`.
    pub profile: &'static str,
    /// Settings of the profile, such as `lto="fat"`.
    pub settings: &'static [&'static str],
    /// Flags of the compiler.
    pub flags: &'static [&'static str],
    /// The target.
    pub target: &'static str,
    /// Whether there is a loader, and so a cdylib to load.
    pub is_dynamic: bool,
}

impl Variant {
    /// A dynamic program of the release profile.
    #[must_use]
    pub const fn release(name: &'static str) -> Variant {
        Variant {
            name,
            profile: "release",
            settings: &[],
            flags: &[],
            target: GNU,
            is_dynamic: true,
        }
    }
}

/// All crates at once, at the highest level.
pub const FAT_LTO: Variant = Variant {
    settings: &["lto=\"fat\"", "codegen-units=1", "opt-level=3"],
    ..Variant::release("fat-lto")
};

/// The programs of one variant.
#[derive(Clone, Debug)]
pub struct Built {
    /// The program with tracepoints of every shape.
    pub gate: PathBuf,
    /// The program without tracepoints.
    pub none: PathBuf,
    /// The library, where programs can load one.
    pub plugin: Option<PathBuf>,
}

/// Builds the programs; `directory` is kept from run to run (`CARGO_TARGET_TMPDIR`).
///
/// # Panics
/// They do not build; the compiler's words are in the text.
#[must_use]
pub fn build(variant: &Variant, directory: &Path) -> Built {
    let mut packages = vec!["gate", "none"];
    let mut files = packages.clone();
    if variant.is_dynamic {
        packages.push("plugin");
        files.push("libplugin.so");
    }
    let kept = build_files(variant, directory, &packages, &files);
    Built {
        gate: kept.join("gate"),
        none: kept.join("none"),
        plugin: variant.is_dynamic.then(|| kept.join("libplugin.so")),
    }
}

/// Builds some packages, and keeps files of theirs in the directory that is returned.
///
/// # Panics
/// As [`build`].
#[must_use]
pub fn build_files(
    variant: &Variant,
    directory: &Path,
    packages: &[&str],
    files: &[&str],
) -> PathBuf {
    // What cargo leaves under a fixed name must be copied before the next variant's build.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);

    let to = directory.join("variants").join(variant.name);
    if programs::built_for().is_some() {
        return to;
    }
    let target_directory = directory.join("programs");
    let mut cargo = cargo(variant, &target_directory);
    for package in packages {
        cargo.args(["--package", package]);
    }
    let output = cargo.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "{variant:?} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let profile_directory = match variant.profile {
        "dev" => "debug",
        other => other,
    };
    let from = target_directory
        .join(variant.target)
        .join(profile_directory);
    std::fs::create_dir_all(&to).expect("a directory for the variant");
    for file in files {
        // Replaced, not overwritten: a program of an earlier run may still be in use.
        let fresh = to.join(format!("{file}.new"));
        std::fs::copy(from.join(file), &fresh).expect("the built file is there");
        std::fs::rename(&fresh, to.join(file)).expect("the built file moves");
    }
    to
}

fn cargo(variant: &Variant, target_directory: &Path) -> Command {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        // Settings of the build that runs us.
        if name.starts_with("CARGO_PROFILE") || name.starts_with("CARGO_BUILD") {
            cargo.env_remove(name.as_ref());
        }
    }
    cargo
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", variant.flags.join(" "))
        .args(["build", "--quiet", "--profile", variant.profile])
        .args(["--target", variant.target, "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target_directory);
    for setting in variant.settings {
        cargo.arg("--config");
        cargo.arg(format!("profile.{}.{setting}", variant.profile));
    }
    cargo
}
