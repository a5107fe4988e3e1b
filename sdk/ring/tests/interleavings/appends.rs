//! Locked appends, beside one another and beside a reader.

#![allow(unsafe_code)]

use std::sync::Arc;

use loom::thread;
use tracebraid_ring::{Appended, Mode};

use super::model;
use crate::consumer::Consumer;
use crate::geometry::{Control, Geometry};
use crate::locked::LockedProducer;
use crate::region::Region;
use crate::sync::Ordering;
use crate::thread::DEAD;

/// Words of a record.
const WORDS: usize = 3;
/// A ring for two records.
const SMALL: usize = 64;
/// A ring of eight sub-buffers, each for one record and a word of padding.
const OVERWRITING: usize = 256;

/// A ring, and who appends to it.
#[derive(Clone)]
struct Ring {
    region: &'static Region,
    producer: Arc<LockedProducer>,
}

/// Runs `body` with an empty ring, which is gone afterwards.
fn with_ring(bytes: usize, mode: Mode, body: impl FnOnce(&Ring)) {
    let geometry = Geometry::new(0, 1, bytes).unwrap();
    let region = Box::into_raw(Box::new(Region::modelled(geometry)));
    // SAFETY: just made, and freed below, when the threads of `body` have ended.
    let shared = unsafe { &*region };
    body(&Ring {
        region: shared,
        producer: Arc::new(LockedProducer::new(shared, 0, 1, mode)),
    });
    // SAFETY: nobody has it any more.
    drop(unsafe { Box::from_raw(region) });
}

impl Ring {
    fn control(&self) -> &Control {
        self.region.control(0)
    }

    /// Appends record `index` of a thread.
    fn append(&self, thread: u32, index: u64, now: u64) -> Appended {
        self.producer.append(&record(thread, index), thread, || now)
    }

    /// The same in a thread of its own, for several records; how many are in the ring.
    fn appending(&self, thread: u32, records: u64, now: u64) -> thread::JoinHandle<u64> {
        let ring = self.clone();
        thread::spawn(move || {
            let in_ring = |index: &u64| ring.append(thread, *index, now).time().is_some();
            (0..records).filter(in_ring).count() as u64
        })
    }
}

fn record(thread: u32, index: u64) -> [u64; WORDS] {
    [
        WORDS as u64 | 1 << 16 | u64::from(thread) << 32,
        0,
        filling(thread, index),
    ]
}

fn filling(thread: u32, index: u64) -> u64 {
    u64::from(thread) << 32 | index
}

/// What a reader has seen of a ring.
#[derive(Default)]
struct Seen {
    count: u64,
    time: u64,
    /// By thread: the index that is due.
    next: [u64; 4],
}

impl Seen {
    fn take(&mut self, record: &[u64]) {
        assert_eq!(record.len(), WORDS);
        let thread = (record[0] >> 32) as u32;
        let index = record[2] ^ filling(thread, 0);
        assert!(index < 64, "torn: {record:x?}");
        assert!(record[1] >= self.time, "time went back");
        let next = &mut self.next[thread as usize];
        assert!(index >= *next, "twice, or out of order");
        *next = index + 1;
        self.time = record[1];
        self.count += 1;
    }

    fn drain(&mut self, consumer: &mut Consumer<&Region>) {
        let head = consumer.head();
        consumer
            .drain(head, |record| self.take(record))
            .expect("a ring that is not damaged");
    }
}

#[test]
fn each_of_two_appends_is_read_whole_or_refused_and_time_does_not_go_back() {
    model(3, || {
        with_ring(SMALL, Mode::Discard, |ring| {
            let writers = [ring.appending(1, 1, 9), ring.appending(2, 1, 4)];
            let mut consumer = Consumer::new(ring.region, 0);
            let mut seen = Seen::default();
            seen.drain(&mut consumer);
            let written: u64 = writers.map(|writer| writer.join().unwrap()).iter().sum();
            seen.drain(&mut consumer);
            assert_eq!(seen.count, written);
        });
    });
}

#[test]
fn room_is_written_again_only_after_it_was_read() {
    model(3, || {
        with_ring(SMALL, Mode::Discard, |ring| {
            let writer = ring.appending(1, 4, 1);
            let mut consumer = Consumer::new(ring.region, 0);
            let mut seen = Seen::default();
            (0..2).for_each(|_| seen.drain(&mut consumer));
            let written = writer.join().unwrap();
            seen.drain(&mut consumer);
            assert_eq!(seen.count, written);
            assert!(written >= 2);
        });
    });
}

#[test]
fn a_snapshot_beside_an_append_that_overwrites_shows_whole_records_in_order() {
    model(2, || {
        with_ring(OVERWRITING, Mode::Overwrite, |ring| {
            for index in 0..8 {
                assert_eq!(ring.append(1, index, index), Appended::Yes(index));
            }
            let other = ring.clone();
            let writer = thread::spawn(move || {
                assert_eq!(other.append(1, 8, 8), Appended::Yes(8));
            });
            let look = || {
                let mut seen = Seen::default();
                Consumer::new(ring.region, 0)
                    .snapshot(|record| seen.take(record))
                    .expect("a ring that is not damaged");
                seen
            };
            // What is being overwritten may be left out, and the sub-buffer before it.
            assert!(look().count >= 6);
            writer.join().unwrap();
            assert_eq!(look().next[1], 9, "the newest is there");
        });
    });
}

#[test]
fn a_ring_that_begins_anew_beside_an_append_has_that_record_whole_or_not_at_all() {
    model(4, || {
        with_ring(OVERWRITING, Mode::Discard, |ring| {
            assert_eq!(ring.append(3, 0, 1), Appended::Yes(1));
            let writer = ring.appending(1, 2, 2);
            ring.producer.set_mode(Mode::Overwrite, 2);
            writer.join().unwrap();
            let mut seen = Seen::default();
            Consumer::new(ring.region, 0)
                .snapshot(|record| seen.take(record))
                .expect("a ring that is not damaged");
            assert!(seen.count <= 3);
        });
    });
}

#[test]
fn a_handler_that_interrupts_an_append_of_its_own_thread_loses_its_record_and_no_other() {
    model(4, || {
        with_ring(SMALL, Mode::Discard, |ring| {
            let writer = ring.appending(2, 1, 1);
            let appended = ring.producer.append(&record(1, 0), 1, || {
                assert_eq!(ring.append(1, 1, 1), Appended::Full);
                1
            });
            let written = writer.join().unwrap() + u64::from(appended.time().is_some());
            let mut seen = Seen::default();
            seen.drain(&mut Consumer::new(ring.region, 0));
            assert_eq!(seen.count, written);
        });
    });
}

#[test]
fn the_lock_of_a_killed_process_is_had_by_one_at_a_time() {
    model(4, || {
        with_ring(SMALL, Mode::Discard, |ring| {
            let control = ring.control();
            control.lock.store(DEAD, Ordering::Relaxed);
            let writers = [ring.appending(1, 1, 1), ring.appending(2, 1, 1)];
            let written: u64 = writers.map(|writer| writer.join().unwrap()).iter().sum();
            assert!(written > 0, "nobody took it");
            let mut seen = Seen::default();
            seen.drain(&mut Consumer::new(ring.region, 0));
            assert_eq!(seen.count, written);
            assert_eq!(control.lock.load(Ordering::Relaxed), 0);
        });
    });
}
