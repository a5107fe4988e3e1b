//! `-p PID,PID`: several processes, whose events come in one stream.

mod ring_program;
mod ring_stream;
mod support;

use nix::sys::signal::Signal;
use ring_program::{Program, seq, tid};
use ring_stream::times_are_in_order;
use support::{Attached, Ran, Target, bpf_test, build, pid_of, run_bridge, test};

const CALL: &str = "syscalls:sys_enter_getppid";

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "events_of_several_come_in_one_stream_until_the_last_of_them_ends",
            || {
                let mut first = Program::start("ticks 30");
                let mut second = Program::start("locked 30");
                let pids = [first.pid, second.pid];
                let attached = attach(&pids, &["-e", "app:tick", "--via", "ring"]);
                for _ in 0..3 {
                    assert_eq!(first.ask("go"), "done");
                    assert_eq!(second.ask("go"), "done");
                }
                first.finish();
                assert_eq!(second.ask("go"), "done");
                second.finish();
                let ran = attached.finish();
                assert_eq!(ran.status, 0, "{}", ran.err);
                assert_eq!(
                    seqs_of(&ran, pids[0]),
                    (0..90).collect::<Vec<u64>>(),
                    "{}",
                    ran.err
                );
                assert_eq!(
                    seqs_of(&ran, pids[1]),
                    (0..120).collect::<Vec<u64>>(),
                    "{}",
                    ran.err
                );
                assert_eq!(ran.row("app:tick")[..2], ["210", "210"]);
                times_are_in_order(&ran);
            },
        ),
        test(
            "all_that_cannot_be_attached_to_are_named_and_nothing_is",
            || {
                let program = Program::start("ticks 3");
                // Above the largest number that a process can have.
                let pids = format!("4194305,{},4194306", program.pid);
                let ran = run_bridge(&["attach", "-p", &pids, "-e", "app:*"]);
                assert_eq!(ran.status, 3, "{}", ran.err);
                for missing in ["no process 4194305", "no process 4194306"] {
                    assert!(ran.err.contains(missing), "{}", ran.err);
                }
                program.finish();
            },
        ),
        bpf_test(
            "what_one_of_them_has_no_rings_for_comes_from_all_through_usdt",
            || {
                for (second, why) in [
                    ("outsider", "has not called tracebraid::init()"),
                    ("threadless", "starts no helper thread"),
                ] {
                    let mut first = Program::start("ticks 20");
                    let mut second = Program::start(second);
                    let pids = [first.pid, second.pid];
                    let attached = attach(&pids, &["-e", "app:tick"]);
                    assert_eq!(first.ask("go"), "done");
                    assert_eq!(second.ask("go 20"), "done");
                    let ran = attached.stop(Signal::SIGINT);
                    assert!(ran.err.contains(why), "{}", ran.err);
                    for pid in pids {
                        assert_eq!(
                            seqs_of(&ran, pid),
                            (0..20).collect::<Vec<u64>>(),
                            "{}",
                            ran.err
                        );
                    }
                    first.finish();
                    second.finish();
                }
            },
        ),
        bpf_test(
            "probes_and_events_of_the_kernel_are_of_those_that_are_named",
            || {
                let targets = ["10", "11", "12"].map(|count| Target::start("calls", &[count]));
                let pids = [targets[2].pid, targets[0].pid];
                let attached = attach(&pids, &["-e", "demo:before", "-e", CALL]);
                targets.iter().for_each(Target::go);
                let ran = attached.finish();
                assert_eq!(ran.status, 0, "{}", ran.err);
                for event in ["demo:before", CALL] {
                    let count = |target: &Target| {
                        let pid = target.pid.to_string();
                        let mut events = ran.events(event);
                        events.retain(|line| pid_of(line) == pid);
                        events.len()
                    };
                    assert_eq!(
                        [0, 1, 2].map(|it| count(&targets[it])),
                        [10, 0, 12],
                        "{}",
                        ran.err
                    );
                }
                targets.into_iter().for_each(|target| drop(target.finish()));
            },
        ),
        bpf_test("children_of_each_are_followed", || {
            let mut programs = ["insider", "insider"].map(Program::start);
            let pids = [0, 1].map(|index| programs[index].pid);
            let attached = attach(&pids, &["-e", "app:tick", "-e", CALL, "--follow"]);
            let mut families = Vec::new();
            for program in &mut programs {
                program.tell("family 2 10");
                families.extend([program.line(), program.line()]);
                assert_eq!(program.line(), "done");
            }
            let ran = attached.stop(Signal::SIGINT);
            for pid in families {
                let pid: u32 = pid.parse().unwrap();
                assert_eq!(seqs_of(&ran, pid).len(), 10, "{pid}: {}", ran.err);
                let calls = ran.events(CALL).into_iter().filter(|line| tid(line) == pid);
                assert_eq!(calls.count(), 10, "{pid}: {}", ran.err);
            }
            programs.into_iter().for_each(Program::finish);
        }),
        bpf_test("a_library_that_one_of_them_loads_later_is_attached", || {
            let library = build("plug.so").display().to_string();
            let waits = Target::start("ticker", &["1", "0"]);
            let loads = Target::start("loader", &[&library]);
            let attached = attach(&[waits.pid, loads.pid], &["-e", "usdt:*:demo:plug"]);
            let pid = loads.pid.to_string();
            loads.go();
            loads.finish();
            waits.go();
            waits.finish();
            let ran = attached.finish();
            let hits = ran.events("demo:plug");
            assert!(!hits.is_empty(), "{}", ran.err);
            assert!(hits.iter().all(|line| pid_of(line) == pid), "{}", ran.out);
        }),
        bpf_test("hits_of_all_of_them_are_counted_together", || {
            let targets = ["30", "31", "32"].map(|count| Target::start("ticker", &[count, "0"]));
            let pids = format!("{},{}", targets[0].pid, targets[1].pid);
            let file = build("ticker").display().to_string();
            let probe = format!("p:call {file}:tick");
            let stat = Attached::start_stat(&["-p", &pids, "-e", "demo:tick", "-e", &probe]);
            for target in targets {
                target.go();
                target.finish();
            }
            let ran = stat.finish();
            let last = ran.out.lines().rfind(|line| line.starts_with('{'));
            let total: serde_json::Value = serde_json::from_str(last.unwrap()).unwrap();
            for probe in total["probes"].as_array().unwrap() {
                assert_eq!(probe["hits"], 61, "{}{}", ran.out, ran.err);
            }
        }),
        bpf_test("a_thread_may_be_of_any_of_them", || {
            let targets = ["5", "6"].map(|count| Target::start("calls", &[count]));
            let pids = [targets[0].pid, targets[1].pid];
            let tid = pids[1].to_string();
            let attached = attach(&pids, &["-e", "demo:before", "-t", &tid]);
            targets.iter().for_each(Target::go);
            let ran = attached.finish();
            assert_eq!(ran.events("demo:before").len(), 6, "{}", ran.err);
            assert!(
                ran.out.lines().all(|line| pid_of(line) == tid),
                "{}",
                ran.out
            );
            targets.into_iter().for_each(|target| drop(target.finish()));
            let ran = run_bridge(&["attach", "-p", &own(), "-t", "1", "-e", "demo:before"]);
            assert!(ran.err.contains("is no thread of process"), "{}", ran.err);
        }),
    ])
}

fn own() -> String {
    std::process::id().to_string()
}

fn attach(pids: &[u32], more: &[&str]) -> Attached {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    Attached::start(&[&["-p", &pids.join(",")], more].concat())
}

/// The `seq` of each tick of a thread.
fn seqs_of(ran: &Ran, thread: u32) -> Vec<u64> {
    let lines = ran.events("app:tick").into_iter();
    let own = lines.filter(|line| tid(line) == thread);
    own.map(seq).collect()
}
