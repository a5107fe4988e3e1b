//! Kernel tracepoints by name. They need tracefs.
#![allow(unsafe_code)]

use std::process::Command;

use tracebraid_bpf::record::{Body, LostReason, Task};
use tracebraid_bpf::spec::{Dynamic, Filter, KernelEvent, ProbeId, Spec, TracepointProbe};
use tracebraid_bpf::{ErrorKind, Options, Session};

use crate::kernel::{nap, spec};
use crate::{Outcome, Seen, Test, mine, same, tid, under};

pub(crate) const TESTS: &[Test] = &[
    (
        "a_switch_says_what_its_tracepoint_says",
        switch_as_tracepoint,
    ),
    (
        "strings_of_a_tracepoint_stand_where_its_descriptors_say",
        dynamic,
    ),
    ("kernel_hits_are_delivered_or_lost_and_nothing_else", exact),
    (
        "records_of_a_tracepoint_stand_in_time_among_those_of_other_events",
        among_others,
    ),
    ("a_tracepoint_that_is_not_there_is_refused_by_name", absent),
    (
        "what_interrupts_the_idle_task_is_an_event_of_all_and_of_no_process",
        idle,
    ),
];

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
            .filter(|lost| lost.probe == id && lost.reason == LostReason::RingFull)
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
        // Its ring is another one.
        if id.0 == 3 && count.hits >= CALLS && lost == 0 {
            return Err("a small ring should have overflowed".into());
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

fn among_others() -> Outcome {
    const CALLS: usize = 200;
    let call = libc::SYS_getppid as u32;
    let mut wanted = spec(&[KernelEvent::SysExit(vec![call])]);
    let format = Format::read("raw_syscalls", "sys_enter")?;
    wanted.tracepoints.push(format.probe(3));
    let mut session = Session::start(&wanted)?;
    let mut calls = 0;
    // The thread may move to another CPU between two calls.
    for _ in 0..100 {
        let mut records = Vec::new();
        for cpu in session.cpus().to_vec() {
            session.drain(cpu, &mut records)?;
        }
        for _ in 0..CALLS {
            // SAFETY: no preconditions.
            unsafe { libc::getppid() };
        }
        for cpu in session.cpus().to_vec() {
            records.clear();
            session.drain(cpu, &mut records)?;
            if let Some(pair) = records.windows(2).find(|pair| pair[0].time > pair[1].time) {
                return Err(format!("{pair:?}").into());
            }
            // Its exit stands right behind the entry of a call.
            calls += records
                .windows(2)
                .filter(|pair| (pair[0].probe.0, pair[1].probe.0) == (3, 0))
                .count();
        }
        if calls >= CALLS {
            return Ok(());
        }
    }
    Err(format!("only {calls} entries stand before their exits").into())
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

    pub(crate) fn bytes<'a>(
        &self,
        record: &'a [u8],
        name: &str,
    ) -> Result<&'a [u8], libtest_mimic::Failed> {
        let field = self.fields.iter().find(|field| field.0 == name);
        let (_, offset, size) = field.ok_or_else(|| format!("no field {name}"))?;
        Ok(record
            .get(*offset..offset + size)
            .ok_or_else(|| format!("{name} is cut off"))?)
    }

    pub(crate) fn number(&self, record: &[u8], name: &str) -> Result<u64, libtest_mimic::Failed> {
        let mut word = [0; 8];
        let bytes = self.bytes(record, name)?;
        word[..bytes.len()].copy_from_slice(bytes);
        Ok(u64::from_ne_bytes(word))
    }
}

/// A busy machine may not idle for long: it is waited for.
fn idle() -> Outcome {
    let timers = |filter: Filter| -> Result<Spec, libtest_mimic::Failed> {
        let mut spec = Spec {
            filter,
            ..Spec::default()
        };
        spec.tracepoints
            .push(Format::read("timer", "hrtimer_start")?.probe(1));
        Ok(spec)
    };
    let of_process = timers(mine())?;
    let of_all = timers(Filter {
        kernel_events_of_all: true,
        ..mine()
    })?;
    let start = std::time::Instant::now();
    while start.elapsed().as_secs() < 240 {
        let mut own = Ok(Seen::default());
        let all = under(&of_all, &Options::default(), || {
            own = under(&of_process, &Options::default(), || {
                std::thread::sleep(std::time::Duration::from_millis(200));
            });
        })?;
        let own = own?;
        let of_idle = |seen: &Seen| seen.records.iter().filter(|hit| hit.tid == 0).count();
        same("of the idle task, in a process's", of_idle(&own), 0)?;
        if of_idle(&all) > 0 && !own.records.is_empty() {
            return Ok(());
        }
    }
    Err("no timer was started by the idle task within four minutes".into())
}
