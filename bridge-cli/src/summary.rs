//! The table at the end: for every probe what was printed, what was hit, and what was lost where.
//!
//! `hits` is counted by the kernel side at the probe itself, `events` by the bridge as it hands them to
//! the output; of a hit that its filter did not let pass there is neither more than the number `filtered`.
//! Every hit is one of them: hits = events + filtered + lost, and where that is not so the table says by how
//! much. Misses are hits that the kernel did not let the probe see (its guard against
//! recursion); where a kernel does not count them there is a `?`.

use std::fmt::Write as _;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use tracebraid_bpf::record::{Lost, LostReason};

use crate::print;
use crate::source::Cost;

/// One probe's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// `group:name`.
    pub name: String,
    /// Events handed to the output.
    pub events: u64,
    /// Hits counted at the probe.
    pub hits: u64,
    /// Hits that did not pass the probe's filter.
    pub filtered: u64,
    /// Hits that the kernel kept from the probe; `None` where it does not count them.
    pub misses: Option<u64>,
    /// What its hits have cost.
    pub cost: Cost,
    /// Where events were lost: why, on which CPU ([`Lost::UNKNOWN_CPU`] where that is not known), how many.
    pub lost: Vec<(LostReason, u32, u64)>,
}

/// What `attach` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How long it was attached.
    pub duration: Duration,
    /// A row for each probe, by name.
    pub rows: Vec<Row>,
    /// Events printed after one of a later time.
    pub late: u64,
    /// Events that are in the table and were not written: the output had ended.
    pub unwritten: u64,
    /// Whether there were filters: what they refused has a column then.
    pub has_filters: bool,
    /// What the bridge itself took.
    pub cpu: CpuTime,
}

/// CPU time of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program itself.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl CpuTime {
    /// What this process has taken so far; nothing where the kernel does not say.
    pub fn of_this_process() -> CpuTime {
        let time = |time: nix::sys::time::TimeVal| {
            let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
            Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0))
                + Duration::from_micros(micros)
        };
        getrusage(UsageWho::RUSAGE_SELF).map_or(CpuTime::default(), |usage| CpuTime {
            user: time(usage.user_time()),
            system: time(usage.system_time()),
        })
    }
}

impl Row {
    /// Adds what came by another way.
    pub fn add(&mut self, other: &Row) {
        self.events += other.events;
        self.hits += other.hits;
        self.filtered += other.filtered;
        self.misses = self.misses.zip(other.misses).map(|(one, two)| one + two);
        for &(reason, cpu, count) in &other.lost {
            let known = self
                .lost
                .iter_mut()
                .find(|it| (it.0, it.1) == (reason, cpu));
            match known {
                Some(place) => place.2 += count,
                None => self.lost.push((reason, cpu, count)),
            }
        }
        self.cost = self.cost.and(other.cost);
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(&self, before: &Row) -> Row {
        let lost = |place: &(LostReason, u32, u64)| {
            let was = before
                .lost
                .iter()
                .find(|it| (it.0, it.1) == (place.0, place.1));
            let more = place.2.saturating_sub(was.map_or(0, |it| it.2));
            (more > 0).then_some((place.0, place.1, more))
        };
        Row {
            name: self.name.clone(),
            events: self.events.saturating_sub(before.events),
            hits: self.hits.saturating_sub(before.hits),
            filtered: self.filtered.saturating_sub(before.filtered),
            misses: self
                .misses
                .zip(before.misses)
                .map(|(now, then)| now.saturating_sub(then)),
            cost: self.cost.since(before.cost),
            lost: self.lost.iter().filter_map(lost).collect(),
        }
    }

    /// Whether nothing of it was hit or missed.
    pub fn is_silent(&self) -> bool {
        self.hits == 0 && self.misses.unwrap_or(0) == 0
    }

    /// All lost events but those that never reached the probe.
    pub fn lost(&self) -> u64 {
        self.lost
            .iter()
            .filter(|(reason, ..)| *reason != LostReason::Recursion)
            .map(|place| place.2)
            .sum()
    }
}

impl Summary {
    /// The table as lines of text.
    pub fn render(&self) -> String {
        let events: u64 = self.rows.iter().map(|row| row.events).sum();
        let lost: u64 = self
            .rows
            .iter()
            .flat_map(|row| &row.lost)
            .map(|place| place.2)
            .sum();
        let filtered: u64 = self.rows.iter().map(|row| row.filtered).sum();
        let filtered = match self.has_filters {
            true => format!("{filtered} filtered out, "),
            false => String::new(),
        };
        let mut out = format!(
            "bridge-cli: {events} events in {:.2} s, {filtered}{lost} lost, {} probes without a hit\n",
            self.duration.as_secs_f64(),
            self.rows.iter().filter(|row| row.is_silent()).count()
        );
        let CpuTime { user, system } = self.cpu;
        if !(user + system).is_zero() {
            let _ = writeln!(
                out,
                "bridge-cli: took {:.3} s of CPU, {:.3} of it in the kernel",
                (user + system).as_secs_f64(),
                system.as_secs_f64()
            );
        }
        if self.late > 0 {
            let _ = writeln!(
                out,
                "bridge-cli: {} events came late and are marked",
                self.late
            );
        }
        if self.unwritten > 0 {
            let _ = writeln!(
                out,
                "bridge-cli: {} of these events were not written: the output had ended",
                self.unwritten
            );
        }
        let rows = self.rows.iter().filter(|row| !row.is_silent());
        let rows: Vec<(String, &Row)> = rows.map(|row| (print::escaped(&row.name), row)).collect();
        if rows.is_empty() {
            return out;
        }
        let width = rows
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0)
            .max(5);
        let column = |text: &str| match self.has_filters {
            true => format!(" {text:>12}"),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "  {:<width$} {:>12} {:>12}{} {:>8} {:>10}",
            "probe",
            "events",
            "hits",
            column("filtered"),
            "misses",
            "lost"
        );
        for (name, row) in rows {
            let misses = row
                .misses
                .map_or_else(|| "?".to_owned(), |misses| misses.to_string());
            let _ = write!(
                out,
                "  {:<width$} {:>12} {:>12}{} {misses:>8} {:>10}",
                name,
                row.events,
                row.hits,
                column(&row.filtered.to_string()),
                row.lost()
            );
            row.places(&mut out);
            let accounted = row.events + row.filtered + row.lost();
            if accounted != row.hits {
                let _ = write!(out, "  ({} unaccounted)", row.hits.abs_diff(accounted));
            }
            out.push('\n');
        }
        out
    }
}

