//! What the programs write on one CPU, as one stream: the ring of all of them, and where there are tracepoints
//! their [`SoloRing`].
//!
//! Each is drained for itself, so that the one that comes second may have given what is later than what the first
//! one gives the next time. What is not older than what both promise therefore stays here until then.

use std::os::fd::{AsFd, BorrowedFd};

use crate::error::Result;
use crate::maps::Maps;
use crate::plan::Plan;
use crate::record::Record;
use crate::ring::Ring;
use crate::solo_ring::SoloRing;

#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) cpu: u32,
    ring: Ring,
    solo: Option<SoloRing>,
    /// Those that could still have others before them.
    held: Vec<Record>,
}

impl CpuRings {
    /// Those of each CPU that is online.
    pub(crate) fn of_all(plan: &Plan, maps: &Maps) -> Result<Vec<CpuRings>> {
        let solo = |cpu, (map, data): (BorrowedFd<'_>, usize)| SoloRing::new(cpu, map, data);
        maps.rings
            .iter()
            .map(|(cpu, map)| {
                let solo_rings = maps.solo_rings.as_ref();
                Ok(CpuRings {
                    cpu: *cpu,
                    ring: Ring::new(*cpu, map.as_fd(), plan.shared_bytes())?,
                    solo: solo_rings
                        .map(|(map, data)| solo(*cpu, (map.as_fd(), *data)))
                        .transpose()?,
                    held: Vec::new(),
                })
            })
            .collect()
    }

    /// Hands out what there is, each record by way of `take`, and returns the time before which nothing more will
    /// come.
    pub(crate) fn drain(
        &mut self,
        out: &mut Vec<Record>,
        mut take: impl FnMut(&[u8], &mut Vec<Record>) -> Result<()>,
    ) -> Result<u64> {
        let Some(solo) = &mut self.solo else {
            return self.ring.drain(|bytes| take(bytes, out));
        };
        let before = out.len();
        out.append(&mut self.held);
        let others = self.ring.drain(|bytes| take(bytes, out));
        let own = solo.drain(|bytes| take(bytes, out));
        // Stable, and quick where it finds runs in order.
        out[before..].sort_by_key(|record| record.time);
        let until = others?.min(own?);
        let complete = out[before..].partition_point(|record| record.time < until);
        self.held.extend(out.drain(before + complete..));
        Ok(until)
    }

    /// Hands out what is held back, once nothing more will come.
    pub(crate) fn rest(&mut self, out: &mut Vec<Record>) {
        out.append(&mut self.held);
    }
}
