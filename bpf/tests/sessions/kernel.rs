//! Kernel events.
#![allow(unsafe_code)]

use std::process::Command;
use std::time::Duration;

use tracebraid_bpf::record::{Body, Task, Text};
use tracebraid_bpf::spec::{
    Dynamic, Filter, KernelEvent, KernelProbe, ProbeId, Spec, TracepointProbe,
};
use tracebraid_bpf::{ErrorKind, Options, Session};

use crate::{Outcome, Test, mine, same, tid, under};

pub(crate) const TESTS: &[Test] = &[
    ("switches_of_this_thread_name_it_as_prev_or_next", switches),
    ("only_the_system_calls_that_were_named_arrive", system_calls),
    (
        "a_system_call_that_two_probes_name_comes_once_for_each",
        shared_calls,
    ),
    (
        "arguments_and_results_of_system_calls_are_theirs",
        call_values,
    ),
    ("wakes_and_migrations_name_the_task_they_are_about", wakes),
    ("fork_exec_and_exit_tell_the_life_of_a_process", life),
    ("events_of_all_leave_out_the_excluded", all_but),
    (
        "times_in_a_ring_never_go_back_where_interrupts_are_kept_away",
        order,
    ),
];

/// These need tracefs.
pub(crate) const NAMED_TESTS: &[Test] = &[
    (
        "a_switch_says_what_its_tracepoint_says",
        switch_as_tracepoint,
    ),
    (
        "strings_of_a_tracepoint_stand_where_its_descriptors_say",
        dynamic,
    ),
    ("kernel_hits_are_delivered_or_lost_and_nothing_else", exact),
    ("a_tracepoint_that_is_not_there_is_refused_by_name", absent),
];

fn probe(id: u32, event: KernelEvent) -> KernelProbe {
    KernelProbe {
        id: ProbeId(id),
        event,
    }
}

fn spec(events: &[KernelEvent]) -> Spec {
    let kernel = (0..)
        .zip(events)
        .map(|(id, event)| probe(id, event.clone()))
        .collect();
    Spec {
        kernel,
        filter: mine(),
        ..Spec::default()
    }
}

fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

fn switches() -> Outcome {
    let seen = under(
        &spec(&[KernelEvent::SchedSwitch]),
        &Options::default(),
        || {
            (0..10).for_each(|_| nap());
        },
    )?;
    let mut left = 0;
    for record in &seen.records {
        let Body::SchedSwitch {
            prev,
            prev_state,
            next,
        } = &record.body
        else {
            return Err(format!("{record:?} is no switch").into());
        };
        if prev.tid != tid() && next.tid != tid() {
            return Err(format!("{record:?} is not ours").into());
        }
        // Asleep: interruptible.
        if prev.tid == tid() && *prev_state == 1 {
            left += 1;
        }
    }
    if left < 10 {
        return Err(format!("slept 10 times, left a CPU to sleep {left} times").into());
    }
    Ok(())
}

fn system_calls() -> Outcome {
    let numbers = vec![libc::SYS_getppid as u32];
    let wanted = [
        KernelEvent::SysEnter(numbers.clone()),
        KernelEvent::SysExit(numbers),
    ];
    // SAFETY: no preconditions.
    let parent = unsafe { libc::getppid() };
    let seen = under(&spec(&wanted), &Options::default(), || {
        for _ in 0..100 {
            // SAFETY: no preconditions.
            unsafe {
                libc::getppid();
                libc::getuid();
            }
        }
    })?;
    same("records", seen.records.len(), 200)?;
    for pair in seen.records.chunks(2) {
        match (&pair[0].body, &pair[1].body) {
            (
                Body::SysEnter { number: enter, .. },
                Body::SysExit {
                    number: exit,
                    result,
                },
            ) => {
                same("enter", *enter, libc::SYS_getppid)?;
                same("exit", (*exit, *result), (libc::SYS_getppid, parent.into()))?;
            }
            other => return Err(format!("{other:?} is not entry and exit").into()),
        }
    }
    same("lost", seen.lost.len(), 0)
}

