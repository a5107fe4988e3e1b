//! `attach` on running programs: what is printed is what happened, whoever it happened to, and every way
//! of ending is in order.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::{Attached, LONG, Ran, Target, bpf_test, bridge, build, pid_of, run_bridge, timed};

fn main() {
    let trials = vec![
        bpf_test("every_hit_is_printed_in_order_with_its_values", || {
            let target = Target::start("ticker", &["200", "100"]);
            let pid = target.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "demo:tick"]);
            target.go();
            let ran = attached.finish();
            assert_eq!(ran.status, 0, "{}", ran.err);
            let expected: Vec<String> = (1..=200).map(|i| format!("arg0={i} arg1=-{i}")).collect();
            assert_eq!(ran.bodies("demo:tick"), expected);
            assert!(
                ran.events("demo:tick")
                    .iter()
                    .all(|line| pid_of(line) == pid),
                "{}",
                ran.out
            );
            assert_eq!(ran.row("demo:tick")[..2], ["200", "200"], "{}", ran.err);
            target.finish();
        }),
        bpf_test(
            "the_semaphore_is_up_while_attached_and_down_afterwards",
            || {
                let target = Target::start("ticker", &["100", "1000"]);
                let attached = Attached::start(&[
                    "-p",
                    &target.pid.to_string(),
                    "-e",
                    "demo:guarded",
                    "-T",
                    "30",
                ]);
                target.go();
                thread::sleep(Duration::from_millis(50));
                let ran = attached.stop(Signal::SIGINT);
                let (_, output) = target.finish();
                let numbers: Vec<u64> = output
                    .split_whitespace()
                    .skip(1)
                    .map(|word| word.parse().unwrap())
                    .collect();
                assert_eq!(numbers[2], 0, "the semaphore is still up: {output}");
                let seen = ran.events("demo:guarded").len() as u64;
                assert!(seen > 0 && seen <= numbers[1], "{seen} events of {output}");
                assert_eq!(
                    ran.row("demo:guarded")[..2],
                    [seen.to_string(), seen.to_string()]
                );
            },
        ),
        bpf_test("no_probe_overwrites_the_red_zone_of_the_target", || {
            let target = Target::start("redzone", &["1000"]);
            let pid = target.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "demo:*_nop*"]);
            target.go();
            let ran = attached.finish();
            let (_, output) = target.finish();
            assert!(output.contains("BAD 0 0 0"), "{output}");
            let kept = vec![format!("arg0={}", 0x1122_3344_5566_7788_u64); 1000];
            for safe in ["demo:two_nops", "demo:short_nop"] {
                assert_eq!(ran.bodies(safe), kept, "{safe}: {}", ran.err);
            }
            // Where the kernel is known to leave it alone it is attached like any other.
            if ran.err.contains("demo:long_nop stands on a 5-byte nop") {
                assert!(ran.bodies("demo:long_nop").is_empty());
            } else {
                assert_eq!(ran.bodies("demo:long_nop"), kept, "{}", ran.err);
            }
        }),
        bpf_test("the_duration_ends_it_though_nothing_happens", || {
            let target = Target::start("ticker", &["1", "1"]);
            let start = Instant::now();
            let ran = run_bridge(&[
                "attach",
                "-p",
                &target.pid.to_string(),
                "-e",
                "demo:*",
                "-T",
                "0.5",
            ]);
            let took = start.elapsed();
            assert_eq!((ran.status, ran.out.as_str()), (0, ""), "{}", ran.err);
            assert!(
                took >= Duration::from_millis(500) && took < LONG,
                "{took:?}"
            );
        }),
        bpf_test("the_target_s_end_ends_it", || {
            let target = Target::start("ticker", &["10", "100"]);
            let attached = Attached::start(&[
                "-p",
                &target.pid.to_string(),
                "-e",
                "demo:tick",
                "-T",
                "1000",
            ]);
            target.go();
            let ran = attached.finish();
            assert_eq!(
                (ran.status, ran.events("demo:tick").len()),
                (0, 10),
                "{}",
                ran.err
            );
        }),
        bpf_test("each_ending_signal_ends_it_in_order", || {
            for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
                let mut target = Target::start("ticker", &["100000", "500"]);
                let attached = Attached::start(&["-p", &target.pid.to_string(), "-e", "demo:tick"]);
                target.go();
                target.await_rests(100);
                let ran = attached.stop(signal);
                assert_eq!(ran.status, 0, "{}", ran.err);
                let row = ran.row("demo:tick");
                assert_eq!(row[0], row[1], "{}", ran.err);
                assert_eq!(row[0], ran.events("demo:tick").len().to_string());
                assert!(target.is_alive());
            }
        }),
        bpf_test("a_reader_that_goes_away_is_no_error", || {
            let mut target = Target::start("ticker", &["100000", "500"]);
            let mut attached = Attached::start(&["-p", &target.pid.to_string(), "-e", "demo:tick"]);
            target.go();
            let mut out = BufReader::new(attached.out.take().unwrap());
            for _ in 0..3 {
                out.read_line(&mut String::new()).unwrap();
            }
            drop(out);
            let ran = attached.finish();
            assert_eq!(ran.status, 0, "{}", ran.err);
            assert!(!ran.err.contains("Broken pipe"), "{}", ran.err);
            assert!(target.is_alive());
        }),
        bpf_test(
            "a_reader_that_does_not_read_makes_events_lost_and_counted",
            || {
                let target = Target::start("ticker", &["300000", "-1"]);
                let mut attached = Attached::start(&[
                    "-p",
                    &target.pid.to_string(),
                    "-e",
                    "demo:tick",
                    "--ring",
                    "64K",
                ]);
                target.go();
                // The pipe, the channel and the rings fill up; then the reader comes back.
                let out = attached.out.take().unwrap();
                let reader = thread::spawn(move || {
                    thread::sleep(Duration::from_secs(2));
                    let mut text = String::new();
                    BufReader::new(out).read_to_string(&mut text).unwrap();
                    text
                });
                let (_, output) = target.finish();
                let ran = attached.finish();
                let text = reader.join().unwrap();
                assert!(output.starts_with("HITS 300000 "), "{output}");
                let ran = Ran { out: text, ..ran };
                let row: Vec<u64> = ran.row("demo:tick")[..4]
                    .iter()
                    .map(|word| word.parse().unwrap())
                    .collect();
                let (events, hits, lost) = (row[0], row[1], row[3]);
                assert_eq!(hits, 300_000, "{}", ran.err);
                assert!(
                    lost > 0,
                    "the reader was not slow enough to lose anything: {}",
                    ran.err
                );
                assert_eq!(events + lost, hits, "{}", ran.err);
                let printed = ran
                    .bodies("demo:tick")
                    .iter()
                    .filter(|body| body.starts_with("arg0="))
                    .count();
                assert_eq!(printed as u64, events);
            },
        ),
        bpf_test(
            "a_child_in_the_parent_s_memory_is_not_shown_as_the_parent",
            || {
                let target = Target::start("family", &["5"]);
                let pid = target.pid.to_string();
                let attached = Attached::start(&["-p", &pid, "-e", "demo:who"]);
                target.go();
                let ran = attached.finish();
                let bodies = ran.bodies("demo:who");
                for role in [0, 3] {
                    let own = format!("arg0={role} arg1={pid}");
                    assert_eq!(
                        bodies.iter().filter(|body| **body == own).count(),
                        5,
                        "role {role}: {}",
                        ran.out
                    );
                }
                for body in &bodies {
                    let child = body.starts_with("arg0=1") || body.starts_with("arg0=2");
                    assert!(!child || !body.ends_with(&format!("arg1={pid}")), "{body}");
                }
            },
        ),
        bpf_test("one_thread_can_be_chosen", || {
            let target = Target::start("family", &["5"]);
            let pid = target.pid.to_string();
            let attached = Attached::start(&["-t", &pid, "-e", "demo:who"]);
            target.go();
            let ran = attached.finish();
            let bodies = ran.bodies("demo:who");
            assert_eq!(bodies.len(), 5, "{}", ran.out);
            assert!(
                bodies.iter().all(|body| body.starts_with("arg0=0 ")),
                "{}",
                ran.out
            );
        }),
        bpf_test("a_cpu_can_be_chosen", || {
            let target = Target::start("ticker", &["200", "500"]);
            let pid = target.pid.to_string();
            let mut first = nix::sched::CpuSet::new();
            first.set(0).unwrap();
            let raw = nix::unistd::Pid::from_raw(target.pid as i32);
            nix::sched::sched_setaffinity(raw, &first).unwrap();
            let here = Attached::start(&["-p", &pid, "-e", "demo:tick", "-C", "0"]);
            let elsewhere = Attached::start(&["-p", &pid, "-e", "demo:tick", "-C", "1"]);
            target.go();
            let here = here.finish();
            assert_eq!(here.events("demo:tick").len(), 200, "{}", here.err);
            assert!(here.out.lines().all(|line| line.contains("[000]")));
            assert_eq!(elsewhere.finish().out, "");
        }),
        bpf_test("files_need_no_target_and_each_is_attached", || {
            let selectors = ["ticker", "calls"].map(|name| (build(name), name)).map(
                |(path, name)| match name {
                    "ticker" => format!("usdt:{}:demo:tick", path.display()),
                    _ => format!("usdt:{}:demo:before", path.display()),
                },
            );
            let attached = Attached::start(&[
                "-e",
                &selectors[0],
                "-e",
                &selectors[1],
                "-e",
                &selectors[0],
            ]);
            // Started afterwards, twice: every process that runs the file counts.
            for (name, count) in [("ticker", "5"), ("calls", "7"), ("ticker", "5")] {
                let target = Target::start(name, &[count, "100"]);
                target.go();
                target.finish();
            }
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(ran.events("demo:tick").len(), 10, "{}", ran.err);
            assert_eq!(ran.events("demo:before").len(), 7, "{}", ran.err);
        }),
        bpf_test(
            "a_second_signal_does_not_wait_for_a_reader_that_does_not_read",
            || {
                let target = Target::start("ticker", &["100000", "-1"]);
                let attached = Attached::start(&["-p", &target.pid.to_string(), "-e", "demo:tick"]);
                target.go();
                target.finish();
                // The pipe is full and nobody reads: the first signal, and the target's end, wait for it.
                thread::sleep(Duration::from_millis(300));
                support::kill(attached.pid, Signal::SIGINT);
                // Two that wait to be taken are one.
                wait_until_taken(attached.pid, Signal::SIGINT);
                // The target's end may not have been noticed by then, and that was the first; or it had been, and
                // the bridge ends now, as others do at a signal.
                thread::sleep(Duration::from_secs(1));
                if support::is_running(attached.pid) {
                    support::kill(attached.pid, Signal::SIGINT);
                }
                let ran = attached.finish_unread();
                assert_eq!(ran.status, 0, "{}", ran.err);
                assert!(ran.err.contains("were not written"), "{}", ran.err);
            },
        ),
        bpf_test("a_file_that_was_replaced_is_traced_as_it_runs", || {
            let path = support::scratch("replaced").join("app");
            std::fs::copy(build("ticker"), &path).unwrap();
            let target = Target::spawn(std::process::Command::new(&path).args(["20", "500"]));
            std::fs::remove_file(&path).unwrap();
            std::fs::copy(build("calls"), &path).unwrap();
            let pid = target.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "demo:tick"]);
            let wrong = run_bridge(&[
                "attach",
                "-p",
                &pid,
                "-e",
                "usdt:*:demo:before",
                "-T",
                "0.1",
            ]);
            target.go();
            let ran = attached.finish();
            assert_eq!(ran.events("demo:tick").len(), 20, "{}", ran.err);
            assert_eq!(
                wrong.out, "",
                "the new file is not the target's: {}",
                wrong.err
            );
        }),
        bpf_test("names_of_threads_do_nothing_to_a_terminal", || {
            let path = support::scratch("names").join("a\u{1b}[2Jb");
            std::fs::copy(build("ticker"), &path).unwrap();
            let target = Target::spawn(std::process::Command::new(&path).args(["3", "500"]));
            let attached = Attached::start(&["-p", &target.pid.to_string(), "-e", "demo:tick"]);
            target.go();
            let ran = attached.finish();
            assert_eq!(ran.events("demo:tick").len(), 3, "{}", ran.err);
            assert!(ran.out.contains("a\\x1b[2Jb-"), "{}", ran.out);
            assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'));
        }),
        timed(bpf_test(
            "a_library_loaded_later_is_attached_each_time",
            || {
                let library = build("plug.so").display().to_string();
                let target = Target::start("loader", &[&library]);
                let attached =
                    Attached::start(&["-p", &target.pid.to_string(), "-e", "usdt:*:demo:plug"]);
                target.go();
                let ran = attached.finish();
                assert_eq!(target.finish().1, "UP 6\n", "{}", ran.err);
                assert_eq!(
                    ran.bodies("demo:plug"),
                    ["arg0=1", "arg0=2", "arg0=3", "arg0=1", "arg0=2", "arg0=3"]
                );
            },
        )),
        bpf_test(
            "by_its_path_a_library_is_attached_before_it_is_loaded",
            || {
                let library = build("plug.so").display().to_string();
                let target = Target::start("loader", &[&library]);
                let selector = format!("usdt:{library}:demo:plug");
                let attached = Attached::start(&["-p", &target.pid.to_string(), "-e", &selector]);
                target.go();
                let ran = attached.finish();
                assert_eq!(target.finish().1, "UP 6\n", "{}", ran.err);
                assert_eq!(ran.events("demo:plug").len(), 6);
            },
        ),
        bpf_test(
            "two_sessions_and_a_name_given_twice_get_every_event_once_each",
            || {
                let target = Target::start("ticker", &["100", "500"]);
                let pid = target.pid.to_string();
                let selector = format!("usdt:{}:demo:tick", build("ticker").display());
                let args = [
                    "-p",
                    &pid,
                    "-e",
                    "demo:tick",
                    "-e",
                    &selector,
                    "-e",
                    "demo:t*",
                ];
                let sessions = [Attached::start(&args), Attached::start(&args)];
                target.go();
                for session in sessions {
                    let ran = session.finish();
                    assert_eq!(ran.events("demo:tick").len(), 100, "{}", ran.err);
                }
            },
        ),
        bpf_test(
            "without_a_selector_everything_of_the_target_and_its_threads_comes",
            || {
                let target = Target::start("ticker", &["50", "1000"]);
                let attached = Attached::start(&["-p", &target.pid.to_string()]);
                target.go();
                let ran = attached.finish();
                assert_eq!(ran.status, 0, "{}", ran.err);
                assert_eq!(ran.events("demo:tick").len(), 50, "{}", ran.err);
                assert_eq!(ran.events("demo:guarded").len(), 50, "{}", ran.err);
                assert!(
                    ran.events("syscalls:sys_enter_clock_nanosleep").len() >= 50,
                    "{}",
                    ran.err
                );
                assert!(ran.events("sched:sched_switch").len() >= 50, "{}", ran.err);
            },
        ),
        bpf_test("json_is_one_object_a_line", || {
            let target = Target::start("ticker", &["20", "500"]);
            let pid = target.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "demo:tick", "--format", "json"]);
            target.go();
            let ran = attached.finish();
            assert_eq!(ran.out.lines().count(), 20, "{}", ran.out);
            assert!(
                ran.out
                    .lines()
                    .all(|line| line.starts_with('{') && line.ends_with('}')),
                "{}",
                ran.out
            );
        }),
        bpf_test("the_output_file_holds_what_the_summary_counts", || {
            let target = Target::start("ticker", &["50", "500"]);
            let path = support::scratch("out").join("stream.txt");
            let attached = Attached::start(&[
                "-p",
                &target.pid.to_string(),
                "-e",
                "demo:tick",
                "-o",
                path.to_str().unwrap(),
            ]);
            target.go();
            let ran = attached.finish();
            assert_eq!(ran.out, "");
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 50);
            assert_eq!(ran.row("demo:tick")[0], "50");
        }),
        bpf_test(
            "events_are_printed_while_they_come_and_not_at_the_end",
            || {
                let target = Target::start("ticker", &["100000", "1000"]);
                target.go();
                let pid = target.pid.to_string();
                let mut child = bridge()
                    .args(["attach", "-p", &pid, "-e", "demo:tick"])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let mut line = String::new();
                BufReader::new(child.stdout.take().unwrap())
                    .read_line(&mut line)
                    .unwrap();
                let ended = child.try_wait().unwrap();
                support::kill(child.id(), Signal::SIGINT);
                child.wait().unwrap();
                assert!(line.contains("demo:tick"), "{line}");
                assert_eq!(ended, None);
            },
        ),
        bpf_test(
            "after_kill_9_the_target_runs_on_and_its_semaphore_is_down",
            || {
                let target = Target::start("ticker", &["400", "1000"]);
                let attached = Attached::start(&["-p", &target.pid.to_string(), "-e", "demo:*"]);
                target.go();
                thread::sleep(Duration::from_millis(50));
                support::kill(attached.pid, Signal::SIGKILL);
                let (status, output) = target.finish();
                assert_eq!(status.code(), Some(3));
                assert!(
                    output.ends_with(" 0\n"),
                    "the semaphore is still up: {output}"
                );
            },
        ),
    ];
    support::run(trials)
}

/// Waits until a process has taken a signal that was sent to it.
#[track_caller]
fn wait_until_taken(pid: u32, signal: Signal) {
    let is_pending = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mut lines = status.lines();
        let mask = lines.find_map(|line| line.strip_prefix("ShdPnd:"));
        let mask = mask.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
        mask.unwrap_or(0) >> (signal as i32 - 1) & 1 == 1
    };
    let deadline = Instant::now() + LONG;
    while is_pending() {
        assert!(Instant::now() < deadline, "{signal} is not taken");
        thread::sleep(Duration::from_millis(5));
    }
}
