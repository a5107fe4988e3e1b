//! What test harnesses say, counted: the lines of libtest's format.

/// What the test harnesses said.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    pub(crate) ignored_tests: Vec<String>,
    pub(crate) failed_tests: Vec<String>,
}

impl Tally {
    /// Reads a line of a harness's output: `test NAME ... OUTCOME` or `test result: …`.
    pub(crate) fn read(&mut self, line: &str) {
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

    /// Counts a test that was not run, for a reason that no harness knows.
    pub(crate) fn ignore(&mut self, test: &str, reason: &str) {
        self.ignored += 1;
        self.ignored_tests.push(format!("{test}: {reason}"));
    }

    /// Adds what was said elsewhere; its tests' names are told from others by `place`.
    pub(crate) fn add_all(&mut self, other: &Tally, place: &str) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        let names = |tests: &[String]| -> Vec<String> {
            tests
                .iter()
                .map(|test| format!("{place}: {test}"))
                .collect()
        };
        self.ignored_tests.extend(names(&other.ignored_tests));
        self.failed_tests.extend(names(&other.failed_tests));
    }

    /// Prints the tests that did not pass.
    pub(crate) fn print_names(&self) {
        for (title, tests) in [
            ("ignored:", &self.ignored_tests),
            ("failed:", &self.failed_tests),
        ] {
            if !tests.is_empty() {
                println!("\n{title}\n  {}", tests.join("\n  "));
            }
        }
    }

    /// The counts in a line.
    pub(crate) fn summary(&self) -> String {
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
