//! `--filter` behind an `-e` of the application's tracepoints: the same hits through rings, where the program
//! evaluates it, and through USDT, where the bridge does.

mod foreign_region;
mod ring_program;
mod ring_stream;
mod support;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use foreign_region::Region;
use nix::sys::signal::Signal;
use ring_program::{Program, seq, tid};
use ring_stream::seqs;
use support::{Attached, Ran, bpf_test, bridge, kill, run_bridge, test};
use tracebraid_wire::region;

/// Filters of `app:kinds`, and the numbers of the hits that pass, of ten.
const VERDICTS: &[(&str, &[u64])] = &[
    ("number == 3", &[3]),
    ("number != 3 && number < 5", &[0, 1, 2, 4]),
    ("number <= 1 || number >= 9", &[0, 1, 9]),
    ("number & 6 && number < 5", &[2, 3, 4]),
    ("!(number > 1)", &[0, 1]),
    ("small == 0x105", &[5]),
    ("signed <= -8", &[8, 9]),
    // Above i64::MAX is not negative.
    ("large > 9223372036854775807 && number == 1", &[1]),
    ("large >= 18446744073709551614", &[0, 1]),
    ("deep == -4", &[4]),
    ("wide == 0xc00000000000000000", &[3]),
    ("wide & 0x400000000000000000 && number < 6", &[1, 3, 5]),
    ("maybe >= 0", &[6, 7, 8, 9]),
    ("!(maybe != 7)", &[0, 1, 2, 3, 4, 5, 7]),
    ("yes == true && number < 5", &[0, 2, 4]),
    ("letter == 'ä' && half == 1.5", &[3]),
    ("double < 0.5", &[0, 1]),
    ("took > 7us", &[8, 9]),
    ("took == 3000", &[3]),
    ("user ~ 'al*' && number < 6", &[1, 2, 4, 5]),
    ("user != 'alice'", &[]),
    ("!(user == 'alice')", &[0, 3, 6, 9]),
    ("bytes ~ '?[c-d]'", &[2, 3]),
    ("place == 0x1007", &[7]),
    ("list == '[4, 7]' || list ~ '[[]5*'", &[4, 5]),
    ("cpu >= 0 && CPU & CPUS{0-1} && number == 2", &[2]),
    ("comm ~ 'filter_*' && COMM != 'other' && number == 5", &[5]),
    ("0", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
];

fn numbers(ran: &Ran) -> Vec<u64> {
    let number = |body: &String| -> u64 {
        let rest = body.split_once("number=").expect("a number").1;
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    ran.bodies("app:kinds").iter().map(number).collect()
}

/// Hits are events or filtered out, and the summary says how many of each.
#[track_caller]
fn accounts(ran: &Ran, event: &str, events: usize, hits: usize) {
    let [events, hits, filtered] = [events, hits, hits - events].map(|it| it.to_string());
    assert_eq!(ran.row(event)[..3], [events, hits, filtered], "{}", ran.err);
    assert!(!ran.err.contains("unaccounted"), "{}", ran.err);
}

/// Fields of which the kernel decides nothing.
const NOT_IN_KERNEL: &[&str] = &["deep", "wide", "half", "double", "took"];

fn verdicts(via: &str) {
    let mut program = Program::start("kinds");
    let pid = program.pid.to_string();
    let own = format!("common_pid == {pid} && number == 1");
    let other = "common_pid == 1".to_owned();
    let more = [(own.as_str(), &[1][..]), (other.as_str(), &[])];
    for &(filter, expected) in VERDICTS.iter().chain(&more) {
        let mut args = vec![
            "-p",
            &pid,
            "--via",
            via,
            "-e",
            "app:kinds",
            "--filter",
            filter,
        ];
        let no = NOT_IN_KERNEL
            .iter()
            .find(|field| via == "usdt" && filter.contains(*field));
        if let Some(field) = no {
            let refused = run_bridge(&[&["attach"], &args[..]].concat());
            assert_eq!(refused.status, 2, "{}", refused.err);
            let why = format!("the kernel cannot decide the filter for app:kinds: {field} is a");
            let hint = "with --user-filter the bridge decides it";
            assert!(
                refused.err.contains(&why) && refused.err.contains(hint),
                "{}",
                refused.err
            );
            args.push("--user-filter");
        }
        let attached = Attached::start(&args);
        program.ask("go");
        let ran = attached.stop(Signal::SIGINT);
        assert_eq!(numbers(&ran), expected, "{filter}: {}", ran.err);
        if filter != "0" {
            accounts(&ran, "app:kinds", expected.len(), 10);
        }
        let by = match (via, no) {
            _ if filter == "0" => continue,
            ("ring", _) => "of 1 tracepoints are evaluated by the program, of 0 by the kernel",
            (_, None) => "of 1 by the kernel, of 0 by the bridge",
            (_, Some(_)) => "of 0 by the kernel, of 1 by the bridge",
        };
        assert!(ran.err.contains(by), "{}", ran.err);
    }
    program.finish();
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test("each_operator_and_kind_decides_through_rings", || {
            verdicts("ring")
        }),
        bpf_test("each_operator_and_kind_decides_through_usdt", || {
            verdicts("usdt")
        }),
        test(
            "each_filter_is_for_the_e_before_it_and_several_hold_together",
            || {
                let mut program = Program::start("ticks 40");
                let pid = program.pid.to_string();
                let attached = Attached::start(&[
                    "-p",
                    &pid,
                    "--via",
                    "ring",
                    "--event=app:tick",
                    "--filter",
                    "seq > 10",
                    "--filter=seq < 20",
                    "-e",
                    "app:words",
                    "--filter",
                    "seq == 7",
                ]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (11..20).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                assert_eq!(ran.bodies("app:words"), ["seq=7 a=1 b=2"]);
                accounts(&ran, "app:tick", 9, 40);
                accounts(&ran, "app:words", 1, 40);
                program.finish();
            },
        ),
        test(
            "of_several_e_for_one_tracepoint_one_has_to_let_a_hit_pass",
            || {
                let mut program = Program::start("ticks 20");
                let pid = program.pid.to_string();
                let base = [
                    "-p", &pid, "--via", "ring", "-e", "app:tick", "--filter", "seq < 2",
                ];
                let run = |program: &mut Program, more: &[&str]| {
                    let attached = Attached::start(&[&base[..], more].concat());
                    program.ask("go");
                    attached.stop(Signal::SIGINT)
                };
                let both = ["-e", "app:tick*", "--filter", "seq > 17 && who == 'tick'"];
                let ran = run(&mut program, &both);
                assert_eq!(seqs(&ran, "app:tick"), [0, 1, 18, 19], "{}", ran.err);
                accounts(&ran, "app:tick", 4, 20);
                let ran = run(&mut program, &["-e", "tick"]);
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (20..40).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                program.finish();
            },
        ),
        test(
            "what_a_program_recorded_unasked_is_filtered_for_the_first_bridge",
            || {
                let mut command = ring_program::command("ticks 30");
                command.env("TRACEBRAID_RECORD", "app:*");
                let mut program = Program::spawn(&mut command);
                program.ask("go");
                let pid = program.pid.to_string();
                let attached = Attached::start(&[
                    "-p", &pid, "--via", "ring", "-e", "app:tick", "--filter", "seq & 1",
                ]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                let odd: Vec<u64> = (0..60).filter(|seq| seq % 2 == 1).collect();
                assert_eq!(seqs(&ran, "app:tick"), odd, "{}", ran.err);
                accounts(&ran, "app:tick", 30, 60);
                program.finish();
            },
        ),
        test(
            "children_and_the_programs_they_become_are_filtered_too",
            || {
                for (name, more, events) in [("forker", 60, 30), ("family", 20, 10)] {
                    let mut program = Program::start(name);
                    let pid = program.pid.to_string();
                    let attached = Attached::start(&[
                        "-p", &pid, "--via", "ring", "--follow", "-e", "app:tick", "--filter",
                        "seq & 1",
                    ]);
                    program.ask("go");
                    thread::sleep(Duration::from_millis(100));
                    let ran = attached.stop(Signal::SIGINT);
                    let mut of: BTreeMap<u32, usize> = BTreeMap::new();
                    for line in ran.events("app:tick") {
                        *of.entry(tid(line)).or_default() += 1;
                    }
                    assert!(
                        seqs(&ran, "app:tick").iter().all(|seq| seq % 2 == 1),
                        "{}",
                        ran.out
                    );
                    assert_eq!(of.values().sum::<usize>(), events, "{of:?} {}", ran.err);
                    assert!(of.len() > 1, "{of:?}");
                    accounts(&ran, "app:tick", events, more);
                    program.finish();
                }
            },
        ),
        test(
            "a_program_that_initialises_itself_later_is_filtered_from_its_first_event_on",
            || {
                let mut program = Program::start("late 20");
                let pid = program.pid.to_string();
                let attached = Attached::start(&[
                    "-p", &pid, "--via", "ring", "-e", "app:tick", "--filter", "seq < 3",
                ]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(seqs(&ran, "app:tick"), [0, 1, 2], "{}", ran.err);
                accounts(&ran, "app:tick", 3, 20);
                program.finish();
            },
        ),
        test("a_command_is_filtered_from_its_first_event_on", || {
            for via in ["ring", "auto"] {
                let mut bridge = bridge();
                bridge
                    .args([
                        "attach",
                        "-v",
                        "-e",
                        "app:tick",
                        "--filter",
                        "seq >= 190",
                        "--via",
                        via,
                        "--",
                    ])
                    .arg(std::env::current_exe().unwrap())
                    .env("BRIDGE_RING_PROGRAM", "at_once 200");
                let ran = Attached::spawn(&mut bridge).finish();
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (190..200).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                accounts(&ran, "app:tick", 10, 200);
            }
        }),
        bpf_test(
            "a_thread_in_another_pid_namespace_is_named_as_it_is_printed",
            || {
                let mut command = std::process::Command::new("unshare");
                command
                    .args(["--pid", "--mount", "--fork", "--mount-proc"])
                    .arg(std::env::current_exe().unwrap())
                    .env("BRIDGE_RING_PROGRAM", "ticks 10");
                let mut program = Program::spawn(&mut command);
                assert_eq!(program.pid, 1, "it is the first of its namespace");
                let pid = program.only_child().to_string();
                for (number, events) in [(pid.as_str(), 10), ("1", 0)] {
                    let filter = format!("common_pid == {number}");
                    let args = [
                        "-p", &pid, "--via", "ring", "-e", "app:tick", "--filter", &filter,
                    ];
                    let attached = Attached::start(&args);
                    program.ask("go");
                    let ran = attached.stop(Signal::SIGINT);
                    accounts(&ran, "app:tick", events, 10);
                    assert!(ran.err.contains("of 1 by the bridge"), "{}", ran.err);
                }
                program.finish();
            },
        ),
        test("a_flight_recorder_records_what_passes", || {
            let mut program = Program::start("asker 50");
            let pid = program.pid.to_string();
            let attached = Attached::start(&[
                "-p",
                &pid,
                "--flight-recorder",
                "-e",
                "app:words",
                "--filter",
                "seq & 1",
                "--snapshot-when",
                "app:words if seq == 49",
            ]);
            program.ask("go");
            thread::sleep(Duration::from_millis(500));
            let ran = attached.stop(Signal::SIGINT);
            let odd: Vec<u64> = (0..50).filter(|seq| seq % 2 == 1).collect();
            let found: Vec<u64> = ran
                .bodies("app:words")
                .iter()
                .map(|body| seq(body))
                .collect();
            assert_eq!(found, odd, "{}", ran.err);
            assert_eq!(ran.events("bridge:snapshot").len(), 1, "{}", ran.out);
            program.tell("");
        }),
        test("a_snapshot_shows_what_passes", || {
            let mut program = Program::start("flight 100");
            program.ask("go");
            let pid = program.pid.to_string();
            let ran = run_bridge(&[
                "snapshot",
                "-p",
                &pid,
                "-e",
                "app:tick",
                "--filter",
                "seq >= 98",
                "-e",
                "app:words",
                "--filter",
                "seq == 99 || seq == 97",
            ]);
            assert_eq!(ran.status, 0, "{}", ran.err);
            assert_eq!(seqs(&ran, "app:tick"), [98, 99]);
            assert_eq!(
                ran.bodies("app:words"),
                ["seq=97 a=1 b=2", "seq=99 a=1 b=2"]
            );
            let wrong = run_bridge(&[
                "snapshot",
                "-p",
                &pid,
                "-e",
                "app:*",
                "--filter",
                "sequ >= 98",
            ]);
            assert_eq!((wrong.status, wrong.out.as_str()), (2, ""));
            assert!(
                wrong.err.contains("Field not found") && wrong.err.contains("did you mean seq?"),
                "{}",
                wrong.err
            );
            program.finish();
        }),
        test("what_a_program_cannot_evaluate_the_bridge_does", || {
            let mut program = Program::start("ticks 10");
            let pid = program.pid.to_string();
            // Together too long for one filter.
            let long = |last: &str| format!("{}{last}", "seq != 1000 && ".repeat(200));
            let attached = Attached::start(&[
                "-p",
                &pid,
                "--via",
                "ring",
                "-e",
                "app:tick",
                "--filter",
                &long("seq > 3"),
                "--filter",
                &long("seq < 7"),
            ]);
            program.ask("go");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(seqs(&ran, "app:tick"), [4, 5, 6], "{}", ran.err);
            assert!(ran.err.contains("of 1 by the bridge"), "{}", ran.err);
            accounts(&ran, "app:tick", 3, 10);
            program.finish();
        }),
        test(
            "filters_that_a_program_refuses_the_bridge_evaluates",
            || {
                let mut program = Program::start("ticks 10");
                let pid = program.pid.to_string();
                // It is stopped while it is asked; what it then finds is no filter.
                kill(program.pid, Signal::SIGSTOP);
                let attached = Attached::start(&[
                    "-p", &pid, "--via", "ring", "-e", "app:tick", "--filter", "seq > 3",
                ]);
                let region = Region::of(program.pid);
                region.write(region::FILTERS + region::ENTRY_HEAD, b"((((");
                kill(program.pid, Signal::SIGCONT);
                thread::sleep(Duration::from_millis(200));
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(seqs(&ran, "app:tick"), [4, 5, 6, 7, 8, 9], "{}", ran.err);
                assert!(
                    ran.err
                        .contains("cannot read 1 of its filters; the bridge evaluates them"),
                    "{}",
                    ran.err
                );
                accounts(&ran, "app:tick", 6, 10);
                program.finish();
            },
        ),
    ]);
}
