//! `--filter` behind an `-e` of the kernel's events, of USDT probes of other programs, and of libraries that
//! come later: evaluated by the bridge.

mod support;

use nix::sys::signal::Signal;
use support::{Attached, Ran, Target, bpf_test, build, timed};

/// The value of `name=` in a body.
fn number(body: &str, name: &str) -> i64 {
    let mark = format!("{name}=");
    let word = body.split(' ').find_map(|word| word.strip_prefix(&mark));
    let word = word.unwrap_or_else(|| panic!("no {name} in {body}"));
    word.parse().unwrap_or_else(|_| panic!("{body}"))
}

/// Events, hits and what was filtered out; they add up.
#[track_caller]
fn row(ran: &Ran, event: &str) -> (u64, u64, u64) {
    let row = ran.row(event);
    let [events, hits, filtered, lost] =
        [0, 1, 2, 4].map(|column: usize| row[column].parse::<u64>().unwrap());
    assert_eq!(events + filtered + lost, hits, "{}", ran.err);
    assert_eq!(events, ran.events(event).len() as u64, "{}", ran.err);
    assert!(!ran.err.contains("unaccounted"), "{}", ran.err);
    (events, hits, filtered)
}

fn attached_to(target: &Target, args: &[&str]) -> Ran {
    let pid = target.pid.to_string();
    let attached = Attached::start(&[&["-p", &pid], args].concat());
    target.go();
    attached.finish()
}

