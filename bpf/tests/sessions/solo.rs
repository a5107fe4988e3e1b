//! The rings of tracepoints: counted against what threads say they did, while timers interrupt them.
//!
//! Each call has a pattern of its own among its arguments: a record that is torn, comes twice or stands before an
//! earlier one of its thread in a CPU's stream is found out by that.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use tracebraid_bpf::record::{Body, Lost, LostReason, Record};
use tracebraid_bpf::spec::{Filter, KernelEvent, KernelProbe, ProbeId, Spec};
use tracebraid_bpf::{Count, Session};

use crate::tracepoints::Format;
use crate::{Outcome, Test, same, tid};

pub(crate) const TESTS: &[Test] = &[
    (
        "calls_of_threads_that_timers_interrupt_are_read_whole_once_and_in_order_or_counted",
        whole,
    ),
    (
        "a_ring_of_tracepoints_that_was_full_goes_on_once_it_is_read",
        full,
    ),
];

const THREADS: usize = 4;
const ENTER: ProbeId = ProbeId(1);

/// Calls of each thread.
fn calls() -> u64 {
    match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 2_000_000,
        None => 20_000,
    }
}

/// The arguments of a call, all made of one number.
fn arguments(number: u64) -> [u64; 6] {
    [0, 1, 2, 3, 4, 5].map(|place| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place << 48)
}

fn call(number: u64) {
    let [a, b, c, d, e, f] = arguments(number);
    // SAFETY: getppid looks at no argument.
    unsafe { libc::syscall(libc::SYS_getppid, a, b, c, d, e, f) };
}

/// Entries of system calls, timers and switches through their tracepoints, wakes beside them in the other ring.
fn spec(ring_bytes: usize, threads: Vec<u32>) -> Result<Spec, libtest_mimic::Failed> {
    Ok(Spec {
        ring_bytes,
        tracepoints: vec![
            Format::read("raw_syscalls", "sys_enter")?.probe(ENTER.0),
            Format::read("timer", "hrtimer_expire_entry")?.probe(2),
            Format::read("sched", "sched_switch")?.probe(3),
        ],
        kernel: vec![KernelProbe {
            id: ProbeId(4),
            event: KernelEvent::SchedWaking,
        }],
        filter: Filter {
            threads,
            ..Filter::default()
        },
        ..Spec::default()
    })
}

/// What came of the calls.
#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    lost: Vec<Lost>,
    /// What was said to be complete, and records that were older and came afterwards.
    complete: u64,
    late: u64,
    counts: Vec<Count>,
}

impl Seen {
    /// Drains each CPU.
    fn round(&mut self, session: &mut Session) -> tracebraid_bpf::Result<()> {
        let mut until = u64::MAX;
        for cpu in session.cpus().to_vec() {
            let before = self.records.len();
            until = until.min(session.drain(cpu, &mut self.records)?.until);
            let complete = self.complete;
            let records = self.records[before..].iter();
            self.late += records.filter(|record| record.time < complete).count() as u64;
        }
        self.complete = until;
        session.losses(&mut self.lost)
    }

    /// Records older than the one before of their CPU.
    fn backwards(&self) -> usize {
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let is_back = |record: &&Record| last.insert(record.cpu, record.time) > Some(record.time);
        self.records.iter().filter(is_back).count()
    }
}

