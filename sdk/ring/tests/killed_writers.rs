//! A writer that dies by SIGKILL in the middle of whatever it does: what it committed reads whole, and
//! the rings are of use to others.
//!
//! The writer is a child of fork that shares the region. It writes down, in the region's header, how many
//! of its appends have returned; so the reader knows what must be there.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code)]
#[path = "storms/appender.rs"]
mod appender;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use appender::{Appender, check, cpus};
use tracebraid_ring::rseq::Area;
use tracebraid_ring::{Clock, Consumer, Mode, Region};

const WRITER: u32 = 7;
const HEIR: u32 = 8;

fn times() -> u64 {
    match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 200,
        None => 10,
    }
}

/// How many appends have returned.
fn returned(region: &Region) -> &AtomicU64 {
    // SAFETY: the first word of the header area, which this test uses as an atomic only.
    unsafe { &*region.header().cast() }
}

/// Has a child write until it is killed, `after` its first record.
fn kill_a_writer(appender: &Appender, after: Duration) {
    let returned = returned(appender.region());
    // SAFETY: the child only appends, which allocates nothing and takes no lock of this process, until it
    // is killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // It inherits what its parent's thread remembered as its own id, which is as good as any.
        let mut index = 0;
        loop {
            if appender.append(WRITER, index) {
                index += 1;
                returned.store(index, Ordering::Release);
            }
        }
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    let limit = Instant::now() + Duration::from_secs(20);
    while returned.load(Ordering::Acquire) == 0 {
        assert!(Instant::now() < limit, "the child writes nothing");
        thread::yield_now();
    }
    let begin = Instant::now();
    while begin.elapsed() < after {
        std::hint::spin_loop();
    }
    // SAFETY: a child of ours that was not waited for.
    unsafe {
        assert_eq!(libc::kill(child, libc::SIGKILL), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFSIGNALED(status), "{status:#x}");
    }
}

fn read(appender: &Appender) -> Vec<(u32, u64)> {
    let mut records = Vec::new();
    for ring in 0..cpus() {
        let mut consumer = Consumer::new(appender.region(), ring);
        let mut time = 0;
        consumer
            .drain(consumer.head(), |record| {
                assert!(record[1] >= time, "time went back");
                time = record[1];
                records.push(check(record));
            })
            .unwrap();
    }
    records
}

fn committed_reads_whole(make: impl Fn() -> Appender) {
    // Children of one test must not hold up what another measures.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for round in 0..times() {
        let appender = make();
        // Not a round number, and different each time: up to about 2 ms.
        kill_a_writer(
            &appender,
            Duration::from_nanos(round * 7_919_317 % 2_000_003),
        );
        let returned = returned(appender.region()).load(Ordering::Acquire);
        let mut indexes: Vec<u64> = read(&appender)
            .into_iter()
            .map(|(writer, index)| {
                assert_eq!(writer, WRITER);
                index
            })
            .collect();
        indexes.sort_unstable();
        let there = indexes.len() as u64;
        // The last append may have committed without having returned.
        assert!(
            there == returned || there == returned + 1,
            "{there} of {returned}"
        );
        assert!(indexes.into_iter().eq(0..there));
        // Others write on: none hangs, and what they are told is in the rings is there.
        let written = (0..100)
            .filter(|&index| appender.append(HEIR, index))
            .count();
        assert_eq!(read(&appender).len(), written);
    }
}

fn area() -> Area {
    Area::of_c_library().or_else(Area::own).expect("an area")
}

#[test]
fn what_a_killed_writer_committed_in_sequences_reads_whole() {
    for clock in [Clock::Tsc, Clock::Given] {
        committed_reads_whole(|| Appender::sequence(area(), Mode::Discard, clock, 1 << 20));
    }
}

#[test]
fn what_a_killed_writer_committed_under_locks_reads_whole() {
    committed_reads_whole(|| Appender::locked(Mode::Discard, 1 << 20));
}

#[test]
fn what_a_killed_writer_left_in_overwriting_rings_reads_whole() {
    let makers: [fn() -> Appender; 2] = [
        || Appender::sequence(area(), Mode::Overwrite, Clock::Tsc, 16 * 1024),
        || Appender::locked(Mode::Overwrite, 16 * 1024),
    ];
    for make in makers {
        for round in 0..times() {
            let appender = make();
            kill_a_writer(
                &appender,
                Duration::from_nanos(round * 7_919_317 % 2_000_003),
            );
            let returned = returned(appender.region()).load(Ordering::Acquire);
            let mut newest = 0;
            for ring in 0..cpus() {
                let mut next = 0;
                Consumer::new(appender.region(), ring)
                    .snapshot(|record| {
                        let (writer, index) = check(record);
                        assert_eq!(writer, WRITER);
                        assert!(index >= next, "a record twice or out of order");
                        next = index + 1;
                    })
                    .unwrap();
                newest = newest.max(next);
            }
            assert!(
                newest == returned || newest == returned + 1,
                "{newest} of {returned}"
            );
        }
    }
}
