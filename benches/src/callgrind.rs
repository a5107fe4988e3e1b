//! Callgrind's counts: which instructions of a program ran, how often, and in which function.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run executed.
#[derive(Debug, Default)]
pub struct Counts {
    /// Instructions each function executed by itself. A jump to another function counts as a call.
    pub by_function: BTreeMap<String, u64>,
    /// Addresses of executed instructions, as in the file.
    pub addresses: BTreeSet<u64>,
}

/// Whether callgrind can be run here.
#[must_use]
pub fn is_here() -> bool {
    let mut command = Command::new("valgrind");
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs the program under callgrind.
///
/// # Errors
/// It cannot be run, ends with an error, or the counts cannot be read.
pub fn run(program: &Path, arguments: &[&str]) -> io::Result<Counts> {
    let file = program.with_extension("callgrind");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--quiet",
            "--dump-instr=yes",
            "--compress-pos=no",
            "--compress-strings=no",
        ])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args(arguments)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!(
            "valgrind ({}): {text}",
            output.status
        )));
    }
    let counts = Counts::parse(&std::fs::read_to_string(&file)?);
    std::fs::remove_file(&file)?;
    Ok(counts)
}

impl Counts {
    /// Reads a profile: `fn=` names the function that the following lines belong to, each an address,
    /// a line number and a count; the line after a `calls=` is the callee's count.
    fn parse(profile: &str) -> Counts {
        let mut counts = Counts::default();
        let mut function = String::new();
        let mut is_callees = false;
        for line in profile.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                without_hash(name).clone_into(&mut function);
            } else if line.starts_with("calls=") {
                is_callees = true;
            } else if let Some(rest) = line.strip_prefix("0x") {
                let mut words = rest.split(' ');
                let address = words
                    .next()
                    .and_then(|word| u64::from_str_radix(word, 16).ok());
                let count = words.nth(1).and_then(|word| word.parse::<u64>().ok());
                if let (Some(address), Some(count)) = (address, count)
                    && !std::mem::take(&mut is_callees)
                {
                    counts.addresses.insert(address);
                    *counts.by_function.entry(function.clone()).or_insert(0) += count;
                }
            }
        }
        counts
    }
}

/// A demangled name without the compiler's hash and callgrind's mark of recursion.
fn without_hash(name: &str) -> &str {
    let name = name.split('\'').next().unwrap_or(name);
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callees_cost_is_not_the_callers() {
        let profile = "events: Ir\nfn=a::leaf::h0123456789abcdef\n0x1000 0 5\n0x1004 0 5\n\
                       fn=main\ncfn=a::leaf::h0123456789abcdef\ncalls=5 0x1000 0\n0x2000 0 10\n0x2005 0 7\n";
        let counts = Counts::parse(profile);
        assert_eq!(counts.by_function["a::leaf"], 10);
        assert_eq!(counts.by_function["main"], 7);
        assert_eq!(counts.addresses, BTreeSet::from([0x1000, 0x1004, 0x2005]));
    }
}