fn shared_calls() -> Outcome {
    let (ppid, uid) = (libc::SYS_getppid as u32, libc::SYS_getuid as u32);
    let wanted = [
        KernelEvent::SysEnter(vec![ppid]),
        KernelEvent::SysEnter(vec![ppid, uid]),
        KernelEvent::SysEnter(vec![]),
    ];
    let seen = under(&spec(&wanted), &Options::default(), || {
        // SAFETY: no preconditions.
        unsafe {
            libc::getppid();
            libc::getuid();
            libc::getgid();
        }
    })?;
    let of = |call: i64| -> Vec<u32> {
        let records = seen.records.iter();
        let these = records.filter(
            |record| matches!(record.body, Body::SysEnter { number, .. } if number == call),
        );
        these.map(|record| record.probe.0).collect()
    };
    same("getppid", of(libc::SYS_getppid), vec![0, 1, 2])?;
    same("getuid", of(libc::SYS_getuid), vec![1, 2])?;
    same("getgid", of(libc::SYS_getgid), vec![2])
}

fn call_values() -> Outcome {
    let call = libc::SYS_copy_file_range;
    let numbers = vec![call as u32];
    let wanted = [
        KernelEvent::SysEnter(numbers.clone()),
        KernelEvent::SysExit(numbers),
    ];
    let args: [u64; 6] = [u64::MAX, 0x1111, 0xffff_fffe, 0x2222, 0x3333, 0x4444];
    let seen = under(&spec(&wanted), &Options::default(), || {
        // SAFETY: the descriptors are bad, so the kernel looks at nothing else.
        unsafe { libc::syscall(call, args[0], args[1], args[2], args[3], args[4], args[5]) };
    })?;
    let bodies: Vec<&Body> = seen.records.iter().map(|record| &record.body).collect();
    let result = -i64::from(libc::EBADF);
    let wanted = [
        Body::SysEnter { number: call, args },
        Body::SysExit {
            number: call,
            result,
        },
    ];
    same("bodies", bodies, wanted.iter().collect())
}

/// The layout of sched_switch's record, from its format file.
fn switch_as_tracepoint() -> Outcome {
    let format = Format::read("sched", "sched_switch")?;
    let mut spec = spec(&[KernelEvent::SchedSwitch]);
    spec.tracepoints.push(format.probe(9));
    let (mut start, mut end) = (0, 0);
    let seen = under(&spec, &Options::default(), || {
        start = tracebraid_bpf::now();
        for round in 0..40 {
            match round % 4 {
                0 => nap(),
                1 => std::thread::yield_now(),
                2 => drop(Command::new("/bin/true").status()),
                _ => {
                    // A vfork-like wait is uninterruptible; writing to disk may be too.
                    let file = std::env::temp_dir().join(format!("tb-{}", std::process::id()));
                    let _ = std::fs::write(&file, [0; 4096]);
                    let _ = std::fs::File::open(&file).and_then(|file| file.sync_all());
                    let _ = std::fs::remove_file(&file);
                }
            }
        }
        end = tracebraid_bpf::now();
    })?;
    // The tracepoint is wanted for the current task only, which is the one that leaves.
    let mut raw = Vec::new();
    let mut named = Vec::new();
    // One was attached before the other, and detached too.
    let during = |time| (start..end).contains(&time);
    for record in seen.records.iter().filter(|record| during(record.time)) {
        match &record.body {
            Body::SchedSwitch {
                prev,
                prev_state,
                next,
            } if prev.tid == tid() => {
                raw.push((*prev, *prev_state, *next));
            }
            Body::Tracepoint(bytes) => {
                let task = |role: &str| -> Result<(u32, i32, [u8; 16]), libtest_mimic::Failed> {
                    Ok((
                        format.number(bytes, &format!("{role}_pid"))? as u32,
                        format.number(bytes, &format!("{role}_prio"))? as i32,
                        format.bytes(bytes, &format!("{role}_comm"))?.try_into()?,
                    ))
                };
                let state = format.number(bytes, "prev_state")?;
                named.push((task("prev")?, state, task("next")?));
            }
            _ => {}
        }
    }
    let plain = |task: Task| (task.tid, task.prio, task.comm);
    let raw: Vec<_> = raw
        .into_iter()
        .map(|(prev, state, next)| (plain(prev), state, plain(next)))
        .collect();
    if named.len() < 20 {
        return Err(format!("only {} switches", named.len()).into());
    }
    same("switches", raw.len(), named.len())?;
    raw.into_iter()
        .zip(named)
        .try_for_each(|(raw, named)| same("a switch", raw, named))
}

