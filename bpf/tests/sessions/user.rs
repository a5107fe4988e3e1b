//! User probes.
#![allow(unsafe_code)]

use std::time::Instant;

use tracebraid_bpf::record::{Body, LostReason, Record, Text};
use tracebraid_bpf::spec::{
    Argument, Fetch, Filter, Location, Place, ProbeId, Register, Spec, UserProbe,
};
use tracebraid_bpf::{ErrorKind, Options, Session};

use crate::{Outcome, UserTest, mine, same, stubs, under};

/// Each is run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[
    ("the_slots_of_a_tracepoint_arrive_with_their_text", slots),
    ("every_place_of_an_argument_is_read", arguments),
    (
        "a_semaphore_is_up_while_attached_and_down_afterwards",
        semaphore,
    ),
    (
        "two_probes_of_one_address_both_get_every_hit",
        shared_address,
    ),
    (
        "another_tracer_with_another_semaphore_is_named_as_the_reason",
        conflict,
    ),
    (
        "an_address_outside_the_file_is_refused_with_its_offset",
        outside,
    ),
    ("hits_are_delivered_or_lost_and_nothing_else", exact),
    ("other_processes_and_threads_do_not_count", filters),
    ("many_probes_come_and_go_at_once", many),
    ("a_session_that_is_killed_leaves_no_probe", killed),
    ("a_session_that_is_dropped_leaves_no_probe", dropped),
];

pub(crate) fn slot_probe(id: u32, count: u8, text: &[(u8, u8)]) -> UserProbe {
    stubs::probe(
        id,
        stubs::slots_offset(),
        0,
        Fetch::Slots {
            count,
            text: text.to_vec(),
        },
    )
}

pub(crate) fn user(probes: Vec<UserProbe>) -> Spec {
    Spec {
        user: probes,
        filter: mine(),
        ..Spec::default()
    }
}

pub(crate) fn texts(record: &Record) -> Result<Vec<Text>, String> {
    match &record.body {
        Body::Slots {
            slots: Some(_),
            texts,
        } => Ok(texts.clone()),
        other => Err(format!("{other:?} has no slots")),
    }
}

pub(crate) fn whole(text: &[u8]) -> Text {
    Text::Bytes {
        bytes: text.into(),
        full_length: text.len() as u64,
    }
}

fn slots(options: &Options) -> Outcome {
    let text = "grüße";
    let spec = user(vec![slot_probe(7, 4, &[(1, 2)])]);
    let words = [
        u64::MAX,
        text.as_ptr() as u64,
        text.len() as u64,
        i64::MIN as u64,
    ];
    let seen = under(&spec, options, || stubs::hit_slots(&words))?;
    same("records", seen.records.len(), 1)?;
    let record = &seen.records[0];
    same("probe", record.probe, ProbeId(7))?;
    same(
        "thread",
        (record.tgid, record.tid),
        (std::process::id(), crate::tid()),
    )?;
    let texts = vec![whole(text.as_bytes())];
    same(
        "body",
        &record.body,
        &Body::Slots {
            slots: Some(words.to_vec()),
            texts,
        },
    )
}

