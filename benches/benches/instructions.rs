//! Instructions a switched-off site adds to a function, counted by callgrind.
//!
//! The functions are built at opt-level 3 and at `s`, in profiles that exist on the command line
//! only. What a function executed by itself, divided by how often it was called, is exact.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use tracebraid_benches::part::{Bar, Part};
use tracebraid_benches::{callgrind, generated};

/// How often each function is called.
const CALLS: u64 = 100;
/// The functions, and how many instructions a site may add at opt-level 3: the NOP; in each of four
/// iterations the NOP and what keeping three values costs; the NOP and one more. There is no bar for
/// `indexing`: where a function needs a frame in some cold place only, the compiler sets it up there,
/// but not in a function with an asm branch, whatever that branch does (LLVM's shrink wrapping).
const FUNCTIONS: [(&str, Option<f64>); 4] = [
    ("leaf", Some(1.0)),
    ("indexing", None),
    ("looping", Some(16.0)),
    ("tail", Some(2.0)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut part = Part::default();
    if !callgrind::is_here() {
        part.skip("off/instructions", "valgrind is not installed");
        part.write("instructions")?;
        return Ok(());
    }
    for (name, level) in [("o3", "3"), ("s", "\"s\"")] {
        let counts = callgrind::run(&build(name, level)?, &[&CALLS.to_string()])?;
        let of = |function: &str| {
            let path = format!("tracebraid_benches::functions::{function}");
            counts
                .by_function
                .get(&path)
                .map(|count| *count as f64 / CALLS as f64)
                .ok_or(path)
        };
        for (function, limit) in FUNCTIONS {
            let (site, plain) = (of(function)?, of(&format!("{function}_plain"))?);
            let entry = format!("off/instructions/{function}-{name}");
            part.number(entry.clone(), "instructions", site);
            part.number(entry.clone(), "without_site", plain);
            if name == "o3"
                && let Some(limit) = limit
            {
                part.exact_bar(&entry, site - plain, Bar::AtMost(limit));
            }
        }
    }
    part.write("instructions")?;
    Ok(())
}

/// Builds the functions at an opt-level; gives the program.
fn build(name: &str, level: &str) -> Result<PathBuf, Box<dyn Error>> {
    let profile = format!("functions-{name}");
    let setting = |key: &str, value: &str| format!("profile.{profile}.{key}={value}");
    let status = Command::new(generated::cargo())
        .args([
            "build",
            "--quiet",
            "--package",
            "tracebraid-benches",
            "--bin",
            "functions",
        ])
        .args(["--profile", &profile])
        .args(["--config", &setting("inherits", "\"release\"")])
        .args(["--config", &setting("opt-level", level)])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    if !status.success() {
        return Err(format!("building the functions at opt-level {level} failed").into());
    }
    Ok(generated::target_directory()?
        .join(profile)
        .join("functions"))
}
