//! Kernel events.
#![allow(unsafe_code)]

use std::process::Command;
use std::time::Duration;

use tracebraid_bpf::record::{Body, Text};
use tracebraid_bpf::spec::{Filter, KernelEvent, KernelProbe, ProbeId, Spec};
use tracebraid_bpf::{Family, Options, Session};

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
        "a_family_holds_a_child_from_its_birth_until_it_is_waited_for",
        family,
    ),
    (
        "times_in_a_ring_never_go_back_where_interrupts_are_kept_away",
        order,
    ),
];

fn probe(id: u32, event: KernelEvent) -> KernelProbe {
    KernelProbe {
        id: ProbeId(id),
        event,
    }
}

pub(crate) fn spec(events: &[KernelEvent]) -> Spec {
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

pub(crate) fn nap() {
    // On a slow CPU a short sleep is over before it has begun.
    std::thread::sleep(Duration::from_millis(5));
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
    // Calls without end on any CPU, and sleeps that interrupt them.
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let busy = std::thread::spawn({
        let done = std::sync::Arc::clone(&done);
        move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for _ in 0..200 {
                    // SAFETY: no preconditions.
                    unsafe { libc::getppid() };
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    });
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
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.join().map_err(|_| "the busy thread panicked")?;
    println!("{total} records, {back} behind the one before, {late} later than promised");
    same("later than promised", late, 0)?;
    if kept_away {
        same("behind the one before", back, 0)?;
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

fn family() -> Outcome {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let mut shell = Command::new("sh")
        .args(["-c", "read begin; sleep 60 & echo $!; wait; read end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let family = Family::of(shell.id())?;
    same("members", family.members(), vec![shell.id()])?;
    let mut input = shell.stdin.take().ok_or("a pipe")?;
    std::io::Write::write_all(&mut input, b"begin\n")?;
    let mut line = String::new();
    BufReader::new(shell.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
    let sleeper: u32 = line.trim().parse()?;
    let mut members = family.members();
    members.sort_unstable();
    let mut expected = vec![shell.id(), sleeper];
    expected.sort_unstable();
    same("members", members, expected)?;
    // SAFETY: kill takes two numbers.
    unsafe { libc::kill(sleeper as i32, libc::SIGKILL) };
    let until = |expected: Vec<u32>| {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while family.members() != expected && std::time::Instant::now() < end {
            nap();
        }
        same("members", family.members(), expected)
    };
    until(vec![shell.id()])?;
    drop(input);
    shell.wait()?;
    until(Vec::new())?;
    same("left out", family.left_out(), 0)
}
