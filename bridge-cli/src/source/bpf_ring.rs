//! The rings of BPF sessions as a source: one ring a CPU, read by round.
//!
//! A round drains every ring and gives, for each, its events and the time before which it will give
//! nothing more. What was lost since the round before is given as events of the ring it was lost in.
//! A ring that holds what no program of ours wrote is given up, once, with a warning; the others go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracebraid_bpf::record::{Lost, Record};
use tracebraid_bpf::spec::{ProbeId, Spec};
use tracebraid_bpf::{ErrorKind as BpfErrorKind, Family, Options as SessionOptions, Session};

use super::decode::Decoders;
use super::{Count, LostPlaces, Rings, Share, note_loss};
use crate::error::{Error, Result};
use crate::event::Event;

/// See the module's page.
#[derive(Debug)]
pub struct BpfRings {
    session: Session,
    decoders: Decoders,
    /// CPUs whose rings are still read, each with its place among this source's rings.
    open: Vec<(u32, usize)>,
    records: Vec<Record>,
    lost: Vec<Lost>,
    places: BTreeMap<ProbeId, LostPlaces>,
    warnings: Vec<String>,
}

impl BpfRings {
    /// Attaches what `spec` says; with a `family`, to the processes of that one.
    ///
    /// # Errors
    /// Why it cannot be attached; nothing is attached then.
    pub fn start(spec: &Spec, decoders: Decoders, family: Option<Arc<Family>>) -> Result<BpfRings> {
        let mut options = SessionOptions::default();
        options.family = family;
        let session = Session::start_with(spec, &options).map_err(Error::from)?;
        let open = session
            .cpus()
            .iter()
            .copied()
            .enumerate()
            .map(|(ring, cpu)| (cpu, ring))
            .collect();
        Ok(BpfRings {
            session,
            decoders,
            open,
            records: Vec::new(),
            lost: Vec::new(),
            places: BTreeMap::new(),
            warnings: Vec::new(),
        })
    }

    fn lost_into(&mut self, shares: &mut Vec<Share>) {
        for lost in self.lost.drain(..) {
            note_loss(
                &mut self.places,
                lost.probe,
                lost.reason,
                lost.cpu,
                lost.count,
            );
            let Some(event) = self.decoders.lost(&lost) else {
                continue;
            };
            let ring = self
                .session
                .cpus()
                .iter()
                .position(|cpu| *cpu == lost.cpu)
                .unwrap_or(0);
            match shares.iter_mut().find(|share| share.ring == ring) {
                Some(share) => share.events.push(event),
                None => shares.push(Share {
                    ring,
                    until: 0,
                    events: vec![event],
                }),
            }
        }
    }
}

impl Rings for BpfRings {
    fn rings(&self) -> usize {
        self.session.cpus().len()
    }

    fn round(&mut self, shares: &mut Vec<Share>, ended: &mut Vec<usize>) -> Result<()> {
        let mut damaged = Vec::new();
        for &(cpu, ring) in &self.open {
            let drained = self.session.drain(cpu, &mut self.records);
            let events = self
                .records
                .drain(..)
                .filter_map(|record| self.decoders.event(record))
                .collect();
            let until = match drained {
                Ok(drained) => drained.until,
                Err(error) if *error.kind() == BpfErrorKind::Damaged => {
                    self.warnings.push(error.to_string());
                    damaged.push(ring);
                    0
                }
                Err(error) => return Err(error.into()),
            };
            shares.push(Share {
                ring,
                until,
                events,
            });
        }
        self.open.retain(|(_, ring)| !damaged.contains(ring));
        ended.extend(damaged);
        self.session.losses(&mut self.lost).map_err(Error::from)?;
        self.lost_into(shares);
        Ok(())
    }

    fn finish(&mut self, shares: &mut Vec<Share>) -> Result<()> {
        let finished = self.session.finish(&mut self.records, &mut self.lost);
        let mut by_ring: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
        for record in self.records.drain(..) {
            let ring = self
                .session
                .cpus()
                .iter()
                .position(|cpu| *cpu == record.cpu)
                .unwrap_or(0);
            by_ring
                .entry(ring)
                .or_default()
                .extend(self.decoders.event(record));
        }
        shares.extend(by_ring.into_iter().map(|(ring, events)| Share {
            ring,
            until: u64::MAX,
            events,
        }));
        self.lost_into(shares);
        match finished {
            Err(error) if *error.kind() == BpfErrorKind::Damaged => {
                self.warnings.push(error.to_string());
                Ok(())
            }
            other => other.map_err(Error::from),
        }
    }

    fn counts(&self) -> Vec<(Count, LostPlaces)> {
        let places = |count: Count| {
            let places = self.places.get(&count.probe).cloned().unwrap_or_default();
            (count, places)
        };
        self.session.counts().into_iter().map(places).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
