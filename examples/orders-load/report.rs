//! What the driver saw: rate, latencies from the time a request was due, and statuses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::options::Options;

/// What one connection, or all of them, saw.
#[derive(Default)]
pub(crate) struct Report {
    latencies: Vec<Duration>,
    statuses: BTreeMap<u16, u64>,
    failures: Vec<String>,
}

impl Report {
    /// Nothing was seen, since `failure`.
    pub(crate) fn broken(failure: String) -> Report {
        Report {
            failures: vec![failure],
            ..Report::default()
        }
    }

    /// Counts an answer.
    pub(crate) fn add(&mut self, status: u16, latency: Duration) {
        self.latencies.push(latency);
        *self.statuses.entry(status).or_default() += 1;
    }

    /// Notes that no answer came.
    pub(crate) fn fail(&mut self, failure: String) {
        self.failures.push(failure);
    }

    /// One report of several.
    pub(crate) fn merge(reports: Vec<Report>) -> Report {
        let mut merged = Report::default();
        for report in reports {
            merged.latencies.extend(report.latencies);
            merged.failures.extend(report.failures);
            for (status, count) in report.statuses {
                *merged.statuses.entry(status).or_default() += count;
            }
        }
        merged.latencies.sort_unstable();
        merged
    }

    /// Whether every request was answered, and none by an error of the service.
    pub(crate) fn is_good(&self) -> bool {
        self.failures.is_empty()
            && !self.latencies.is_empty()
            && self.statuses.keys().all(|&status| status < 500)
    }

    /// The report as text; merged reports only, which are sorted.
    pub(crate) fn render(&self, options: &Options, elapsed: Duration) -> String {
        let answers = self.latencies.len();
        let rate = answers as f64 / elapsed.as_secs_f64();
        let asked = options
            .rate
            .map_or("max".to_owned(), |rate| rate.to_string());
        let mut text = format!(
            "{answers} answers in {:.1} s: {rate:.1} requests/s (asked for {asked})\n",
            elapsed.as_secs_f64(),
        );
        text.push_str("latency ms:");
        for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            // `write!` to a String cannot fail.
            let _ = match quantile(&self.latencies, part) {
                Some(latency) => write!(text, "  {name} {:.2}", latency.as_secs_f64() * 1e3),
                None => write!(text, "  {name} -"),
            };
        }
        text.push_str("\nstatus:");
        for (status, count) in &self.statuses {
            let _ = write!(text, "  {status} × {count}");
        }
        text.push('\n');
        for failure in &self.failures {
            let _ = writeln!(text, "failed: {failure}");
        }
        text
    }
}

/// The smallest value that `part` of all values do not exceed.
fn quantile(sorted: &[Duration], part: f64) -> Option<Duration> {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_smallest_value_that_its_part_does_not_exceed() {
        let values: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(quantile(&values, 0.5), Some(Duration::from_millis(50)));
        assert_eq!(quantile(&values, 0.99), Some(Duration::from_millis(99)));
        assert_eq!(quantile(&values, 1.0), Some(Duration::from_millis(100)));
        assert_eq!(quantile(&values[..1], 0.5), Some(Duration::from_millis(1)));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn an_error_of_the_service_makes_a_report_bad_and_a_declined_order_does_not() {
        let mut report = Report::default();
        assert!(!report.is_good(), "nothing was answered");
        report.add(402, Duration::from_millis(1));
        assert!(report.is_good());
        report.add(500, Duration::from_millis(1));
        assert!(!report.is_good());
    }
}
