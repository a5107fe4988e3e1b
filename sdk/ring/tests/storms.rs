//! Appends under preemption, migration and signals, in each of the ways to append, with a reader beside
//! them.
//!
//! ```text
//! discard     every record is read once or counted as lost by its writer
//! overwrite   what a snapshot shows, taken in the middle, is whole and in order
//! ```
//! In both no record is torn, and time never goes backwards in a ring. `TRACEBRAID_SOAK=1` has 50 million
//! records a storm, and `TRACEBRAID_SHORT=1` a few thousand, for machines that are emulated.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "storms/appender.rs"]
mod appender;
#[path = "storms/weather.rs"]
mod weather;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use appender::{Appender, HANDLER, check, cpus};
use tracebraid_ring::rseq::Area;
use tracebraid_ring::{Clock, Consumer, Mode};
use weather::{WRITERS, storm};

/// Writers, and the signal handlers of all of them.
const SOURCES: usize = WRITERS + 1;

/// Records of one writer.
fn events() -> u64 {
    match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 50_000_000 / WRITERS as u64,
        // Enough for some hundred time slices of an emulated CPU.
        None if std::env::var_os("TRACEBRAID_SHORT").is_some() => 4_000,
        None => 60_000,
    }
}

fn source(writer: u32) -> usize {
    match writer {
        HANDLER => WRITERS,
        writer => writer as usize,
    }
}

/// Reads everything; how many records of each source.
fn drain_all(appender: &Appender, done: &AtomicBool) -> Vec<u64> {
    let mut consumers: Vec<_> = (0..cpus())
        .map(|ring| Consumer::new(appender.region(), ring))
        .collect();
    let mut read = vec![0; SOURCES];
    let mut times = vec![0; cpus()];
    let mut next = vec![vec![0; WRITERS]; cpus()];
    loop {
        let last = done.load(Ordering::Acquire);
        for consumer in &mut consumers {
            let ring = consumer.ring();
            consumer
                .drain(consumer.head(), |record| {
                    let (writer, index) = check(record);
                    assert!(record[1] >= times[ring], "time went back");
                    times[ring] = record[1];
                    read[source(writer)] += 1;
                    // Handlers draw their index before they append, so theirs may change places.
                    if writer != HANDLER {
                        let next = &mut next[ring][writer as usize];
                        assert!(index >= *next, "a record twice or out of order");
                        *next = index + 1;
                    }
                })
                .unwrap();
        }
        if last {
            return read;
        }
        std::thread::yield_now();
    }
}

fn assert_that_all_is_read_or_lost(appender: Appender, events: u64) {
    let outcome = storm(appender, events, drain_all);
    for writer in 0..WRITERS {
        let (read, lost) = (outcome.read[writer], outcome.lost[writer]);
        assert_eq!(read + lost, events, "writer {writer}");
    }
    let (written, lost) = outcome.handled;
    assert_eq!(outcome.read[WRITERS] + lost, written, "signal handlers");
    println!(
        "read {:?}, lost {:?}, in handlers {written}, of them lost {lost}",
        outcome.read, outcome.lost
    );
    assert!(written > 0, "no signal came");
    // Where the reader is slow, all of one writer's records may be among the lost.
    assert!(outcome.read.iter().any(|&read| read > 0));
}

/// Takes snapshots all the while; how many records they showed.
fn look(appender: &Appender, done: &AtomicBool) -> u64 {
    let mut consumers: Vec<_> = (0..cpus())
        .map(|ring| Consumer::new(appender.region(), ring))
        .collect();
    let mut shown = 0;
    loop {
        let last = done.load(Ordering::Acquire);
        for consumer in &mut consumers {
            let mut time = 0;
            let mut next = [0; WRITERS];
            consumer
                .snapshot(|record| {
                    let (writer, index) = check(record);
                    assert!(record[1] >= time, "time went back");
                    time = record[1];
                    if writer != HANDLER {
                        let next = &mut next[writer as usize];
                        assert!(index >= *next, "a record twice or out of order");
                        *next = index + 1;
                    }
                    shown += 1;
                })
                .unwrap();
        }
        if last {
            return shown;
        }
    }
}

fn assert_that_snapshots_are_whole(appender: Appender, events: u64) {
    let region = appender.region();
    let outcome = storm(appender, events, look);
    println!("shown {}, in handlers {:?}", outcome.read, outcome.handled);
    assert!(outcome.read > 0);
    let newest: Vec<_> = (0..cpus())
        .filter_map(|ring| {
            let mut newest = None;
            Consumer::new(region, ring)
                .snapshot(|record| newest = Some(check(record)))
                .unwrap();
            newest
        })
        .collect();
    // The last of all records is of the writer that ended last, if no handler came after it.
    let handled = newest.iter().any(|&(writer, _)| writer == HANDLER);
    let last = newest.iter().map(|&(_, index)| index).max();
    assert!(
        handled || last.is_none_or(|index| index + 100 > events),
        "{newest:?}"
    );
}

fn discard(area: Area) {
    for clock in [Clock::Tsc, Clock::Given] {
        let appender = Appender::sequence(area, Mode::Discard, clock, 64 * 1024);
        assert_that_all_is_read_or_lost(appender, events());
    }
}

fn overwrite(area: Area) {
    for clock in [Clock::Tsc, Clock::Given] {
        let appender = Appender::sequence(area, Mode::Overwrite, clock, 16 * 1024);
        assert_that_snapshots_are_whole(appender, events());
    }
}

/// Runs with an area of our own. Where the C library has one, that is in a process that tells it not to:
/// this test, started again.
fn with_own_area(test: &str, run: fn(Area)) {
    const TUNABLE: &str = "glibc.pthread.rseq=0";
    if Area::of_c_library().is_none() {
        return run(Area::own().expect("the kernel registers an area"));
    }
    assert!(
        std::env::var_os("GLIBC_TUNABLES").is_none_or(|tunable| tunable != TUNABLE),
        "the C library registers an area all the same"
    );
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("GLIBC_TUNABLES", TUNABLE)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

// musl registers none.
#[cfg(target_env = "gnu")]
#[test]
fn all_is_read_or_lost_with_the_area_of_the_c_library() {
    discard(Area::of_c_library().expect("glibc registers an area since 2.35"));
}

#[test]
fn all_is_read_or_lost_with_an_area_of_our_own() {
    with_own_area("all_is_read_or_lost_with_an_area_of_our_own", discard);
}

#[test]
fn all_is_read_or_lost_under_locks() {
    let appender = Appender::locked(Mode::Discard, 64 * 1024);
    assert_that_all_is_read_or_lost(appender, events());
}

#[cfg(target_env = "gnu")]
#[test]
fn snapshots_are_whole_with_the_area_of_the_c_library() {
    overwrite(Area::of_c_library().expect("glibc registers an area since 2.35"));
}

#[test]
fn snapshots_are_whole_with_an_area_of_our_own() {
    with_own_area("snapshots_are_whole_with_an_area_of_our_own", overwrite);
}

#[test]
fn snapshots_are_whole_under_locks() {
    let appender = Appender::locked(Mode::Overwrite, 16 * 1024);
    assert_that_snapshots_are_whole(appender, events());
}
