//! The C programs under `tests/cases`, built by the system's compiler.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of this test's own.
pub(crate) fn scratch(purpose: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{purpose}-{}-{number}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Builds a program from files under `tests/cases`.
pub(crate) fn build(sources: &[&str], flags: &[&str]) -> PathBuf {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases");
    let stem = Path::new(sources[0]).file_stem().unwrap().to_str().unwrap();
    let program = scratch(stem).join(stem);
    run(Command::new("cc")
        .arg("-O2")
        .args(sources.iter().map(|source| cases.join(source)))
        .arg("-o")
        .arg(&program)
        .args(flags));
    program
}

/// The flags that make the compiler link with the lld that comes with rustc, which puts code at
/// addresses that differ from its file offsets.
pub(crate) fn lld_flags() -> Vec<String> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let sysroot = String::from_utf8(output.stdout).unwrap();
    let linkers = "lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld";
    vec![
        "-fuse-ld=lld".to_owned(),
        format!("-B{}/{linkers}", sysroot.trim()),
    ]
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
