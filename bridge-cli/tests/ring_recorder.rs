//! Flight recorders and snapshots.

mod ring_program;
mod ring_stream;
mod support;

use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use ring_program::{PAUSE, Program};
use ring_stream::seqs;
use support::{Attached, Ran, kill, run_bridge, test};

fn snapshot(program: &Program, more: &[&str]) -> Ran {
    let pid = program.pid.to_string();
    let mut args = vec!["snapshot", "-p", &pid];
    args.extend(more);
    run_bridge(&args)
}

/// The newest `seq` is `last`, and none is missing before it.
fn is_a_gapless_end(seqs: &[u64], last: u64) {
    assert_eq!(seqs.last(), Some(&last));
    let gap = seqs.windows(2).find(|pair| pair[1] != pair[0] + 1);
    assert_eq!(gap, None);
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "a_flight_recorder_holds_the_last_events_and_shows_them_again_and_again",
            || {
                let mut program = Program::start("flight 2000");
                program.ask("go");
                let first = snapshot(&program, &["-e", "app:words"]);
                assert_eq!(first.status, 0, "{}", first.err);
                let found = seqs(&first, "app:words");
                is_a_gapless_end(&found, 1999);
                // 64 KiB a CPU hold some hundreds, not all.
                assert!((100..1999).contains(&found.len()), "{}", found.len());
                let json = snapshot(&program, &["-e", "app:words", "--format", "json"]);
                assert_eq!(json.out.lines().count(), found.len());
                let last: serde_json::Value =
                    serde_json::from_str(json.out.lines().last().unwrap()).unwrap();
                assert_eq!(last["fields"]["seq"], 1999);
                program.ask("go");
                is_a_gapless_end(&seqs(&snapshot(&program, &[]), "app:words"), 3999);
                program.finish();
            },
        ),
        test("a_stopped_process_is_looked_at_as_well", || {
            let mut program = Program::start("flight 100");
            program.ask("go");
            kill(program.pid, Signal::SIGSTOP);
            let ran = snapshot(&program, &["-e", "app:words"]);
            kill(program.pid, Signal::SIGCONT);
            is_a_gapless_end(&seqs(&ran, "app:words"), 99);
            program.finish();
        }),
        test(
            "a_process_without_rings_has_no_snapshot_and_the_message_says_why",
            || {
                let program = Program::start("late 1");
                let ran = snapshot(&program, &[]);
                assert_eq!(ran.status, 3);
                assert!(
                    ran.err.contains("did not call tracebraid::init()"),
                    "{}",
                    ran.err
                );
                assert_eq!(run_bridge(&["snapshot", "-p", "999999999"]).status, 3);
            },
        ),
        test("what_waits_for_a_reader_is_shown_and_stays", || {
            let mut command = ring_program::command("ticks 30");
            command.env("TRACEBRAID_RECORD", "app:*");
            let mut program = Program::spawn(&mut command);
            program.ask("go");
            for _ in 0..2 {
                let ran = snapshot(&program, &["-e", "app:tick"]);
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (0..30).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
            }
            // The first bridge gets what was recorded before it came.
            let pid = program.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "app:tick", "--via", "ring"]);
            program.ask("go");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(seqs(&ran, "app:tick"), (0..60).collect::<Vec<_>>());
            program.finish();
        }),
        test(
            "attaching_to_a_flight_recorder_streams_and_leaves_a_flight_recorder",
            || {
                let mut program = Program::start("flight 50");
                program.ask("go");
                let pid = program.pid.to_string();
                let attached = Attached::start(&["-p", &pid, "-e", "app:tick", "--via", "ring"]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (50..100).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                program.ask("go");
                is_a_gapless_end(&seqs(&snapshot(&program, &[]), "app:words"), 149);
                program.finish();
            },
        ),
        test("an_armed_process_prints_nothing_until_it_asks", || {
            let mut program = Program::start("asker 200");
            let pid = program.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "app:*", "--flight-recorder"]);
            program.ask("go");
            thread::sleep(Duration::from_millis(100));
            assert_eq!(program.ask("it is odd"), "true");
            thread::sleep(Duration::from_millis(100));
            program.ask("go");
            assert_eq!(program.ask("it is odder"), "true");
            thread::sleep(Duration::from_millis(100));
            // Nobody asks for these.
            program.ask("go");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(
                ran.bodies("bridge:snapshot"),
                [r#"reason="it is odd""#, r#"reason="it is odder""#],
                "{}",
                ran.err
            );
            assert_eq!(seqs(&ran, "app:words"), (0..400).collect::<Vec<_>>());
            // What the second one finds that was in the first is not counted again either.
            assert_eq!(ran.row("app:words")[..2], ["400", "400"], "{}", ran.err);
            assert!(ran.out.lines().last().unwrap().contains("it is odder"));
            assert_eq!(program.ask("nobody"), "false");
            program.tell("");
        }),
        test(
            "a_flight_recorder_is_of_the_threads_that_are_asked_for",
            || {
                // Each event is of a thread of its own, and none of the first one.
                for (is_of_one, expected) in [(false, 40), (true, 0)] {
                    let mut program = Program::start("threads 40");
                    let pid = program.pid.to_string();
                    let mut args = vec!["-p", &pid, "-e", "app:*", "--flight-recorder"];
                    if is_of_one {
                        args.extend(["-t", &pid]);
                    }
                    let attached = Attached::start(&args);
                    program.ask("go");
                    program.finish();
                    let ran = attached.finish();
                    assert_eq!(seqs(&ran, "app:words").len(), expected, "{}", ran.err);
                    assert_eq!(ran.bodies("bridge:snapshot").len(), 1, "{}", ran.out);
                }
            },
        ),
        test("a_hit_that_fulfils_a_condition_takes_a_snapshot", || {
            let mut program = Program::start("asker 20");
            let pid = program.pid.to_string();
            let when = "app:took__return if ns > 50000000";
            let attached = Attached::start(&["-p", &pid, "-e", "app:*", "--snapshot-when", when]);
            program.ask("go");
            program.ask("slow");
            thread::sleep(Duration::from_millis(100));
            program.ask("go");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(
                ran.bodies("bridge:snapshot"),
                [format!("reason={when:?}")],
                "{}",
                ran.err
            );
            assert_eq!(seqs(&ran, "app:words"), (0..20).collect::<Vec<_>>());
            program.tell("");
        }),
        test(
            "a_return_says_the_time_since_its_entry_live_and_in_a_snapshot",
            || {
                for how in ["--via=ring", "--flight-recorder"] {
                    let mut program = Program::start("asker 20");
                    let pid = program.pid.to_string();
                    let wanted = ["-p", &pid, "-e", "app:took*", "--format", "json", how];
                    let attached = Attached::start(&wanted);
                    for _ in 0..3 {
                        program.ask("slow");
                    }
                    let held = snapshot(&program, &["-e", "app:took*", "--format", "json"]);
                    let streamed = attached.stop(Signal::SIGINT);
                    let ran = match how {
                        "--flight-recorder" => held,
                        _ => streamed,
                    };
                    let events: Vec<serde_json::Value> = ran
                        .out
                        .lines()
                        .map(|line| serde_json::from_str(line).unwrap())
                        .collect();
                    assert_eq!(events.len(), 6, "{}", ran.out);
                    for pair in events.chunks(2) {
                        let time = |event: &serde_json::Value| event["time_ns"].as_u64().unwrap();
                        let between = time(&pair[1]) - time(&pair[0]);
                        let ns = pair[1]["fields"]["ns"].as_u64().unwrap();
                        // Each of the three numbers is rounded.
                        assert!(ns.abs_diff(between) <= 2, "{how}: {}", ran.out);
                        assert!(u128::from(ns) >= PAUSE.as_nanos() * 99 / 100);
                    }
                    program.tell("");
                }
            },
        ),
        test("a_snapshot_of_a_name_that_nothing_has_is_an_error", || {
            let mut program = Program::start("asker 20");
            program.ask("go");
            let pid = program.pid.to_string();
            let ran = run_bridge(&["snapshot", "-p", &pid, "-e", "app:*", "-e", "nope:*"]);
            assert_eq!(ran.status, 5, "{}", ran.err);
            assert!(
                ran.err
                    .contains("-e nope:*: the rings know no such tracepoint"),
                "{}",
                ran.err
            );
            assert_eq!(ran.out, "");
            program.tell("");
        }),
        test("a_condition_that_can_never_hold_is_refused", || {
            let program = Program::start("asker 20");
            let pid = program.pid.to_string();
            for (when, status, text) in [
                ("app:took__return if nanos > 5", 2, "Field not found"),
                ("app:took__return if ns > 'x'", 2, "Illegal operation"),
                ("app:tock if ns > 5", 5, "about no tracepoint"),
                ("app:took__return if (ns > 5", 2, "Too many '('"),
            ] {
                let ran =
                    run_bridge(&["attach", "-p", &pid, "-e", "app:*", "--snapshot-when", when]);
                assert_eq!(ran.status, status, "{when}: {}", ran.err);
                assert!(ran.err.contains(text), "{when}: {}", ran.err);
            }
        }),
        core_test("a_core_dump_holds_the_rings", |folder| {
            let mut command = ring_program::command("flight 300");
            command.current_dir(folder);
            let mut program = Program::spawn(&mut command);
            program.ask("go");
            set_core_limit(program.pid);
            kill(program.pid, Signal::SIGABRT);
            program.wait();
            let named = folder.join(format!("core.{}", program.pid));
            let core = if named.exists() {
                named
            } else {
                folder.join("core")
            };
            let core = core.to_str().unwrap();
            let ran = run_bridge(&["snapshot", "--core", core, "-e", "app:words"]);
            assert_eq!(ran.status, 0, "{}", ran.err);
            is_a_gapless_end(&seqs(&ran, "app:words"), 299);
            let line = ran.events("app:words")[0];
            assert_eq!(ring_program::tid(line), program.pid);
            assert!(
                ring_program::comm(line).starts_with("ring_recorder"),
                "{line}"
            );
            let no_core = run_bridge(&["snapshot", "--core", "/proc/self/exe"]);
            assert_eq!(no_core.status, 4);
        }),
        test("a_process_that_dies_leaves_a_last_snapshot", || {
            let mut program = Program::start("asker 300");
            let pid = program.pid.to_string();
            let attached = Attached::start(&["-p", &pid, "-e", "app:*", "--flight-recorder"]);
            program.ask("go");
            program.kill();
            let ran = attached.finish();
            is_a_gapless_end(&seqs(&ran, "app:words"), 299);
            assert_eq!(
                ran.bodies("bridge:snapshot"),
                [r#"reason="the process has ended""#]
            );
        }),
    ]);
}

/// A test that needs the kernel to write core dumps into the directory of the process; where another
/// program gets them it is reported as ignored.
fn core_test(name: &str, run: impl FnOnce(&std::path::Path) + Send + 'static) -> Trial {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_there = pattern.trim() == "core";
    let trial = test(name, move || {
        let folder = support::scratch("core");
        run(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
    });
    if is_there {
        return trial;
    }
    trial
        .with_kind(format!("needs core_pattern core, not {}", pattern.trim()))
        .with_ignored_flag(true)
}

/// Lets a process dump its memory when it dies.
#[allow(unsafe_code)]
fn set_core_limit(pid: u32) {
    let limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a limit to be read, and no place for the old one.
    let result = unsafe {
        libc::prlimit(
            pid as libc::pid_t,
            libc::RLIMIT_CORE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(result, 0);
}
