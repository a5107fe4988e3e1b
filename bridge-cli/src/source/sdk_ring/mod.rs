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
mod header;
mod made;
mod people;
mod point;
mod reading;
mod round;
mod scene;
mod search;
mod shared;
mod snapshot;
mod taken;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tracebraid_bpf::spec::Filter;
use tracebraid_wire::region;

use super::spare::Spare;
use super::{Cost, Count, LostPlaces, Rings, Share};
use crate::error::Result;

pub use clock::{Conversion, Fit, Pair, now, read};
pub use made::made_in;
pub use point::{Listed, Wanted};
pub use search::{is_served, wake_helper};
pub use snapshot::{Asked, Held, held_by, held_in, held_of};

use find::FileId;
use point::Point;
use taken::{ANSWER, Taken};

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
    /// Of hits no more is wanted than their number: programs count them, where they can.
    pub count_only: bool,
}

/// See the module's page.
pub struct SdkRings {
    /// The targets, as we number them.
    targets: Vec<u32>,
    how: How,
    regions: Vec<Taken>,
    points: Vec<Point>,
    /// What is wanted of tracepoints that are made later.
    later: Vec<String>,
    /// What the last round returned.
    until: u64,
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
    /// Takes the regions that the targets have by now, and those to come.
    ///
    /// # Errors
    /// One for each region that is none we know, or that somebody else has.
    pub fn of(targets: &[u32], filter: &Filter, how: How) -> (SdkRings, Vec<crate::error::Error>) {
        let mut fit = Fit::default();
        fit.add(read());
        let mut rings = SdkRings {
            targets: targets.to_vec(),
            how,
            regions: Vec::new(),
            points: Vec::new(),
            later: Vec::new(),
            until: 0,
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
        let errors = targets.iter().flat_map(|&pid| rings.look_at(pid));
        let errors = errors.collect();
        (rings, errors)
    }

    /// The targets, as we number them.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Words since the last call for those who asked for more.
    pub fn take_details(&mut self) -> Vec<String> {
        std::mem::take(&mut self.details)
    }

    /// Has something said.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Whether a target has rings that were taken.
    pub fn has_rings(&self) -> bool {
        self.regions.iter().any(|region| region.wish.is_target)
    }

    /// Those of the targets that have none.
    pub fn without_rings(&self) -> Vec<u32> {
        let has_some = |pid: u32| {
            let mut regions = self.regions.iter();
            regions.any(|region| region.pid == pid && region.wish.is_target)
        };
        let targets = self.targets.iter().copied();
        targets.filter(|&pid| !has_some(pid)).collect()
    }

    /// Those of the targets whose rings nobody in them switches events on for.
    pub fn without_helper(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        for region in self.regions.iter().filter(|it| it.wish.is_target) {
            let helped = |other: &Taken| other.pid == region.pid && other.shared.has_helper();
            if !pids.contains(&region.pid) && !self.regions.iter().any(helped) {
                pids.push(region.pid);
            }
        }
        pids
    }

    /// Whether a target has rings that somebody in it switches events on for.
    pub fn has_helper(&self) -> bool {
        let helped = |region: &Taken| region.wish.is_target && region.shared.has_helper();
        self.regions.iter().any(helped)
    }

    /// Gives the targets' rings back, for somebody else to take.
    pub fn give_back_targets(&mut self) {
        let given_back = self.regions.extract_if(.., |region| region.wish.is_target);
        self.refused.extend(given_back.map(|region| region.id));
    }

    /// Whether a program that was just started may still make its rings.
    pub fn is_awaited(&self) -> bool {
        self.waits_until.is_some()
    }

    /// Gives up what was wanted of the targets.
    pub fn want_no_points(&mut self) {
        self.points.clear();
        for region in &mut self.regions {
            region.want_nothing();
            region.forget_points();
        }
    }

    /// The tracepoints that the targets' regions list by now. Helpers are asked to look for new libraries
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
            let pid = region.pid;
            listed.extend(entries.filter_map(|point| Listed::read(pid, &point)));
        }
        listed
    }

    /// Wants tracepoints that are made later and that one of these patterns (`PROVIDER:NAME`) names, from
    /// their first hit on.
    pub fn want_later(&mut self, patterns: Vec<String>) {
        self.later = patterns;
        for region in &self.regions {
            region.shared.want_later(&self.later);
            region.shared.ask(ANSWER);
        }
    }

    /// Reads what the directories list by now.
    pub fn look_through(&mut self) {
        for region in &mut self.regions {
            region.sync(&self.points);
        }
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
            counted: 0,
            filtered: 0,
            places: LostPlaces::new(),
        };
        self.points.extend(wanted.into_iter().map(point));
        for region in &mut self.regions {
            region.look_through_again();
            let any = region.sync(&self.points) | region.adopt(&self.points);
            let stuck = region.shared.stuck();
            if any && !region.shared.ask(ANSWER) && region.shared.has_helper() {
                self.warnings.push(format!(
                    "the helper thread of process {} does not answer: its tracepoints may not be on",
                    region.pid
                ));
            } else if region.shared.stuck() != stuck {
                self.warnings.push(format!(
                    "process {} could not switch on all of its tracepoints: it may not patch its code, or another \
                     tool has a breakpoint there; tracebraid::status() says which",
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

    /// Whether rings were left in the middle by the last round.
    pub fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// Wants nothing any more. What the rings hold is still there to be drained.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.waits_until = None;
        for region in &mut self.regions {
            region.want_nothing();
            region.stopped = true;
            // A target that has died does not answer; its rings are read all the same.
            if !region.has_ended && region.is_there() {
                region.shared.ask(ANSWER);
            }
        }
    }
}

impl Rings for SdkRings {
    fn rings(&self) -> usize {
        1
    }

    fn round(
        &mut self,
        spare: &mut Spare,
        shares: &mut Vec<Share>,
        _ended: &mut Vec<usize>,
    ) -> Result<()> {
        let mut events = spare.batch();
        let begin = now();
        self.look_at_filters(Duration::ZERO);
        let until = if self.how.recorder {
            self.fit.add(read());
            begin
        } else {
            let until = self.drain(spare, &mut events);
            self.until = until;
            until
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

    fn finish(&mut self, spare: &mut Spare, shares: &mut Vec<Share>) -> Result<()> {
        if !self.stopped {
            self.stop();
        }
        loop {
            self.round(spare, shares, &mut Vec::new())?;
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
                hits: point.delivered + point.counted + point.filtered + lost,
                delivered: point.delivered,
                filtered: point.filtered,
                missed: Some(0),
                lost: point.places.clone(),
                cost: Cost::NoProgram,
            }
        };
        self.points.iter().map(count).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
