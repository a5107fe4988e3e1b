//! `stat`: hits are counted, exactly, and what the kernel kept from a probe is told beside them.

mod ring_program;
mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use ring_program::Program;
use serde_json::Value;
use support::{Attached, Ran, Target, bpf_test, bridge, build, run_bridge, test};

/// The JSON lines of a text that are of counts.
fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// What was counted in all, as the last line says it.
#[track_caller]
fn total(text: &str) -> Value {
    let last = lines(text).pop().expect("a line");
    assert!(last["total"].as_f64().expect("the total") > 0.0, "{last}");
    last
}

/// The row of a probe.
#[track_caller]
fn row<'a>(line: &'a Value, probe: &str) -> &'a Value {
    let rows = line["probes"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["probe"] == probe);
    row.unwrap_or_else(|| panic!("no {probe} in {line}"))
}

#[track_caller]
fn hits(line: &Value, probe: &str) -> u64 {
    row(line, probe)["hits"].as_u64().expect("hits")
}

/// What `alarms COUNT` counted itself: signals and calls.
#[track_caller]
fn alarms(ran: &Ran) -> (u64, u64) {
    let line = ran
        .out
        .lines()
        .find_map(|line| line.strip_prefix("ALARMS "));
    let line = line.unwrap_or_else(|| panic!("{}{}", ran.out, ran.err));
    let (signals, calls) = line.split_once(' ').expect("two numbers");
    (signals.parse().unwrap(), calls.parse().unwrap())
}

/// `stat ARGS -- alarms COUNT`: the last line, and what the program counted.
fn count_alarms(args: &[&str], count: u32) -> (Value, (u64, u64), Ran) {
    let target = build("alarms").display().to_string();
    let count = count.to_string();
    let all = [
        &["stat", "--format", "json"],
        args,
        &["--", &target, &count],
    ]
    .concat();
    let ran = run_bridge(&all);
    assert_eq!(ran.status, 4, "{}{}", ran.out, ran.err);
    (total(&ran.out), alarms(&ran), ran)
}

fn uprobe(function: &str) -> String {
    format!("p:{function} {}:{function}", build("alarms").display())
}

