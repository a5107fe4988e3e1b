//! Threads by the thousand: ring memory is that of the CPUs that fired, and every event carries the id
//! of its thread.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::thread;

use tracebraid::Options;
use tracebraid_tests::requirement::{is_short, is_soak};
use tracebraid_tests::scenario::Scenario;

use super::{begin, note, ring_memory, take, tell, text_of, thread_id};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "ring_memory_is_that_of_the_cpus_that_fired_however_many_threads_there_are",
        &[],
        || memory(Options::new(), 1),
    ),
    Scenario::new(
        "ring_memory_is_that_of_the_locked_rings_however_many_threads_there_are",
        &[],
        || memory(super::locked(), cpus()),
    ),
    Scenario::new(
        "every_event_is_read_or_lost_under_its_thread_id_in_sequences",
        &[],
        || exact(Options::new()),
    ),
    Scenario::new(
        "every_event_is_read_or_lost_under_its_thread_id_under_locks",
        &[],
        || exact(super::locked()),
    ),
    Scenario::new(
        "every_event_is_read_or_lost_with_an_area_of_our_own",
        &[],
        own_area,
    ),
];

/// The ring's size in these tests, bytes.
const RING: u64 = 64 * 1024;

fn cpus() -> u64 {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) as u64 }
}

/// `touched` is how many rings the threads of one CPU write: under locks they are spread by their ids.
fn memory(options: Options, touched: u64) {
    // The helper reads what a bridge may want, which takes pages of the region, when it comes to it.
    begin(options.ring(RING as usize).no_thread());
    let total = || ring_memory().into_iter().sum::<u64>();
    let idle = total();
    // Before this thread may run on one of them only, which is all that musl would count.
    let cpus = cpus();
    let threads = match (is_soak(), is_short()) {
        (true, _) => 10_000,
        (_, true) => 100,
        _ => 1_000,
    };
    run_threads(threads, |_| {});
    assert_eq!(total(), idle, "threads that fire nothing");
    // All on one CPU: of each ring that is touched its data, its control block and a page of losses at most.
    pin(Some(0));
    run_threads(threads, |who| note(who, 1));
    let one = total() - idle;
    assert!(
        (4096..=touched * (RING + 3 * 4096)).contains(&one),
        "{one} bytes"
    );
    pin(None);
    run_threads(threads, |who| (0..20).for_each(|index| note(who, index)));
    let all = total() - idle;
    assert!(all <= cpus * (RING + 3 * 4096), "{all} bytes");
    println!("{threads} threads: {idle} bytes idle, {one} one CPU, {all} all CPUs");
}

/// Runs so many threads, some at a time.
fn run_threads(threads: u64, body: impl Fn(u64) + Copy + Send + Sync) {
    const AT_ONCE: u64 = 100;
    for first in (0..threads).step_by(AT_ONCE as usize) {
        thread::scope(|scope| {
            for who in first..first + AT_ONCE {
                thread::Builder::new()
                    .stack_size(64 * 1024)
                    .spawn_scoped(scope, move || body(who))
                    .unwrap();
            }
        });
    }
}

/// Lets this thread and those that it starts run on one CPU, or on all.
fn pin(cpu: Option<usize>) {
    // SAFETY: a set of ours, filled with CPUs that it has room for.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        // Those that are not there are passed over.
        for candidate in 0..libc::CPU_SETSIZE as usize {
            if cpu.is_none_or(|cpu| cpu == candidate) {
                libc::CPU_SET(candidate, &mut set);
            }
        }
        assert_eq!(
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set),
            0
        );
    }
}

fn exact(options: Options) {
    const WRITERS: u64 = 8;
    let events = match (is_soak(), is_short()) {
        (true, _) => 6_000_000,
        (_, true) => 4_000,
        _ => 40_000,
    };
    begin(options.ring(RING as usize));
    let mut counts = [0_u64; WRITERS as usize];
    let mut ids = vec![BTreeSet::new(); WRITERS as usize];
    let mut look = || {
        // In what one look shows, a thread's events keep their order, also over rings.
        let mut next = [0; WRITERS as usize];
        for seen in take() {
            let who = seen.who as usize;
            counts[who] += 1;
            ids[who].insert(seen.thread);
            assert!(seen.index >= next[who], "{seen:?} after {}", next[who]);
            next[who] = seen.index + 1;
        }
    };
    let truth: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|who| {
                scope.spawn(move || {
                    for index in 0..events {
                        match index % 5 {
                            4 => tell(who, index, text_of(index)),
                            _ => note(who, index),
                        }
                        if index % 256 == 255 {
                            thread::yield_now();
                        }
                    }
                    thread_id()
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            look();
        }
        look();
        writers
            .into_iter()
            .map(|writer| BTreeSet::from([writer.join().unwrap()]))
            .collect()
    });
    // Where the reader is slow, all of a thread's events may be among the lost.
    for (ids, truth) in ids.iter().zip(&truth) {
        assert!(ids.is_subset(truth), "{ids:?} {truth:?}");
    }
    let read: u64 = counts.iter().sum();
    let lost = tracebraid::lost("note") + tracebraid::lost("tell");
    assert_eq!(read + lost, WRITERS * events, "read {read}, lost {lost}");
    assert!(read > 0);
    println!("read {read}, lost {lost}");
}

/// The same where the C library registers no area: this scenario, started again so.
fn own_area() {
    const TUNABLE: &str = "glibc.pthread.rseq=0";
    if std::env::var_os("GLIBC_TUNABLES").is_some_and(|tunable| tunable == TUNABLE) {
        exact(Options::new());
        // In a child the area is registered already.
        super::children::assert_ended_well(super::children::in_child(|| {
            assert_eq!(take().len(), 0);
            note(9, 9);
            assert_eq!(take().len(), 1);
        }));
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .env("GLIBC_TUNABLES", TUNABLE)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
