//! The rings of the SDK as a source: application events at the price of a clock reading.
//!
//! ```text
//! start   find the memfd, check it, take it, want events, ask the helper
//! round   T0 ─▶ flush (membarrier in the target) ─▶ heads ─▶ drain up to them ─▶ clock pair ─▶ events
//! finish  want nothing, ask, drain what is left
//! ```
//! After the flush every append that began before T0 is before the heads, so nothing older than T0 can
//! come later. Where nobody flushes (no helper thread; children, which append to their parent's region)
//! a window is held back instead. When a process dies, the mapping stays: what was committed is still
//! given.
//!
//! A source has all regions of the target, those it makes later, and, where children are followed, those
//! of its descendants. Events are wanted by what they are called and what fields they have, of all regions
//! alike. In a round the ring that is furthest behind is drained next, a piece at a time, and a round ends
//! after so many records: rings of any size cost a bounded memory, and stay in step.

mod clock;
mod core_dump;
mod decode;
mod filtering;
mod find;
mod people;
mod point;
mod scene;
mod search;
mod shared;
mod snapshot;
mod taken;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebraid_bpf::record::LostReason;
use tracebraid_bpf::spec::Filter;
use tracebraid_wire::region;

use super::{Count, LostPlaces, Rings, Share, note_loss};
use crate::error::Result;
use crate::event::{Comm, Event, What};

pub use clock::{Conversion, Fit, Pair, now, read};
pub use point::{Listed, Wanted};
pub use search::{is_served, wake_helper};
pub use snapshot::{Asked, Held, held_by, held_in};

use find::FileId;
use point::Point;
use scene::{Findings, Round};
use taken::{ANSWER, Taken};

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
/// How long a program that was started may take until it has its rings.
const START: Duration = Duration::from_secs(2);

/// How rings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Events of children and of what they start, too.
    pub follow: bool,
    /// The rings become a flight recorder: nothing is taken out of them.
    pub recorder: bool,
    /// The target has just been started: what it records until its rings are found is waited for.
    pub started: bool,
}

/// See the module's page.
pub struct SdkRings {
    /// The target, as we number it.
    target: u32,
    how: How,
    regions: Vec<Taken>,
    points: Vec<Point>,
    fit: Fit,
    /// Only events of these threads; empty means all.
    threads: Vec<u32>,
    /// Only events of these CPUs; empty means all.
    cpus: Vec<u32>,
    /// When a region's process was first found to have ended.
    ended_at: Option<Instant>,
    /// Descendants that were seen: they may append to rings of parents that have ended.
    kin: HashSet<u32>,
    /// Regions that cannot be taken: said once.
    refused: HashSet<FileId>,
    next_look: Instant,
    /// Until then nothing is final, since the rings of what was started are not found yet.
    waits_until: Option<Instant>,
    /// Who did not answer a flush is not asked before.
    next_flush: Instant,
    last_round: u64,
    has_backlog: bool,
    stopped: bool,
    warnings: Vec<String>,
    /// Words for those who asked for more.
    details: Vec<String>,
}

impl SdkRings {
    /// Takes the regions that the target has by now, and those to come.
    ///
    /// # Errors
    /// One for each region that is none we know, or that somebody else has.
    pub fn of(target: u32, filter: &Filter, how: How) -> (SdkRings, Vec<crate::error::Error>) {
        let mut fit = Fit::default();
        fit.add(read());
        let mut rings = SdkRings {
            target,
            how,
            regions: Vec::new(),
            points: Vec::new(),
            fit,
            threads: filter.threads.clone(),
            cpus: filter.cpus.clone(),
            ended_at: None,
            kin: HashSet::new(),
            refused: HashSet::new(),
            next_look: Instant::now(),
            waits_until: how.started.then(|| Instant::now() + START),
            next_flush: Instant::now(),
            last_round: now(),
            has_backlog: false,
            stopped: false,
            warnings: Vec::new(),
            details: Vec::new(),
        };
        let errors = rings.look_at(target);
        (rings, errors)
    }

    /// The target, as we number it.
    pub fn target(&self) -> u32 {
        self.target
    }

    /// Words since the last call for those who asked for more.
    pub fn take_details(&mut self) -> Vec<String> {
        std::mem::take(&mut self.details)
    }

    /// Has something said.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Whether the target has rings that were taken.
    pub fn has_rings(&self) -> bool {
        self.regions.iter().any(|region| region.wish.is_target)
    }

    /// Whether the target has rings that somebody in it switches events on for.
    pub fn has_helper(&self) -> bool {
        let helped = |region: &Taken| region.wish.is_target && region.shared.has_helper();
        self.regions.iter().any(helped)
    }

    /// Gives the target's rings back, for somebody else to take.
    pub fn give_back_target(&mut self) {
        let given_back = self.regions.extract_if(.., |region| region.wish.is_target);
        self.refused.extend(given_back.map(|region| region.id));
    }

    /// Whether a program that was just started may still make its rings.
    pub fn is_awaited(&self) -> bool {
        self.waits_until.is_some()
    }

    /// Gives up what was wanted of the target.
    pub fn want_no_points(&mut self) {
        self.points.clear();
        for region in &mut self.regions {
            region.want_nothing();
            region.forget_points();
        }
    }

