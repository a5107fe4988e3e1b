//! One region that this bridge reads.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracebraid_ring::Consumer;
use tracebraid_wire::region::{
    self, Group, MODE_DISCARD, MODE_OVERWRITE, WANTED_ALL, WANTED_COUNTED, WANTED_OF_CHILDREN,
};

use super::filtering::Filtering;
use super::find::{self, FileId};
use super::people::{Key, People, Person};
use super::point::{Listed, Point};
use super::reading::Reading;
use super::scene::point_of;
use super::shared::Shared;
use crate::error::Result;
use crate::event::Probe;
use crate::filter::Hits;

/// What is asked of a region.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    /// It is of the target itself.
    pub(super) is_target: bool,
    /// Events of children too.
    pub(super) children: bool,
    /// Full rings overwrite.
    pub(super) recorder: bool,
    /// No more is wanted of hits than their number.
    pub(super) count_only: bool,
}

/// See the module's page.
pub(super) struct Taken {
    pub(super) shared: Shared,
    pub(super) path: PathBuf,
    pub(super) id: FileId,
    /// Its process, as we number it.
    pub(super) pid: u32,
    pub(super) wish: Wish,
    pub(super) people: People,
    pub(super) readings: Vec<Reading>,
    /// By event id: the index of the point that it is.
    pub(super) points: Vec<Option<u16>>,
    /// Who evaluates their filters.
    pub(super) filtering: Filtering,
    /// By event of which no more is wanted: its hits by the last look, on each CPU of the process and its children.
    counted: HashMap<u16, Vec<u32>>,
    /// Entries of the directory that no point stands for yet.
    pub(super) unknown: Vec<Listed>,
    /// Bytes of the directory that were read.
    directory_read: usize,
    /// The last event that there was when the region was taken: losses of later ones are all ours.
    last_before: u16,
    /// By ring with losses and event: what was counted by the last round.
    losses: HashMap<(usize, u16), u32>,
    /// What a time namespace adds to the process's CLOCK_MONOTONIC beyond ours, ns.
    pub(super) ahead: i64,
    /// Nothing is wanted any more: what is adopted from here on was recorded before.
    pub(super) stopped: bool,
    /// Its process is gone: nothing more will be appended.
    pub(super) has_ended: bool,
    /// Times that had not come yet were seen, and said.
    pub(super) lies: bool,
    /// Snapshots that its program has asked for, as far as they were noticed.
    pub(super) snapshots: u32,
}

impl Taken {
    /// Takes a region. Nothing is wanted of it yet.
    ///
    /// # Errors
    /// It is none that we know, or somebody else has it.
    pub(super) fn take(
        path: PathBuf,
        id: FileId,
        pid: u32,
        wish: Wish,
        warnings: &mut Vec<String>,
    ) -> Result<Taken> {
        let shared = Shared::take(&path, pid)?;
        // What an earlier reader left behind is nobody's; what the program recorded unasked is ours.
        let is_first = shared.is_untouched();
        let wanted_mode = if wish.recorder {
            MODE_OVERWRITE
        } else {
            MODE_DISCARD
        };
        if shared.mode() != wanted_mode {
            shared.want_mode(wanted_mode);
            if !shared.ask(ANSWER) || shared.mode() != wanted_mode {
                let what = match wish.recorder {
                    true => "do not become a flight recorder",
                    false => "stay a flight recorder: only bridge-cli snapshot reads them",
                };
                warnings.push(format!("the rings of process {pid} {what}"));
            }
        }
        let mut taken = Taken::of(shared, path, id, pid, wish);
        taken.filtering = Filtering::new(is_first);
        if !is_first || wish.recorder {
            taken.skip_all();
        }
        Ok(taken)
    }

    /// A region that is only looked at.
    ///
    /// # Errors
    /// It is none that we know.
    pub(super) fn observe(path: PathBuf, id: FileId, pid: u32) -> Result<Taken> {
        let shared = Shared::open(&path, pid)?;
        let wish = Wish {
            children: shared.children() != 0,
            ..Wish::default()
        };
        Ok(Taken::of(shared, path, id, pid, wish))
    }

    /// A copy of the region of a process that is no more, whose number may be another's by now.
    pub(super) fn of_the_dead(shared: Shared, pid: u32) -> Taken {
        let wish = Wish {
            children: shared.children() != 0,
            ..Wish::default()
        };
        Taken {
            people: People::of_the_dead(pid),
            ahead: 0,
            has_ended: true,
            ..Taken::of(shared, PathBuf::new(), (0, 0), pid, wish)
        }
    }

