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
mod find;
mod people;
mod shared;
mod snapshot;
mod taken;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebraid_bpf::record::LostReason;
use tracebraid_bpf::spec::{Filter, ProbeId};
use tracebraid_wire::kind::FieldKind;

use super::decode::Decoder;
use super::{Count, LostPlaces, Rings, Share, note_loss};
use crate::error::Result;
use crate::event::{Comm, Event, Probe, What};

pub use clock::{Conversion, Fit, Pair, now, read};
pub use snapshot::{Asked, Held, held_by, held_in};

use find::FileId;
use taken::{ANSWER, Findings, Round, Taken, Wish};

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
/// How often regions are looked for.
const LOOK: Duration = Duration::from_millis(250);
/// How often where somebody waits for it.
const SOON: Duration = Duration::from_millis(5);
/// How long a program that was started may take until it has its rings.
const START: Duration = Duration::from_secs(2);

/// A tracepoint that a region's directory lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its event id.
    pub event: u16,
    /// Where its row is in the target's memory, which says in which object it is.
    pub row: u64,
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// The print format, or empty.
    pub print: String,
    /// Fields in order.
    pub fields: Vec<(String, FieldKind)>,
}

impl Listed {
    /// What it is called and how it prints.
    pub fn decoder(&self) -> Decoder {
        let fields = self
            .fields
            .iter()
            .map(|(name, kind)| (name.as_str(), *kind));
        Decoder::application(&self.provider, &self.name, &self.print, fields)
    }
}

/// A tracepoint that is wanted from the rings.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its number in the session.
    pub probe: ProbeId,
    /// What it is called and how it prints.
    pub what: Arc<Probe>,
    /// Its fields' kinds.
    pub kinds: Vec<FieldKind>,
    /// Whether it is wanted of the target itself: not where its hits come by another way already.
    pub in_target: bool,
}

/// A tracepoint that is wanted, and what became of it.
struct Point {
    probe: ProbeId,
    what: Arc<Probe>,
    kinds: Vec<FieldKind>,
    in_target: bool,
    delivered: u64,
    places: LostPlaces,
}

impl Point {
    /// One that is looked at without a session.
    fn of_listed(listed: &Listed) -> Point {
        Point {
            probe: ProbeId(0),
            what: Arc::clone(listed.decoder().probe()),
            kinds: listed.fields.iter().map(|(_, kind)| *kind).collect(),
            in_target: true,
            delivered: 0,
            places: LostPlaces::new(),
        }
    }

