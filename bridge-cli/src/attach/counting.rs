//! Counting in place of looking: hits are added up where they happen, and no events are wanted of them.
//!
//! ```text
//! BPF programs            one count a probe and CPU, nothing is recorded     read at intervals and at the end
//! the target's SDK        its program counts, where it can                   the same
//! what is filtered here    recorded, looked at and dropped
//! ```
//! Everything else is as where events are wanted: whom they are of, what comes later, how it ends.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tracebraid_bpf::Metering;

use super::Note;
use super::stay::Attached;
use crate::source::Count;
use crate::summary::{CpuTime, Row, Summary};

/// How hits are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// How often it is told what was counted; `None`: only at the end.
    pub interval: Option<Duration>,
    /// Whether it is measured what BPF programs cost.
    pub cost: bool,
}

/// What was counted until a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Since when: everything was attached then.
    pub time: Duration,
    /// A row for each probe, by name.
    pub rows: Vec<Row>,
}

/// That hits are counted, and what it takes.
pub(super) struct Counter {
    metering: Option<Metering>,
}

impl Counter {
    /// Before anything is attached. That costs cannot be had is said and stops nothing.
    pub(super) fn new(counting: Counting, say: &mut dyn FnMut(Note)) -> Counter {
        let metering = counting.cost.then(Metering::start);
        let metering = metering.and_then(|started| {
            started
                .map_err(|error| say(Note::Warning(error.to_string())))
                .ok()
        });
        Counter { metering }
    }

    /// Whether it is known what BPF programs cost.
    pub(super) fn is_metered(&self) -> bool {
        self.metering.is_some()
    }
}

/// Who is told what was counted, and when.
pub(super) struct Intervals<'a> {
    every: Option<Duration>,
    begin: Instant,
    next: Option<Instant>,
    each: &'a mut dyn FnMut(&Tally) -> ControlFlow<()>,
}

impl<'a> Intervals<'a> {
    /// From now on.
    pub(super) fn new(
        every: Option<Duration>,
        each: &'a mut dyn FnMut(&Tally) -> ControlFlow<()>,
    ) -> Intervals<'a> {
        let begin = Instant::now();
        let next = every.and_then(|every| begin.checked_add(every));
        Intervals {
            every,
            begin,
            next,
            each,
        }
    }

    /// How long until somebody is to be told.
    pub(super) fn left(&self) -> Duration {
        let left = |next: Instant| next.saturating_duration_since(Instant::now());
        self.next.map_or(Duration::MAX, left)
    }

    /// Whether it is time.
    pub(super) fn is_due(&self) -> bool {
        self.left().is_zero()
    }

    /// Tells, and says whether to go on. Intervals that went by meanwhile are left out.
    pub(super) fn tell(&mut self, rows: Vec<Row>) -> ControlFlow<()> {
        let now = Instant::now();
        while let (Some(next), Some(every)) = (self.next, self.every)
            && next <= now
        {
            self.next = next.checked_add(every);
        }
        let time = now.saturating_duration_since(self.begin);
        (self.each)(&Tally { time, rows })
    }
}

impl Attached {
    /// A row for each probe, of what was counted so far.
    pub(super) fn rows_by_now(&mut self) -> Vec<Row> {
        let counts = self.pump.counts();
        self.rows(counts)
    }

    fn rows(&self, counts: Vec<Count>) -> Vec<Row> {
        let row = |count: Count| Row {
            name: self.names.get(&count.probe).cloned().unwrap_or_default(),
            events: count.delivered,
            hits: count.hits,
            filtered: count.filtered,
            misses: count.missed,
            lost: count.lost,
            cost: count.cost,
        };
        let mut rows: Vec<Row> = counts.into_iter().map(row).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        // One tracepoint may come by several ways.
        rows.dedup_by(|next, row| {
            let same = next.name == row.name;
            if same {
                row.add(next);
            }
            same
        });
        rows
    }

    /// The table at the end.
    pub(super) fn summary(&self, counts: Vec<Count>) -> Summary {
        Summary {
            rows: self.rows(counts),
            has_filters: self.has_filters,
            cpu: CpuTime::of_this_process(),
            ..Summary::default()
        }
    }
}
