//! `attach -- CMD`: the command is attached before its `main`, ends as it would alone, and its status is
//! passed on.

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use support::{Attached, bpf_test, build, run_bridge};

fn main() {
    let trials = vec![
        bpf_test(
            "the_first_hit_of_a_command_is_seen_and_its_status_passed_on",
            || {
                let ticker = build("ticker").display().to_string();
                let ran = run_bridge(&[
                    "attach", "-e", "demo:*", "--", &ticker, "5", "-1", "at-once",
                ]);
                assert_eq!(ran.status, 3, "{}", ran.err);
                let expected: Vec<String> =
                    (1..=5).map(|i| format!("arg0={i} arg1=-{i}")).collect();
                assert_eq!(ran.bodies("demo:tick"), expected, "{}", ran.err);
                // The semaphore was up before the program looked at it for the first time.
                assert_eq!(ran.events("demo:guarded").len(), 5, "{}", ran.err);
                assert!(ran.err.contains("exit status: 3"), "{}", ran.err);
            },
        ),
        bpf_test(
            "the_death_of_a_command_by_a_signal_is_128_and_its_number",
            || {
                let ran = run_bridge(&[
                    "attach",
                    "-e",
                    "sched:sched_switch",
                    "--",
                    "/bin/sh",
                    "-c",
                    "kill -TERM $$",
                ]);
                assert_eq!(ran.status, 128 + 15, "{}", ran.err);
            },
        ),
        bpf_test("a_signal_to_the_bridge_reaches_the_command", || {
            let ticker = build("ticker").display().to_string();
            let attached = Attached::start(&[
                "-e",
                "demo:tick",
                "--",
                &ticker,
                "100000",
                "1000",
                "at-once",
            ]);
            std::thread::sleep(Duration::from_millis(100));
            let ran = attached.stop(Signal::SIGTERM);
            assert_eq!(ran.status, 128 + 15, "{}", ran.err);
            assert!(!ran.events("demo:tick").is_empty());
        }),
        bpf_test("a_wrong_name_leaves_the_command_unstarted", || {
            let mark = support::scratch("launch").join("mark");
            let ran = run_bridge(&[
                "attach",
                "-e",
                "nothing:like_it",
                "--",
                "touch",
                mark.to_str().unwrap(),
            ]);
            assert_eq!(ran.status, 5, "{}", ran.err);
            assert!(!mark.exists());
        }),
    ];
    support::run(trials)
}