fn wakes() -> Outcome {
    let events = [
        KernelEvent::SchedWaking,
        KernelEvent::SchedWakeup,
        KernelEvent::SchedWakeupNew,
        KernelEvent::SchedMigrateTask,
    ];
    let mut wanted = spec(&events);
    wanted.filter = Filter {
        processes: vec![std::process::id()],
        ..Filter::default()
    };
    let cpus = Session::start(&Spec::default())?.cpus().to_vec();
    let mut child = 0;
    let seen = under(&wanted, &Options::default(), || {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                (0..5).for_each(|_| nap());
                for cpu in cpus.iter().cycle().take(4) {
                    pin(&[*cpu]);
                    nap();
                }
                tid()
            });
            child = thread.join().unwrap_or(0);
        });
    })?;
    let about = |id: u32| -> Vec<&Body> {
        let records = seen
            .records
            .iter()
            .filter(|record| record.probe == ProbeId(id));
        let bodies = records.map(|record| &record.body);
        bodies
            .filter(|body| match body {
                Body::Wake { task, .. } | Body::Migrate { task, .. } => task.tid == child,
                _ => false,
            })
            .collect()
    };
    same("woken as new", about(2).len(), 1)?;
    if about(0).len() < 5 || about(1).len() < 5 {
        return Err(format!("wakes: {:?} {:?}", about(0), about(1)).into());
    }
    let moves = about(3);
    if cpus.len() > 1 && moves.is_empty() {
        return Err("a thread that was moved between CPUs has no migration".into());
    }
    for body in moves {
        let Body::Migrate { task, from, to } = body else {
            return Err(format!("{body:?}").into());
        };
        same("process", task.tgid, std::process::id())?;
        if from == to || !cpus.contains(from) || !cpus.contains(to) {
            return Err(format!("{body:?}").into());
        }
    }
    Ok(())
}

fn life() -> Outcome {
    let events = [
        KernelEvent::ProcessFork,
        KernelEvent::ProcessExec,
        KernelEvent::ProcessExit,
    ];
    let mut wanted = spec(&events);
    // The child is not of this process: everything but the noise of others is picked out below.
    wanted.filter = Filter::default();
    let mut child = 0;
    let seen = under(&wanted, &Options::default(), || {
        if let Ok(mut process) = Command::new("/bin/true").spawn() {
            child = process.id();
            let _ = process.wait();
        }
    })?;
    let mut story = Vec::new();
    for record in &seen.records {
        match &record.body {
            Body::Fork { parent, child: new } if new.tid == child => {
                same("parent", (parent.tid, new.tgid), (tid(), child))?;
                story.push("fork");
            }
            Body::Exec { filename, old_tid } if record.tgid == child => {
                let bytes = b"/bin/true".to_vec();
                same(
                    "filename",
                    filename,
                    &Text::Bytes {
                        bytes,
                        full_length: 9,
                    },
                )?;
                same("old tid", *old_tid, child)?;
                story.push("exec");
            }
            Body::Exit { task, group_dead } if task.tid == child => {
                same(
                    "exit",
                    (&task.comm[..5], *group_dead),
                    (&b"true\0"[..], true),
                )?;
                story.push("exit");
            }
            _ => {}
        }
    }
    same("story", story, vec!["fork", "exec", "exit"])?;
    // A thread's end is not its process's.
    let wanted = Spec {
        filter: Filter {
            processes: vec![std::process::id()],
            ..Filter::default()
        },
        ..spec(&[KernelEvent::ProcessExit])
    };
    let seen = under(&wanted, &Options::default(), || {
        std::thread::spawn(|| ()).join().ok();
        nap();
    })?;
    let ends: Vec<bool> = seen
        .records
        .iter()
        .filter_map(|record| match record.body {
            Body::Exit { group_dead, .. } => Some(group_dead),
            _ => None,
        })
        .collect();
    same("ends", ends, vec![false])
}

