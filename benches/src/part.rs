//! A bench program's results: printed, and dropped as one file for `target/bench/summary.json`.
//!
//! An entry has a name (`off/x16/tracebraid`) and numbers. A bar is an entry named `bar/…` whose
//! `value` is held against `at_most` or `at_least`; `met` says how that went. The program goes on and
//! ends well all the same: `cargo xtask bench` fails when a bar of the summary is not met, after all
//! was measured. What this machine cannot measure is an entry with `skipped`, the reason.

use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::statistics::Median;

/// The directory for parts; where it is unset nothing is written.
const DIRECTORY: &str = "TRACEBRAID_BENCH_PARTS";
/// Set where all is to be over within three minutes.
const QUICK: &str = "TRACEBRAID_BENCH_QUICK";

/// How thoroughly a bench program measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// For figures to publish.
    Full,
    /// For a run that is over within three minutes.
    Quick,
    /// Each measurement once: `cargo test` runs benches to see that they work.
    Smoke,
}

impl Thoroughness {
    /// What the caller wants: cargo passes `--bench` when it runs benches to measure.
    #[must_use]
    pub fn wanted() -> Thoroughness {
        if !std::env::args().any(|argument| argument == "--bench") {
            Thoroughness::Smoke
        } else if std::env::var_os(QUICK).is_some() {
            Thoroughness::Quick
        } else {
            Thoroughness::Full
        }
    }

    /// One of three, by thoroughness.
    #[must_use]
    pub fn pick<T>(self, full: T, quick: T, smoke: T) -> T {
        match self {
            Thoroughness::Full => full,
            Thoroughness::Quick => quick,
            Thoroughness::Smoke => smoke,
        }
    }
}

/// What a value is held against.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Bar {
    fn is_met(self, value: f64) -> bool {
        match self {
            Bar::AtMost(limit) => value <= limit,
            Bar::AtLeast(limit) => value >= limit,
        }
    }
}

/// The entries of one bench program.
#[derive(Debug, Default)]
pub struct Part {
    entries: Map<String, Value>,
}

impl Part {
    /// A time in nanoseconds.
    pub fn time(&mut self, name: String, time: Median) {
        println!(
            "{name:<44} {:>12.4} ns  [{:.4} … {:.4}]",
            time.value, time.low, time.high
        );
        self.entries.insert(
            name,
            json!({"ns": time.value, "low": time.low, "high": time.high}),
        );
    }

    /// A number of requests a second.
    pub fn rate(&mut self, name: String, rate: Median) {
        println!(
            "{name:<44} {:>12.1} requests/s  [{:.1} … {:.1}]",
            rate.value, rate.low, rate.high
        );
        self.entries.insert(
            name,
            json!({"requests_per_s": rate.value, "low": rate.low, "high": rate.high}),
        );
    }

    /// How many times that of another the value of this name is, taken pair by pair.
    pub fn ratio(&mut self, name: String, ratio: Median, to: &str) {
        println!(
            "{:<44} {:>12.4} × {to}  [{:.4} … {:.4}]",
            "", ratio.value, ratio.low, ratio.high
        );
        let entry = self.entries.entry(name).or_insert_with(|| json!({}));
        for (end, value) in [
            ("", ratio.value),
            ("_low", ratio.low),
            ("_high", ratio.high),
        ] {
            entry[format!("times_{to}{end}")] = json!(value);
        }
    }

    /// One number that is no time; `unit` is the key it is found under.
    pub fn number(&mut self, name: String, unit: &str, number: f64) {
        println!("{name:<44} {number:>12.4} {unit}");
        let entry = self.entries.entry(name).or_insert_with(|| json!({}));
        entry[unit] = json!(number);
    }

    /// A value held against a bar; the entry is named `bar/` and then `name`.
    pub fn bar(&mut self, name: &str, value: Median, bar: Bar) {
        let met = bar.is_met(value.value);
        let (word, limit) = match bar {
            Bar::AtMost(limit) => ("at most", limit),
            Bar::AtLeast(limit) => ("at least", limit),
        };
        println!(
            "{:<44} {:>12.4}     [{:.4} … {:.4}]  {word} {limit}: {}",
            format!("bar/{name}"),
            value.value,
            value.low,
            value.high,
            if met { "pass" } else { "FAIL" }
        );
        let mut entry =
            json!({"value": value.value, "low": value.low, "high": value.high, "met": met});
        entry[word.replace(' ', "_")] = json!(limit);
        self.entries.insert(format!("bar/{name}"), entry);
    }

    /// A number held against a bar.
    pub fn exact_bar(&mut self, name: &str, value: f64, bar: Bar) {
        self.bar(
            name,
            Median {
                value,
                low: value,
                high: value,
            },
            bar,
        );
    }

    /// What cannot be measured here, and why.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("{name:<44} skipped: {reason}");
        self.entries
            .insert(name.to_owned(), json!({"skipped": reason}));
    }

    /// Writes the entries as the part called `name`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, name: &str) -> io::Result<()> {
        let Some(directory) = std::env::var_os(DIRECTORY) else {
            return Ok(());
        };
        let file = PathBuf::from(directory).join(format!("{name}.json"));
        std::fs::write(file, format!("{:#}\n", Value::Object(self.entries)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: f64) -> Median {
        Median {
            value,
            low: value,
            high: value,
        }
    }

    #[test]
    fn a_bar_that_is_not_met_says_so_in_the_summary() {
        let mut part = Part::default();
        part.bar("off/x16/static-keys", known(1.2), Bar::AtMost(1.1));
        part.bar("off/x16/usdt", known(5.9), Bar::AtLeast(2.5));
        assert_eq!(part.entries["bar/off/x16/static-keys"]["met"], json!(false));
        assert_eq!(
            part.entries["bar/off/x16/static-keys"]["at_most"],
            json!(1.1)
        );
        assert_eq!(part.entries["bar/off/x16/usdt"]["met"], json!(true));
    }

    #[test]
    fn numbers_of_one_name_share_an_entry() {
        let mut part = Part::default();
        part.number("size/tracebraid".to_owned(), "hot", 8.0);
        part.number("size/tracebraid".to_owned(), "cold", 60.0);
        assert_eq!(
            part.entries["size/tracebraid"],
            json!({"hot": 8.0, "cold": 60.0})
        );
    }
}
