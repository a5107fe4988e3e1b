//! Who evaluates the filters of a region's events: its program, or we.
//!
//! ```text
//! want ──▶ text among the region's filters ──▶ helper reads it ──▶ answered: the program evaluates from now on
//!      └─▶ no room, too long, numbers of another namespace        └─▶ refused: we do, of every event
//!              └─▶ every hit is wanted, we evaluate
//! ```
//! What was recorded before the program had the filters is looked at here as well: what a program records
//! unasked waits in the rings for the first bridge. A filter is evaluated by one or the other, or by both;
//! never by nobody.

use std::collections::HashMap;

use tracebraid_wire::region::{WANTED_ALL, WANTED_FILTERED};

use super::shared::Shared;
use crate::filter::ProbeFilter;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Filtering {
    /// By event: what its filter had refused by the last look, on each CPU of the process and its children.
    by_program: HashMap<u16, Vec<u32>>,
    /// From this time (ns) on the program has evaluated them.
    since: Option<u64>,
    /// The last request that does not count as one for them.
    asked: u32,
    /// The program cannot read them.
    refused: bool,
    /// Nobody has read the region before: what it has counted so far counts. A child may have inherited its
    /// parent's filters.
    from_the_first: bool,
}

impl Filtering {
    /// Of a region that somebody has read before, or nobody.
    pub(super) fn new(from_the_first: bool) -> Filtering {
        Filtering {
            from_the_first,
            ..Filtering::default()
        }
    }

    /// What is to be wanted of an event with this filter. `same_numbers`: the program numbers its threads as
    /// we do.
    pub(super) fn want(
        &mut self,
        shared: &Shared,
        event: u16,
        filter: &ProbeFilter,
        same_numbers: bool,
    ) -> u8 {
        let can = !self.refused && (same_numbers || !filter.asks_for_thread());
        let text = filter.text().filter(|_| can);
        if !text.is_some_and(|text| shared.add_filter(event, text)) {
            return WANTED_ALL;
        }
        self.by_program.insert(event, self.before(shared, event));
        self.since = None;
        self.asked = shared.asked();
        WANTED_FILTERED
    }

    /// What the program has counted of an event before it is asked for.
    pub(super) fn before(&self, shared: &Shared, event: u16) -> Vec<u32> {
        let mut before = shared.counted_hits(event);
        if self.from_the_first {
            before.fill(0);
        }
        before
    }

    /// Whether the program has let a hit of this time (ns) pass already.
    #[inline]
    pub(super) fn is_done(&self, event: u16, time: u64) -> bool {
        self.since.is_some_and(|since| time >= since) && self.by_program.contains_key(&event)
    }

    /// Sees whether the program has answered. The events that it refuses to filter, which are to be wanted
    /// whole.
    pub(super) fn look(&mut self, shared: &Shared, now: u64) -> Vec<u16> {
        let waits = self.since.is_none() && !self.by_program.is_empty();
        if !waits || !shared.has_answered_beyond(self.asked) {
            return Vec::new();
        }
        if shared.filters_refused() == 0 {
            self.since = Some(now);
            return Vec::new();
        }
        self.refused = true;
        shared.forget_filters();
        self.by_program.drain().map(|(event, _)| event).collect()
    }

    /// Events that the program filters.
    pub(super) fn events(&self) -> usize {
        self.by_program.len()
    }

    /// What the program's filters have refused since the last look: `(event, hits)`.
    pub(super) fn counted(&mut self, shared: &Shared) -> Vec<(u16, u64)> {
        let count = |(event, before): (&u16, &mut Vec<u32>)| {
            let now = shared.counted_hits(*event);
            let more = now.iter().zip(before.iter());
            let more = more
                .map(|(now, before)| u64::from(now.wrapping_sub(*before)))
                .sum();
            *before = now;
            (*event, more)
        };
        let counts = self.by_program.iter_mut().map(count);
        counts.filter(|(_, more)| *more > 0).collect()
    }

    /// Nothing is wanted any more.
    pub(super) fn clear(&mut self) {
        self.by_program.clear();
        self.since = None;
    }
}