    fn is(&self, listed: &Listed) -> bool {
        let what = &self.what;
        let is_field = |((name, kind), (field, own)): (&(String, FieldKind), _)| {
            let (field, own): (&crate::event::Field, &FieldKind) = (field, own);
            *name == field.name && kind == own
        };
        listed.provider == what.group
            && listed.name == what.name
            && listed.fields.len() == self.kinds.len()
            && listed
                .fields
                .iter()
                .zip(what.fields.iter().zip(&self.kinds))
                .all(is_field)
    }
}

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
            refused: HashSet::new(),
            next_look: Instant::now(),
            waits_until: how.started.then(|| Instant::now() + START),
            next_flush: Instant::now(),
            last_round: now(),
            has_backlog: false,
            stopped: false,
            warnings: Vec::new(),
        };
        let errors = rings.look_at(target);
        (rings, errors)
    }

    /// The target, as we number it.
    pub fn target(&self) -> u32 {
        self.target
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
            region.sync(&self.points);
            let directory = region.shared.directory(0);
            let entries = tracebraid_wire::region::listed(&directory);
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
            in_target: wanted.in_target,
            delivered: 0,
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
    }

    /// Looks for regions when it is time: of the target, which makes them when it calls `init()`, anew after
    /// it starts another program, and of its descendants. Whether there are new ones.
    pub fn look(&mut self) -> bool {
        let start = Instant::now();
        if start < self.next_look || self.stopped {
            return false;
        }
        for region in &mut self.regions {
            region.has_ended = region.has_ended || !region.is_there();
        }
        let before = self.regions.len();
        let live = |region: &Taken| region.wish.is_target && !region.has_ended;
        if !self.regions.iter().any(live) {
            let target = self.target;
            self.look_and_say(target);
        }
        if self.how.follow {
            let mut family = self.family();
            let descendants = find::descendants(&family);
            family.extend(descendants);
            family.retain(|pid| *pid != self.target);
            for pid in family {
                self.look_and_say(pid);
            }
        }
        // What takes long is done more rarely: a tenth of the time at most.
        let pause = match self.waits_until {
            Some(_) => SOON,
            // Programs that it starts wait for us.
            None if self.how.started && self.how.follow => 4 * SOON,
            None => LOOK,
        };
        self.next_look = Instant::now() + pause.max(start.elapsed() * 10);
        self.regions.len() > before
    }

    /// Looks for regions that the target may have made with a library that it has loaded.
    pub fn look_for_libraries(&mut self) {
        let target = self.target;
        self.look_and_say(target);
    }

    /// The processes that are known to be the target's.
    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.target];
        for region in &self.regions {
            for pid in [region.pid].iter().chain(region.people.children()) {
                if !family.contains(pid) {
                    family.push(*pid);
                }
            }
        }
        family
    }

    /// Whether somebody who is followed lives although the target has ended.
    pub fn is_followed_alive(&mut self) -> bool {
        self.how.follow
            && self.regions.iter_mut().any(|region| {
                region.has_living_children() || !region.wish.is_target && find::is_alive(region.pid)
            })
    }

    fn look_and_say(&mut self, pid: u32) {
        for error in self.look_at(pid) {
            self.warnings.push(error.with_causes());
        }
    }

    /// Takes the regions of a process that are its own and not taken yet.
    fn look_at(&mut self, pid: u32) -> Vec<crate::error::Error> {
        let mut errors = Vec::new();
        let is_target = pid == self.target;
        for (path, id) in find::of_process(pid) {
            let is_known = self.regions.iter().any(|region| region.id == id);
            if is_known || self.refused.contains(&id) {
                continue;
            }
            // A child of fork has its parent's region too.
            let owner = shared::Shared::owner(&path);
            if owner.is_some() && owner != find::numbers(pid).last().copied() {
                continue;
            }
            let wish = Wish {
                is_target,
                children: self.how.follow,
                recorder: self.how.recorder,
            };
            match Taken::take(path, id, pid, wish, &mut self.warnings) {
                Ok(mut region) => {
                    if region.sync(&self.points) {
                        region.shared.ask(ANSWER);
                    }
                    self.waits_until = self.waits_until.filter(|_| !is_target);
                    self.regions.push(region);
                }
                Err(error) => {
                    self.refused.insert(id);
                    errors.push(error);
                }
            }
        }
        errors
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

    /// What was counted as lost since the last round, as events.
    fn lost(&mut self, time: u64, events: &mut Vec<Event>) {
        for region in &mut self.regions {
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
        let recorder = self.how.recorder;
        self.regions.retain_mut(|region| {
            !region.has_ended || recorder || region.has_living_children() || !drained(region)
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
        let until = if self.how.recorder {
            self.fit.add(read());
            now()
        } else {
            let begin = now();
            let until = self.drain(&mut events);
            self.lost(begin, &mut events);
            self.last_round = begin;
            until
        };
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

    fn counts(&self) -> Vec<(Count, LostPlaces)> {
        let count = |point: &Point| {
            let lost = point.places.iter().map(|place| place.2).sum();
            let count = Count {
                probe: point.probe,
                hits: point.delivered + lost,
                delivered: point.delivered,
                lost,
                missed: Some(0),
            };
            (count, point.places.clone())
        };
        self.points.iter().map(count).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
