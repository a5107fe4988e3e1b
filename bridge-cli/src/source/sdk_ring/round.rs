//! A round: the flush, what every ring holds by then, and what was counted meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebraid_bpf::record::LostReason;

use super::clock::{now, read};
use super::scene::{Findings, Round};
use super::taken::Taken;
use super::{SdkRings, search};
use crate::event::{Comm, Event, What};
use crate::source::note_loss;
use crate::source::spare::Spare;

/// How long a flush may take; past it a round goes on with the hold-back.
const FLUSH: Duration = Duration::from_millis(5);
/// How long nobody is asked for a flush again who did not answer one.
const NO_FLUSH: Duration = Duration::from_millis(250);
/// What is held back where nobody flushes, ns. An append takes far less, unless its thread is preempted in
/// the middle of it: then it starts again.
const HOLD_BACK: u64 = 2_000_000;
/// Records of a round at most.
const ROUND: usize = 64 * 1024;
/// Records that are taken from a ring before the one that is furthest behind is looked for again.
const PIECE: usize = 2048;

impl SdkRings {
    /// Asks every helper for a flush. Up to which time everything is visible then.
    fn flush(&mut self, begin: u64) -> u64 {
        let may_ask = Instant::now() >= self.next_flush;
        let mut until = begin;
        for region in &mut self.regions {
            region.has_ended |= region.shared.has_ended();
        }
        let asked: Vec<Option<u32>> = self
            .regions
            .iter()
            .map(|region| {
                let asks = may_ask && !region.has_ended;
                asks.then(|| region.shared.ask_flush()).flatten()
            })
            .collect();
        let deadline = Instant::now() + FLUSH;
        for (region, number) in self.regions.iter().zip(asked) {
            if region.has_ended {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let flushed = number.is_some_and(|number| region.shared.flushed(number, left));
            if number.is_some() && !flushed {
                self.next_flush = Instant::now() + NO_FLUSH;
                // It may be gone.
                self.next_look = Instant::now();
            }
            if !flushed {
                until = begin.saturating_sub(HOLD_BACK);
            }
        }
        // After `begin`: a child that is not counted yet appends what is of a later time.
        let any_child = |region: &Taken| region.wish.children && region.shared.children() != 0;
        if self.regions.iter().any(any_child) {
            until = until.min(begin.saturating_sub(HOLD_BACK));
        }
        until
    }

    /// Drains what the rings hold, a round of it. Nothing older than the time it returns will come later.
    pub(super) fn drain(&mut self, spare: &mut Spare, events: &mut Vec<Event>) -> u64 {
        let begin = now();
        let until = self.flush(begin);
        let mut behind: Vec<Behind> = Vec::new();
        for (index, region) in self.regions.iter().enumerate() {
            for (reading, ring) in region.readings.iter().enumerate() {
                let head = ring.consumer.head();
                if !ring.consumer.is_damaged() && head != ring.consumer.consumed() {
                    behind.push(Behind {
                        region: index,
                        reading,
                        head,
                    });
                }
            }
        }
        // What was appended before the heads were read is of tracepoints that the directories list by now.
        for region in self.regions.iter_mut().filter(|_| !self.stopped) {
            if region.sync(&self.points) {
                region.shared.ask(Duration::ZERO);
            }
        }
        if !self.stopped && self.regions.iter().any(Taken::awaits_word) {
            self.has_backlog = true;
            return self.until;
        }
        self.fit.add(read());
        let mut findings = Findings::default();
        let mut round = Round {
            conversion: self.fit.conversion(),
            now: now(),
            region: 0,
            points: &mut self.points,
            only: None,
            after: 0,
            threads: &self.threads,
            cpus: &self.cpus,
            spare,
            events,
            findings: &mut findings,
        };
        let mut left = ROUND;
        while left > 0 && !behind.is_empty() {
            let last = |one: &Behind| self.regions[one.region].readings[one.reading].last;
            let Some(next) = (0..behind.len()).min_by_key(|&index| last(&behind[index])) else {
                break;
            };
            let Behind {
                region,
                reading,
                head,
            } = behind[next];
            round.region = region;
            let taken = self.regions[region].drain(reading, head, PIECE.min(left), &mut round);
            left -= taken.min(left);
            let consumer = &self.regions[region].readings[reading].consumer;
            if taken == 0 || consumer.is_damaged() || consumer.consumed() == head {
                behind.swap_remove(next);
            }
        }
        // Of a ring that was left in the middle nothing older than its last record comes.
        let until = behind
            .iter()
            .map(|one| self.regions[one.region].readings[one.reading].last)
            .fold(until, u64::min);
        self.has_backlog = !behind.is_empty();
        self.settle(findings, events);
        match self.waits_until {
            Some(end) if Instant::now() < end => 0,
            _ => {
                self.waits_until = None;
                until
            }
        }
    }

    /// What a round found out beside its events.
    fn settle(&mut self, findings: Findings, events: &mut [Event]) {
        self.warnings.extend(findings.warnings);
        // Somebody may have been introduced in a ring that was drained later.
        let now = now();
        for stranger in findings.strangers {
            let person = self.regions[stranger.region].person(stranger.key, now);
            if let Some(event) = events
                .get_mut(stranger.event)
                .filter(|_| !person.is_stranger)
            {
                (event.pid, event.tid, event.comm) = (person.pid, person.tid, person.comm);
            }
        }
        for pid in findings.with_region {
            if self.how.follow {
                self.look_and_say(pid);
            }
        }
        for region in &mut self.regions {
            if !self.stopped && region.sync(&self.points) {
                // It answers when it has come round.
                region.shared.ask(Duration::ZERO);
            }
        }
    }

    /// What was counted as lost since the last round, as events. What filters refused is added up.
    pub(super) fn lost(&mut self, time: u64, events: &mut Vec<Event>) {
        for region in &mut self.regions {
            for (index, hits) in region.filtered() {
                self.points[index].filtered += hits;
            }
            for (index, hits) in region.counted() {
                self.points[index].counted += hits;
            }
            if self.how.recorder {
                continue;
            }
            for (index, cpu, count) in region.lost() {
                let point = &mut self.points[index];
                let mut places = BTreeMap::from([((), std::mem::take(&mut point.places))]);
                note_loss(&mut places, (), LostReason::RingFull, cpu, count.into());
                point.places = places.remove(&()).unwrap_or_default();
                events.push(Event {
                    time,
                    cpu,
                    pid: 0,
                    tid: 0,
                    comm: Comm::default(),
                    late: false,
                    what: What::Lost {
                        probe: Arc::clone(&point.what),
                        count: count.into(),
                        after: self.last_round,
                        reason: LostReason::RingFull,
                    },
                    stack: None,
                });
            }
        }
    }

    /// Lets regions go whose process has ended and that are empty.
    pub(super) fn let_go(&mut self) {
        let drained = |region: &Taken| {
            region.readings.iter().all(|ring| {
                ring.consumer.is_damaged() || ring.consumer.head() == ring.consumer.consumed()
            })
        };
        if !self.regions.iter().any(|region| region.has_ended) {
            self.ended_at = None;
            return;
        }
        // Who was born last is known by the next look.
        let ended_at = *self.ended_at.get_or_insert_with(Instant::now);
        let is_early = self.how.follow && ended_at.elapsed() < 2 * search::LOOK;
        if is_early || self.how.recorder || self.has_living_kin() {
            return;
        }
        self.regions.retain_mut(|region| {
            !region.has_ended || region.has_living_children() || !drained(region)
        });
    }
}

/// A ring with something to be drained.
struct Behind {
    region: usize,
    reading: usize,
    head: u64,
}