    fn of(shared: Shared, path: PathBuf, id: FileId, pid: u32, wish: Wish) -> Taken {
        let cpus = shared.cpus();
        let groups = Group::ALL
            .into_iter()
            .filter(|group| wish.children || !group.is_of_children());
        let reading = |group: Group| {
            let region = shared.region();
            (group.first(cpus)..group.first(cpus) + cpus).map(move |ring| Reading {
                consumer: Consumer::new(Arc::clone(region), ring),
                group,
                last: 0,
                seen: 0,
            })
        };
        let readings = groups.flat_map(reading).collect();
        let directory = shared.directory(0);
        let last_before = region::listed(&directory).map(|point| point.event).max();
        Taken {
            snapshots: shared.snapshots(),
            people: People::of(pid),
            ahead: time_offset(pid),
            shared,
            path,
            id,
            pid,
            wish,
            readings,
            points: Vec::new(),
            filtering: Filtering::default(),
            counted: HashMap::new(),
            unknown: Vec::new(),
            directory_read: 0,
            last_before: last_before.unwrap_or(0),
            losses: HashMap::new(),
            stopped: false,
            has_ended: false,
            lies: false,
        }
    }

    /// Knows every event of the directory of which `wish` wants hits, with nothing being asked for. What
    /// points they are is appended to `points`.
    pub(super) fn know(&mut self, points: &mut Vec<Point>, wish: &mut dyn FnMut(&Probe) -> Hits) {
        let directory = self.shared.directory(0);
        for point in region::listed(&directory) {
            let event = point.event;
            let Some(listed) = Listed::read(self.pid, &point) else {
                continue;
            };
            let known = points.iter().position(|point| point.is(&listed));
            let index = match known {
                Some(index) => index,
                None => {
                    let mut point = Point::of_listed(&listed);
                    point.filter = match wish(&point.what) {
                        Hits::All => None,
                        Hits::Some(filter) => Some(filter),
                        Hits::None => continue,
                    };
                    points.push(point);
                    points.len() - 1
                }
            };
            let at = usize::from(event);
            if self.points.len() <= at {
                self.points.resize(at + 1, None);
            }
            self.points[at] = u16::try_from(index).ok();
        }
    }

    fn skip_all(&mut self) {
        for reading in &mut self.readings {
            if self.wish.recorder {
                reading.consumer.skip();
            } else {
                // A damaged ring is reported when it is read for somebody.
                let _ = reading.consumer.drain(reading.consumer.head(), |_| ());
            }
        }
    }

    /// Reads what is new in the directory, and wants what is among the points. Whether something is to be
    /// asked for.
    pub(super) fn sync(&mut self, points: &[Point]) -> bool {
        let news = self.shared.directory(self.directory_read);
        if news.is_empty() {
            return false;
        }
        self.directory_read += news.len();
        let entries = region::listed(&news);
        let pid = self.pid;
        let listed = entries.filter_map(|point| Listed::read(pid, &point));
        self.unknown.extend(listed);
        self.adopt(points)
    }

    /// Wants what is among the points and was not known. Whether something is to be asked for.
    pub(super) fn adopt(&mut self, points: &[Point]) -> bool {
        let mut any = false;
        let unknown = std::mem::take(&mut self.unknown);
        for listed in unknown {
            match points.iter().position(|point| point.is(&listed)) {
                Some(index) if self.comes_otherwise(&listed, &points[index]) => {}
                Some(index) => any |= self.want(listed.event, index, &points[index]),
                None => self.unknown.push(listed),
            }
        }
        any
    }

    /// Reads the directory from its beginning again the next time.
    pub(super) fn look_through_again(&mut self) {
        self.directory_read = 0;
        self.unknown.clear();
    }

    /// Whether its hits come through a USDT probe of the file that this tracepoint is in.
    fn comes_otherwise(&self, listed: &Listed, point: &Point) -> bool {
        !point.probed_in.is_empty()
            && find::inode_at(self.pid, listed.row)
                .is_some_and(|inode| point.probed_in.contains(&inode))
    }

    fn want(&mut self, event: u16, index: usize, point: &Point) -> bool {
        if self.point(event).is_some() {
            return false;
        }
        let at = usize::from(event);
        if self.points.len() <= at {
            self.points.resize(at + 1, None);
        }
        self.points[at] = u16::try_from(index).ok();
        for ring in self.loss_rings() {
            let lost = match event > self.last_before {
                true => 0,
                false => self.shared.losses(ring, event),
            };
            self.losses.insert((ring, event), lost);
        }
        if self.stopped {
            return false;
        }
        let wanted = match &point.filter {
            None if self.wish.count_only && self.shared.counts() => {
                let before = self.filtering.before(&self.shared, event);
                self.counted.insert(event, before);
                WANTED_COUNTED
            }
            None => WANTED_ALL,
            Some(filter) => {
                let same_numbers = self.people.same_numbers();
                let filtering = &mut self.filtering;
                filtering.want(&self.shared, event, filter, same_numbers)
            }
        };
        self.shared.want(event, wanted | self.of_children());
        self.shared.want(0, self.of_children());
        true
    }

