//! Appends and reads of one program, under preemption and migration.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tracebraid_ring::rseq::{Area, Producer};
use tracebraid_ring::{Appended, Clock, Consumer, Geometry, Mode, Region};

const THREADS: u64 = 6;

fn cpus() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) as usize }
}

fn producer(mode: Mode, clock: Clock, area: Area, ring_bytes: usize) -> Producer {
    let geometry = Geometry::new(4096, cpus(), ring_bytes).unwrap();
    let region = Box::leak(Box::new(Region::create(c"ring-test", geometry).unwrap()));
    Producer::new(region, cpus(), mode, clock, area)
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn areas() -> Vec<Area> {
    // An own area can only be registered where the C library has none.
    let library = Area::of_c_library();
    library.or_else(Area::own).into_iter().collect()
}

#[test]
fn every_record_is_read_once_or_lost_and_none_is_torn_and_time_never_goes_back() {
    let is_set = |name| std::env::var_os(name).is_some();
    let events: u64 = match (is_set("TRACEBRAID_SOAK"), is_set("TRACEBRAID_SHORT")) {
        (true, _) => 8_000_000,
        (_, true) => 20_000,
        _ => 200_000,
    };
    for area in areas() {
        for clock in [Clock::Tsc, Clock::Given] {
            let producer = producer(Mode::Discard, clock, area, 64 * 1024);
            let done = AtomicBool::new(false);
            let (read, lost) = thread::scope(|scope| {
                let reader = scope.spawn(|| read_all(&producer, &done));
                let writers: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        scope.spawn({
                            let producer = &producer;
                            move || write(producer, thread, events)
                        })
                    })
                    .collect();
                let lost: Vec<u64> = writers
                    .into_iter()
                    .map(|writer| writer.join().unwrap())
                    .collect();
                done.store(true, Ordering::Release);
                (reader.join().unwrap(), lost)
            });
            for thread in 0..THREADS as usize {
                assert_eq!(
                    read[thread] + lost[thread],
                    events,
                    "thread {thread}, {clock:?}"
                );
            }
            assert!(read.iter().sum::<u64>() > 0);
        }
    }
}

fn write(producer: &Producer, thread: u64, events: u64) -> u64 {
    let mut lost = 0;
    for index in 0..events {
        let record = [5, 0, index, thread, index ^ 0xabcd_ef01];
        match producer.append(&record, now()) {
            Appended::Yes(_) => {}
            Appended::Full => {
                lost += 1;
                thread::yield_now();
            }
            Appended::Elsewhere => {
                assert!(producer.prepare_thread());
                lost += 1;
            }
        }
    }
    lost
}

fn read_all(producer: &Producer, done: &AtomicBool) -> Vec<u64> {
    let mut consumers: Vec<_> = (0..cpus())
        .map(|ring| Consumer::new(producer.region(), ring))
        .collect();
    let mut read = vec![0; THREADS as usize];
    let mut times = vec![0; cpus()];
    loop {
        let last = done.load(Ordering::Acquire);
        for consumer in &mut consumers {
            let ring = consumer.ring();
            consumer
                .drain(consumer.head(), |record| {
                    assert_eq!(record.len(), 5);
                    assert_eq!(record[2] ^ 0xabcd_ef01, record[4], "torn");
                    assert!(record[1] >= times[ring], "time went back");
                    times[ring] = record[1];
                    read[record[3] as usize] += 1;
                })
                .unwrap();
        }
        if last {
            return read;
        }
    }
}

#[test]
fn an_overwriting_ring_holds_the_newest_records_in_order() {
    for area in areas() {
        let producer = producer(Mode::Overwrite, Clock::Tsc, area, 16 * 1024);
        for index in 1..=10_000u64 {
            let words = 3 + index % 7;
            let mut record = vec![words | 1 << 16, 0, index];
            record.resize(words as usize, index);
            while producer.append(&record, 0) == Appended::Elsewhere {
                assert!(producer.prepare_thread());
            }
        }
        let mut newest = Vec::new();
        for ring in 0..cpus() {
            let mut seen = Vec::new();
            Consumer::new(producer.region(), ring)
                .snapshot(|record| {
                    assert!(record[2..].iter().all(|&word| word == record[2]));
                    seen.push(record[2]);
                })
                .unwrap();
            assert!(seen.is_sorted());
            newest.extend(seen.last().copied());
        }
        assert_eq!(newest.into_iter().max(), Some(10_000));
    }
}

#[test]
fn an_append_hands_back_the_time_of_its_record() {
    for area in areas() {
        for mode in [Mode::Discard, Mode::Overwrite] {
            for clock in [Clock::Tsc, Clock::Given] {
                let producer = producer(mode, clock, area, 16 * 1024);
                let mut told = Vec::new();
                for index in 0..50 {
                    let record = [3 | 1 << 16, 0, index];
                    // One given time is before the last.
                    let given = 1_000 + index - if index == 20 { 10 } else { 0 };
                    loop {
                        match producer.append(&record, given) {
                            Appended::Yes(time) => break told.push(time),
                            Appended::Elsewhere => assert!(producer.prepare_thread()),
                            Appended::Full => panic!("fifty records fit"),
                        }
                    }
                }
                let mut written = vec![0; told.len()];
                for ring in 0..cpus() {
                    let mut consumer = Consumer::new(producer.region(), ring);
                    let each = |record: &[u64]| written[record[2] as usize] = record[1];
                    match mode {
                        Mode::Discard => consumer.peek(each).unwrap(),
                        Mode::Overwrite => consumer.snapshot(each).unwrap(),
                    }
                }
                assert_eq!(told, written, "{mode:?} {clock:?}");
                assert!(told.iter().all(|&time| time != 0));
            }
        }
    }
}
