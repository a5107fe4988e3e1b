//! What rings hold, looked at without taking it and without stopping anybody.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tracebraid_ring::Region;
use tracebraid_wire::region::HEADER_BYTES;

use super::SdkRings;
use super::clock::{Fit, now, read};
use super::core_dump;
use super::point::Point;
use super::scene::{Findings, Round};
use super::shared::Shared;
use super::taken::Taken;
use super::{find, header};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Probe};
use crate::filter::Hits;
use crate::source::spare::Spare;
use crate::target::Process;

/// A snapshot that a program has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The process.
    pub pid: u32,
    /// Why.
    pub reason: String,
}

/// What the rings of a process hold.
#[derive(Debug, Default)]
pub struct Held {
    /// The events, in order of time.
    pub events: Vec<Event>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Looks at what the rings of a process hold: of a flight recorder what was recorded last, of other rings
/// what their reader has not taken yet. `wish` says which tracepoints count, and which of
/// their hits.
///
/// # Errors
/// The process has no rings, or none that can be looked at.
pub fn held_by(pid: u32, wish: &mut dyn FnMut(&Probe) -> Hits) -> Result<Held> {
    let mut regions = Vec::new();
    for (path, id) in find::of_process(pid) {
        regions.push(Taken::observe(path, id, pid)?);
    }
    if regions.is_empty() {
        // Says what is the matter with a process that is not there, has ended, or may not be looked at.
        Process::open(pid)?.mappings()?;
        let why = match find::numbers(pid).is_empty() {
            true => format!("there is no process {pid}, or it may not be looked at"),
            false => {
                format!("process {pid} has no rings: its program did not call tracebraid::init()")
            }
        };
        return Err(Error::new(ErrorKind::Target, why));
    }
    Ok(look_at(&mut regions, wish))
}

/// What the rings in a core dump hold.
///
/// # Errors
/// The file is none, or has no rings.
pub fn held_in(core: &Path, wish: &mut dyn FnMut(&Probe) -> Hits) -> Result<Held> {
    Ok(look_at(&mut core_dump::regions(core)?, wish))
}

/// What the rings of a region hold that the caller has mapped by itself, of a process that is no more.
///
/// # Errors
/// Its header is none, or says other sizes.
pub fn held_of(region: Region, pid: u32, wish: &mut dyn FnMut(&Probe) -> Hits) -> Result<Held> {
    let cannot = |why| {
        Error::new(
            ErrorKind::Target,
            format!("the rings of process {pid} {why}"),
        )
    };
    let file = File::from(
        region
            .file()
            .try_clone_to_owned()
            .map_err(|error| cannot("cannot be read").because(error))?,
    );
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| cannot("cannot be read").because(error))?;
    let (header, geometry) = header::check(&bytes, pid)?;
    if geometry != region.geometry() {
        return Err(cannot("are not what their header says"));
    }
    let shared =
        Shared::of_copy(region, header).map_err(|error| cannot("cannot be kept").because(error))?;
    Ok(look_at(&mut [Taken::of_the_dead(shared, pid)], wish))
}

fn look_at(regions: &mut [Taken], wish: &mut dyn FnMut(&Probe) -> Hits) -> Held {
    let mut held = Held::default();
    let mut points: Vec<Point> = Vec::new();
    for region in regions.iter_mut() {
        region.know(&mut points, wish);
    }
    for region in regions {
        // Each program has noted its own moments.
        let mut fit = Fit::default();
        region
            .shared
            .pairs()
            .into_iter()
            .for_each(|pair| fit.add(pair));
        fit.add(read());
        look(
            std::slice::from_mut(region),
            &mut points,
            &fit,
            Looked::default(),
            &mut held,
        );
    }
    held.events.sort_by_key(|event| event.time);
    held
}

/// Of what a ring holds, what is looked at: see [`Round`]. All of it by default.
#[derive(Clone, Copy, Default)]
struct Looked<'a> {
    only: Option<&'a [bool]>,
    after: u64,
    threads: &'a [u32],
    cpus: &'a [u32],
    /// Only what has come since the last look.
    is_new: bool,
}

fn look(
    regions: &mut [Taken],
    points: &mut [Point],
    fit: &Fit,
    looked: Looked<'_>,
    held: &mut Held,
) {
    let mut findings = Findings::default();
    let ended = regions.iter().all(|region| region.has_ended);
    let mut round = Round {
        conversion: fit.conversion(),
        now: if ended { u64::MAX } else { now() },
        region: 0,
        only: looked.only,
        after: looked.after,
        points,
        threads: looked.threads,
        cpus: looked.cpus,
        // What a snapshot takes is kept: it is no stream.
        spare: &mut Spare::default(),
        events: &mut held.events,
        findings: &mut findings,
    };
    for (index, region) in regions.iter_mut().enumerate() {
        round.region = index;
        region.look(!looked.is_new, &mut round);
    }
    let now = now();
    for stranger in findings.strangers {
        let person = regions[stranger.region].person(stranger.key, now);
        if let Some(event) = held.events.get_mut(stranger.event)
            && !person.is_stranger
        {
            (event.pid, event.tid, event.comm) = (person.pid, person.tid, person.comm);
        }
    }
    held.warnings.extend(findings.warnings);
}

impl SdkRings {
    /// Snapshots that programs have asked for since the last call.
    pub fn asked(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for region in &mut self.regions {
            let snapshots = region.shared.snapshots();
            if snapshots != std::mem::replace(&mut region.snapshots, snapshots) {
                asked.push(Asked {
                    pid: region.pid,
                    reason: region.shared.reason(),
                });
            }
        }
        asked
    }

    /// What flight recorders got between the last two calls, of the wanted tracepoints that `means` says. They
    /// are looked at, not taken. Nothing comes while there are tracepoints of which nobody has said whether
    /// they are wanted ([`unknown`](SdkRings::unknown)).
    pub fn news(&mut self, means: impl Fn(&str, &str) -> bool) -> Vec<Event> {
        self.look_through();
        if self.regions.iter().any(Taken::awaits_word) {
            return Vec::new();
        }
        let only: Vec<bool> = self
            .points
            .iter()
            .map(|point| means(&point.what.group, &point.what.name))
            .collect();
        let looked = Looked {
            only: Some(&only),
            is_new: true,
            ..Looked::default()
        };
        self.look_into(looked)
    }

    /// What flight recorders hold that is later than `after` (ns), in order of time.
    pub fn snapshot(&mut self, after: u64) -> Vec<Event> {
        let looked = Looked {
            after,
            ..Looked::default()
        };
        let mut events = self.look_into(looked);
        events.sort_by_key(|event| event.time);
        events
    }

    fn look_into(&mut self, looked: Looked<'_>) -> Vec<Event> {
        let mut held = Held::default();
        let looked = Looked {
            threads: &self.threads,
            cpus: &self.cpus,
            ..looked
        };
        look(
            &mut self.regions,
            &mut self.points,
            &self.fit,
            looked,
            &mut held,
        );
        self.warnings.extend(held.warnings);
        held.events
    }
}
