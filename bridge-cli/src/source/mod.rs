//! Where events come from. Each source yields the events of one CPU, oldest first as far as it can
//! know; putting them in order is the merge's work, of which no source knows.

pub mod bpf_ring;
pub mod decode;
mod definition;
pub(crate) mod kernel_value;
mod scheduler;
pub mod sdk_ring;
pub mod slots;
pub mod spare;
pub mod syscall;

use std::collections::BTreeMap;
use std::time::Duration;

use tracebraid_bpf::record::LostReason;
use tracebraid_bpf::spec::ProbeId;

use crate::error::Result;
use crate::event::Event;
use spare::Spare;

/// Where events of one probe were lost: why, on which CPU
/// ([`Lost::UNKNOWN_CPU`](tracebraid_bpf::record::Lost::UNKNOWN_CPU) where that is not known), and how many.
pub type LostPlaces = Vec<(LostReason, u32, u64)>;

/// What became of a probe's hits: each is an event, filtered out or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Which probe.
    pub probe: ProbeId,
    /// Hits counted at the probe.
    pub hits: u64,
    /// Events that were given out.
    pub delivered: u64,
    /// Hits that did not pass the probe's filter.
    pub filtered: u64,
    /// Hits that the kernel kept from the probe, not among `hits`; `None` where it does not count them.
    pub missed: Option<u64>,
    /// Where hits were lost.
    pub lost: LostPlaces,
    /// What they have cost.
    pub cost: Cost,
}

/// What the hits of a probe have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// No BPF program runs at them.
    #[default]
    NoProgram,
    /// One does, and nobody has measured it.
    Unknown,
    /// So many runs of it took so long, also those for hits that turned out not to be wanted. Probes that share
    /// a program are not told from one another.
    Runs(u64, Duration),
}

impl Cost {
    /// Nanoseconds of one run, where there was one.
    pub fn nanoseconds(self) -> Option<u64> {
        match self {
            Cost::Runs(runs @ 1.., time) => {
                let all = time.as_nanos() + u128::from(runs) / 2;
                u64::try_from(all / u128::from(runs)).ok()
            }
            _ => None,
        }
    }

    /// With that of what came by another way.
    #[must_use]
    pub fn and(self, other: Cost) -> Cost {
        match (self, other) {
            (Cost::NoProgram, cost) | (cost, Cost::NoProgram) => cost,
            (Cost::Unknown, _) | (_, Cost::Unknown) => Cost::Unknown,
            (Cost::Runs(runs, time), Cost::Runs(more, longer)) => {
                Cost::Runs(runs + more, time + longer)
            }
        }
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Cost) -> Cost {
        match (self, before) {
            (Cost::Runs(runs, time), Cost::Runs(before, earlier)) => {
                Cost::Runs(runs.saturating_sub(before), time.saturating_sub(earlier))
            }
            (cost, _) => cost,
        }
    }
}

/// What one ring gives in one round.
#[derive(Debug)]
pub struct Share {
    /// Which of its source's rings.
    pub ring: usize,
    /// Nothing older (ns) will come from it.
    pub until: u64,
    /// Its events, in no particular order.
    pub events: Vec<Event>,
}

/// Rings that are drained by round.
pub trait Rings {
    /// How many rings there are.
    fn rings(&self) -> usize;

    /// Drains all rings; events lie in memory of `spare`. `shares` gets one element for each ring that is still read; the rings in `ended`
    /// will never give anything more.
    ///
    /// # Errors
    /// What the kernel answered; damaged rings are no error.
    fn round(
        &mut self,
        spare: &mut Spare,
        shares: &mut Vec<Share>,
        ended: &mut Vec<usize>,
    ) -> Result<()>;

    /// Detaches, and gives all that is left.
    ///
    /// # Errors
    /// What the kernel answered.
    fn finish(&mut self, spare: &mut Spare, shares: &mut Vec<Share>) -> Result<()>;

    /// What became of each probe's hits.
    fn counts(&self) -> Vec<Count>;

    /// Warnings since the last call.
    fn take_warnings(&mut self) -> Vec<String>;
}

/// Adds a loss to where a probe's events were lost.
fn note_loss<K: Ord>(
    places: &mut BTreeMap<K, LostPlaces>,
    probe: K,
    reason: LostReason,
    cpu: u32,
    count: u64,
) {
    let places = places.entry(probe).or_default();
    match places
        .iter_mut()
        .find(|place| (place.0, place.1) == (reason, cpu))
    {
        Some(place) => place.2 += count,
        None => places.push((reason, cpu, count)),
    }
}
