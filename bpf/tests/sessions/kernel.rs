//! Kernel events.

use tracebraid_bpf::Options;
use tracebraid_bpf::record::Body;
use tracebraid_bpf::spec::{KernelEvent, KernelProbe, ProbeId, Spec};

use crate::{Outcome, mine, same, tid, under};

pub(crate) const TESTS: &[(&str, fn() -> Outcome)] = &[
    ("switches_of_this_thread_name_it_as_prev_or_next", switches),
    ("only_the_system_calls_that_were_named_arrive", system_calls),
];

fn probe(id: u32, event: KernelEvent) -> KernelProbe {
    KernelProbe {
        id: ProbeId(id),
        event,
    }
}

fn switches() -> Outcome {
    let spec = Spec {
        kernel: vec![probe(1, KernelEvent::SchedSwitch)],
        filter: mine(),
        ..Spec::default()
    };
    let seen = under(&spec, &Options::default(), || {
        for _ in 0..10 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    })?;
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

#[allow(unsafe_code)]
fn system_calls() -> Outcome {
    let numbers = vec![libc::SYS_getppid as u32];
    let spec = Spec {
        kernel: vec![
            probe(1, KernelEvent::SysEnter(numbers.clone())),
            probe(2, KernelEvent::SysExit(numbers)),
        ],
        filter: mine(),
        ..Spec::default()
    };
    // SAFETY: neither call has preconditions.
    let parent = unsafe { libc::getppid() };
    let seen = under(&spec, &Options::default(), || {
        for _ in 0..100 {
            // SAFETY: as above.
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