fn dynamic() -> Outcome {
    let format = Format::read("sched", "sched_process_exec")?;
    let mut wanted = Spec::default();
    wanted.tracepoints.push(format.probe(4));
    let mut child = 0;
    let seen = under(&wanted, &Options::default(), || {
        if let Ok(mut process) = Command::new("/bin/true").spawn() {
            child = process.id();
            let _ = process.wait();
        }
    })?;
    let record = seen.records.iter().find(|record| record.tgid == child);
    let Some(Body::Tracepoint(bytes)) = record.map(|record| &record.body) else {
        return Err(format!("no exec of {child} in {:?}", seen.records).into());
    };
    let descriptor = format.number(bytes, "filename")?;
    let (start, length) = (descriptor as usize & 0xffff, descriptor as usize >> 16);
    same(
        "filename",
        bytes.get(start..start + length),
        Some(&b"/bin/true\0"[..]),
    )?;
    same("pid", format.number(bytes, "pid")?, child.into())
}

fn all_but() -> Outcome {
    let calls = KernelEvent::SysEnter(vec![libc::SYS_getppid as u32]);
    let run = |filter: Filter| -> Result<usize, libtest_mimic::Failed> {
        let spec = Spec {
            filter,
            ..spec(std::slice::from_ref(&calls))
        };
        let seen = under(&spec, &Options::default(), || {
            // SAFETY: no preconditions.
            unsafe { libc::getppid() };
        })?;
        let own = seen
            .records
            .iter()
            .filter(|record| record.tgid == std::process::id());
        Ok(own.count())
    };
    let one = Filter {
        processes: vec![1],
        ..Filter::default()
    };
    same("of another process", run(one.clone())?, 0)?;
    let all = Filter {
        kernel_events_of_all: true,
        ..one
    };
    same("of all processes", run(all.clone())?, 1)?;
    same(
        "but this",
        run(Filter {
            exclude: vec![std::process::id()],
            ..all
        })?,
        0,
    )
}

/// Interrupts wake tasks in the middle of everything.
fn order() -> Outcome {
    let kept_away = tracebraid_bpf::capability::report()
        .iter()
        .any(|capability| {
            capability.name == "bpf_local_irq_save"
                && capability.state == tracebraid_bpf::capability::State::Yes
        });
    let events = [
        KernelEvent::SchedSwitch,
        KernelEvent::SchedWaking,
        KernelEvent::SysEnter(vec![]),
    ];
    let mut wanted = spec(&events);
    wanted.filter = Filter::default();
    let mut session = Session::start(&wanted)?;
    let mut records = Vec::new();
    let (mut back, mut late, mut total) = (0, 0, 0);
    let mut last = vec![0; session.cpus().len()];
    let mut complete = vec![0; session.cpus().len()];
    for _ in 0..50 {
        (0..5).for_each(|_| nap());
        for (index, cpu) in session.cpus().to_vec().into_iter().enumerate() {
            records.clear();
            let until = session.drain(cpu, &mut records)?.until;
            for record in &records {
                back += u32::from(record.time < last[index]);
                late += u32::from(record.time < complete[index]);
                last[index] = last[index].max(record.time);
            }
            total += records.len();
            complete[index] = until;
        }
    }
    println!("{total} records, {back} behind the one before, {late} later than promised");
    same("later than promised", late, 0)?;
    if kept_away {
        same("behind the one before", back, 0)?;
    }
    Ok(())
}

fn exact() -> Outcome {
    const CALLS: u64 = 20_000;
    let call = libc::SYS_getppid as u32;
    let events = [
        KernelEvent::SysEnter(vec![call]),
        KernelEvent::SysExit(vec![call]),
        KernelEvent::SchedSwitch,
    ];
    let format = Format::read("raw_syscalls", "sys_enter")?;
    let mut wanted = Spec {
        ring_bytes: 4096,
        ..spec(&events)
    };
    wanted.tracepoints.push(format.probe(3));
    let seen = under(&wanted, &Options::default(), || {
        for _ in 0..CALLS {
            // SAFETY: no preconditions.
            unsafe { libc::getppid() };
        }
    })?;
    let session = seen.session.as_ref().ok_or("no session")?;
    for count in session.counts() {
        let id = count.probe;
        let delivered = seen
            .records
            .iter()
            .filter(|record| record.probe == id)
            .count() as u64;
        let lost: u64 = seen
            .lost
            .iter()
            .filter(|lost| {
                lost.probe == id && lost.reason == tracebraid_bpf::record::LostReason::RingFull
            })
            .map(|lost| lost.count)
            .sum();
        same(
            "delivered and lost",
            (count.delivered, count.lost),
            (delivered, lost),
        )?;
        same("hits", count.hits, delivered + lost)?;
        if id.0 < 2 {
            same("calls", count.hits, CALLS)?;
            if lost == 0 {
                return Err("a ring of one page should have overflowed".into());
            }
        }
        if id.0 == 3 && count.missed == Some(0) {
            // Nothing else of this kind ran: every call came through.
            if count.hits < CALLS {
                return Err(format!("{count:?} of at least {CALLS}").into());
            }
        }
    }
    Ok(())
}

