//! What test harnesses say, counted: the lines of libtest's format.

/// What the test harnesses said.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    pub(crate) ignored_tests: Vec<String>,
    pub(crate) failed_tests: Vec<String>,
    /// What failed tests said, each below its name.
    messages: Vec<String>,
    /// Whether the last of the messages goes on.
    in_message: bool,
}

/// The most lines of a failed test's output that are said again at the end.
const MESSAGE_LINES: usize = 40;

impl Tally {
    /// Reads a line of a harness's output: `test NAME ... OUTCOME` or `test result: …`.
    pub(crate) fn read(&mut self, line: &str) {
        self.read_message(line);
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

    /// Behind its tests a harness prints what the failed ones said: `---- NAME stdout ----`, the output, and
    /// behind the last `failures:`.
    fn read_message(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.messages.push(line.to_owned());
            self.in_message = true;
        } else if line == "failures:" {
            self.in_message = false;
        } else if self.in_message
            && let Some(message) = self.messages.last_mut()
            && message.lines().count() < MESSAGE_LINES
        {
            message.push('\n');
            message.push_str(line);
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
        self.messages.extend(names(&other.messages));
    }

    /// Prints the tests that did not pass, and again what the failed ones said: the end of a long output is
    /// what is read first, or all that is kept.
    pub(crate) fn print_names(&self) {
        for message in &self.messages {
            println!("\n{}", message.trim_end());
        }
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

    #[test]
    fn what_a_failed_test_said_is_kept_without_what_follows() {
        let mut tally = Tally::default();
        for line in [
            "test a ... FAILED",
            "",
            "failures:",
            "",
            "---- a stdout ----",
            "one",
            "two",
            "---- b ----",
            "three",
            "",
            "failures:",
            "    a",
            "test result: FAILED. 0 passed; 2 failed; 0 ignored",
            "running 1 test",
        ] {
            tally.read(line);
        }
        assert_eq!(tally.messages.len(), 2);
        assert_eq!(tally.messages[0], "---- a stdout ----\none\ntwo");
        assert_eq!(tally.messages[1], "---- b ----\nthree\n");
    }
}