fn main() {
    let trials = vec![
        bpf_test("scheduler_events_are_filtered_by_their_fields", || {
            let target = Target::start("ticker", &["100", "1000"]);
            let pid = i64::from(target.pid);
            let filter = format!("prev_pid == {pid} && prev_comm == 'ticker' && prev_state & 0xff");
            let args = ["-e", "sched:sched_switch", "--filter", &filter];
            let ran = attached_to(&target, &args);
            let (events, _, filtered) = row(&ran, "sched:sched_switch");
            // It slept a hundred times, and was woken as often.
            assert!(events >= 100 && filtered >= 50, "{}", ran.err);
            for body in ran.bodies("sched:sched_switch") {
                assert_eq!(number(&body, "prev_pid"), pid);
            }
        }),
        bpf_test("a_cpu_and_a_thread_can_be_named_of_every_event", || {
            let target = Target::start("ticker", &["100", "1000"]);
            let pid = target.pid.to_string();
            let filter = format!("common_pid == {pid} && CPU & CPUS{{0}} && COMM ~ 'tick*'");
            let args = ["-e", "sched:sched_switch", "--filter", &filter];
            let ran = attached_to(&target, &args);
            row(&ran, "sched:sched_switch");
            for line in ran.events("sched:sched_switch") {
                assert!(line.contains(&format!("ticker-{pid} ")), "{line}");
                assert!(line.contains(" [000] "), "{line}");
            }
        }),
        bpf_test(
            "system_calls_are_filtered_by_what_is_printed_of_them",
            || {
                let target = Target::start("calls", &["50"]);
                let ran = attached_to(
                    &target,
                    &[
                        "-e",
                        "syscalls:sys_enter_write",
                        "--filter",
                        "count == 1 && fd > 2",
                        "-e",
                        "syscalls:sys_exit_write",
                        "--filter",
                        "ret < 0",
                        "-e",
                        "syscalls:sys_*_getppid",
                        "-e",
                        "demo:before",
                        "--filter",
                        "arg0 > 40",
                    ],
                );
                assert_eq!(row(&ran, "syscalls:sys_enter_write").0, 100, "{}", ran.err);
                assert_eq!(row(&ran, "syscalls:sys_exit_write").0, 0, "{}", ran.err);
                assert_eq!(row(&ran, "syscalls:sys_enter_getppid"), (50, 50, 0));
                assert_eq!(row(&ran, "demo:before"), (10, 50, 40));
            },
        ),
        bpf_test("a_filter_may_be_for_all_system_calls_at_once", || {
            let target = Target::start("calls", &["50"]);
            let ran = attached_to(
                &target,
                &[
                    "-e",
                    "syscalls:sys_exit_*",
                    "--filter",
                    "ret == 1 || ret < 0",
                    "-e",
                    "syscalls:sys_exit_getppid",
                    "--filter",
                    "ret == -1",
                ],
            );
            let ones = ran.bodies("syscalls:sys_exit_write");
            assert_eq!(ones, vec!["ret=1"; 100], "{}", ran.err);
            assert_eq!(ran.events("syscalls:sys_exit_getppid").len(), 0);
            let all: Vec<String> = ran.row("syscalls:sys_exit");
            assert!(all[2].parse::<u64>().unwrap() >= 50, "{}", ran.err);
            assert!(!ran.err.contains("unaccounted"), "{}", ran.err);
        }),
        bpf_test(
            "any_kernel_tracepoint_is_filtered_by_numbers_and_text",
            || {
                let (sender, receiver) = std::sync::mpsc::channel::<()>();
                let (tell, tid) = std::sync::mpsc::channel();
                let thread = std::thread::spawn(move || {
                    tell.send(nix::unistd::gettid().as_raw()).unwrap();
                    receiver.recv().unwrap();
                    for name in [c"red one", c"red two", c"blue", c"red three"] {
                        nix::sys::prctl::set_name(name).unwrap();
                    }
                });
                let tid = tid.recv().unwrap();
                let filter = format!("pid == {tid} && newcomm ~ 'red*' && !(oldcomm == 'blue')");
                let args = ["-a", "-e", "task:task_rename", "--filter", &filter];
                let attached = Attached::start(&args);
                sender.send(()).unwrap();
                thread.join().unwrap();
                let ran = attached.stop(Signal::SIGINT);
                let (events, _, filtered) = row(&ran, "task:task_rename");
                assert!(events == 2 && filtered >= 2, "{}", ran.err);
                let bodies = ran.bodies("task:task_rename");
                assert!(
                    bodies[0].contains("newcomm=red one") && bodies[1].contains("newcomm=red two"),
                    "{bodies:?}"
                );
            },
        ),
        bpf_test(
            "arguments_of_usdt_probes_are_compared_by_their_sign",
            || {
                let target = Target::start("ticker", &["20", "100"]);
                let args = [
                    "-e",
                    "demo:tick",
                    "--filter",
                    "arg1 < -15 && arg0 & 1",
                    "--count",
                ];
                let pid = target.pid.to_string();
                let attached = Attached::start(&[&["-p", &pid], &args[..]].concat());
                target.go();
                let ran = attached.finish();
                assert_eq!(ran.row("demo:tick")[..3], ["2", "20", "18"], "{}", ran.err);
                assert_eq!(ran.out, "");
            },
        ),
        timed(bpf_test(
            "a_library_that_comes_later_is_filtered_each_time",
            || {
                let library = build("plug.so").display().to_string();
                let target = Target::start("loader", &[&library]);
                let args = ["-e", "usdt:*:demo:plug", "--filter", "arg0 >= 2"];
                let ran = attached_to(&target, &args);
                // Of three calls the first does not pass; the library is loaded twice.
                let bodies = ran.bodies("demo:plug");
                assert!(bodies.len() >= 2, "{}", ran.err);
                assert!(bodies.iter().all(|body| body != "arg0=1"), "{bodies:?}");
                let (events, _, filtered) = row(&ran, "demo:plug");
                assert_eq!(events, 2 * filtered, "{}", ran.err);
            },
        )),
        bpf_test(
            "a_library_that_lacks_the_field_is_left_out_and_never_unfiltered",
            || {
                let library = build("plug.so").display().to_string();
                let target = Target::start("loader", &[&library]);
                let args = [
                    "-e",
                    "usdt:*:demo:*",
                    "--filter",
                    "arg0 >= 0",
                    "-e",
                    "usdt:*:demo:plug",
                    "--filter",
                    "arg7 >= 2",
                ];
                let ran = attached_to(&target, &args);
                assert!(ran.err.contains("-e usdt:*:demo:plug: the filter cannot be used for demo:plug: Field not found"), "{}", ran.err);
                // The other -e asks for it too.
                assert_eq!(ran.events("demo:plug").len(), 6, "{}", ran.err);
                let target = Target::start("loader", &[&library, "700"]);
                let ran = attached_to(&target, &args[4..]);
                assert!(
                    ran.err.contains("is left out (demo:plug has arg0 ("),
                    "{}",
                    ran.err
                );
                assert_eq!(ran.out, "", "{}", ran.err);
            },
        ),
    ];
    support::run(trials)
}
