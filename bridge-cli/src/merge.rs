//! Many rings into one stream in order of time, as early as it can be known and with bounded memory.
//!
//! Each ring gives its items in batches, and with each batch a promise: "whatever I give later is not
//! older than T0". What is older than the smallest promise of all rings is final, and is released in
//! order of time. A ring with nothing to say still moves its promise on, so that it holds nobody back.
//!
//! ```text
//! ring 0   ──a───c──────┤ T0=9          released: a b c d, everything before 7
//! ring 1   ────b───d──e─┤ T0=7          held:     e, until ring 1 promises more
//! ```
//!
//! Two things can go wrong, and neither stops the stream. An item may come although its time was
//! already passed: it goes out at once, marked late, and is counted. And rings may hold back more than
//! the limit allows: then the oldest items go out before they are final, which may make others late.
//!
//! Items of one time keep the order of their rings, and in one ring the order in which they came.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What can be merged.
pub trait Timed {
    /// When it happened, in the unit of the promises.
    fn time(&self) -> u64;
    /// It goes out after something of a later time.
    fn mark_late(&mut self);
}

/// How a merge went, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items given out.
    pub released: u64,
    /// Of those: given out after something of a later time.
    pub late: u64,
    /// Of those: given out before their time was final, since the limit was reached.
    pub forced: u64,
    /// The most items that were held at once.
    pub most_held: usize,
}

/// The merge of a fixed number of rings.
#[derive(Debug)]
pub struct Merge<T> {
    rings: Vec<Ring<T>>,
    held: usize,
    limit: usize,
    /// The latest time that was given out.
    passed: u64,
    counts: Counts,
}

#[derive(Debug)]
struct Ring<T> {
    /// In order of time.
    items: VecDeque<T>,
    promise: u64,
    ended: bool,
}

impl<T: Timed> Merge<T> {
    /// A merge of `rings` rings that holds `limit` items at most (1 at least).
    pub fn new(rings: usize, limit: usize) -> Merge<T> {
        let mut merge = Merge {
            rings: Vec::new(),
            held: 0,
            limit: limit.max(1),
            passed: 0,
            counts: Counts::default(),
        };
        merge.add_rings(rings);
        merge
    }

    /// Takes what `ring` gave in one round out of `batch`, in any order, and its promise that nothing older
    /// than `promise` will follow. Returns `false`, and takes nothing, where there is no such ring.
    pub fn push(&mut self, ring: usize, promise: u64, batch: &mut Vec<T>) -> bool {
        let Some(ring) = self.rings.get_mut(ring) else {
            return false;
        };
        self.held += batch.len();
        self.counts.most_held = self.counts.most_held.max(self.held);
        let last = ring.items.back().map_or(0, T::time);
        let is_sorted = batch.is_sorted_by_key(T::time)
            && batch.first().is_none_or(|first| last <= first.time());
        if ring.items.is_empty() {
            // The lists change places, and nothing is moved.
            let empty = std::mem::replace(&mut ring.items, std::mem::take(batch).into());
            *batch = empty.into();
        } else {
            ring.items.extend(batch.drain(..));
        }
        if !is_sorted {
            // Stable, so that equal times stay in the order in which they came.
            ring.items.make_contiguous().sort_by_key(T::time);
        }
        ring.promise = ring.promise.max(promise);
        true
    }

    /// Takes in `count` rings more and returns the number of the first. They promise nothing yet: until
    /// their first round they hold everybody back.
    pub fn add_rings(&mut self, count: usize) -> usize {
        let first = self.rings.len();
        let ring = || Ring {
            items: VecDeque::new(),
            promise: 0,
            ended: false,
        };
        self.rings.extend((0..count).map(|_| ring()));
        first
    }

    /// The ring will give nothing any more and holds nobody back.
    pub fn end(&mut self, ring: usize) {
        if let Some(ring) = self.rings.get_mut(ring) {
            ring.ended = true;
        }
    }

