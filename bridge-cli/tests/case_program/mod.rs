//! The C programs under `tests/cases`, built by the system's compiler.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of this test's own. Those of runs that have ended are removed first.
pub(crate) fn scratch(purpose: &str) -> PathBuf {
    static SWEEP: Once = Once::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    SWEEP.call_once(|| {
        for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let run = name
                .to_str()
                .and_then(|name| name.rsplit('-').nth(1)?.parse::<u32>().ok());
            if run.is_some_and(|run| !Path::new(&format!("/proc/{run}")).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = root.join(format!("{purpose}-{}-{number}", std::process::id()));
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

/// Copies a program that is to be started. Another process does, since a child that a test beside starts would
/// hold the file open for writing where this one wrote it, and what is open for writing cannot be started.
pub(crate) fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("--").args([from, to]));
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