/// A program that hits its tracepoints 40 times a step.
fn counts_of_rings(args: &[&str], steps: usize) -> Value {
    let mut program = Program::start("ticks 40");
    let pid = program.pid.to_string();
    let attached = Attached::start_stat(&[&["-p", &pid, "--via", "ring"], args].concat());
    for _ in 0..steps {
        program.ask("go");
    }
    let ran = attached.stop(Signal::SIGINT);
    assert_eq!(ran.status, 0, "{}", ran.err);
    program.finish();
    total(&ran.out)
}

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "a_program_counts_the_hits_of_its_tracepoints_itself",
            || {
                let counted = counts_of_rings(&["-e", "app:tick", "-e", "app:words"], 3);
                for probe in ["app:tick", "app:words"] {
                    let expected = serde_json::json!({
                        "probe": probe, "hits": 120, "misses": 0, "lost": 0, "filtered": 0,
                    });
                    assert_eq!(*row(&counted, probe), expected);
                }
            },
        ),
        test(
            "more_hits_than_any_ring_holds_are_counted_without_a_loss",
            || {
                const MANY: u64 = 1_000_000;
                let mut program = Program::start(&format!("ticks {MANY}"));
                let pid = program.pid.to_string();
                let attached = Attached::start_stat(&["-p", &pid, "--via", "ring", "-e", "app:*"]);
                // Nobody reads meanwhile: had they gone to the rings, most would have found them full.
                support::kill(attached.pid, Signal::SIGSTOP);
                program.ask("go");
                support::kill(attached.pid, Signal::SIGCONT);
                let ran = attached.stop(Signal::SIGINT);
                program.finish();
                let tick = row(&total(&ran.out), "app:tick").clone();
                let counted = (&tick["hits"], &tick["lost"]);
                assert_eq!(counted, (&MANY.into(), &0.into()), "{}", ran.err);
            },
        ),
        test(
            "hits_that_a_filter_refuses_are_told_from_those_that_pass",
            || {
                let counted = counts_of_rings(&["-e", "app:tick", "--filter", "seq < 10"], 1);
                let tick = row(&counted, "app:tick");
                assert_eq!((&tick["hits"], &tick["filtered"]), (&40.into(), &30.into()));
            },
        ),
        test("a_table_lists_probes_that_were_not_hit", || {
            let mut program = Program::start("ticks 40");
            let pid = program.pid.to_string();
            let args = [
                "stat",
                "-v",
                "-p",
                &pid,
                "--via",
                "ring",
                "-e",
                "app:tick",
                "-e",
                "app:kinds",
            ];
            let attached = Attached::spawn(bridge().args(args));
            program.ask("go");
            let ran = attached.stop(Signal::SIGTERM);
            program.finish();
            let cells: Vec<Vec<&str>> = ran
                .out
                .lines()
                .map(|line| line.split_whitespace().collect())
                .collect();
            assert_eq!(cells[0], ["hits", "misses", "lost", "ns/run", "probe"]);
            assert_eq!(
                cells[1..],
                [
                    ["0", "0", "0", "-", "app:kinds"],
                    ["40", "0", "0", "-", "app:tick"],
                ]
            );
            assert!(ran.err.contains("1 probes without a hit"), "{}", ran.err);
        }),
        bpf_test(
            "a_command_is_counted_from_its_first_hit_and_its_status_passed_on",
            || {
                let ticker = build("ticker").display().to_string();
                let ran = run_bridge(&[
                    "stat",
                    "--format",
                    "json",
                    "-e",
                    "demo:tick",
                    "--",
                    &ticker,
                    "50",
                    "-1",
                    "at-once",
                ]);
                assert_eq!(ran.status, 3, "{}", ran.err);
                assert_eq!(hits(&total(&ran.out), "demo:tick"), 50, "{}", ran.out);
            },
        ),
        bpf_test("intervals_add_up_to_the_total", || {
            let ticker = build("ticker").display().to_string();
            let ran = run_bridge(&[
                "stat",
                "--format",
                "json",
                "-I",
                "50",
                "-e",
                "demo:tick",
                "--",
                &ticker,
                "100",
                "3000",
                "at-once",
            ]);
            let mut all = lines(&ran.out);
            let total = all.pop().unwrap();
            assert_eq!(hits(&total, "demo:tick"), 100, "{}", ran.out);
            assert!(all.len() >= 3, "{}", ran.out);
            let sum: u64 = all.iter().map(|line| hits(line, "demo:tick")).sum();
            // What came after the last interval stands in the total alone.
            assert!(sum <= 100 && all.iter().any(|line| hits(line, "demo:tick") > 0));
            for pair in all.windows(2) {
                assert_eq!(pair[0]["to"], pair[1]["from"]);
            }
        }),
        bpf_test("it_ends_by_itself_after_the_seconds_it_was_given", || {
            let target = Target::start("ticker", &["1000000", "1000", "at-once"]);
            let pid = target.pid.to_string();
            let ran = run_bridge(&[
                "stat",
                "--format",
                "json",
                "-p",
                &pid,
                "-T",
                "0.3",
                "-e",
                "demo:tick",
            ]);
            assert_eq!(ran.status, 0, "{}", ran.err);
            assert!(hits(&total(&ran.out), "demo:tick") > 0, "{}", ran.out);
        }),
        bpf_test("each_kind_of_probe_counts_what_the_program_counts", || {
            let called = uprobe("called");
            let args = [
                "-e",
                "syscalls:sys_*_getppid",
                "-e",
                &called,
                "-e",
                "sched:sched_switch",
            ];
            let (counted, (_, calls), ran) = count_alarms(&args, 50);
            for probe in [
                "syscalls:sys_enter_getppid",
                "syscalls:sys_exit_getppid",
                "uprobes:called",
            ] {
                assert_eq!(hits(&counted, probe), calls, "{probe}: {}", ran.out);
                assert_eq!(row(&counted, probe)["lost"], 0);
            }
        }),
        bpf_test(
            "what_the_kernel_filters_it_counts_and_does_not_record",
            || {
                const MANY: u64 = 100_000;
                let mut program = Program::start(&format!("ticks {MANY}"));
                let pid = program.pid.to_string();
                let filter = ["-e", "app:tick", "--filter", "seq >= 10"];
                let args = [&["-p", &pid, "--via", "usdt"], &filter[..]].concat();
                let attached = Attached::start_stat(&args);
                // Nobody reads meanwhile, and a ring has room for a few.
                support::kill(attached.pid, Signal::SIGSTOP);
                program.ask("go");
                support::kill(attached.pid, Signal::SIGCONT);
                let ran = attached.stop(Signal::SIGINT);
                program.finish();
                let tick = row(&total(&ran.out), "app:tick").clone();
                let counted = (&tick["hits"], &tick["filtered"], &tick["lost"]);
                let expected = (&MANY.into(), &10.into(), &0.into());
                assert_eq!(counted, expected, "{}", ran.err);
            },
        ),
        bpf_test("each_kind_of_probe_counts_what_its_filter_refuses", || {
            let target = build("alarms").display().to_string();
            let called = format!("p:called {target}:called n=%di:s64");
            let getppid = format!("id == {}", libc::SYS_getppid);
            let (counted, (_, calls), ran) = count_alarms(
                &[
                    "-e",
                    &called,
                    "--filter",
                    "n < 10",
                    "-e",
                    "raw_syscalls:sys_enter",
                    "--filter",
                    &getppid,
                    "-e",
                    "syscalls:sys_exit_getppid",
                    "--filter",
                    "ret < 0",
                    "-e",
                    "sched:sched_switch",
                    "--filter",
                    "prev_prio < 0",
                    "-e",
                    "syscalls:sys_enter_getppid",
                ],
                50,
            );
            let passed = |probe| {
                let row = row(&counted, probe);
                assert_eq!(row["lost"], 0, "{probe}: {}", ran.out);
                row["hits"].as_u64().unwrap() - row["filtered"].as_u64().unwrap()
            };
            assert_eq!(passed("uprobes:called"), 10, "{}", ran.out);
            assert_eq!(passed("raw_syscalls:sys_enter"), calls, "{}", ran.out);
            assert_eq!(passed("syscalls:sys_exit_getppid"), 0, "{}", ran.out);
            assert_eq!(passed("sched:sched_switch"), 0, "{}", ran.out);
            assert_eq!(passed("syscalls:sys_enter_getppid"), calls, "{}", ran.out);
            for probe in ["uprobes:called", "syscalls:sys_exit_getppid"] {
                assert_eq!(hits(&counted, probe), calls, "{probe}: {}", ran.out);
            }
        }),
        bpf_test(
            "a_program_of_the_kernel_has_its_cost_beside_its_hits",
            || {
                let called = uprobe("called");
                let (counted, (_, calls), ran) = count_alarms(&["-e", &called], 20);
                let called_row = row(&counted, "uprobes:called");
                match called_row["runs"].as_u64() {
                    Some(runs) => {
                        assert!(runs >= calls, "{}", ran.out);
                        assert!(called_row["run_ns"].as_u64().unwrap() > runs, "{}", ran.out);
                    }
                    // Without CAP_SYS_ADMIN, and before 5.8.
                    None => assert!(ran.err.contains("run times"), "{}", ran.err),
                }
                let (counted, _, ran) = count_alarms(&["--no-cost", "-e", &called], 20);
                assert!(
                    row(&counted, "uprobes:called")["runs"].is_null(),
                    "{}",
                    ran.out
                );
            },
        ),
        bpf_test(
            "what_the_kernel_keeps_from_a_probe_is_counted_as_missed",
            || {
                // An expiry that interrupts another program on its CPU is not seen by the probe of expiries. The
                // kernel's own trace sees all of them, also those of other programs.
                let trace = Trace::begin("timer/itimer_expire");
                let args = ["-a", "-e", "raw_syscalls:*", "-e", "timer:itimer_expire"];
                let (counted, (signals, _), ran) = count_alarms(&args, 400);
                let all = trace.end();
                let expiry = row(&counted, "timer:itimer_expire");
                // Those that interrupt the bridge are run, and are no hits.
                let seen = expiry["runs"].as_u64().expect("they are measured");
                assert!(expiry["hits"].as_u64() <= Some(seen), "{}", ran.out);
                match expiry["misses"].as_u64() {
                    Some(missed) => {
                        assert!(missed > 0, "{}", ran.out);
                        // Of a few in a thousand perf lets go before it comes to programs, uncounted.
                        let known = signals - signals / 50..=all;
                        assert!(known.contains(&(seen + missed)), "{known:?}: {}", ran.out);
                    }
                    None => assert!(before_6_7() && seen <= all, "{}", ran.out),
                }
            },
        ),
        bpf_test("the_summary_of_attach_has_hits_and_misses_too", || {
            let target = build("alarms").display().to_string();
            let ran = run_bridge(&[
                "attach",
                "--count",
                "-a",
                "-e",
                "raw_syscalls:*",
                "-e",
                "timer:itimer_expire",
                "--",
                &target,
                "400",
            ]);
            alarms(&ran);
            let row = ran.row("timer:itimer_expire");
            let seen: u64 = row[1].parse().unwrap();
            match row[2].parse::<u64>() {
                Ok(missed) => {
                    assert!(missed > 0 && seen > 0, "{}", ran.err);
                    let told = format!("(recursion: {missed}");
                    assert!(ran.err.contains(&told), "{}", ran.err);
                }
                Err(_) => assert!(row[2] == "?" && before_6_7(), "{}", ran.err),
            }
        }),
        bpf_test("returns_that_the_kernel_lets_go_are_not_known", || {
            let target = build("alarms").display().to_string();
            let returns = format!("r:deep_return {target}:deep");
            let (counted, ..) = count_alarms(&["-e", &returns, "-e", &uprobe("deep")], 1);
            let entry = row(&counted, "uprobes:deep");
            assert_eq!((&entry["hits"], &entry["misses"]), (&100.into(), &0.into()));
            let returned = row(&counted, "uprobes:deep_return");
            assert_eq!(
                (&returned["hits"], &returned["misses"]),
                (&64.into(), &Value::Null)
            );
        }),
        bpf_test(
            "an_output_of_its_own_is_written_and_a_bad_one_refused_before_anything_runs",
            || {
                let file = support::scratch("stat").join("counts");
                let mark = support::scratch("stat").join("mark");
                let line = format!("touch {}", mark.display());
                let run = |file: &Path| {
                    run_bridge(&[
                        "stat",
                        "-e",
                        "sched:sched_switch",
                        "-o",
                        file.to_str().unwrap(),
                        "--",
                        "/bin/sh",
                        "-c",
                        &line,
                    ])
                };
                let refused = run(&file.join("below"));
                assert!(refused.err.contains("cannot create"), "{}", refused.err);
                assert!(!mark.exists());
                let ran = run(&file);
                assert_eq!((ran.status, ran.out.as_str()), (0, ""), "{}", ran.err);
                let written = std::fs::read_to_string(&file).unwrap();
                assert!(written.contains("sched:sched_switch"), "{written}");
            },
        ),
        bpf_test("a_reader_that_goes_away_ends_it", || {
            let mut child = bridge()
                .args(["stat", "-I", "20", "-a", "-e", "sched:sched_switch"])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            drop(child.stdout.take());
            let end = std::time::Instant::now() + support::LONG;
            while child.try_wait().unwrap().is_none() {
                assert!(std::time::Instant::now() < end, "it goes on");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(child.wait().unwrap().success());
        }),
    ]);
}

/// The kernel's own trace of an event, in an instance of this process's own.
struct Trace(PathBuf);

impl Trace {
    fn begin(event: &str) -> Trace {
        bridge::mount::ensure_tracefs().expect("tracefs");
        let name = format!("tracebraid-{}", std::process::id());
        let trace = Trace(Path::new("/sys/kernel/tracing/instances").join(name));
        std::fs::create_dir(&trace.0).unwrap();
        std::fs::write(trace.0.join("events").join(event).join("enable"), "1").unwrap();
        trace
    }

    /// How many there were.
    fn end(self) -> u64 {
        let text = std::fs::read_to_string(self.0.join("trace")).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).count() as u64
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // It is empty of everything that could hold it.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Kernels that do not count what their guard keeps from tracepoints' programs.
fn before_6_7() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (6, 7)
}
