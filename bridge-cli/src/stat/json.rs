//! Counts as JSON lines.
//!
//! ```text
//! {"from":0.000000000,"to":1.000231400,"probes":[{"probe":"orders:charge","hits":7100,"misses":0,"lost":0,"filtered":0}]}
//! {"total":10.002,"probes":[{"probe":"sched:sched_switch","hits":14959,"misses":0,"lost":0,"filtered":0,"runs":14959,"run_ns":1675408}]}
//! ```
//! | key | |
//! | --- | --- |
//! | `from`, `to` | of an interval: when it began and ended, seconds since everything was attached |
//! | `total` | of the last line: how long was counted, seconds |
//! | `probe` | `group:name` |
//! | `hits` | hits, those that a filter refused and that were lost among them |
//! | `misses` | hits that the kernel kept from the probe; `null`: it does not count them |
//! | `lost`, `filtered` | hits of which it is not known whether they passed the filter, and that did not |
//! | `runs`, `run_ns` | runs of the BPF program, and how long they took; `null`: not measured; no keys where there is no program |

use std::time::Duration;

use crate::export::json_string;
use crate::print::decimal;
use crate::source::Cost;
use crate::summary::Row;

/// One interval.
pub(super) fn interval(from: Duration, to: Duration, rows: &[Row]) -> String {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"from\":");
    seconds(from, &mut out);
    out.extend_from_slice(b",\"to\":");
    seconds(to, &mut out);
    probes(rows, &mut out);
    text(out)
}

/// All that was counted.
pub(super) fn total(time: Duration, rows: &[Row]) -> String {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"total\":");
    seconds(time, &mut out);
    probes(rows, &mut out);
    text(out)
}

fn probes(rows: &[Row], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"probes\":[");
    for (index, row) in rows.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"," });
        probe(row, out);
    }
    out.extend_from_slice(b"]}\n");
}

fn probe(row: &Row, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"probe\":");
    json_string(&row.name, out);
    let mut number = |key: &str, value: Option<u64>| {
        out.extend_from_slice(key.as_bytes());
        match value {
            Some(value) => decimal(value, out),
            None => out.extend_from_slice(b"null"),
        }
    };
    number(",\"hits\":", Some(row.hits));
    number(",\"misses\":", row.misses);
    number(",\"lost\":", Some(row.lost()));
    number(",\"filtered\":", Some(row.filtered));
    let cost = match row.cost {
        Cost::NoProgram => None,
        Cost::Unknown => Some((None, None)),
        Cost::Runs(runs, time) => {
            let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            Some((Some(runs), Some(nanoseconds)))
        }
    };
    if let Some((runs, nanoseconds)) = cost {
        number(",\"runs\":", runs);
        number(",\"run_ns\":", nanoseconds);
    }
    out.push(b'}');
}

fn seconds(time: Duration, out: &mut Vec<u8>) {
    let text = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    out.extend_from_slice(text.as_bytes());
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_object_in_which_what_is_not_known_is_null() {
        let measured = Row {
            name: "sched:sched_switch".into(),
            hits: 3,
            misses: None,
            cost: Cost::Runs(3, Duration::from_micros(1)),
            ..Row::default()
        };
        let unmeasured = Row {
            name: "a:\"b".into(),
            misses: Some(0),
            cost: Cost::Unknown,
            ..Row::default()
        };
        let to = Duration::from_millis(1500);
        let line = interval(Duration::ZERO, to, &[measured, unmeasured]);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({"from": 0.0, "to": 1.5, "probes": [
            {"probe": "sched:sched_switch", "hits": 3, "misses": null, "lost": 0, "filtered": 0,
             "runs": 3, "run_ns": 1000},
            {"probe": "a:\"b", "hits": 0, "misses": 0, "lost": 0, "filtered": 0,
             "runs": null, "run_ns": null},
        ]});
        assert_eq!(read, expected);
    }

    #[test]
    fn where_no_program_runs_there_is_no_cost() {
        let row = Row {
            name: "orders:charge".into(),
            misses: Some(0),
            ..Row::default()
        };
        let read: serde_json::Value =
            serde_json::from_str(&total(Duration::from_secs(2), &[row])).unwrap();
        let expected = serde_json::json!({"total": 2.0, "probes": [
            {"probe": "orders:charge", "hits": 0, "misses": 0, "lost": 0, "filtered": 0},
        ]});
        assert_eq!(read, expected);
    }
}
