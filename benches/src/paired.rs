//! Rounds in which every function runs once, so that what a round measured belongs together.
//!
//! ```text
//! process 1   round 1: A B C D   round 2: B C D A   round 3: C D A B   …
//! process 2   round 1: …
//! ```
//! A sample is the best of a few short runs: an interrupt hits one of them, seldom all. The order
//! rotates, so that nobody is always the one after a slow neighbour.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::statistics::Median;

/// A measured function: runs its loop `rounds` times, with what its sites capture.
pub type Run = fn(rounds: u64, items: &[u64], code: i32);

/// How long one run takes at least.
const RUN: Duration = Duration::from_micros(60);
/// Runs of which the best is the sample.
const RUNS: usize = 3;

/// A function to measure.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is called in results.
    pub name: String,
    /// What runs.
    pub run: Run,
    /// How much one of its rounds does: times are given for one of so many.
    pub elements: u64,
    /// What is done before each run, outside of the time.
    pub prepare: fn(),
}

impl Series {
    /// One element a round, and nothing to prepare.
    #[must_use]
    pub fn new(name: String, run: Run) -> Series {
        Series {
            name,
            run,
            elements: 1,
            prepare: || (),
        }
    }
}

/// Nanoseconds an element, of one series in one round of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The series' name.
    pub name: String,
    /// Which round.
    pub round: usize,
    /// Nanoseconds an element.
    pub ns: f64,
}

/// Runs all series in turn, `rounds` times, and hands on each sample.
pub fn measure(series: &[Series], rounds: usize, mut sample: impl FnMut(Sample)) {
    let items = black_box([1, 2, 3, 4]);
    let code = black_box(-7);
    let time = |series: &Series, count: u64| {
        (series.prepare)();
        let start = Instant::now();
        (series.run)(black_box(count), &items, code);
        start.elapsed()
    };
    let counts: Vec<u64> = series
        .iter()
        .map(|series| calibrate(|count| time(series, count)))
        .collect();
    for round in 0..rounds {
        for place in 0..series.len() {
            let at = (place + round) % series.len();
            let (series, count) = (&series[at], counts[at]);
            let best = (0..RUNS)
                .map(|_| time(series, count))
                .min()
                .unwrap_or_default();
            let ns = best.as_nanos() as f64 / (count * series.elements) as f64;
            sample(Sample {
                name: series.name.clone(),
                round,
                ns,
            });
        }
    }
}

/// How many rounds of a function take as long as a run should.
fn calibrate(time: impl Fn(u64) -> Duration) -> u64 {
    let mut count = 64;
    while time(count) < RUN {
        count *= 2;
    }
    count
}

/// Samples of several processes, kept so that those of one round can be found.
#[derive(Debug, Default)]
pub struct Samples {
    by_name: BTreeMap<String, BTreeMap<(usize, usize), f64>>,
}

impl Samples {
    /// Adds a sample of the process numbered so.
    pub fn add(&mut self, process: usize, sample: Sample) {
        let rounds = self.by_name.entry(sample.name).or_default();
        rounds.insert((process, sample.round), sample.ns);
    }

    /// The series there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The median time of a series.
    #[must_use]
    pub fn time(&self, name: &str) -> Option<Median> {
        Median::of(self.by_name.get(name)?.values().copied().collect())
    }

    /// The median of the difference of two series, taken round by round.
    #[must_use]
    pub fn difference(&self, of: &str, minus: &str) -> Option<Median> {
        let minus = self.by_name.get(minus)?;
        let pair = |(round, ns): (_, &f64)| Some(ns - minus.get(round)?);
        Median::of(self.by_name.get(of)?.iter().filter_map(pair).collect())
    }

    /// The median of the ratio of two series, taken round by round.
    #[must_use]
    pub fn ratio(&self, of: &str, to: &str) -> Option<Median> {
        let to = self.by_name.get(to)?;
        let pair = |(round, ns): (_, &f64)| Some(ns / to.get(round)?);
        Median::of(self.by_name.get(of)?.iter().filter_map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_round_by_round_and_process_by_process() {
        let mut samples = Samples::default();
        // The machine is ten times slower in every other round; the ratio is 2 throughout.
        for round in 0..20 {
            let speed = if round % 2 == 0 { 1.0 } else { 10.0 };
            for (name, ns) in [("ours", 1.0), ("theirs", 2.0)] {
                samples.add(
                    round % 3,
                    Sample {
                        name: name.to_owned(),
                        round,
                        ns: ns * speed,
                    },
                );
            }
        }
        let ratio = samples.ratio("theirs", "ours").unwrap();
        assert_eq!(
            ratio,
            Median {
                value: 2.0,
                low: 2.0,
                high: 2.0
            }
        );
        assert_eq!(samples.ratio("theirs", "nobody"), None);
    }

    #[test]
    fn every_series_has_a_sample_in_every_round() {
        fn spin(rounds: u64, items: &[u64], _: i32) {
            for round in 0..rounds {
                black_box(round + items[0]);
            }
        }
        let series: Vec<Series> = ["a", "b", "c"]
            .map(|name| Series::new(name.to_owned(), spin))
            .into();
        let mut seen = Vec::new();
        measure(&series, 2, |sample| {
            assert!(sample.ns > 0.0);
            seen.push((sample.name, sample.round));
        });
        seen.sort();
        let all = ["a", "b", "c"]
            .iter()
            .flat_map(|name| [0, 1].map(|round| ((*name).to_owned(), round)));
        assert_eq!(seen, all.collect::<Vec<_>>());
    }
}
