//! Semaphores of user probes: up while attached, shared with others, down however a session ends.

use std::time::Instant;

use tracebraid_bpf::record::Body;
use tracebraid_bpf::spec::{Argument, Fetch, Filter, Location, Place, Register, Spec};
use tracebraid_bpf::{ErrorKind, Options, Session};

use crate::user::user;
use crate::{Outcome, UserTest, same, stubs, under};

/// Each is run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[
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
    ("a_session_that_is_killed_leaves_no_probe", killed),
    ("a_session_that_is_dropped_leaves_no_probe", dropped),
];

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
