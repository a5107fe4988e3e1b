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
        let Some(event) = Event::parse(line) else {
            return;
        };
        let row = self.rows.entry(event.name.to_owned()).or_default();
        row.count += 1;
        row.durations.extend(event.duration());
        let (first, last) = self.span.unwrap_or((event.time, event.time));
        self.span = Some((first.min(event.time), last.max(event.time)));
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

/// The lines of one call that took as long as any: from its entry to its return, those that name its
/// thread. `call` is its entry's name, such as `orders:charge`.
pub(crate) fn slowest<'a>(lines: &[&'a str], call: &str) -> Vec<&'a str> {
    let return_of_call = format!("{call}__return");
    let events: Vec<Option<Event<'_>>> = lines.iter().map(|line| Event::parse(line)).collect();
    let mut longest = None;
    for (at, event) in events.iter().enumerate() {
        if let Some(event) = event
            && event.name == return_of_call
            && let Some(ns) = event.duration()
            && longest.is_none_or(|(_, _, known)| ns > known)
        {
            longest = Some((at, event.tid, ns));
        }
    }
    let Some((end, tid, _)) = longest else {
        return Vec::new();
    };
    let is_entry = |event: &Option<Event<'_>>| {
        event
            .as_ref()
            .is_some_and(|event| event.name == call && event.tid == tid)
    };
    let Some(start) = events[..end].iter().rposition(is_entry) else {
        return Vec::new();
    };
    // A switch to the thread stands in a line of the thread that was left.
    let switched_to = format!(" next_pid={tid} ");
    let concerns = |event: &Event<'_>| event.tid == tid || event.body.contains(&switched_to);
    (start..=end)
        .filter(|&at| events[at].as_ref().is_some_and(concerns))
        .map(|at| lines[at])
        .collect()
}

/// An event's line.
#[derive(Debug, PartialEq)]
struct Event<'a> {
    tid: u32,
    /// Nanoseconds.
    time: u64,
    name: &'a str,
    body: &'a str,
}

impl<'a> Event<'a> {
    fn parse(line: &'a str) -> Option<Event<'a>> {
        line.match_indices(" [").find_map(|(at, _)| {
            let (_, tid) = line[..at].rsplit_once('-')?;
            let (cpu, rest) = line[at + 2..].split_once("] ")?;
            cpu.parse::<u32>().ok()?;
            let (time, rest) = rest.split_once(": ")?;
            let (seconds, nanoseconds) = time.trim_start().split_once('.')?;
            let nanoseconds = Some(nanoseconds).filter(|text| text.len() == 9)?;
            let (name, body) = rest
                .split_once(": ")
                .unwrap_or((rest.trim_end_matches(':'), ""));
            let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
            name.contains(':').then_some(Event {
                tid: tid.trim_end().parse().ok()?,
                time: seconds.checked_add(nanoseconds.parse().ok()?)?,
                name,
                body,
            })
        })
    }

    /// The time between entry and return, nanoseconds; of a return only.
    fn duration(&self) -> Option<u64> {
        self.body
            .split(' ')
            .find_map(|word| word.strip_prefix("ns="))?
            .parse()
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_thread_is_called() {
        let line = "  a [0] b: x:y:-4242    [001]   5131.204881307: orders:charge: order_id=17";
        let expected = Event {
            tid: 4242,
            time: 5_131_204_881_307,
            name: "orders:charge",
            body: "order_id=17",
        };
        assert_eq!(Event::parse(line), Some(expected));
    }

    #[test]
    fn a_line_that_is_no_event_is_not_counted() {
        for line in [
            "",
            "# events 17",
            "orders-1 [000] 12.5: orders:charge: id=1",
            "x [000] soon",
        ] {
            assert_eq!(Event::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_slowest_call_is_shown_with_what_happened_to_its_thread_meanwhile() {
        let lines = [
            "a-7 [000] 1.000000001: x:f: n=1",
            "a-7 [000] 1.000000002: x:f__return: ns=1",
            "a-7 [000] 1.000000003: x:f: n=2",
            "b-8 [001] 1.000000004: x:f: n=3",
            "a-7 [000] 1.000000005: sched:sched_switch: prev_pid=7 ==> next_pid=9 next_prio=120",
            "c-9 [000] 1.000000006: sched:sched_switch: prev_pid=9 ==> next_pid=7 next_prio=120",
            "b-8 [001] 1.000000007: x:f__return: ns=3",
            "a-7 [000] 1.000000008: x:f__return: ns=5",
        ];
        let shown = slowest(&lines, "x:f");
        assert_eq!(shown, [lines[2], lines[4], lines[5], lines[7]]);
        assert!(slowest(&lines[..1], "x:f").is_empty(), "there is no return");
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
