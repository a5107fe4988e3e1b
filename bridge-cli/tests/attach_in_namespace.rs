//! A bridge in a pid namespace of its own, as in a container: it names tasks by the numbers there, and does not see
//! those outside.
//!
//! This program starts itself once more in such a namespace, where the tests run.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use support::{Attached, Target, bpf_test_unless, in_pid_namespace};

/// Set for the copy that is inside.
const INSIDE: &str = "ATTACH_IN_NAMESPACE";

/// Becomes the copy inside; returns why it cannot.
fn enter() -> String {
    let may = in_pid_namespace().arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return "pid namespaces cannot be made".to_owned();
    }
    let error = in_pid_namespace()
        .arg(std::env::current_exe().unwrap())
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    format!("unshare cannot be started: {error}")
}

/// The threads that are there by now.
fn threads() -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let tasks = processes.filter_map(|entry| fs::read_dir(entry.path().join("task")).ok());
    let names = tasks.flatten().flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// The number behind the last `-` of what a line begins with.
fn tid(line: &str) -> u32 {
    let who = line.trim_start().split("  ").next().unwrap_or_default();
    let word = who.split_whitespace().next().unwrap_or_default();
    let (_, tid) = word.rsplit_once('-').expect(line);
    tid.parse().expect(line)
}

/// The numbers in fields of a line that are called `…pid`.
fn named(line: &str) -> Vec<u32> {
    let fields = line.split_whitespace();
    let values = fields.filter_map(|field| field.split_once("pid=")?.1.parse().ok());
    values.collect()
}

fn main() {
    let reason = match std::env::var_os(INSIDE) {
        Some(_) => None,
        None => Some(enter()),
    };
    let reason = reason.as_ref();
    support::run(vec![
        bpf_test_unless(
            reason,
            "program_and_kernel_are_told_by_the_numbers_there",
            || {
                let target = Target::start("ticker", &["50", "1000"]);
                // That many processes there are not here, so the number is not the one outside.
                assert!(target.pid < 1000, "{}", target.pid);
                let pid = target.pid.to_string();
                let attached = Attached::start(&[
                    "-p",
                    &pid,
                    "-e",
                    "demo:tick",
                    "-e",
                    "syscalls:sys_enter_clock_nanosleep",
                    "-e",
                    "sched:sched_waking",
                    "-e",
                    "task:task_rename",
                ]);
                target.go();
                let ran = attached.finish();
                assert_eq!(ran.status, 0, "{}", ran.err);
                for event in ["demo:tick", "syscalls:sys_enter_clock_nanosleep"] {
                    let lines = ran.events(event);
                    assert_eq!(lines.len() + ran.missed(event), 50, "{event}: {}", ran.err);
                    assert!(
                        lines.iter().all(|line| tid(line) == target.pid),
                        "{}",
                        ran.out
                    );
                }
                // Who is woken is the one that is asked for, whoever wakes it.
                let woken = ran.events("sched:sched_waking");
                assert!(!woken.is_empty(), "{}", ran.err);
                assert!(
                    woken.iter().all(|line| named(line) == [target.pid]),
                    "{}",
                    ran.out
                );
                target.finish();
            },
        ),
        bpf_test_unless(reason, "of_others_outside_nothing_comes", || {
            let attached = Attached::start(&["-a", "-e", "sched:sched_switch"]);
            let target = Target::start("ticker", &["200", "1000"]);
            target.go();
            let there = threads();
            let pid = target.pid;
            target.finish();
            std::thread::sleep(Duration::from_millis(100));
            let there: BTreeSet<u32> = there.union(&threads()).copied().collect();
            let ran = attached.stop(Signal::SIGINT);
            let switches = ran.events("sched:sched_switch");
            let own = switches.iter().filter(|line| named(line).contains(&pid));
            assert!(own.count() > 100, "{}", ran.err);
            // One of the two is of this namespace; the other is idle, or has no number here.
            let last = there.last().copied().unwrap_or_default() + 100;
            for line in switches {
                let numbers = named(line);
                assert!(
                    numbers.iter().any(|&it| it != 0) && numbers.iter().all(|&it| it < last),
                    "{line}"
                );
            }
        }),
        bpf_test_unless(
            reason,
            "a_program_in_a_namespace_further_in_has_its_number_here",
            || {
                let ticker = support::build("ticker").display().to_string();
                let probe = format!("usdt:{ticker}:demo:tick");
                let args = ["attach", "-v", "--follow", "-e", &probe, "--"];
                let command = ["unshare", "-p", "-f", &ticker, "5", "100", "now"];
                let ran = support::run_bridge(&[&args[..], &command].concat());
                let ticks = ran.events("demo:tick");
                assert_eq!(ticks.len(), 5, "{}", ran.err);
                // There it is 1, as is this program here.
                let numbers: BTreeSet<u32> = ticks.iter().map(|line| tid(line)).collect();
                assert!(numbers.len() == 1 && !numbers.contains(&1), "{numbers:?}");
                assert!(numbers.iter().all(|&it| it < 1000), "{numbers:?}");
            },
        ),
    ])
}
