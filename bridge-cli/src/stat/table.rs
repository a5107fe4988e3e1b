//! Counts as a table: numbers first, so that they stand below one another whatever probes are called.
//!
//! ```text
//!         hits     misses       lost     ns/run  probe
//!         7100          0          0          -  orders:charge
//!        14959          0          0        112  sched:sched_switch
//! ```
//! `?` is what this kernel does not count, `-` what there is not: of hits at which no BPF program runs, the
//! cost. A column `filtered` is there where something was.

use std::fmt::Write as _;
use std::time::Duration;

use crate::print;
use crate::source::Cost;
use crate::summary::Row;

/// Rows of one interval, which ended at `time`; with the columns' names above the first one.
pub(super) fn interval(
    time: Duration,
    rows: &[&Row],
    has_filtered: bool,
    is_first: bool,
) -> String {
    let mut out = String::new();
    if is_first {
        let _ = write!(out, "{:>12} ", "time");
        head(has_filtered, &mut out);
    }
    for row in rows {
        let _ = write!(out, "{:>12.6} ", time.as_secs_f64());
        line(row, has_filtered, &mut out);
    }
    out
}

/// Rows of all that was counted. Where intervals stand above them, an empty line comes first.
pub(super) fn total(rows: &[&Row], is_first: bool) -> String {
    let has_filtered = rows.iter().any(|row| row.filtered > 0);
    let mut out = String::from(if is_first { "" } else { "\n" });
    head(has_filtered, &mut out);
    for row in rows {
        line(row, has_filtered, &mut out);
    }
    out
}

fn head(has_filtered: bool, out: &mut String) {
    let _ = write!(out, "{:>14} {:>10} {:>10}", "hits", "misses", "lost");
    if has_filtered {
        let _ = write!(out, " {:>12}", "filtered");
    }
    let _ = writeln!(out, " {:>10}  probe", "ns/run");
}

fn line(row: &Row, has_filtered: bool, out: &mut String) {
    let misses = row.misses.map_or("?".to_owned(), |count| count.to_string());
    let cost = match (row.cost, row.cost.nanoseconds()) {
        // It would be that of others that share its program.
        _ if row.hits == 0 => "-".to_owned(),
        (_, Some(nanoseconds)) => nanoseconds.to_string(),
        (Cost::Unknown, None) => "?".to_owned(),
        (Cost::NoProgram | Cost::Runs(..), None) => "-".to_owned(),
    };
    let _ = write!(out, "{:>14} {misses:>10} {:>10}", row.hits, row.lost());
    if has_filtered {
        let _ = write!(out, " {:>12}", row.filtered);
    }
    let mut name = Vec::new();
    print::escape(row.name.as_bytes(), &mut name);
    let _ = writeln!(out, " {cost:>10}  {}", String::from_utf8_lossy(&name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            name: "orders:charge".into(),
            hits: 7100,
            misses: Some(0),
            cost: Cost::Runs(4, Duration::from_nanos(450)),
            ..Row::default()
        }
    }

    fn cells(text: &str) -> Vec<Vec<&str>> {
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| line.split_whitespace().collect())
            .collect()
    }

    #[test]
    fn what_a_run_costs_is_the_mean_of_all_rounded() {
        let table = total(&[&row()], true);
        let head = vec!["hits", "misses", "lost", "ns/run", "probe"];
        let hits = vec!["7100", "0", "0", "113", "orders:charge"];
        assert_eq!(cells(&table), [head, hits]);
    }

    #[test]
    fn what_is_not_known_is_told_from_what_there_is_not() {
        let unknown = Row {
            misses: None,
            cost: Cost::Unknown,
            ..row()
        };
        let none = Row {
            cost: Cost::NoProgram,
            ..row()
        };
        let table = total(&[&unknown, &none], false);
        assert_eq!(cells(&table)[1], ["7100", "?", "0", "?", "orders:charge"]);
        assert_eq!(cells(&table)[2], ["7100", "0", "0", "-", "orders:charge"]);
    }

    #[test]
    fn columns_are_named_once_and_a_row_has_the_end_of_its_interval() {
        let time = Duration::from_micros(1_000_231);
        let with = interval(time, &[&row()], true, true);
        let head = [
            "time", "hits", "misses", "lost", "filtered", "ns/run", "probe",
        ];
        assert_eq!(cells(&with)[0], head);
        assert_eq!(cells(&with)[1][0], "1.000231");
        let without = interval(time, &[&row()], false, false);
        assert_eq!(cells(&without).len(), 1);
    }

    #[test]
    fn a_name_that_a_terminal_would_obey_is_escaped() {
        let name = "a:\x1b[2J".to_owned();
        let table = total(&[&Row { name, ..row() }], true);
        assert!(table.contains("a:\\x1b[2J"), "{table}");
    }
}
