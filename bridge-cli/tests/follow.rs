//! `--follow`: events of children, and the kernel's events in them, from their first instruction on.

mod ring_program;
mod support;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use ring_program::{Program, seq, tid};
use support::{Attached, LONG, Ran, bpf_test, is_running, kill};

/// Those that are run in a namespace as well: children that come, that were there, that end.
const INSIDE: [&str; 3] = [
    "events_and_system_calls_of_children_come_each_once_with_their_own_pid",
    "children_from_before_are_followed_too",
    "the_bridge_stays_until_the_last_child_has_ended",
];

const CALL: &str = "syscalls:sys_enter_getppid";

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        bpf_test(
            "events_and_system_calls_of_children_come_each_once_with_their_own_pid",
            || {
                for (program, via) in [
                    ("insider", "auto"),
                    ("insider", "usdt"),
                    ("outsider", "auto"),
                    ("threadless", "auto"),
                ] {
                    let mut program = Program::start(program);
                    let attached = attach(&program, &["--follow", "--via", via]);
                    let pids = family(&mut program, 3, 40);
                    let ran = attached.stop(Signal::SIGINT);
                    assert_eq!(ran.status, 0, "{}", ran.err);
                    let expected: BTreeMap<u32, Vec<u64>> = pids
                        .iter()
                        .zip([3000, 2000, 1000])
                        .map(|(pid, first)| (*pid, (first..first + 40).collect()))
                        .collect();
                    assert_eq!(ticks(&ran), expected, "{via}\n{}", ran.err);
                    let expected = pids.iter().map(|pid| (*pid, 40)).collect();
                    assert_eq!(calls(&ran), expected, "{via}\n{}", ran.err);
                    eventually_off(&mut program);
                    program.finish();
                }
            },
        ),
        bpf_test(
            "a_bridge_in_a_container_follows_them_by_the_numbers_there",
            || {
                // Program, bridge and test once more, in a pid namespace.
                for name in INSIDE {
                    let output = support::in_pid_namespace()
                        .arg(std::env::current_exe().unwrap())
                        .args(["--exact", name])
                        .output()
                        .unwrap();
                    let text = String::from_utf8_lossy(&output.stdout);
                    let passed = text.contains("test result: ok. 1 passed");
                    assert!(output.status.success() && passed, "{name}: {text}");
                }
            },
        ),
        bpf_test("without_it_children_are_left_out", || {
            for program in ["insider", "outsider"] {
                let mut program = Program::start(program);
                let attached = attach(&program, &[]);
                let pids = family(&mut program, 3, 10);
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(calls(&ran), BTreeMap::from([(pids[0], 10)]));
                let expected: Vec<u64> = (3000..3010).collect();
                assert_eq!(ticks(&ran), BTreeMap::from([(pids[0], expected)]));
                program.finish();
            }
        }),
        bpf_test("of_a_storm_of_children_each_comes_or_is_counted", || {
            let count = if is_soak() { 20_000 } else { 300 };
            for via in ["ring", "usdt"] {
                let mut program = Program::start("insider");
                // Nobody reads a pipe meanwhile, and a full one would hold the bridge up.
                let file = support::scratch("storm").join(via);
                let path = file.display().to_string();
                let attached = attach(&program, &["--follow", "--via", via, "-o", &path]);
                assert_eq!(program.ask(&format!("storm {count}")), "done");
                let mut ran = attached.stop(Signal::SIGINT);
                ran.out = std::fs::read_to_string(&file).unwrap();
                let calls = calls(&ran);
                let known = calls.len() + ran.lost(CALL);
                let came = known..=known + ran.missed(CALL);
                assert!(came.contains(&count), "{via}: {came:?}\n{}", ran.err);
                assert!(calls.values().all(|calls| *calls == 1), "{via}: {calls:?}");
                let mut ticks: Vec<u64> = ticks(&ran).into_values().flatten().collect();
                ticks.sort_unstable();
                let all = ticks.len() + ran.lost("app:tick");
                assert_eq!(all, count, "{}", ran.err);
                ticks.dedup();
                let is_each_once = ticks.len() + ran.lost("app:tick") == count;
                let is_known = ticks.last().is_some_and(|last| *last < count as u64);
                assert!(is_each_once && is_known, "{}", ran.err);
                program.finish();
            }
        }),
        bpf_test(
            "a_child_stays_followed_when_it_becomes_another_program",
            || {
                let mut program = Program::start("insider");
                let attached = attach(&program, &["--follow", "-e", "sched:sched_process_exec"]);
                let line = program.ask("become");
                // What the shell prints comes first.
                let child: u32 = match line.parse() == Ok(program.pid) {
                    true => program.line().parse().unwrap(),
                    false => line.parse().unwrap(),
                };
                let ran = attached.stop(Signal::SIGINT);
                let execs = ran.events("sched:sched_process_exec");
                assert_eq!(execs.len(), 1, "{}\n{}", ran.out, ran.err);
                assert_eq!(tid(execs[0]), child);
                // The shell itself asks for its parent's pid.
                assert_eq!(calls(&ran).get(&child), Some(&1), "{}", ran.out);
                program.finish();
            },
        ),
        bpf_test(
            "a_child_that_shares_its_parents_memory_has_its_own_pid_or_is_left_out",
            || {
                for (program, via) in [
                    ("insider", "ring"),
                    ("insider", "usdt"),
                    ("outsider", "auto"),
                ] {
                    for follow in [true, false] {
                        let mut program = Program::start(program);
                        let follow_option: &[&str] = if follow { &["--follow"] } else { &[] };
                        let attached = attach(&program, &[follow_option, &["--via", via]].concat());
                        let child: u32 = program.ask("share 50").parse().unwrap();
                        let ran = attached.stop(Signal::SIGINT);
                        let mut expected = BTreeMap::from([(program.pid, vec![1, 2, 3])]);
                        if follow {
                            expected.insert(child, (100..150).collect());
                        }
                        assert_eq!(ticks(&ran), expected, "{via} {follow}\n{}", ran.err);
                        program.finish();
                    }
                }
            },
        ),
        bpf_test("children_from_before_are_followed_too", || {
            let mut program = Program::start("insider");
            let child: u32 = program.ask("leave").parse().unwrap();
            let attached = attach(&program, &["--follow", "-e", "sched:sched_process_exit"]);
            kill(child, Signal::SIGTERM);
            while is_running(child) {
                thread::sleep(Duration::from_millis(1));
            }
            let ran = attached.stop(Signal::SIGINT);
            let ends = ran.events("sched:sched_process_exit");
            assert!(ends.iter().any(|line| tid(line) == child), "{}", ran.out);
            program.finish();
        }),
        bpf_test("the_bridge_stays_until_the_last_child_has_ended", || {
            for via in ["ring", "usdt"] {
                let mut program = Program::start("insider");
                let attached = attach(&program, &["--follow", "--via", via]);
                let child: u32 = program.ask("orphan 600").parse().unwrap();
                program.finish();
                let ran = attached.finish();
                assert_eq!(ran.status, 0, "{}", ran.err);
                let expected: Vec<u64> = (9000..9010).collect();
                assert_eq!(
                    ticks(&ran).get(&child),
                    Some(&expected),
                    "{via}\n{}",
                    ran.err
                );
            }
        }),
    ]);
}

fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

fn attach(program: &Program, more: &[&str]) -> Attached {
    let pid = program.pid.to_string();
    let mut args = vec!["-p", &pid, "-e", "app:tick", "-e", CALL];
    args.extend(more);
    Attached::start(&args)
}

/// Has it make generations of children; their pids, its own first.
fn family(program: &mut Program, generations: usize, count: usize) -> Vec<u32> {
    program.tell(&format!("family {generations} {count}"));
    let pids = (0..generations).map(|_| program.line().parse().unwrap());
    let pids = pids.collect();
    assert_eq!(program.line(), "done");
    pids
}

/// A helper thread of its own may come to it a little later than we.
#[track_caller]
fn eventually_off(program: &mut Program) {
    let end = Instant::now() + LONG;
    while program.ask("sites_on") != "0" {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(1));
    }
}

/// By process: the ticks in their order.
fn ticks(ran: &Ran) -> BTreeMap<u32, Vec<u64>> {
    let mut of: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let lines = ran.events("app:tick").into_iter();
    for line in lines.filter(|line| !line.contains(": LOST ")) {
        of.entry(tid(line)).or_default().push(seq(line));
    }
    of
}

/// By process: how many system calls.
fn calls(ran: &Ran) -> BTreeMap<u32, usize> {
    let mut of = BTreeMap::new();
    let lines = ran.events(CALL).into_iter();
    for line in lines.filter(|line| !line.contains(": LOST ")) {
        *of.entry(tid(line)).or_default() += 1;
    }
    of
}
