//! Where the target's events stand among its system calls.

use std::collections::{BTreeMap, BTreeSet};

use tracebraid_tests::requirement;

use super::bridge::{Attached, Via};
use super::target::Target;

const SELECTED: &[&str] = &[
    "order:*",
    "syscalls:sys_enter_write",
    "syscalls:sys_exit_write",
    "syscalls:sys_enter_getppid",
    "syscalls:sys_exit_getppid",
];

/// Between two events of a thread stand the system calls that it made there, and no others; no event
/// stands behind one of a later time. The threads move from CPU to CPU all along.
pub(crate) fn calls_stand_between(via: Via) {
    let rounds: u64 = if requirement::is_soak() {
        10_000
    } else {
        1_000
    };
    let mut target = Target::start(&["order", &rounds.to_string()]);
    let mut arguments = vec!["--ring", "8M"];
    for selector in SELECTED {
        arguments.extend(["-e", selector]);
    }
    let attached = Attached::start(target.pid(), via, &arguments);
    target.say("go");
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
    let ran = attached.finish();
    ran.assert_well();
    assert!(!ran.err.contains("came late"), "{}", ran.err);

    let mut threads: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut cpus = BTreeSet::new();
    let mut last = 0;
    for line in ran.lines() {
        assert!(line.time >= last, "{line:?} stands behind a later time");
        last = line.time;
        assert_eq!(line.lost(), None, "{line:?}");
        let what = match line.event {
            "order:step" => {
                cpus.extend(line.cpu);
                line.body.to_owned()
            }
            call => call.to_owned(),
        };
        threads.entry(line.tid).or_default().push(what);
    }
    // The main thread writes nothing while the others run.
    threads.retain(|_, lines| lines.iter().any(|line| line.starts_with("n=")));
    assert_eq!(threads.len(), 2);
    let expected: Vec<String> = (0..rounds).flat_map(round).collect();
    for (thread, lines) in &threads {
        let first = lines
            .iter()
            .zip(&expected)
            .position(|(own, other)| own != other);
        if let Some(at) = first {
            let around = at.saturating_sub(6)..(at + 6).min(lines.len());
            panic!("thread {thread}, line {at}: {:#?}", &lines[around]);
        }
        assert_eq!(lines.len(), expected.len());
    }
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        assert!(cpus.len() > 1, "all on one CPU: {cpus:?}");
    }
}

fn round(round: u64) -> impl Iterator<Item = String> {
    ["write", "getppid", "write"]
        .into_iter()
        .enumerate()
        .flat_map(move |(index, call)| {
            [
                format!("n={}", 3 * round + index as u64),
                format!("syscalls:sys_enter_{call}"),
                format!("syscalls:sys_exit_{call}"),
            ]
        })
}