    fn of_children(&self) -> u8 {
        match self.wish.children {
            true => WANTED_OF_CHILDREN,
            false => 0,
        }
    }

    /// Sees whether the program has taken its filters. Where it cannot read them every hit is wanted, and it is
    /// to be asked again; how many events that are.
    pub(super) fn look_at_filters(&mut self, now: u64) -> usize {
        let refused = self.filtering.look(&self.shared, now);
        for event in &refused {
            self.shared.want(*event, WANTED_ALL | self.of_children());
        }
        refused.len()
    }

    /// What its program's filters have refused since the last call: `(point, hits)`.
    pub(super) fn filtered(&mut self) -> Vec<(usize, u64)> {
        let counted = self.filtering.counted(&self.shared).into_iter();
        let points = &self.points;
        counted
            .filter_map(|(event, hits)| Some((point_of(points, event)?, hits)))
            .collect()
    }

    /// What its program has counted since the last call, of events of which no more is wanted: `(point, hits)`.
    pub(super) fn counted(&mut self) -> Vec<(usize, u64)> {
        let mut counted = Vec::new();
        for (event, before) in &mut self.counted {
            let now = self.shared.counted_hits(*event);
            let more = now.iter().zip(before.iter());
            let more = more.map(|(now, before)| u64::from(now.wrapping_sub(*before)));
            let more: u64 = more.sum();
            *before = now;
            if let Some(point) = point_of(&self.points, *event).filter(|_| more > 0) {
                counted.push((point, more));
            }
        }
        counted
    }

    /// Wants nothing any more.
    pub(super) fn want_nothing(&self) {
        for event in 0..self.points.len() {
            self.shared.want(event as u16, 0);
        }
        self.shared.forget_filters();
        self.shared.want_later(&[]);
    }

    /// Whether tracepoints were made of which nobody has said yet whether they are wanted.
    pub(super) fn awaits_word(&self) -> bool {
        self.wish.is_target && self.unknown.iter().any(|listed| listed.is_made)
    }

    /// Events are of no points any more.
    pub(super) fn forget_points(&mut self) {
        self.points.clear();
        self.filtering.clear();
        self.counted.clear();
        self.look_through_again();
    }

    /// The point that an event is.
    fn point(&self, event: u16) -> Option<usize> {
        point_of(&self.points, event)
    }

    /// The rings that losses are counted of: those of CPUs.
    fn loss_rings(&self) -> impl Iterator<Item = usize> + use<> {
        let cpus = self.shared.cpus();
        let groups = [
            Some(Group::Own),
            self.wish.children.then_some(Group::Children),
        ];
        groups
            .into_iter()
            .flatten()
            .flat_map(move |group| group.first(cpus)..group.first(cpus) + cpus)
    }

    /// What was lost since the last call: `(point, CPU, count)`.
    pub(super) fn lost(&mut self) -> Vec<(usize, u32, u32)> {
        let mut lost = Vec::new();
        let cpus = self.shared.cpus().max(1);
        for ring in self.loss_rings() {
            for event in 0..self.points.len() as u16 {
                let Some(point) = self.point(event) else {
                    continue;
                };
                let now = self.shared.losses(ring, event);
                let last = self.losses.insert((ring, event), now).unwrap_or(now);
                match now.wrapping_sub(last) {
                    0 => {}
                    count => lost.push((point, (ring % cpus) as u32, count)),
                }
            }
        }
        lost
    }

    /// Whether somebody may still append although the region's process has ended.
    pub(super) fn has_living_children(&mut self) -> bool {
        self.people.forget_dead_children();
        self.wish.children && !self.people.children().is_empty()
    }

    /// Whether the process still has the region: it has not ended, nor started another program.
    pub(super) fn is_there(&self) -> bool {
        find::identity(&self.path) == Some(self.id)
            || find::is_alive(self.pid)
                && find::of_process(self.pid)
                    .iter()
                    .any(|(_, id)| *id == self.id)
    }

    /// Who a thread is by now.
    pub(super) fn person(&mut self, key: Key, now: u64) -> Person {
        self.people.person(key, now)
    }
}

/// What a time namespace adds to a process's CLOCK_MONOTONIC beyond ours, ns.
fn time_offset(pid: u32) -> i64 {
    let offset = |who: &str| -> Option<i64> {
        let text = std::fs::read_to_string(format!("/proc/{who}/timens_offsets")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("monotonic"))?;
        let mut numbers = line.split_whitespace().map(str::parse::<i64>);
        let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    };
    offset(&pid.to_string()).unwrap_or(0) - offset("self").unwrap_or(0)
}

/// How long the helper may take to switch keys.
pub(super) const ANSWER: Duration = Duration::from_secs(2);
