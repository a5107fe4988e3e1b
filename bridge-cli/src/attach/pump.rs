//! From rings to batches in order of time: the sources of a session and the merge of all their rings.

use crate::error::Result;
use crate::event::Event;
use crate::merge::{Counts, Merge};
use crate::source::bpf_ring::{BpfRings, Count, LostPlaces, Share};

/// Events that the merge may hold back. In the ordinary course it holds one round's worth.
const HELD: usize = 1 << 20;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Pump {
    sources: Vec<Source>,
    merge: Merge<Event>,
}

#[derive(Debug)]
struct Source {
    rings: BpfRings,
    /// The merge's number of its first ring.
    first: usize,
}

/// What is left when all is over.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// The last events, in order.
    pub(super) events: Vec<Event>,
    /// Of all sources, by probe, with where events were lost.
    pub(super) counts: Vec<(Count, LostPlaces)>,
    /// How the merge went.
    pub(super) merge: Counts,
    /// Warnings since the last round.
    pub(super) warnings: Vec<String>,
}

impl Pump {
    pub(super) fn new() -> Pump {
        Pump {
            sources: Vec::new(),
            merge: Merge::new(0, HELD),
        }
    }

    /// Takes in a source; its events come from the next round on.
    pub(super) fn add(&mut self, rings: BpfRings) {
        let first = self.merge.add_rings(rings.rings());
        self.sources.push(Source { rings, first });
    }

    /// Drains every ring once and gives what is final by now, in order.
    pub(super) fn round(&mut self) -> Result<Vec<Event>> {
        let (mut shares, mut ended) = (Vec::new(), Vec::new());
        for source in &mut self.sources {
            source.rings.round(&mut shares, &mut ended)?;
            push(&mut self.merge, source.first, &mut shares);
            for ring in ended.drain(..) {
                self.merge.end(source.first + ring);
            }
        }
        let mut events = Vec::new();
        self.merge.release(&mut events);
        Ok(events)
    }

    /// Detaches everything and gives all that is left.
    pub(super) fn finish(mut self) -> Result<Finished> {
        let mut shares = Vec::new();
        let mut failed = None;
        for source in &mut self.sources {
            // The others are to be detached and emptied all the same.
            if let Err(error) = source.rings.finish(&mut shares) {
                failed = Some(error);
            }
            push(&mut self.merge, source.first, &mut shares);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut events = Vec::new();
        let merge = self.merge.finish(&mut events);
        let counts = self
            .sources
            .iter()
            .flat_map(|source| source.rings.counts())
            .collect();
        let warnings = self
            .sources
            .iter_mut()
            .flat_map(|source| source.rings.take_warnings())
            .collect();
        Ok(Finished {
            events,
            counts,
            merge,
            warnings,
        })
    }

    /// Warnings since the last call.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        self.sources
            .iter_mut()
            .flat_map(|source| source.rings.take_warnings())
            .collect()
    }
}

fn push(merge: &mut Merge<Event>, first: usize, shares: &mut Vec<Share>) {
    for share in shares.drain(..) {
        merge.push(first + share.ring, share.until, share.events);
    }
}
