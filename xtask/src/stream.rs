//! The bridge's text stream, read back into a short table.
//!
//! A line is `%16s-%-7d [%03d] %6u.%09u: group:name: body`. The thread's name may hold anything, so
//! a line is read from its CPU on. A return's body carries `ns=`, the time between entry and exit.

use std::collections::BTreeMap;

/// What came of one event.
#[derive(Default)]
struct Row {
    count: u64,
    /// Sorted when the table is printed.
    durations: Vec<u64>,
}

/// Counts events by name.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
    span: Option<(u64, u64)>,
}

impl Table {
    /// Counts a line; one that is no event is passed over.
    pub(crate) fn add(&mut self, line: &str) {
        let Some((time, name, body)) = parse(line) else {
            return;
        };
        let row = self.rows.entry(name.to_owned()).or_default();
        row.count += 1;
        let words = body.split(' ').filter_map(|word| word.strip_prefix("ns="));
        row.durations
            .extend(words.filter_map(|ns| ns.parse::<u64>().ok()).take(1));
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    /// Whether an event of this provider or category came.
    pub(crate) fn has(&self, group: &str) -> bool {
        self.rows
            .keys()
            .any(|name| name.split(':').next() == Some(group))
    }

    /// The table as text.
    pub(crate) fn render(mut self) -> String {
        let seconds = self
            .span
            .map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        let mut text = format!(
            "{:<32} {:>8} {:>8}   {:>9} {:>9} {:>9}\n",
            "event", "count", "/s", "p50 µs", "p99 µs", "max µs"
        );
        for (name, row) in &mut self.rows {
            row.durations.sort_unstable();
            let rate = if seconds > 0.0 {
                row.count as f64 / seconds
            } else {
                0.0
            };
            let quantile = |percent: usize| {
                let last = row.durations.len().checked_sub(1)?;
                row.durations.get(last * percent / 100)
            };
            let [p50, p99, max] = [50, 99, 100].map(|percent| match quantile(percent) {
                Some(&ns) => format!("{:.1}", ns as f64 / 1e3),
                None => String::new(),
            });
            let line = format!(
                "{name:<32} {:>8} {rate:>8.0}   {p50:>9} {p99:>9} {max:>9}",
                row.count
            );
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Time (ns), name and body of a line.
fn parse(line: &str) -> Option<(u64, &str, &str)> {
    line.match_indices(" [").find_map(|(at, _)| {
        let (cpu, rest) = line[at + 2..].split_once("] ")?;
        cpu.parse::<u32>().ok()?;
        let (time, rest) = rest.split_once(": ")?;
        let (seconds, nanoseconds) = time.trim_start().split_once('.')?;
        let nanoseconds = Some(nanoseconds)
            .filter(|text| text.len() == 9)?
            .parse::<u64>()
            .ok()?;
        let time = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)? + nanoseconds;
        let (name, body) = rest
            .split_once(": ")
            .unwrap_or((rest.trim_end_matches(':'), ""));
        name.contains(':').then_some((time, name, body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_thread_is_called() {
        let line = "  a [0] b: x:y:-4242    [001]   5131.204881307: orders:charge: order_id=17";
        let expected = (5_131_204_881_307, "orders:charge", "order_id=17");
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn a_line_that_is_no_event_is_not_counted() {
        for line in [
            "",
            "# events 17",
            "orders-1 [000] 12.5: orders:charge: id=1",
            "x [000] soon",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn durations_come_from_the_returns_and_rates_from_the_times() {
        let mut table = Table::default();
        for line in [
            "orders-1 [000] 10.000000000: orders:charge: order_id=17 cents=4200",
            "orders-1 [000] 10.500000000: orders:charge__return: ns=16152702",
            "orders-1 [000] 12.000000000: sched:sched_switch: prev_comm=orders ns=",
        ] {
            table.add(line);
        }
        assert!(table.has("orders") && table.has("sched") && !table.has("syscalls"));
        let text = table.render();
        let row = text
            .lines()
            .find(|line| line.starts_with("orders:charge__return"));
        let words: Vec<&str> = row.expect("a row").split_whitespace().skip(1).collect();
        assert_eq!(words, ["1", "0", "16152.7", "16152.7", "16152.7"], "{text}");
    }
}
