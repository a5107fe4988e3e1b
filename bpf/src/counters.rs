//! Exact counts, written by the programs and read through a shared mapping: no system call a drain.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use crate::abi;
use crate::error::Result;
use crate::memory::{Mapping, page_size};

/// Counts of every entry on every CPU.
#[derive(Debug)]
pub(crate) struct Counters {
    mapping: Mapping,
    entries: usize,
    /// From a CPU's first counter to the next one's.
    stride: usize,
    cpus: usize,
    seen: Vec<Losses>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) ring_full: u64,
    pub(crate) no_scratch: u64,
}

impl Counters {
    /// How many counters each CPU has for so many entries: as many as fill cache lines, so that no two CPUs
    /// write to one. Eight of them do, whatever words a counter has.
    pub(crate) fn stride(entries: usize) -> usize {
        entries.max(1).next_multiple_of(8)
    }

    /// Maps the array map behind `fd`, which has [`stride`](Counters::stride) elements for each CPU.
    pub(crate) fn new(fd: BorrowedFd<'_>, entries: usize, cpus: usize) -> Result<Counters> {
        let stride = Counters::stride(entries);
        let length = (stride * cpus * size_of::<abi::Counter>()).next_multiple_of(page_size());
        Ok(Counters {
            mapping: Mapping::new(fd, 0, length.max(page_size()), false)?,
            entries,
            stride,
            cpus,
            seen: vec![Losses::default(); stride * cpus],
        })
    }

    /// Calls back for each CPU and entry that lost something since the last call.
    pub(crate) fn take_losses(&mut self, mut each: impl FnMut(u32, usize, Losses)) {
        for cpu in 0..self.cpus {
            for entry in 0..self.entries {
                let index = cpu * self.stride + entry;
                let now = self.losses(index);
                let seen = std::mem::replace(&mut self.seen[index], now);
                let new = Losses {
                    ring_full: now.ring_full.wrapping_sub(seen.ring_full),
                    no_scratch: now.no_scratch.wrapping_sub(seen.no_scratch),
                };
                if new.ring_full != 0 || new.no_scratch != 0 {
                    each(cpu as u32, entry, new);
                }
            }
        }
    }

    /// Hits of an entry that its filter did not pass, on all CPUs.
    pub(crate) fn filtered(&self, entry: usize) -> u64 {
        let each = (0..self.cpus).map(|cpu| self.word(cpu * self.stride + entry, 3));
        each.sum()
    }

    /// Hits and losses of an entry, on all CPUs.
    pub(crate) fn totals(&self, entry: usize) -> (u64, Losses) {
        let mut total = (0, Losses::default());
        for cpu in 0..self.cpus {
            let index = cpu * self.stride + entry;
            let losses = self.losses(index);
            total.0 += self.word(index, 0);
            total.1.ring_full += losses.ring_full;
            total.1.no_scratch += losses.no_scratch;
        }
        total
    }

    fn losses(&self, index: usize) -> Losses {
        Losses {
            ring_full: self.word(index, 1),
            no_scratch: self.word(index, 2),
        }
    }

    fn word(&self, index: usize, word: usize) -> u64 {
        self.mapping.load(
            index * size_of::<abi::Counter>() + word * 8,
            Ordering::Relaxed,
        )
    }
}
