//! From the records of a ring to events.

use std::sync::Arc;

use tracebraid_wire::record::{Header, INTRODUCTION, Introduction};

use super::clock::Conversion;
use super::decode;
use super::filtering::Filtering;
use super::people::{Key, People};
use super::point::Point;
use crate::event::{Event, What};
use crate::source::spare::Spare;

/// A time that has not come yet is believed so far (ns): the fit has an error.
const AHEAD: u64 = 1_000_000;

/// What a round has to say beside events.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) warnings: Vec<String>,
    /// Processes that have made a region of their own.
    pub(super) with_region: Vec<u32>,
    /// Events whose thread was not known.
    pub(super) strangers: Vec<Stranger>,
}

/// An event whose thread was not known when it was read.
pub(super) struct Stranger {
    /// The index of its region.
    pub(super) region: usize,
    /// The index of the event.
    pub(super) event: usize,
    pub(super) key: Key,
}

/// What all records of a round have in common.
pub(super) struct Round<'a> {
    pub(super) conversion: Conversion<'a>,
    /// The time of the round, ns.
    pub(super) now: u64,
    /// The index of the region that is read.
    pub(super) region: usize,
    /// Only events of the points that are set here; none is counted then.
    pub(super) only: Option<&'a [bool]>,
    /// Only what is later than this, ns: a snapshot shows and counts nothing twice.
    pub(super) after: u64,
    pub(super) points: &'a mut [Point],
    /// Only events of these threads; empty means all.
    pub(super) threads: &'a [u32],
    /// Only events of these CPUs; empty means all.
    pub(super) cpus: &'a [u32],
    pub(super) spare: &'a mut Spare,
    pub(super) events: &'a mut Vec<Event>,
    pub(super) findings: &'a mut Findings,
}

/// Where records come from.
pub(super) struct Scene<'a> {
    pub(super) is_tsc: bool,
    pub(super) ahead: i64,
    pub(super) cpu: u32,
    pub(super) of_child: bool,
    pub(super) points: &'a [Option<u16>],
    pub(super) filtering: &'a Filtering,
    pub(super) people: &'a mut People,
    pub(super) lies: &'a mut bool,
    pub(super) last: &'a mut u64,
}

impl Scene<'_> {
    /// Takes in a record.
    #[inline]
    pub(super) fn record(&mut self, record: &[u64], round: &mut Round<'_>) {
        let Some(header) = Header::parse(record[0], record[1]) else {
            return;
        };
        let key = (header.tid, self.of_child);
        if header.event == INTRODUCTION {
            if let Some(said) = Introduction::parse(&record[2..]) {
                let pid = self.people.introduce(key, &said, round.now);
                if said.has_region {
                    round.findings.with_region.push(pid);
                }
            }
            return;
        }
        let Some(point) = point_of(self.points, header.event) else {
            return;
        };
        if round
            .only
            .is_some_and(|only| only.get(point) != Some(&true))
        {
            return;
        }
        let time = self.time(header.time, round);
        *self.last = time;
        if time <= round.after {
            return;
        }
        let person = self.people.person(key, round.now);
        let asked = |list: &[u32], one| list.is_empty() || list.contains(&one);
        if !asked(round.threads, person.tid) || !asked(round.cpus, self.cpu) {
            return;
        }
        let at = round.events.len();
        let conversion = &round.conversion;
        let since = |moment: u64| match self.is_tsc {
            true => conversion.between(moment, header.time),
            false => header.time.saturating_sub(moment),
        };
        let point = &mut round.points[point];
        let mut values = round.spare.values(point.kinds.len());
        decode::append(&point.kinds, &record[2..], since, &mut values);
        let event = Event {
            time,
            cpu: self.cpu,
            pid: person.pid,
            tid: person.tid,
            comm: person.comm,
            late: false,
            what: What::Hit {
                probe: Arc::clone(&point.what),
                values,
            },
            stack: None,
        };
        if let Some(filter) = &point.filter
            && !self.filtering.is_done(header.event, time)
            && !filter.passes(&event)
        {
            point.filtered += u64::from(round.only.is_none());
            return;
        }
        if person.is_stranger {
            round.findings.strangers.push(Stranger {
                region: round.region,
                event: at,
                key,
            });
        }
        point.delivered += u64::from(round.only.is_none());
        round.events.push(event);
    }

    /// The time of a record, ns. One that has not come yet is taken for now: whoever says it lies, and would
    /// hold up everybody.
    #[inline]
    fn time(&mut self, time: u64, round: &mut Round<'_>) -> u64 {
        let time = if self.is_tsc {
            round.conversion.nanoseconds(time)
        } else {
            Some(time.saturating_add_signed(self.ahead.saturating_neg()))
        };
        match time {
            Some(time) if time <= round.now.saturating_add(AHEAD) => time,
            _ => {
                if !std::mem::replace(self.lies, true) {
                    round.findings.warnings.push(format!(
                        "a ring on CPU {} says times that have not come yet; they are taken for now",
                        self.cpu
                    ));
                }
                round.now
            }
        }
    }
}

/// The point that an event is.
#[inline]
pub(super) fn point_of(points: &[Option<u16>], event: u16) -> Option<usize> {
    points
        .get(usize::from(event))
        .copied()
        .flatten()
        .map(usize::from)
}
