//! `cargo xtask test`: everything that must hold before a change is good, from a cold start.
//!
//! A test that needs rights or a kernel that this machine lacks says that it is ignored and why.
//! With `CI=true` those that need BPF fail instead: where the machine is known to have it, a test
//! that quietly does not run is a hole. `TRACEBRAID_REQUIRE` set by the caller wins.

use crate::cargo::cargo;
use crate::error::Error;
use crate::process;
use crate::setup;
use crate::steps::{Outcome, Steps};
use crate::tracefs::Tracefs;

/// Runs all steps.
///
/// # Errors
/// The machine cannot be set up, or a step failed.
pub(crate) fn run() -> Result<(), Error> {
    let mut steps = Steps::new("test");
    steps.step("setup", || {
        setup::build()?;
        setup::linters()?;
        Ok(Outcome::Passed(String::new()))
    });
    if !steps.all_well() {
        return steps.finish();
    }
    steps.step("format", || plain(&["fmt", "--all", "--check"]));
    steps.step("lints", || {
        plain(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    });
    steps.step("build", || {
        plain(&["build", "--workspace", "--all-targets"])
    });
    steps.step("tests", tests);
    steps.step("interleavings", || crate::interleavings::check(false));
    steps.step("foreign target", crate::foreign::check);
    steps.finish()
}

fn plain(arguments: &[&str]) -> Result<Outcome, Error> {
    process::run(&mut cargo(arguments))?;
    Ok(Outcome::Passed(String::new()))
}

/// The workspace's tests and doc tests, counted.
fn tests() -> Result<Outcome, Error> {
    let tracefs = Tracefs::mount();
    if let Tracefs::Absent(reason) = &tracefs {
        println!("without tracefs: {reason}");
    }
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    if is_ci && std::env::var_os("TRACEBRAID_REQUIRE").is_none() {
        println!("CI=true: tests that need BPF may not be ignored (TRACEBRAID_REQUIRE=bpf)");
        command.env("TRACEBRAID_REQUIRE", "bpf");
    }
    let mut tally = Tally::default();
    let status = process::run_lines(&mut command, |line| {
        println!("{line}");
        tally.read(line);
    })?;
    drop(tracefs);

    for (title, tests) in [
        ("ignored:", &tally.ignored_tests),
        ("failed:", &tally.failed_tests),
    ] {
        if !tests.is_empty() {
            println!("\n{title}\n  {}", tests.join("\n  "));
        }
    }
    if !status.success() {
        return Err(Error::failed(format!("{} ({status})", tally.summary())));
    }
    if tally.passed == 0 {
        return Err(Error::failed("no test ran"));
    }
    Ok(Outcome::Passed(tally.summary()))
}

/// What the test harnesses said.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    ignored_tests: Vec<String>,
    failed_tests: Vec<String>,
}

impl Tally {
    /// Reads a line of a harness's output: `test NAME ... OUTCOME` or `test result: …`.
    fn read(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test ") else {
            return;
        };
        if let Some(counts) = rest.strip_prefix("result: ") {
            self.add(counts);
        } else if let Some((name, outcome)) = rest.rsplit_once(" ... ") {
            if outcome.starts_with("ignored") {
                self.ignored_tests.push(format!("{name}: {outcome}"));
            } else if outcome.starts_with("FAILED") {
                self.failed_tests.push(name.to_owned());
            }
        }
    }

    /// Adds `ok. 12 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, counts: &str) {
        let words: Vec<&str> = counts
            .split([' ', ';'])
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else {
                continue;
            };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }

    fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} ignored",
            self.passed, self.failed, self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn a_harness_is_counted_by_its_result_line_and_named_by_its_test_lines() {
        let mut tally = Tally::default();
        for line in [
            "running 4 tests",
            "test a::works ... ok",
            "test b::needs_a_kernel ... ignored, no kprobes in this kernel",
            "test c::breaks ... FAILED",
            "test src/lib.rs - Thing (line 3) ... ok",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out",
        ] {
            tally.read(line);
        }
        assert_eq!(tally.summary(), "7 passed, 1 failed, 1 ignored");
        assert_eq!(
            tally.ignored_tests,
            ["b::needs_a_kernel: ignored, no kprobes in this kernel"]
        );
        assert_eq!(tally.failed_tests, ["c::breaks"]);
    }
}
