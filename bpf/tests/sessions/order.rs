//! Order in a ring: user probes, system calls, switches and timers of threads that interrupt one another.
//!
//! Two things are counted. Records that are older than the one before them in their ring: there are none where
//! programs may keep interrupts away (`bpf_local_irq_save`), and elsewhere the reader sorts. And records that
//! are older than what an earlier round of drains said to be complete: there are none on any kernel, and that
//! is what a merge builds on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracebraid_bpf::capability::{State, report};
use tracebraid_bpf::record::Record;
use tracebraid_bpf::spec::{Filter, KernelEvent, KernelProbe, ProbeId, Spec};
use tracebraid_bpf::{Options, Session};

use crate::tracepoints::Format;
use crate::user::{slot_probe, user};
use crate::{Outcome, UserTest, stubs};

/// Run for each way of attaching.
pub(crate) const TESTS: &[UserTest] = &[(
    "under_load_no_record_is_late_and_where_interrupts_are_kept_away_all_are_in_order",
    order,
)];

/// Threads that hit the probe and give up the CPU, and threads that a timer's interrupt wakes all the time.
const YIELDING: usize = 4;
const SLEEPING: usize = 2;

/// How many records are looked at: in an emulated guest, here, and in a soak.
fn wanted() -> u64 {
    let is_set = |name| std::env::var_os(name).is_some();
    match (is_set("TRACEBRAID_SHORT"), is_set("TRACEBRAID_SOAK")) {
        (true, _) => 50_000,
        (_, true) => 10_000_000,
        _ => 200_000,
    }
}

fn spec() -> Result<Spec, libtest_mimic::Failed> {
    let kernel = [
        KernelEvent::SchedSwitch,
        KernelEvent::SchedWaking,
        KernelEvent::SysEnter(vec![libc::SYS_sched_yield as u32]),
    ];
    let kernel = kernel.into_iter().zip(1..);
    let kernel = kernel.map(|(event, id)| KernelProbe {
        id: ProbeId(id),
        event,
    });
    Ok(Spec {
        ring_bytes: 1 << 20,
        kernel: kernel.collect(),
        tracepoints: vec![Format::read("timer", "hrtimer_expire_entry")?.probe(9)],
        filter: Filter {
            processes: vec![std::process::id()],
            ..Filter::default()
        },
        ..user(vec![slot_probe(0, 1, &[])])
    })
}

fn order(options: &Options) -> Outcome {
    let mut session = Session::start_with(&spec()?, options)?;
    let is_over = AtomicBool::new(false);
    let order = std::thread::scope(|scope| {
        let _end = SetWhenDropped(&is_over);
        for _ in 0..YIELDING {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    (0..20).for_each(|hit| stubs::hit_slots(&[hit]));
                    std::thread::yield_now();
                }
            });
        }
        for _ in 0..SLEEPING {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
        }
        Order::of(&mut session, wanted())
    })?;
    println!("{order}");
    if order.late > 0 {
        return Err(format!("late: {order}").into());
    }
    let keeps_interrupts_away = report()
        .iter()
        .any(|it| it.name == "bpf_local_irq_save" && it.state == State::Yes);
    if keeps_interrupts_away && order.backwards > 0 {
        return Err(format!("out of order: {order}").into());
    }
    Ok(())
}

/// So that the threads end on whatever way out.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the records of a session were, in the order of their rings.
#[derive(Default)]
struct Order {
    seen: u64,
    /// Older than the one before, and by how many nanoseconds at most.
    backwards: u64,
    furthest: u64,
    /// Older than what was said to be complete.
    late: u64,
}

impl Order {
    /// Drains, a round of all CPUs after the other, until so many have come.
    fn of(session: &mut Session, wanted: u64) -> tracebraid_bpf::Result<Order> {
        let cpus = session.cpus().to_vec();
        let mut order = Order::default();
        let mut last = vec![0; cpus.len()];
        let mut complete = 0;
        let mut drained = Vec::new();
        while order.seen < wanted {
            let mut until = u64::MAX;
            for (&cpu, last) in cpus.iter().zip(&mut last) {
                drained.clear();
                until = until.min(session.drain(cpu, &mut drained)?.until);
                order.add(&drained, complete, last);
            }
            complete = until;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(order)
    }

    /// Records of one ring.
    fn add(&mut self, records: &[Record], complete: u64, last: &mut u64) {
        for record in records {
            self.late += u64::from(record.time < complete);
            if record.time < *last {
                self.backwards += 1;
                self.furthest = self.furthest.max(*last - record.time);
            }
            *last = record.time;
        }
        self.seen += records.len() as u64;
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Order {
            seen,
            backwards,
            furthest,
            late,
        } = self;
        write!(
            f,
            "of {seen} records {backwards} were older than the one before in their ring, by {furthest} ns at most, and {late} came late"
        )
    }
}
