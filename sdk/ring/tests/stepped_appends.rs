//! Locked appends, instruction by instruction.
//!
//! A child appends while its parent single-steps it. After each instruction the parent does what others
//! may do at that moment: it reads, takes a snapshot, appends itself, or leaves it at that, which is what
//! a reader finds after SIGKILL. So every interleaving of a whole reading with an append's instructions
//! is tried, on the compiled code. What a weaker memory model would allow beside them is not: x86-64 has
//! none of it.
//!
//! Restartable sequences cannot be stepped: each trap restarts them.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code)]
#[path = "storms/appender.rs"]
mod appender;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use appender::{check, now, record, region};
use tracebraid_ring::locked::LockedProducer;
use tracebraid_ring::{Appended, Consumer, Mode, Region};

const RING: usize = 16 * 1024;
/// The thread id of the child's appends, and of the parent's.
const CHILD: u32 = 1;
const PARENT: u32 = 2;

/// Appends in a child: calls `look` after each instruction. How many there were.
fn step(producer: &LockedProducer, records: &[Vec<u64>], mut look: impl FnMut()) -> u64 {
    // SAFETY: the child asks to be traced, appends, which allocates nothing, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                libc::_exit(2);
            }
            libc::raise(libc::SIGSTOP);
            for record in records {
                if producer.append(record, CHILD, now).time().is_none() {
                    libc::_exit(1);
                }
            }
            libc::_exit(0);
        }
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    let wait = || {
        let mut status = 0;
        // SAFETY: a child of ours and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status
    };
    let mut status = wait();
    assert!(libc::WIFSTOPPED(status), "no tracing here: {status:#x}");
    let mut steps = 0;
    while libc::WIFSTOPPED(status) {
        // SAFETY: a stopped child of ours.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) };
        assert_eq!(stepped, 0);
        status = wait();
        steps += 1;
        look();
    }
    assert_eq!(status, 0, "an append found no room");
    steps
}

fn records(indexes: std::ops::Range<u64>) -> Vec<Vec<u64>> {
    indexes.map(|index| record(CHILD, index)).collect()
}

/// A ring that was written all over and is soon at its end, and the index of the next record.
fn written(mode: Mode) -> (&'static Region, LockedProducer, u64) {
    let region = region(RING);
    let producer = LockedProducer::new(region, 0, 1, mode);
    let mut consumer = Consumer::new(region, 0);
    let mut next = 0;
    while next < 380 || consumer.head() as usize % RING < RING - 2_500 {
        let appended = producer.append(&record(CHILD, next), CHILD, now);
        assert!(appended.time().is_some());
        if mode == Mode::Discard {
            consumer.drain(consumer.head(), |_| {}).unwrap();
        }
        next += 1;
    }
    (region, producer, next)
}

#[test]
fn a_reader_between_any_two_instructions_finds_whole_records_only() {
    // The records cross the ring's end, and one of the longest is among them.
    let (region, producer, first) = written(Mode::Discard);
    let mut consumer = Consumer::new(region, 0);
    let (mut next, mut time, mut empty) = (first, 0, 0);
    let before = consumer.head();
    let steps = step(&producer, &records(first..first + 20), || {
        let mut found = false;
        consumer
            .drain(consumer.head(), |record| {
                assert_eq!(check(record), (CHILD, next));
                assert!(record[1] >= time);
                (next, time, found) = (next + 1, record[1], true);
            })
            .unwrap();
        empty += u64::from(!found);
    });
    assert_eq!((next, empty), (first + 20, steps - 20));
    let ring = RING as u64;
    assert_ne!(
        before / ring,
        consumer.head() / ring,
        "the end was not crossed"
    );
    println!("{steps} instructions");
}

#[test]
fn a_snapshot_between_any_two_instructions_shows_whole_records_only() {
    let (region, producer, first) = written(Mode::Overwrite);
    let mut newest = first - 1;
    let mut padded = BTreeSet::new();
    let steps = step(&producer, &records(first..first + 20), || {
        let (mut last, mut shown) = (None, 0);
        Consumer::new(region, 0)
            .snapshot(|record| {
                let (writer, index) = check(record);
                assert_eq!(writer, CHILD);
                assert!(
                    last.is_none_or(|last| index == last + 1),
                    "a gap or a disorder"
                );
                last = Some(index);
                shown += record.len();
            })
            .unwrap();
        // What is about to be overwritten and the rest of its sub-buffer, and padding, are not shown.
        assert!(shown * 8 >= RING / 2, "{shown} words");
        padded.insert(shown);
        let last = last.unwrap();
        assert!(
            last == newest || last == newest + 1,
            "{last} after {newest}"
        );
        newest = last;
    });
    assert_eq!(newest, first + 19);
    assert!(padded.len() > 20, "the ring was the same all the time");
    println!("{steps} instructions");
}

#[test]
fn another_append_between_any_two_instructions_is_whole_or_refused() {
    let (region, producer, first) = written(Mode::Discard);
    let mut consumer = Consumer::new(region, 0);
    let (mut step_of, mut others, mut refused) = (0, 0, 0);
    let mut read = (first, 0);
    let steps = step(&producer, &records(first..first + 3), || {
        step_of += 1;
        let holder = region.control(0).lock.load(Ordering::Relaxed);
        // A handler of the thread that holds the lock is refused at once.
        if holder == CHILD {
            let handler = producer.append(&record(CHILD, 999), CHILD, now);
            assert_eq!(handler, Appended::Full);
        }
        // Others wait as long as they do: not at each instruction.
        if step_of % 11 == 0 {
            match producer.append(&record(PARENT, others), PARENT, now) {
                Appended::Yes(_) => others += 1,
                other => {
                    assert_eq!((other, holder), (Appended::Full, CHILD));
                    refused += 1;
                }
            }
        }
        consumer
            .drain(consumer.head(), |record| match check(record) {
                (CHILD, index) if index == read.0 => read.0 += 1,
                (PARENT, index) if index == read.1 => read.1 += 1,
                other => panic!("{other:?} after {read:?}"),
            })
            .unwrap();
    });
    assert_eq!(read, (first + 3, others));
    assert!(others > 10 && refused > 10);
    println!("{steps} instructions, {others} other appends, {refused} refused");
}