fn absent() -> Outcome {
    for (category, name) in [
        ("sched", "no_such_event"),
        ("..", "sched_switch"),
        ("a/b", "c"),
    ] {
        let probe = TracepointProbe {
            id: ProbeId(0),
            category: category.into(),
            name: name.into(),
            size: 64,
            dynamic: vec![],
        };
        let spec = Spec {
            tracepoints: vec![probe],
            ..Spec::default()
        };
        let Err(error) = Session::start(&spec) else {
            return Err(format!("{category}:{name} was accepted").into());
        };
        let expected = matches!(
            error.kind(),
            ErrorKind::Unsupported { .. } | ErrorKind::BadSpec
        );
        if !expected || !error.to_string().contains(name) {
            return Err(format!("{error:?}").into());
        }
    }
    Ok(())
}

pub(crate) fn pin(cpus: &[u32]) {
    // SAFETY: an all-zero cpu_set_t is the empty set; CPU numbers are below its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu as usize, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// A tracepoint's layout: name, offset and size of each field.
pub(crate) struct Format {
    category: String,
    name: String,
    fields: Vec<(String, usize, usize)>,
    dynamic: Vec<Dynamic>,
}

impl Format {
    pub(crate) fn read(category: &str, name: &str) -> Result<Format, libtest_mimic::Failed> {
        let path = format!("/sys/kernel/tracing/events/{category}/{name}/format");
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error} (tracefs)"))?;
        let mut format = Format {
            category: category.into(),
            name: name.into(),
            fields: vec![],
            dynamic: vec![],
        };
        for line in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("field:"))
        {
            let mut parts = line.split(';').map(str::trim);
            let declaration = parts.next().unwrap_or_default();
            let mut number =
                |key: &str| -> Option<usize> { parts.next()?.strip_prefix(key)?.parse().ok() };
            let (offset, size) = (number("offset:"), number("size:"));
            let (Some(offset), Some(size)) = (offset, size) else {
                continue;
            };
            let name = declaration.rsplit(' ').next().unwrap_or_default();
            let name = name.split('[').next().unwrap_or_default();
            let relative = declaration.starts_with("__rel_loc");
            if relative || declaration.starts_with("__data_loc") {
                format.dynamic.push(Dynamic {
                    offset: offset as u32,
                    relative,
                });
            }
            format.fields.push((name.into(), offset, size));
        }
        Ok(format)
    }

    pub(crate) fn probe(&self, id: u32) -> TracepointProbe {
        let size = self
            .fields
            .iter()
            .map(|(_, offset, size)| offset + size)
            .max()
            .unwrap_or(8);
        TracepointProbe {
            id: ProbeId(id),
            category: self.category.clone(),
            name: self.name.clone(),
            size: size.next_multiple_of(4) as u32,
            dynamic: self.dynamic.clone(),
        }
    }

    fn bytes<'a>(&self, record: &'a [u8], name: &str) -> Result<&'a [u8], libtest_mimic::Failed> {
        let field = self.fields.iter().find(|field| field.0 == name);
        let (_, offset, size) = field.ok_or_else(|| format!("no field {name}"))?;
        Ok(record
            .get(*offset..offset + size)
            .ok_or_else(|| format!("{name} is cut off"))?)
    }

    fn number(&self, record: &[u8], name: &str) -> Result<u64, libtest_mimic::Failed> {
        let mut word = [0; 8];
        let bytes = self.bytes(record, name)?;
        word[..bytes.len()].copy_from_slice(bytes);
        Ok(u64::from_ne_bytes(word))
    }
}