fn arguments(options: &Options) -> Outcome {
    use Place::{Constant, Memory, ProbeRelative, Unsupported};
    let argument = |width, signed, place| Argument {
        width,
        signed,
        float: false,
        place,
    };
    let register = |register| Place::Register {
        register,
        high: false,
    };
    let memory = |base, index, displacement| Memory {
        base,
        index,
        displacement,
    };
    let data = [0x8877_6655_4433_2211, 0xfedc_ba98_7654_3210u64];
    let (rdi, rsi, rdx) = (Register::Rdi, Register::Rsi, Register::Rdx);
    // What is fetched, and what it is; rdi = 0xfff6, rsi = &data, rdx = 1, rcx = 8.
    let places = [
        (argument(8, false, register(rdi)), Some(0xfff6)),
        (argument(2, true, register(rdi)), Some(-10i64 as u64)),
        (argument(1, false, register(rdi)), Some(0xf6)),
        (
            argument(
                1,
                true,
                Place::Register {
                    register: rdi,
                    high: true,
                },
            ),
            Some(u64::MAX),
        ),
        (
            argument(8, true, register(Register::R8)),
            Some(-2i64 as u64),
        ),
        (
            argument(4, false, register(Register::R8)),
            Some(0xffff_fffe),
        ),
        (
            argument(
                1,
                false,
                Place::Register {
                    register: Register::Rax,
                    high: true,
                },
            ),
            Some(0x33),
        ),
        (
            argument(8, false, memory(Some(rsi), None, 0)),
            Some(data[0]),
        ),
        (
            argument(4, true, memory(Some(rsi), None, 4)),
            Some(0xffff_ffff_8877_6655),
        ),
        (
            argument(2, false, memory(Some(rsi), Some((rdx, 8)), 0)),
            Some(0x3210),
        ),
        (
            argument(1, false, memory(Some(rsi), Some((rdx, 4)), -1)),
            Some(0x44),
        ),
        (
            argument(8, false, memory(Some(rsi), Some((Register::Rcx, 1)), 0)),
            Some(data[1]),
        ),
        (argument(8, false, memory(None, Some((rdx, 8)), 0)), None),
        (argument(8, false, memory(Some(rdx), None, 0)), None),
        (argument(1, false, Constant(-56)), Some(200)),
        (argument(8, true, Constant(i64::MIN)), Some(i64::MIN as u64)),
        (argument(4, false, Constant(-1)), Some(0xffff_ffff)),
        (
            argument(
                8,
                false,
                ProbeRelative {
                    displacement: 0,
                    address_only: true,
                },
            ),
            None,
        ),
        (
            argument(
                8,
                false,
                ProbeRelative {
                    displacement: 12,
                    address_only: false,
                },
            ),
            Some(0x7777_8888_9999_0000),
        ),
        (argument(8, false, Unsupported("%xmm0".into())), None),
        (
            argument(4, true, memory(Some(rsi), None, 4)),
            Some(0xffff_ffff_8877_6655),
        ),
    ];
    let fetch = Fetch::Arguments(
        places
            .iter()
            .map(|(argument, _)| argument.clone())
            .collect(),
    );
    let spec = user(vec![stubs::probe(3, stubs::arguments_offset(), 0, fetch)]);
    let seen = under(&spec, options, || stubs::hit_arguments(0xfff6, &data, 1, 8))?;
    same("records", seen.records.len(), 1)?;
    let Body::Arguments {
        location: 0,
        values,
    } = &seen.records[0].body
    else {
        return Err(format!("{:?}", seen.records[0].body).into());
    };
    for (index, ((argument, wanted), value)) in places.iter().zip(values).enumerate() {
        let wanted = match argument.place {
            Place::ProbeRelative {
                address_only: true, ..
            } => Some(stubs::arguments_address()),
            _ => *wanted,
        };
        same(&format!("argument {index}, {argument:?}"), *value, wanted)?;
    }
    Ok(())
}

fn semaphore(options: &Options) -> Outcome {
    let fetch = Fetch::Slots {
        count: 1,
        text: vec![],
    };
    let spec = user(vec![stubs::probe(
        0,
        stubs::guarded_offset(),
        stubs::semaphore_offset(),
        fetch,
    )]);
    same("before", stubs::semaphore(), 0)?;
    let mut during = 0;
    let seen = under(&spec, options, || {
        during = stubs::semaphore();
        stubs::hit_guarded(&[1]);
    })?;
    same("during", during, 1)?;
    same("after", stubs::semaphore(), 0)?;
    same("records", seen.records.len(), 1)
}

fn shared_address(options: &Options) -> Outcome {
    let offset = stubs::guarded_offset();
    let same_fetch = Fetch::Slots {
        count: 1,
        text: vec![],
    };
    let other = Fetch::Arguments(vec![Argument {
        width: 8,
        signed: false,
        float: false,
        place: Place::Memory {
            base: Some(Register::Rdi),
            index: None,
            displacement: 0,
        },
    }]);
    // The third is the bare address, of the same file by another name.
    let mut third = stubs::probe(3, offset, 0, other);
    third.binary = format!("/proc/{}/exe", std::process::id()).into();
    third.locations.insert(
        0,
        Location {
            offset: stubs::slots_offset(),
            semaphore: 0,
            fetch: Fetch::Arguments(vec![]),
        },
    );
    let spec = user(vec![
        stubs::probe(1, offset, stubs::semaphore_offset(), same_fetch.clone()),
        stubs::probe(2, offset, stubs::semaphore_offset(), same_fetch),
        third,
    ]);
    let seen = under(&spec, options, || {
        stubs::hit_guarded(&[0xabc]);
        stubs::hit_guarded(&[0xdef]);
    })?;
    let mut got: Vec<(u32, u64)> = Vec::new();
    for record in &seen.records {
        got.push((
            record.probe.0,
            match &record.body {
                Body::Slots {
                    slots: Some(slots), ..
                } => slots[0],
                Body::Arguments {
                    location: 1,
                    values,
                } => values[0].unwrap_or(0),
                other => return Err(format!("{other:?}").into()),
            },
        ));
    }
    let wanted = [0xabc, 0xdef]
        .map(|value| [(1, value), (2, value), (3, value)])
        .concat();
    same("records", got, wanted)?;
    let counts = seen
        .session
        .as_ref()
        .map(Session::counts)
        .unwrap_or_default();
    let hits: Vec<(u64, u64)> = counts
        .iter()
        .map(|count| (count.hits, count.delivered))
        .collect();
    same("counts", hits, vec![(2, 2), (2, 2), (2, 2)])
}