    /// The tracepoints that the target's regions list by now. Helpers are asked to look for new libraries
    /// first.
    pub fn listed(&mut self) -> Vec<Listed> {
        let mut listed = Vec::new();
        for region in self.regions.iter_mut().filter(|it| it.wish.is_target) {
            region.shared.ask(ANSWER);
            if region.sync(&self.points) {
                region.shared.ask(ANSWER);
            }
            let directory = region.shared.directory(0);
            let entries = region::listed(&directory);
            listed.extend(entries.filter_map(|point| Listed::read(&point)));
        }
        listed
    }

    /// What regions list that nobody wants yet, each once.
    pub fn unknown(&mut self) -> Vec<Listed> {
        self.regions
            .iter_mut()
            .flat_map(|region| std::mem::take(&mut region.unknown))
            .collect()
    }

    /// Wants further events, of all regions.
    pub fn want(&mut self, wanted: Vec<Wanted>) {
        let point = |wanted: Wanted| Point {
            probe: wanted.probe,
            what: wanted.what,
            kinds: wanted.kinds,
            probed_in: wanted.probed_in,
            filter: wanted.filter,
            delivered: 0,
            filtered: 0,
            places: LostPlaces::new(),
        };
        self.points.extend(wanted.into_iter().map(point));
        for region in &mut self.regions {
            region.look_through_again();
            let any = region.sync(&self.points) | region.adopt(&self.points);
            if any && !region.shared.ask(ANSWER) && region.shared.has_helper() {
                self.warnings.push(format!(
                    "the helper thread of process {} does not answer: its tracepoints may not be on",
                    region.pid
                ));
            }
        }
        self.look_at_filters(ANSWER);
    }

    /// Sees which programs have taken the filters of their tracepoints. One that cannot is asked for every
    /// hit, and waited for so long.
    fn look_at_filters(&mut self, limit: Duration) {
        let now = now();
        for region in self.regions.iter_mut().filter(|it| !it.has_ended) {
            let refused = region.look_at_filters(now);
            if refused > 0 && !self.stopped {
                region.shared.ask(limit);
                self.details.push(format!(
                    "process {} cannot read {refused} of its filters; the bridge evaluates them",
                    region.pid
                ));
            }
        }
    }

    /// How many tracepoints have a filter that a program evaluates, and that the bridge does.
    pub fn filters(&self) -> (usize, usize) {
        let by_program: usize = self.regions.iter().map(|it| it.filtering.events()).sum();
        let filtered = |point: &&Point| point.filter.is_some();
        let all = self.points.iter().filter(filtered).count();
        (by_program, all.saturating_sub(by_program))
    }

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
    fn drain(&mut self, events: &mut Vec<Event>) -> u64 {
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
        self.fit.add(read());
        let mut findings = Findings::default();
        let mut round = Round {
            conversion: self.fit.conversion(),
            now: now(),
            region: 0,
            points: &mut self.points,
            only: None,
            threads: &self.threads,
            cpus: &self.cpus,
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
    fn lost(&mut self, time: u64, events: &mut Vec<Event>) {
        for region in &mut self.regions {
            for (index, hits) in region.filtered() {
                self.points[index].filtered += hits;
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
                });
            }
        }
    }

    /// Lets regions go whose process has ended and that are empty.
    fn let_go(&mut self) {
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

    /// Whether rings were left in the middle by the last round.
    pub fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// Wants nothing any more. What the rings hold is still there to be drained.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.waits_until = None;
        for region in &self.regions {
            region.want_nothing();
        }
        for region in &mut self.regions {
            // A target that has died does not answer; its rings are read all the same.
            if !region.has_ended && region.is_there() {
                region.shared.ask(ANSWER);
            }
        }
    }
}

/// A ring with something to be drained.
struct Behind {
    region: usize,
    reading: usize,
    head: u64,
}

impl Rings for SdkRings {
    fn rings(&self) -> usize {
        1
    }

    fn round(&mut self, shares: &mut Vec<Share>, _ended: &mut Vec<usize>) -> Result<()> {
        let mut events = Vec::new();
        let begin = now();
        self.look_at_filters(Duration::ZERO);
        let until = if self.how.recorder {
            self.fit.add(read());
            begin
        } else {
            self.drain(&mut events)
        };
        self.lost(begin, &mut events);
        self.last_round = begin;
        self.let_go();
        shares.push(Share {
            ring: 0,
            until,
            events,
        });
        Ok(())
    }

    fn finish(&mut self, shares: &mut Vec<Share>) -> Result<()> {
        if !self.stopped {
            self.stop();
        }
        loop {
            self.round(shares, &mut Vec::new())?;
            if !self.has_backlog {
                break;
            }
        }
        for share in shares.iter_mut() {
            share.until = u64::MAX;
        }
        Ok(())
    }

    fn counts(&self) -> Vec<Count> {
        let count = |point: &Point| {
            let lost: u64 = point.places.iter().map(|place| place.2).sum();
            Count {
                probe: point.probe,
                hits: point.delivered + point.filtered + lost,
                delivered: point.delivered,
                filtered: point.filtered,
                missed: Some(0),
                lost: point.places.clone(),
            }
        };
        self.points.iter().map(count).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