/// Threads, each with so many calls, of which the first so many are made before anything is read.
fn run(ring_bytes: usize, calls: u64, unread: u64) -> Result<Seen, libtest_mimic::Failed> {
    let barriers = [0; 3].map(|_| Barrier::new(THREADS + 1));
    let [start, written, read] = &barriers;
    let (done, is_over) = (&AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let send = send.clone();
            scope.spawn(move || {
                let _ = send.send(tid());
                start.wait();
                (0..unread).for_each(call);
                written.wait();
                read.wait();
                for number in unread..calls {
                    call(number);
                    if number % 128 == 0 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        // Whose timers come in between.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let threads = receive.iter().take(THREADS).collect();
        let mut session = spec(ring_bytes, threads).and_then(|spec| Ok(Session::start(&spec)?));
        let mut seen = Seen::default();
        start.wait();
        written.wait();
        let mut outcome = session.as_mut().map(|session| seen.round(session));
        read.wait();
        while let Ok(Ok(())) = outcome {
            let was_done = done.load(Ordering::Acquire) == THREADS;
            outcome = session.as_mut().map(|session| seen.round(session));
            if was_done {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        is_over.store(true, Ordering::Relaxed);
        drop(outcome);
        let mut session = session?;
        session.finish(&mut seen.records, &mut seen.lost)?;
        seen.counts = session.counts();
        Ok(seen)
    })
}

/// Each entry that came is one call's and whole; how many there are.
fn check(seen: &Seen, calls: u64) -> Result<u64, libtest_mimic::Failed> {
    let format = Format::read("raw_syscalls", "sys_enter")?;
    let mut known: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
    let mut before: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let numbers: BTreeMap<u64, u64> = (0..calls).map(|it| (arguments(it)[0], it)).collect();
    for record in seen.records.iter().filter(|record| record.probe == ENTER) {
        let Body::Tracepoint(bytes) = &record.body else {
            return Err(format!("{record:?}").into());
        };
        if format.number(bytes, "id")? != libc::SYS_getppid as u64 {
            continue;
        }
        let words = format.bytes(bytes, "args")?.as_chunks::<8>().0;
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let number = words.first().and_then(|first| numbers.get(first));
        let Some(&number) = number.filter(|number| words == arguments(**number)) else {
            return Err(format!("a torn record: {words:x?}").into());
        };
        let known = known
            .entry(record.tid)
            .or_insert(vec![false; calls as usize]);
        if std::mem::replace(&mut known[number as usize], true) {
            return Err(format!("call {number} of {} came twice", record.tid).into());
        }
        if let Some(before) = before.insert((record.cpu, record.tid), number)
            && before > number
        {
            return Err(format!("call {before} of {} came before {number}", record.tid).into());
        }
    }
    same("threads", known.len(), THREADS)?;
    Ok(known.values().flatten().filter(|it| **it).count() as u64)
}

/// Every hit is a record or a loss; returns the count of entries.
fn accounts(seen: &Seen) -> Result<Count, libtest_mimic::Failed> {
    let mut entries = None;
    for &count in &seen.counts {
        let of = |probe: ProbeId| probe == count.probe;
        let records = seen
            .records
            .iter()
            .filter(|record| of(record.probe))
            .count() as u64;
        let lost = seen
            .lost
            .iter()
            .filter(|lost| of(lost.probe) && lost.reason == LostReason::RingFull);
        let lost: u64 = lost.map(|lost| lost.count).sum();
        let said = (count.delivered, count.lost, count.hits);
        same(
            "delivered, lost and hits",
            said,
            (records, lost, records + lost),
        )?;
        if of(ENTER) {
            entries = Some(count);
        }
    }
    entries.ok_or_else(|| "the entries have no count".into())
}

fn whole() -> Outcome {
    let calls = calls();
    let seen = run(1 << 20, calls, 0)?;
    let whole = check(&seen, calls)?;
    let count = accounts(&seen)?;
    println!(
        "{} records, {whole} of {} calls, {} lost, missed: {:?}",
        seen.records.len(),
        calls * THREADS as u64,
        count.lost,
        count.missed
    );
    same("late", seen.late, 0)?;
    same("older than the one before", seen.backwards(), 0)?;
    let all = calls * THREADS as u64;
    let others = count.lost + count.missed.unwrap_or(all);
    match whole <= all && whole + others >= all {
        true => Ok(()),
        false => Err(format!("{whole} of {all} calls, and {others} others").into()),
    }
}

fn full() -> Outcome {
    const UNREAD: u64 = 3000;
    // So many find room.
    const CALLS: u64 = UNREAD + 50;
    let seen = run(4096, CALLS, UNREAD)?;
    check(&seen, CALLS)?;
    let count = accounts(&seen)?;
    if count.lost == 0 {
        return Err("a ring that nobody reads should have overflowed".into());
    }
    let format = Format::read("raw_syscalls", "sys_enter")?;
    let afterwards = |record: &&Record| match &record.body {
        Body::Tracepoint(bytes) if record.probe == ENTER => {
            let last = arguments(CALLS - 1);
            format
                .bytes(bytes, "args")
                .is_ok_and(|args| args.starts_with(&last[0].to_ne_bytes()))
        }
        _ => false,
    };
    match seen.records.iter().filter(afterwards).count() {
        0 => Err("nothing came after it was read".into()),
        _ => Ok(()),
    }
}
