//! Kernel events beside those of a target: in order, and nobody else's.

mod support;

use std::process::Stdio;

use support::{Attached, Ran, Target, bpf_test, bridge, pid_of};

fn main() {
    let trials = vec![
        bpf_test("system_calls_stand_between_the_events_around_them", || {
            let target = Target::start("calls", &["500"]);
            let pid = target.pid.to_string();
            let events = [
                "demo:before",
                "demo:after",
                "syscalls:sys_enter_write",
                "syscalls:sys_enter_getppid",
            ];
            let mut args = vec!["-p", &pid];
            args.extend(events.iter().flat_map(|event| ["-e", event]));
            let attached = Attached::start(&args);
            target.go();
            let ran = attached.finish();
            // Where the kernel lets itself be interrupted in a system call's tracepoint, another process's
            // call may be missed there, and is told as lost.
            let order: Vec<usize> = ran
                .out
                .lines()
                .filter(|line| !line.contains(": LOST "))
                .filter_map(|line| {
                    events
                        .iter()
                        .position(|event| line.contains(&format!(": {event}:")))
                })
                .collect();
            let round = [0, 2, 3, 2, 1];
            assert_eq!(order.len(), 500 * round.len(), "{}", ran.err);
            assert!(
                order.chunks(round.len()).all(|chunk| chunk == round),
                "out of order"
            );
        }),
        bpf_test("kernel_events_are_the_target_s_only", || {
            let target = Target::start("ticker", &["100", "2000"]);
            let pid = target.pid.to_string();
            let attached = Attached::start(&[
                "-p",
                &pid,
                "-e",
                "sched:sched_switch",
                "-e",
                "raw_syscalls:sys_enter",
            ]);
            target.go();
            let ran = attached.finish();
            let calls = ran.events("raw_syscalls:sys_enter");
            assert!(calls.len() >= 90, "{}", ran.err);
            assert!(calls.iter().all(|line| pid_of(line) == pid), "{}", ran.out);
            let switches = ran.bodies("sched:sched_switch");
            assert!(switches.len() >= 150, "{} switches", switches.len());
            for body in &switches {
                let own = [format!("prev_pid={pid} "), format!("next_pid={pid} ")];
                assert!(own.iter().any(|part| body.contains(part)), "{body}");
            }
        }),
        bpf_test(
            "kernel_events_of_all_processes_need_no_target_and_leave_the_bridge_out",
            || {
                let target = Target::start("ticker", &["100000", "1000"]);
                target.go();
                let child = bridge()
                    .args(["attach", "-a", "-e", "sched:sched_switch", "-T", "0.3"])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("bridge-cli starts");
                let bridge = format!("_pid={} ", child.id());
                let ran = Ran::from(child.wait_with_output().expect("bridge-cli ends"));
                assert_eq!(ran.status, 0, "{}", ran.err);
                assert!(
                    ran.events("sched:sched_switch")
                        .iter()
                        .any(|line| line.contains("ticker")),
                    "{}",
                    ran.out
                );
                // A switch from the target to the bridge is the target's; one to the idle task would be ours.
                // (Other bridges may run beside this one.)
                let own = |body: &String| body.contains(&bridge) && body.contains("=swapper/");
                assert!(
                    !ran.bodies("sched:sched_switch").iter().any(own),
                    "the bridge traces itself"
                );
            },
        ),
    ];
    support::run(trials)
}