impl Row {
    /// `  (ring full: 12 on CPU 0, 3 on CPU 1)`
    fn places(&self, out: &mut String) {
        let mut places = self.lost.clone();
        places.sort_by_key(|(reason, cpu, _)| (word(*reason), *cpu));
        let mut last = None;
        for (reason, cpu, count) in places {
            let _ = match last {
                Some(before) if before == reason => write!(out, ", "),
                Some(_) => write!(out, "; {}: ", word(reason)),
                None => write!(out, "  ({}: ", word(reason)),
            };
            let _ = match cpu {
                Lost::UNKNOWN_CPU => write!(out, "{count}"),
                cpu => write!(out, "{count} on CPU {cpu}"),
            };
            last = Some(reason);
        }
        if last.is_some() {
            out.push(')');
        }
    }
}

fn word(reason: LostReason) -> &'static str {
    match reason {
        LostReason::RingFull => "ring full",
        LostReason::Busy => "no scratch space",
        LostReason::Recursion => "recursion",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            name: "orders:charge".into(),
            events: 90,
            hits: 100,
            misses: Some(0),
            ..Row::default()
        }
    }

    #[test]
    fn a_name_with_a_line_break_stays_in_its_row() {
        let name = "a:b\nbridge-cli: all is well\u{202e}".to_owned();
        let rows = vec![Row { name, ..row() }];
        let text = Summary {
            rows,
            ..Summary::default()
        }
        .render();
        assert!(
            text.contains("  a:b\\nbridge-cli: all is well\\u{202e} "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn the_table_says_where_events_were_lost() {
        let lost = vec![
            (LostReason::RingFull, 1, 2),
            (LostReason::Busy, Lost::UNKNOWN_CPU, 1),
            (LostReason::RingFull, 0, 7),
        ];
        let row = Row { lost, ..row() };
        let summary = Summary {
            rows: vec![row],
            ..Summary::default()
        };
        let text = summary.render();
        assert!(
            text.contains("(no scratch space: 1; ring full: 7 on CPU 0, 2 on CPU 1)\n"),
            "{text}"
        );
        assert!(!text.contains("unaccounted"), "{text}");
    }

    #[test]
    fn hits_that_are_neither_events_nor_lost_are_shown() {
        let text = Summary {
            rows: vec![row()],
            ..Summary::default()
        }
        .render();
        assert!(text.contains("(10 unaccounted)"), "{text}");
    }

    #[test]
    fn hits_that_were_filtered_out_have_a_column_where_there_are_filters() {
        let row = Row {
            filtered: 10,
            ..row()
        };
        let with = Summary {
            rows: vec![row],
            has_filters: true,
            ..Summary::default()
        };
        let text = with.render();
        assert!(text.contains(" 10 filtered out, 0 lost"), "{text}");
        assert!(text.contains("filtered   misses"), "{text}");
        assert!(!text.contains("unaccounted"), "{text}");
        let without = Summary::default().render();
        assert!(!without.contains("filtered"), "{without}");
    }

    #[test]
    fn what_never_reached_the_probe_is_no_part_of_its_hits() {
        let lost = vec![(LostReason::Recursion, Lost::UNKNOWN_CPU, 4)];
        let row = Row {
            events: 100,
            misses: None,
            lost,
            ..row()
        };
        let text = Summary {
            rows: vec![row],
            ..Summary::default()
        }
        .render();
        assert!(
            text.contains("(recursion: 4)") && !text.contains("unaccounted"),
            "{text}"
        );
        assert!(text.contains(" ? "), "{text}");
    }
}
