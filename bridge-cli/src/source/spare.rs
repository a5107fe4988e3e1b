//! Memory of events that have been written, for those that come.
//!
//! ```text
//! rings ─▶ events, in memory of [`Spare`] ─▶ merge ─▶ writer
//!              ▲                                       │
//!              └────────── batches, as written ◀───────┘
//! ```
//! One thread makes events and another writes them. If the second gave their memory back and the first asked
//! for it anew, the allocator would cost more than the decoding: the two wait for one another in it, and pages
//! go to the kernel and come back with every round.
//!
//! What is kept is bounded by [`KEPT`]; the rest goes back to the allocator.

use crossbeam::channel::Receiver;

use crate::event::{Event, Value, What};

/// Events whose memory is kept, at most: what the largest round gives.
const KEPT: usize = 64 * 1024;
/// Batches whose memory is kept, at most: those of a round's rings.
const BATCHES: usize = 64;
/// Values of an event whose memory is kept, at most.
const VALUES: usize = 32;

/// See the module's page. The default has nothing, and gets nothing back.
#[derive(Debug, Default)]
pub struct Spare {
    written: Option<Receiver<Vec<Event>>>,
    batches: Vec<Vec<Event>>,
    values: Vec<Vec<Value>>,
}

impl Spare {
    /// Gets back what comes from here.
    pub fn of(written: Receiver<Vec<Event>>) -> Spare {
        Spare {
            written: Some(written),
            ..Spare::default()
        }
    }

    /// An empty list for events.
    pub fn batch(&mut self) -> Vec<Event> {
        self.batches.pop().unwrap_or_default()
    }

    /// An empty list for the values of an event that has so many.
    #[inline]
    pub fn values(&mut self, count: usize) -> Vec<Value> {
        let mut values = match self.values.pop() {
            Some(values) => values,
            None => self.refill(),
        };
        values.reserve(count);
        values
    }

    /// Takes a list of events back.
    pub fn keep(&mut self, mut batch: Vec<Event>) {
        for event in batch.drain(..) {
            if let What::Hit { values, .. } = event.what {
                self.keep_values(values);
            }
        }
        if self.batches.len() < BATCHES && batch.capacity() <= KEPT {
            self.batches.push(batch);
        }
    }

    fn keep_values(&mut self, mut values: Vec<Value>) {
        if self.values.len() < KEPT && values.capacity() <= VALUES {
            values.clear();
            self.values.push(values);
        }
    }

    #[cold]
    fn refill(&mut self) -> Vec<Value> {
        let written = self.written.as_ref();
        if let Some(batch) = written.and_then(|written| written.try_recv().ok()) {
            self.keep(batch);
        }
        self.values.pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{Comm, Origin, Print, Probe};

    fn event(values: Vec<Value>) -> Event {
        let probe = Probe {
            group: String::new(),
            name: String::new(),
            origin: Origin::Application,
            fields: Vec::new(),
            print: Print::Plain,
        };
        Event {
            time: 0,
            cpu: 0,
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            late: false,
            what: What::Hit {
                probe: Arc::new(probe),
                values,
            },
            stack: None,
        }
    }

    #[test]
    fn what_was_written_is_used_again_and_is_empty_then() {
        let (sender, written) = crossbeam::channel::bounded(1);
        let mut spare = Spare::of(written);
        let mut values = spare.values(3);
        assert!(values.capacity() >= 3, "nothing has been written yet");
        values.extend([Value::Unsigned(1), Value::text(*b"text"), Value::Fault]);
        let place = values.as_ptr();
        let mut batch = spare.batch();
        batch.push(event(values));
        let list = batch.as_ptr();
        sender.send(batch).unwrap();

        let again = spare.values(3);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        let batch = spare.batch();
        assert_eq!((batch.as_ptr(), batch.len()), (list, 0));
    }

    #[test]
    fn long_lists_and_more_than_a_round_has_are_given_back() {
        let mut spare = Spare::default();
        spare.keep(vec![event(Vec::with_capacity(VALUES + 1))]);
        assert!(spare.values.is_empty());
        spare.keep((0..=KEPT).map(|_| event(Vec::with_capacity(1))).collect());
        assert_eq!(spare.values.len(), KEPT);
        assert_eq!(spare.batches.len(), 1, "the longer list is not kept");
        for _ in 0..2 * BATCHES {
            spare.keep(Vec::with_capacity(1));
        }
        assert_eq!(spare.batches.len(), BATCHES);
    }
}