    /// The time before which everything is final; `u64::MAX` when all rings have ended.
    pub fn watermark(&self) -> u64 {
        let open = self.rings.iter().filter(|ring| !ring.ended);
        open.map(|ring| ring.promise).min().unwrap_or(u64::MAX)
    }

    /// Appends to `out` what is final by now and, where more than the limit is held, the oldest of
    /// the rest.
    pub fn release(&mut self, out: &mut Vec<T>) {
        let watermark = self.watermark();
        let is_final = |item: &T| watermark == u64::MAX || item.time() < watermark;
        let final_from = out.len();
        let ready = self.rings.iter();
        let ready = ready.map(|ring| ring.items.partition_point(is_final));
        let ready = ready.collect();
        self.take(ready, out);
        self.give_out(&mut out[final_from..]);
        if self.held > self.limit {
            self.force(out);
        }
    }

    /// Appends everything that is still held, in order of time.
    pub fn finish(mut self, out: &mut Vec<T>) -> Counts {
        for ring in &mut self.rings {
            ring.ended = true;
        }
        self.release(out);
        self.counts
    }

    /// How it went, so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many items are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Gives out the oldest items until half the limit is free again.
    fn force(&mut self, out: &mut Vec<T>) {
        let from = out.len();
        let mut count = self.held - self.limit / 2;
        self.counts.forced += count as u64;
        let mut times: Vec<u64> = Vec::with_capacity(self.held);
        times.extend(
            self.rings
                .iter()
                .flat_map(|ring| ring.items.iter().map(T::time)),
        );
        let (_, &mut bound, _) = times.select_nth_unstable(count - 1);
        // Everything before the bound; of its own time only as many as are needed, by order of rings.
        let rings = self.rings.iter();
        let mut ready: Vec<usize> = rings
            .map(|ring| ring.items.partition_point(|item| item.time() < bound))
            .collect();
        count -= ready.iter().sum::<usize>();
        for (ring, ready) in self.rings.iter().zip(&mut ready) {
            let until = ring.items.partition_point(|item| item.time() <= bound);
            let equal = (until - *ready).min(count);
            count -= equal;
            *ready += equal;
        }
        self.take(ready, out);
        self.give_out(&mut out[from..]);
    }

    /// Appends to `out` the first so many items of each ring, in order of time; of one time, in that of the rings.
    fn take(&mut self, mut ready: Vec<usize>, out: &mut Vec<T>) {
        out.reserve(ready.iter().sum());
        let head = |ring: &Ring<T>| ring.items.front().map_or(u64::MAX, T::time);
        let mut heads: BinaryHeap<Reverse<(u64, usize)>> = self
            .rings
            .iter()
            .enumerate()
            .filter(|(number, _)| ready[*number] != 0)
            .map(|(number, ring)| Reverse((head(ring), number)))
            .collect();
        while let Some(Reverse((_, number))) = heads.pop() {
            let next = heads.peek().map(|Reverse(next)| *next);
            let (ring, ready) = (&mut self.rings[number], &mut ready[number]);
            // All that comes before the first of the others.
            let is_next = |item: &&T| next.is_none_or(|next| (item.time(), number) < next);
            let run = ring.items.iter().take(*ready).take_while(is_next).count();
            // Mostly it is a few.
            (0..run).for_each(|_| out.extend(ring.items.pop_front()));
            *ready -= run;
            if *ready != 0 {
                heads.push(Reverse((head(ring), number)));
            }
        }
    }

    fn give_out(&mut self, items: &mut [T]) {
        for item in items.iter_mut() {
            if item.time() < self.passed {
                item.mark_late();
                self.counts.late += 1;
            } else {
                self.passed = item.time();
            }
        }
        self.held -= items.len();
        self.counts.released += items.len() as u64;
    }
}

impl Timed for crate::event::Event {
    fn time(&self) -> u64 {
        self.time
    }

    fn mark_late(&mut self) {
        self.late = true;
    }
}
