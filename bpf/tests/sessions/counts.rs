//! Which hits of user probes count, and that each is delivered or lost.

use std::time::Instant;

use tracebraid_bpf::record::{Body, LostReason};
use tracebraid_bpf::spec::{Fetch, Filter, ProbeId, Spec};
use tracebraid_bpf::{Options, Session};

use crate::user::{slot_probe, texts, user, whole};
use crate::{Outcome, UserTest, same, stubs, under};

/// Each is run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[
    ("hits_are_delivered_or_lost_and_nothing_else", exact),
    ("other_processes_and_threads_do_not_count", filters),
    ("many_probes_come_and_go_at_once", many),
];

/// Many threads, the smallest ring, and nobody who drains it for a while.
fn exact(options: &Options) -> Outcome {
    const THREADS: u64 = 4;
    const HITS: u64 = 5_000;
    let text = "some text of a usual length";
    let spec = Spec {
        ring_bytes: 4096,
        filter: Filter {
            processes: vec![std::process::id()],
            ..Filter::default()
        },
        ..user(vec![slot_probe(0, 3, &[(0, 1)])])
    };
    let mut session = Session::start_with(&spec, options)?;
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    let mut until = 0;
    std::thread::scope(|scope| -> Outcome {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for hit in 0..HITS {
                        let number = thread * HITS + hit;
                        stubs::hit_slots(&[text.as_ptr() as u64, text.len() as u64, number]);
                    }
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            for cpu in session.cpus().to_vec() {
                let from = records.len();
                until = session.drain(cpu, &mut records)?.until;
                if let Some(early) = records[from..].iter().find(|record| record.cpu != cpu) {
                    return Err(format!("{early:?} in the ring of CPU {cpu}").into());
                }
            }
            session.losses(&mut lost)?;
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        Ok(())
    })?;
    session.finish(&mut records, &mut lost)?;
    let missing: u64 = lost.iter().map(|lost| lost.count).sum();
    same(
        "delivered and lost",
        records.len() as u64 + missing,
        THREADS * HITS,
    )?;
    if missing == 0 || until == 0 {
        return Err("a ring of one page should have overflowed".into());
    }
    let ill = lost
        .iter()
        .find(|lost| lost.after >= lost.before || lost.probe != ProbeId(0));
    same("losses without their time", ill, None)?;
    let reasons = lost
        .iter()
        .filter(|lost| lost.reason == LostReason::RingFull)
        .count();
    same("reasons", reasons, lost.len())?;
    let count = session.counts()[0];
    same(
        "hits",
        (count.hits, count.delivered, count.lost),
        (THREADS * HITS, records.len() as u64, missing),
    )?;
    // Each record is whole, and none comes twice.
    let mut numbers = Vec::new();
    for record in &records {
        same("text", texts(record)?, vec![whole(text.as_bytes())])?;
        let Body::Slots {
            slots: Some(slots), ..
        } = &record.body
        else {
            unreachable!()
        };
        numbers.push(slots[2]);
    }
    numbers.sort_unstable();
    numbers.dedup();
    same("different records", numbers.len(), records.len())
}

fn filters(options: &Options) -> Outcome {
    let all = user(vec![slot_probe(0, 1, &[])]);
    let hits = |filter: Filter| -> Result<usize, libtest_mimic::Failed> {
        let spec = Spec {
            filter,
            ..all.clone()
        };
        let seen = under(&spec, options, || {
            stubs::hit_slots(&[1]);
            std::thread::scope(|scope| {
                scope.spawn(|| stubs::hit_slots(&[2]));
            });
        })?;
        Ok(seen.records.len())
    };
    let (process, thread) = (std::process::id(), crate::tid());
    let several = vec![1, process, 2];
    same("everybody", hits(Filter::default())?, 2)?;
    same(
        "this process",
        hits(Filter {
            processes: vec![process],
            ..Filter::default()
        })?,
        2,
    )?;
    same(
        "several",
        hits(Filter {
            processes: several.clone(),
            ..Filter::default()
        })?,
        2,
    )?;
    same(
        "another",
        hits(Filter {
            processes: vec![1],
            ..Filter::default()
        })?,
        0,
    )?;
    same(
        "two others",
        hits(Filter {
            processes: vec![1, 2],
            ..Filter::default()
        })?,
        0,
    )?;
    same(
        "this thread",
        hits(Filter {
            threads: vec![thread],
            ..Filter::default()
        })?,
        1,
    )?;
    let both = Filter {
        processes: several,
        threads: vec![thread, 1],
        ..Filter::default()
    };
    same("this thread of it", hits(both)?, 1)?;
    let excluded = Filter {
        exclude: vec![process],
        ..Filter::default()
    };
    same("all but this process", hits(excluded)?, 0)?;
    let everywhere = Filter {
        cpus: (0..64).collect(),
        ..Filter::default()
    };
    same("on any of 64 CPUs", hits(everywhere)?, 2)?;
    same(
        "on a CPU that is not",
        hits(Filter {
            cpus: vec![4095],
            ..Filter::default()
        })?,
        0,
    )
}

fn many(options: &Options) -> Outcome {
    // Taking a perf uprobe away waits for a grace period.
    let at_once = !options.force_perf_uprobes && has_uprobe_multi();
    let number = if at_once { 1000 } else { 20 };
    let spec = user(
        (0..number)
            .map(|index| {
                let fetch = Fetch::Slots {
                    count: 0,
                    text: vec![],
                };
                stubs::probe(index, stubs::many_offset(index.into()), 0, fetch)
            })
            .collect(),
    );
    let start = Instant::now();
    let mut session = Session::start_with(&spec, options)?;
    let attach = start.elapsed();
    stubs::hit_many();
    let start = Instant::now();
    session.detach();
    let detach = start.elapsed();
    println!(
        "{number} probes, {}: attached in {attach:?}, detached in {detach:?}",
        session.user_way().unwrap_or("no way")
    );
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    session.finish(&mut records, &mut lost)?;
    records.sort_by_key(|record| record.time);
    let ids: Vec<u32> = records.iter().map(|record| record.probe.0).collect();
    same("probes", ids, (0..number).collect())
}

fn has_uprobe_multi() -> bool {
    use tracebraid_bpf::capability::{State, report};
    let mut all = report().into_iter();
    all.any(|capability| capability.name == "uprobe_multi" && capability.state == State::Yes)
}