fn conflict(options: &Options) -> Outcome {
    let fetch = || Fetch::Slots {
        count: 0,
        text: vec![],
    };
    let many = |semaphore| {
        let mut probe = stubs::probe(0, stubs::guarded_offset(), semaphore, fetch());
        for index in 0..20 {
            let offset = stubs::many_offset(index);
            probe.locations.push(Location {
                offset,
                semaphore: 0,
                fetch: fetch(),
            });
        }
        user(vec![probe])
    };
    let with = many(stubs::semaphore_offset());
    let without = many(0);
    for (first, second, reason) in [
        (
            &without,
            &with,
            "another tracer holds this address without the semaphore",
        ),
        (
            &with,
            &without,
            "another tracer holds this address with a semaphore",
        ),
    ] {
        let held = Session::start_with(first, options)?;
        let Err(error) = Session::start_with(second, options) else {
            return Err("the second session should have been refused".into());
        };
        if !error.to_string().contains(reason) {
            return Err(format!("{error:?} does not say {reason:?}").into());
        }
        let offset = Some(stubs::guarded_offset());
        same(
            "kind",
            error.kind(),
            &ErrorKind::Attach {
                file: Some(stubs::binary()),
                offset,
            },
        )?;
        drop(held);
        drop(Session::start_with(second, options)?);
    }
    Ok(())
}

fn outside(options: &Options) -> Outcome {
    let fetch = Fetch::Slots {
        count: 0,
        text: vec![],
    };
    let mut probe = stubs::probe(0, stubs::slots_offset(), 0, fetch.clone());
    probe.locations.push(Location {
        offset: 1 << 40,
        semaphore: 0,
        fetch,
    });
    let Err(error) = Session::start_with(&user(vec![probe.clone()]), options) else {
        return Err("an offset of a terabyte was accepted".into());
    };
    let offset = Some(1 << 40);
    same(
        "kind",
        error.kind(),
        &ErrorKind::Attach {
            file: Some(stubs::binary()),
            offset,
        },
    )?;
    let mut gone = probe;
    gone.binary = "/nonexistent/file".into();
    let Err(error) = Session::start_with(&user(vec![gone]), options) else {
        return Err("a file that is not there was accepted".into());
    };
    let file = Some("/nonexistent/file".into());
    same(
        "kind",
        error.kind(),
        &ErrorKind::Attach { file, offset: None },
    )
}

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

fn dropped(options: &Options) -> Outcome {
    let fetch = Fetch::Slots {
        count: 1,
        text: vec![],
    };
    let probe = stubs::probe(0, stubs::guarded_offset(), stubs::semaphore_offset(), fetch);
    let session = Session::start_with(&user(vec![probe]), options)?;
    same("while it lives", stubs::semaphore(), 1)?;
    drop(session);
    same("afterwards", stubs::semaphore(), 0)?;
    Ok(())
}

fn has_uprobe_multi() -> bool {
    use tracebraid_bpf::capability::{State, report};
    let mut all = report().into_iter();
    all.any(|capability| capability.name == "uprobe_multi" && capability.state == State::Yes)
}

/// The variable by which this program is told to hold a session on a process until it is killed.
pub(crate) const HOLD: &str = "TRACEBRAID_TEST_HOLD";

fn guarded(process: u32) -> Spec {
    let fetch = Fetch::Slots {
        count: 1,
        text: vec![],
    };
    let probe = stubs::probe(0, stubs::guarded_offset(), stubs::semaphore_offset(), fetch);
    let processes = vec![process];
    let filter = Filter {
        processes,
        ..Filter::default()
    };
    Spec {
        filter,
        ..user(vec![probe])
    }
}

/// What the child of `killed` does.
pub(crate) fn hold(process: u32, options: &Options) {
    match Session::start_with(&guarded(process), options) {
        Ok(_session) => loop {
            std::thread::park();
        },
        Err(error) => eprintln!("{error:?}"),
    }
}

fn killed(options: &Options) -> Outcome {
    let way = if options.force_perf_uprobes {
        "perf"
    } else {
        "multi"
    };
    let mut child = std::process::Command::new(stubs::binary())
        .env(HOLD, format!("{way} {}", std::process::id()))
        .spawn()?;
    let wait = |wanted| {
        let start = Instant::now();
        while stubs::semaphore() != wanted && start.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    wait(1);
    let during = stubs::semaphore();
    child.kill()?;
    child.wait()?;
    wait(0);
    same("while it lives", during, 1)?;
    same("after it was killed", stubs::semaphore(), 0)
}
