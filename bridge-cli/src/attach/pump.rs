//! From rings to batches in order of time: the sources of a session and the merge of all their rings.

use crossbeam::channel::Receiver;

use crate::error::Result;
use crate::event::Event;
use crate::merge::{Counts, Merge};
use crate::source::bpf_ring::BpfRings;
use crate::source::sdk_ring::SdkRings;
use crate::source::spare::Spare;
use crate::source::{Count, Rings, Share};

/// Events that the merge may hold back. In the ordinary course it holds one round's worth.
const HELD: usize = 1 << 20;

/// See the module's page.
pub(super) struct Pump {
    sessions: Vec<Source<BpfRings>>,
    /// The rings of the target's SDK.
    sdk: Option<Source<SdkRings>>,
    merge: Merge<Event>,
    spare: Spare,
}

struct Source<R> {
    rings: R,
    /// The merge's number of its first ring.
    first: usize,
}

/// What is left when all is over.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// The last events, in order.
    pub(super) events: Vec<Event>,
    /// Of all sources, by probe.
    pub(super) counts: Vec<Count>,
    /// How the merge went.
    pub(super) merge: Counts,
    /// Warnings since the last round.
    pub(super) warnings: Vec<String>,
}

impl Pump {
    pub(super) fn new() -> Pump {
        Pump {
            sessions: Vec::new(),
            sdk: None,
            merge: Merge::new(0, HELD),
            spare: Spare::default(),
        }
    }

    /// Uses the memory of events again once they have been written.
    pub(super) fn reuse(&mut self, written: Receiver<Vec<Event>>) {
        self.spare = Spare::of(written);
    }

    /// Takes in the rings of the target's SDK.
    pub(super) fn add_sdk(&mut self, rings: SdkRings) {
        let first = self.merge.add_rings(rings.rings());
        self.sdk = Some(Source { rings, first });
    }

    /// The rings of the target's SDK.
    pub(super) fn sdk(&mut self) -> Option<&mut SdkRings> {
        self.sdk.as_mut().map(|source| &mut source.rings)
    }

    fn sources(
        &mut self,
    ) -> (
        impl Iterator<Item = (usize, &mut dyn Rings)>,
        &mut Merge<Event>,
        &mut Spare,
    ) {
        let sessions = self
            .sessions
            .iter_mut()
            .map(|source| (source.first, &mut source.rings as &mut dyn Rings));
        let sdk = self
            .sdk
            .iter_mut()
            .map(|source| (source.first, &mut source.rings as &mut dyn Rings));
        (sessions.chain(sdk), &mut self.merge, &mut self.spare)
    }

    /// Takes in a source; its events come from the next round on.
    pub(super) fn add(&mut self, rings: BpfRings) {
        let first = self.merge.add_rings(rings.rings());
        self.sessions.push(Source { rings, first });
    }

    /// Drains every ring once and gives what is final by now, in order.
    pub(super) fn round(&mut self) -> Result<Vec<Event>> {
        let (mut shares, mut ended) = (Vec::new(), Vec::new());
        let (sources, merge, spare) = self.sources();
        for (first, rings) in sources {
            rings.round(spare, &mut shares, &mut ended)?;
            push(merge, spare, first, &mut shares);
            for ring in ended.drain(..) {
                merge.end(first + ring);
            }
        }
        let mut events = self.spare.batch();
        self.merge.release(&mut events);
        Ok(events)
    }

    /// What became of each probe's hits so far.
    pub(super) fn counts(&mut self) -> Vec<Count> {
        self.sources()
            .0
            .flat_map(|(_, rings)| rings.counts())
            .collect()
    }

    /// Detaches everything and gives all that is left.
    pub(super) fn finish(mut self) -> Result<Finished> {
        let mut shares = Vec::new();
        let mut failed = None;
        let (sources, merge, spare) = self.sources();
        for (first, rings) in sources {
            // The others are to be detached and emptied all the same.
            if let Err(error) = rings.finish(spare, &mut shares) {
                failed = Some(error);
            }
            push(merge, spare, first, &mut shares);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut events = Vec::new();
        let counts = self.counts();
        let warnings = self.take_warnings();
        let merge = self.merge.finish(&mut events);
        Ok(Finished {
            events,
            counts,
            merge,
            warnings,
        })
    }

    /// Warnings since the last call.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        self.sources()
            .0
            .flat_map(|(_, rings)| rings.take_warnings())
            .collect()
    }
}

fn push(merge: &mut Merge<Event>, spare: &mut Spare, first: usize, shares: &mut Vec<Share>) {
    for mut share in shares.drain(..) {
        merge.push(first + share.ring, share.until, &mut share.events);
        spare.keep(share.events);
    }
}
