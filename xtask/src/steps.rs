//! A run's steps: a header with the elapsed time before each, and all their outcomes at the end.

use std::time::{Duration, Instant};

use crate::error::Error;

/// How a step ended.
pub(crate) enum Outcome {
    /// As it should; with something worth saying, or an empty text.
    Passed(String),
    /// It was not done, for this reason. Never counted as passed.
    Ignored(String),
}

/// The steps of a run.
pub(crate) struct Steps {
    name: &'static str,
    start: Instant,
    done: Vec<(&'static str, Duration, Result<Outcome, Error>)>,
}

impl Steps {
    /// A run called `name`, beginning now.
    pub(crate) fn new(name: &'static str) -> Steps {
        Steps {
            name,
            start: Instant::now(),
            done: Vec::new(),
        }
    }

    /// Does a step. A failure is kept for the end: what comes after may have more to say.
    pub(crate) fn step(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<Outcome, Error>,
    ) {
        println!(
            "\n━━ {} {name} ━━ at {}",
            self.name,
            clock(self.start.elapsed())
        );
        let begin = Instant::now();
        let outcome = work();
        match &outcome {
            Ok(Outcome::Passed(_)) => {}
            Ok(Outcome::Ignored(reason)) => println!("ignored: {reason}"),
            Err(error) => println!("FAILED: {error}"),
        }
        self.done.push((name, begin.elapsed(), outcome));
    }

    /// Whether no step has failed so far.
    pub(crate) fn all_well(&self) -> bool {
        self.done.iter().all(|(_, _, outcome)| outcome.is_ok())
    }

    /// Prints what became of each step, and one closing line.
    ///
    /// # Errors
    /// A step failed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        println!("\n━━ {} in summary ━━", self.name);
        let (mut failed, mut ignored) = (0, 0);
        for (name, time, outcome) in &self.done {
            let (word, remark) = match outcome {
                Ok(Outcome::Passed(remark)) => ("ok", remark.clone()),
                Ok(Outcome::Ignored(reason)) => {
                    ignored += 1;
                    ("ignored", reason.clone())
                }
                Err(error) => {
                    failed += 1;
                    ("FAILED", error.to_string())
                }
            };
            println!("{:>8}  {word:<8} {name:<16} {remark}", clock(*time));
        }
        let passed = self.done.len() - failed - ignored;
        println!(
            "{}: {}: {passed} steps passed, {failed} failed, {ignored} ignored, in {}",
            self.name,
            if failed == 0 { "ok" } else { "FAILED" },
            clock(self.start.elapsed())
        );
        if failed == 0 {
            return Ok(());
        }
        Err(Error::failed(format!(
            "{failed} of {} steps failed",
            self.done.len()
        )))
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
