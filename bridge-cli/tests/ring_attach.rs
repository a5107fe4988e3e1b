//! `attach` through the rings of a program's SDK. None of it needs rights over the kernel.

mod foreign_region;
mod ring_program;
mod ring_stream;
mod support;

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use ring_program::{Program, comm, seq, tid};
use ring_stream::{attach, seqs, times_are_in_order};
use support::{Attached, bpf_test, bridge, kill, run_bridge, test, timed};

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test("every_hit_comes_once_in_order_with_its_values", || {
            for name in ["ticks 300", "locked 300"] {
                let mut program = Program::start(name);
                let attached = attach(&program, &[]);
                assert_eq!(program.ask("go"), "done");
                let ran = attached.stop(Signal::SIGINT);
                let expected: Vec<u64> = (0..300).collect();
                assert_eq!(seqs(&ran, "app:tick"), expected, "{}", ran.err);
                assert_eq!(seqs(&ran, "app:words"), expected);
                assert!(
                    ran.bodies("app:words")[7].ends_with("seq=7 a=1 b=2"),
                    "{}",
                    ran.out
                );
                assert!(ran.out.lines().all(|line| tid(line) == program.pid));
                assert_eq!(ran.row("app:tick")[..2], ["300", "300"]);
                times_are_in_order(&ran);
                program.finish();
            }
        }),
        test("it_takes_no_right_but_to_look_at_the_process", || {
            const NOBODY: u32 = 65534;
            let is_root = nix::unistd::geteuid().is_root();
            let as_nobody = |command: &mut std::process::Command| {
                use std::os::unix::process::CommandExt;
                if is_root {
                    command.uid(NOBODY).gid(NOBODY);
                }
            };
            // Somebody else cannot look into our build directory: the programs go where all can.
            let place = std::env::temp_dir().join(format!("bridge-ring-{}", std::process::id()));
            std::fs::create_dir_all(&place).unwrap();
            let copy = |from: &std::path::Path, name: &str| {
                let to = place.join(name);
                std::fs::copy(from, &to).unwrap();
                to
            };
            let app = copy(&std::env::current_exe().unwrap(), "app");
            let cli = copy(
                std::path::Path::new(env!("CARGO_BIN_EXE_bridge-cli")),
                "bridge-cli",
            );
            let mut start = std::process::Command::new(app);
            start
                .env("BRIDGE_RING_PROGRAM", "ticks 50")
                .current_dir("/");
            as_nobody(&mut start);
            let mut program = Program::spawn(&mut start);
            let mut bridge = std::process::Command::new(cli);
            let pid = program.pid.to_string();
            bridge.args(["attach", "-v", "-p", &pid, "-e", "app:tick"]);
            bridge.current_dir("/");
            as_nobody(&mut bridge);
            let attached = Attached::spawn(&mut bridge);
            assert_eq!(program.ask("go"), "done");
            let ran = attached.stop(Signal::SIGINT);
            std::fs::remove_dir_all(&place).unwrap();
            assert_eq!(ran.events("app:tick").len(), 50, "{}", ran.err);
            program.finish();
        }),
        test(
            "detaching_switches_off_and_the_next_bridge_finds_nothing_of_the_last",
            || {
                let mut program = Program::start("ticks 20");
                let ran = {
                    let attached = attach(&program, &[]);
                    program.ask("go");
                    attached.stop(Signal::SIGTERM)
                };
                assert_eq!(seqs(&ran, "app:tick").len(), 20);
                // Nobody wants these.
                program.ask("go");
                let attached = attach(&program, &[]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(seqs(&ran, "app:tick"), (40..60).collect::<Vec<_>>());
                program.finish();
            },
        ),
        test(
            "a_bridge_that_takes_over_at_once_wants_nothing_of_what_the_last_one_wanted",
            || {
                let mut program = Program::start("ticks 20");
                for _ in 0..if is_soak() { 100 } else { 5 } {
                    let attached = attach(&program, &[]);
                    assert!(wanted(&program) > 1);
                    attached.kill();
                    // The helper looks four times a second: mostly it has not noticed.
                    let pid = program.pid.to_string();
                    let attached =
                        Attached::start(&["-p", &pid, "-e", "app:tick", "--via", "ring"]);
                    assert_eq!(wanted(&program), 1);
                    program.ask("go");
                    let ran = attached.stop(Signal::SIGINT);
                    assert_eq!(seqs(&ran, "app:tick").len(), 20, "{}", ran.err);
                    assert_eq!(wanted(&program), 0);
                }
                program.finish();
            },
        ),
        test("a_second_bridge_is_told_who_has_the_rings", || {
            let mut program = Program::start("ticks 20");
            let attached = attach(&program, &[]);
            let second = run_bridge(&[
                "attach",
                "-p",
                &program.pid.to_string(),
                "-e",
                "app:*",
                "--via",
                "ring",
                "-T",
                "1",
            ]);
            assert_eq!(second.status, 3, "{}", second.err);
            assert!(
                second.err.contains("taken by another bridge"),
                "{}",
                second.err
            );
            program.ask("go");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(seqs(&ran, "app:tick").len(), 20);
            program.finish();
        }),
        test(
            "a_storm_of_children_costs_no_memory_and_loses_no_event",
            || {
                let mut program = Program::start("storm 400");
                let attached = attach(&program, &["--follow"]);
                let before = shared_memory();
                program.ask("go");
                let after = shared_memory();
                thread::sleep(Duration::from_millis(100));
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (0..400).step_by(10).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                // A region a child would be megabytes; other programs of this machine may take some meanwhile.
                assert!(after < before + (16 << 20), "{before} {after}");
                program.finish();
            },
        ),
        test(
            "a_program_that_becomes_another_one_ends_in_order_and_is_found_again",
            || {
                let mut program = Program::start("exec ticks 10");
                let attached = attach(&program, &[]);
                program.tell("go");
                program.await_ready();
                // It is found within a quarter of a second; what happens before is not wanted by anybody.
                let start = Instant::now();
                while Instant::now() < start + Duration::from_millis(1500) {
                    assert_eq!(program.ask("go"), "done");
                    thread::sleep(Duration::from_millis(50));
                }
                let ran = attached.stop(Signal::SIGINT);
                let seqs = seqs(&ran, "app:words");
                assert!(seqs.len() > 50, "{}\n{}", ran.out, ran.err);
                assert_eq!(
                    ran.bodies("app:tick")[..10]
                        .iter()
                        .map(|body| seq(body))
                        .collect::<Vec<_>>(),
                    (0..10).collect::<Vec<_>>()
                );
                times_are_in_order(&ran);
                program.finish();
            },
        ),
        test(
            "a_process_that_initialises_itself_later_is_waited_for",
            || {
                let mut program = Program::start("late 25");
                let attached = attach(&program, &[]);
                assert_eq!(program.ask("go"), "done");
                let ran = attached.stop(Signal::SIGINT);
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (0..25).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
                program.finish();
            },
        ),
        timed(test("a_command_waits_for_us_with_its_first_event", || {
            for via in ["ring", "auto"] {
                let mut bridge = bridge();
                bridge
                    .args(["attach", "-v", "-e", "app:*", "--via", via, "--"])
                    .arg(std::env::current_exe().unwrap())
                    .env("BRIDGE_RING_PROGRAM", "at_once 200");
                let ran = Attached::spawn(&mut bridge).finish();
                assert_eq!(ran.status, 0, "{}", ran.err);
                let expected: Vec<u64> = (0..200).collect();
                assert_eq!(seqs(&ran, "app:tick"), expected, "{}\n{}", ran.out, ran.err);
                assert!(!ran.out.contains("(late)"), "{}", ran.out);
            }
        })),
        test("threads_that_live_for_one_event_keep_their_names", || {
            let mut program = Program::start("threads 40");
            let attached = attach(&program, &[]);
            program.ask("go");
            let ran = attached.stop(Signal::SIGINT);
            let names: Vec<String> = ran
                .events("app:words")
                .iter()
                .map(|line| comm(line).to_owned())
                .collect();
            let expected: Vec<String> = (0..40).map(|seq| format!("short-{seq}")).collect();
            assert_eq!(names, expected);
            program.finish();
        }),
        test("a_thread_and_a_cpu_can_be_picked", || {
            let mut program = Program::start("ticks 10");
            let attached = attach(&program, &["-t", &program.pid.to_string()]);
            program.ask("go");
            assert_eq!(seqs(&attached.stop(Signal::SIGINT), "app:tick").len(), 10);
            program.finish();
        }),
        bpf_test(
            "every_system_call_stands_between_the_events_around_it",
            || {
                let count = if is_soak() { 200_000 } else { 4_000 };
                let mut program = Program::start(&format!("between {count}"));
                let pid = program.pid.to_string();
                let attached = Attached::start(&[
                    "-p",
                    &pid,
                    "--via",
                    "ring",
                    "-e",
                    "app:words",
                    "-e",
                    "syscalls:sys_enter_getppid",
                ]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                let names: Vec<&str> = ran
                    .out
                    .lines()
                    .map(|line| {
                        if line.contains("app:words") {
                            "event"
                        } else {
                            "call"
                        }
                    })
                    .collect();
                assert_eq!(names.len(), 3 * count, "{}", ran.err);
                let wrong = names
                    .chunks(3)
                    .position(|three| three != ["event", "call", "event"]);
                assert_eq!(
                    wrong,
                    None,
                    "{:?}",
                    wrong.map(|at| ran.out.lines().skip(3 * at).take(6).collect::<Vec<_>>())
                );
                assert_eq!(
                    seqs(&ran, "app:words"),
                    (0..2 * count as u64).collect::<Vec<_>>()
                );
                assert!(!ran.out.contains("(late)"));
                program.finish();
            },
        ),
        bpf_test(
            "from_the_first_event_on_the_calls_between_two_events_are_there",
            || {
                for via in ["ring", "usdt"] {
                    let mut program = Program::start("calling");
                    let pid = program.pid.to_string();
                    let call = "syscalls:sys_enter_getppid";
                    let ran = Attached::start(&[
                        "-p",
                        &pid,
                        "--via",
                        via,
                        "-e",
                        "app:words",
                        "-e",
                        call,
                        "-T",
                        "0.5",
                    ])
                    .finish();
                    program.kill();
                    let is_event = |line: &str| line.contains("app:words");
                    // They come after the calls and go before them, and maybe between the two.
                    let all: Vec<&str> = ran.out.lines().collect();
                    let first = all
                        .iter()
                        .position(|line| is_event(line))
                        .expect("an event");
                    let last = all
                        .iter()
                        .rposition(|line| is_event(line))
                        .expect("an event");
                    let lines = &all[first..=last];
                    let begins_late = seq(lines[0]) % 2 == 1;
                    let lines = &lines[usize::from(begins_late)..];
                    assert!(lines.len() > 100, "{via}: {}", ran.err);
                    let calls: Vec<bool> = lines.iter().map(|line| line.contains(call)).collect();
                    let wrong = calls
                        .chunks_exact(3)
                        .position(|three| three != [false, true, false]);
                    let shown = |at: usize| lines[3 * at..].iter().take(4).collect::<Vec<_>>();
                    assert_eq!(wrong, None, "{via}: {:?}", wrong.map(shown));
                }
            },
        ),
        bpf_test(
            "a_command_that_makes_no_rings_is_attached_by_its_usdt_probes",
            || {
                let mut bridge = bridge();
                bridge
                    .args(["attach", "-v", "-e", "app:*", "--"])
                    .arg(std::env::current_exe().unwrap())
                    .env("BRIDGE_RING_PROGRAM", "never 30");
                let ran = Attached::spawn(&mut bridge).finish();
                assert_eq!(
                    seqs(&ran, "app:tick"),
                    (0..30).collect::<Vec<_>>(),
                    "{}",
                    ran.err
                );
            },
        ),
        namespace_test(
            "a_process_in_other_namespaces_has_our_numbers_and_our_time",
            || {
                let mut command = std::process::Command::new("unshare");
                command
                    .args([
                        "--pid",
                        "--mount",
                        "--time",
                        "--monotonic",
                        "100000",
                        "--fork",
                        "--mount-proc",
                    ])
                    .arg(std::env::current_exe().unwrap())
                    .env("BRIDGE_RING_PROGRAM", "threads 20");
                let mut program = Program::spawn(&mut command);
                assert_eq!(program.pid, 1, "it is the first of its namespace");
                program.pid = program.only_child();
                let attached = attach(&program, &[]);
                program.ask("go");
                let ran = attached.stop(Signal::SIGINT);
                let lines = ran.events("app:words");
                assert_eq!(lines.len(), 20, "{}", ran.err);
                let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
                let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
                for (seq, line) in lines.iter().enumerate() {
                    assert_eq!(comm(line), format!("short-{seq}"));
                    let time = line.split("] ").nth(1).unwrap().trim();
                    let time: f64 = time.split(':').next().unwrap().parse().unwrap();
                    assert!((time - uptime).abs() < 60.0, "{time} {uptime}");
                }
                let mut program = program;
                program.kill();
            },
        ),
        test("what_waits_in_large_rings_takes_little_memory_here", || {
            let mut command = ring_program::command("flood 1500000");
            command.env("TRACEBRAID_RING", "64M");
            let mut program = Program::spawn(&mut command);
            let attached = attach(&program, &["-o", "/dev/null"]);
            // The bridge does not run while the rings fill.
            kill(attached.pid, Signal::SIGSTOP);
            program.ask("go");
            kill(attached.pid, Signal::SIGCONT);
            let bridge = attached.pid;
            let mut most = 0;
            let end = Instant::now() + Duration::from_millis(500);
            while Instant::now() < end {
                most = most.max(anonymous_memory(bridge));
                thread::sleep(Duration::from_millis(2));
            }
            let ran = attached.stop(Signal::SIGINT);
            let row = ran.row("app:words");
            assert_eq!(
                (row[0].as_str(), row[3].as_str()),
                ("1500000", "0"),
                "{}",
                ran.err
            );
            // All events at once would be some hundred megabytes.
            assert!(most < 128 << 20, "{most} bytes");
            program.finish();
        }),
        test("the_summary_says_what_the_bridge_took", || {
            let program = Program::start("ticks 10");
            let ran = attach(&program, &["-T", "0.1"]).finish();
            assert!(ran.err.contains(" s of CPU, "), "{}", ran.err);
        }),
    ]);
}

fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

/// How many events are wanted of a program's rings.
fn wanted(program: &Program) -> usize {
    use std::os::unix::fs::FileExt;
    use tracebraid_wire::region;
    let mut bytes = vec![0; region::MAX_EVENTS + 1];
    let file = foreign_region::Region::of(program.pid).file;
    file.read_exact_at(&mut bytes, region::WANTED as u64)
        .unwrap();
    bytes.iter().filter(|&&byte| byte != 0).count()
}

/// A test that needs namespaces of its own; where they cannot be made it is reported as ignored.
fn namespace_test(name: &str, run: impl FnOnce() + Send + 'static) -> libtest_mimic::Trial {
    let tried = std::process::Command::new("unshare")
        .args([
            "--pid",
            "--mount",
            "--time",
            "--fork",
            "--mount-proc",
            "true",
        ])
        .output();
    match tried {
        Ok(tried) if tried.status.success() => test(name, run),
        _ => test(name, run)
            .with_kind("needs unshare and the rights for it")
            .with_ignored_flag(true),
    }
}

/// Bytes of memory of a process that are no file's.
fn anonymous_memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    kilobytes.map_or(0, |it| it.parse::<u64>().unwrap() * 1024)
}

/// Bytes of shared memory on this machine.
fn shared_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Shmem:"))
        .unwrap();
    let kilobytes: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kilobytes * 1024
}
