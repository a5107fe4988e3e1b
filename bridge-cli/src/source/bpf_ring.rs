//! The rings of BPF sessions as a source: one ring a CPU, read by round.
//!
//! A round drains every ring and gives, for each, its events and the time before which it will give
//! nothing more. What was lost since the round before is given as events of the ring it was lost in.
//! Hits that do not pass their probe's filter are counted and go no further, by the kernel or, where the user
//! asks for that, here. A ring that holds what no program
//! of ours wrote is given up, once, with a warning; the others go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracebraid_bpf::record::{Lost, Record};
use tracebraid_bpf::spec::{ProbeId, Spec};
use tracebraid_bpf::{
    Chosen, ErrorKind as BpfErrorKind, Family, Options as SessionOptions, Session,
};

use super::decode::Decoders;
use super::spare::Spare;
use super::{Cost, Count, LostPlaces, Rings, Share, note_loss};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::filter::Filters;

/// How a session is.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Whose events it is about, in place of its filter's processes.
    pub family: Option<Arc<Family>>,
    /// Hits are counted, and none is given out.
    pub count_only: bool,
    /// Somebody measures what BPF programs cost.
    pub is_metered: bool,
}

/// See the module's page.
#[derive(Debug)]
pub struct BpfRings {
    session: Session,
    is_metered: bool,
    decoders: Decoders,
    filters: Filters,
    /// Hits that did not pass.
    filtered: BTreeMap<ProbeId, u64>,
    /// CPUs whose rings are still read, each with its place among this source's rings.
    open: Vec<(u32, usize)>,
    records: Vec<Record>,
    lost: Vec<Lost>,
    places: BTreeMap<ProbeId, LostPlaces>,
    warnings: Vec<String>,
}

impl BpfRings {
    /// Attaches what `spec` says. Of probes with a filter only hits that pass are given out.
    ///
    /// # Errors
    /// Why it cannot be attached; nothing is attached then.
    pub fn start(spec: &Spec, decoders: Decoders, filters: Filters, how: How) -> Result<BpfRings> {
        let mut options = SessionOptions::default();
        options.family = how.family;
        options.count_only = how.count_only;
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
            is_metered: how.is_metered,
            decoders,
            filters,
            filtered: BTreeMap::new(),
            open,
            records: Vec::new(),
            lost: Vec::new(),
            places: BTreeMap::new(),
            warnings: Vec::new(),
        })
    }

    /// How probes of kernel functions were attached.
    pub fn chosen(&self) -> &[Chosen] {
        self.session.chosen()
    }

    /// How arguments of definitions are fetched, in words; `None` where there are none.
    pub fn fetching(&self) -> Option<String> {
        self.session.fetching().map(ToString::to_string)
    }

    /// The events of the records that were drained last, with the CPU whose ring each was in.
    fn wanted<'a>(&'a mut self, spare: &'a mut Spare) -> impl Iterator<Item = (u32, Event)> + 'a {
        let (decoders, filters, filtered) = (&self.decoders, &self.filters, &mut self.filtered);
        self.records.drain(..).filter_map(move |record| {
            let (cpu, probe) = (record.cpu, record.probe);
            let event = decoders.event(record, spare)?;
            if !filters.is_empty() && !filters.pass(&event) {
                *filtered.entry(probe).or_insert(0) += 1;
                return None;
            }
            Some((cpu, event))
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

    fn round(
        &mut self,
        spare: &mut Spare,
        shares: &mut Vec<Share>,
        ended: &mut Vec<usize>,
    ) -> Result<()> {
        let mut damaged = Vec::new();
        for (cpu, ring) in self.open.clone() {
            let drained = self.session.drain(cpu, &mut self.records);
            let mut events = spare.batch();
            events.extend(self.wanted(spare).map(|(_, event)| event));
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

    fn finish(&mut self, spare: &mut Spare, shares: &mut Vec<Share>) -> Result<()> {
        let finished = self.session.finish(&mut self.records, &mut self.lost);
        let mut by_ring: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
        let cpus = self.session.cpus().to_vec();
        for (cpu, event) in self.wanted(spare) {
            let ring = cpus.iter().position(|own| *own == cpu).unwrap_or(0);
            by_ring.entry(ring).or_default().push(event);
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

    fn counts(&self) -> Vec<Count> {
        let mut costs: BTreeMap<ProbeId, Cost> = BTreeMap::new();
        if self.is_metered {
            // What the kernel does not tell is not known.
            for cost in self.session.costs().unwrap_or_default() {
                let runs = Cost::Runs(cost.runs, cost.time);
                costs.extend(cost.probes.into_iter().map(|probe| (probe, runs)));
            }
        }
        let count = |count: tracebraid_bpf::Count| {
            let here = self.filtered.get(&count.probe).copied().unwrap_or(0);
            Count {
                probe: count.probe,
                hits: count.hits,
                delivered: count.delivered.saturating_sub(here),
                filtered: count.filtered + here,
                missed: count.missed,
                lost: self.places.get(&count.probe).cloned().unwrap_or_default(),
                cost: costs.get(&count.probe).copied().unwrap_or(Cost::Unknown),
            }
        };
        self.session.counts().into_iter().map(count).collect()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
