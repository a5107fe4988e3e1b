//! Every wrong request has its own exit status and a message that names what is wrong; none leaves
//! anything behind.

mod support;

use std::fs;
use std::process::Command;

use support::{Ran, Target, bpf_test, bridge, build, run_bridge, scratch, test};

/// Exit statuses of `docs/cli.md`.
mod status {
    pub(crate) const USAGE: i32 = 2;
    pub(crate) const TARGET: i32 = 3;
    pub(crate) const BINARY: i32 = 4;
    pub(crate) const NO_MATCH: i32 = 5;
    pub(crate) const RIGHTS: i32 = 6;
    pub(crate) const OUTPUT: i32 = 8;
}

#[track_caller]
fn refused(ran: &Ran, status: i32, words: &[&str]) {
    assert_eq!(ran.status, status, "{}", ran.err);
    assert_eq!(ran.out, "", "nothing is printed for a refused request");
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not in:\n{}", ran.err);
    }
    assert!(
        !ran.err.contains('\x1b') && !ran.err.contains("panicked"),
        "{}",
        ran.err
    );
}

/// Runs the bridge as another user, who has no rights.
fn run_without_rights(args: &[&str]) -> Ran {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--inh-caps=-all"]);
    command.arg("--bounding-set=-all");
    command.arg(bridge().get_program()).args(args);
    Ran::from(command.output().unwrap())
}

fn main() {
    let trials = vec![
        test("a_pid_that_is_not_there_is_named", || {
            let mut child = Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            let pid = child.id().to_string();
            refused(
                &run_bridge(&["attach", "-p", &pid, "-T", "1"]),
                status::TARGET,
                &[&pid, "no process"],
            );
            refused(
                &run_bridge(&["attach", "-p", "4294967295"]),
                status::TARGET,
                &["4294967295"],
            );
            refused(&run_bridge(&["attach", "-p", "0"]), status::TARGET, &["0"]);
        }),
        test("a_kernel_thread_is_refused_as_what_it_is", || {
            refused(
                &run_bridge(&["attach", "-p", "2", "-T", "1"]),
                status::TARGET,
                &["thread of the kernel"],
            );
        }),
        test(
            "a_thread_that_is_no_process_is_refused_with_its_process",
            || {
                let (sender, receiver) = std::sync::mpsc::channel();
                let (_keep, wait) = std::sync::mpsc::channel::<()>();
                std::thread::spawn(move || {
                    sender.send(nix::unistd::gettid().as_raw()).unwrap();
                    let _ = wait.recv();
                });
                let tid = receiver.recv().unwrap().to_string();
                let own = std::process::id().to_string();
                refused(
                    &run_bridge(&["attach", "-p", &tid, "-T", "1"]),
                    status::TARGET,
                    &["thread", &own],
                );
            },
        ),
        test("without_a_target_there_is_a_usage_error", || {
            refused(&run_bridge(&["attach"]), status::USAGE, &["-p", "-a"]);
            refused(
                &run_bridge(&["attach", "-e", "sched:*"]),
                status::USAGE,
                &["-a"],
            );
            refused(
                &run_bridge(&["attach", "-p", "1", "--", "true"]),
                status::USAGE,
                &["-p"],
            );
        }),
        test("an_unknown_format_is_refused_with_those_there_are", || {
            let target = Target::start("ticker", &["1", "1"]);
            let pid = target.pid.to_string();
            refused(
                &run_bridge(&["attach", "-p", &pid, "--format", "xml"]),
                status::USAGE,
                &["xml", "text", "json"],
            );
        }),
        test("every_malformed_selector_is_reported_in_one_go", || {
            let ran = run_bridge(&["attach", "-p", "1", "-e", "usdt:x", "-e", "a:b:c", "-e", ""]);
            refused(&ran, status::USAGE, &["usdt:x", "a:b:c", "\"\""]);
        }),
        bpf_test(
            "a_name_that_matches_nothing_brings_the_nearest_ones",
            || {
                let target = Target::start("ticker", &["1", "1"]);
                let pid = target.pid.to_string();
                let ran = run_bridge(&[
                    "attach",
                    "-p",
                    &pid,
                    "-e",
                    "demo:tik",
                    "-e",
                    "sched:sched_swich",
                    "-T",
                    "1",
                ]);
                refused(
                    &ran,
                    status::NO_MATCH,
                    &[
                        "demo:tik",
                        "demo:tick",
                        "sched:sched_swich",
                        "sched:sched_switch",
                    ],
                );
            },
        ),
        test("a_program_without_probes_says_so", || {
            let mut target = Command::new("sleep").arg("30").spawn().unwrap();
            let pid = target.id().to_string();
            let ran = run_bridge(&[
                "attach",
                "-p",
                &pid,
                "-e",
                "usdt:/bin/sleep:demo:*",
                "-T",
                "1",
            ]);
            target.kill().unwrap();
            target.wait().unwrap();
            refused(&ran, status::NO_MATCH, &["/bin/sleep", "no "]);
        }),
        test("a_file_that_is_no_binary_is_refused", || {
            let directory = scratch("bad");
            let text = directory.join("text");
            fs::write(&text, "#!/bin/sh\n").unwrap();
            let selector = format!("usdt:{}:a:b", text.display());
            refused(
                &run_bridge(&["attach", "-a", "-e", &selector, "-T", "1"]),
                status::BINARY,
                &["text"],
            );
            let missing = format!("usdt:{}/nothing:a:b", directory.display());
            refused(
                &run_bridge(&["attach", "-a", "-e", &missing, "-T", "1"]),
                status::BINARY,
                &["nothing"],
            );
            let directory = format!("usdt:{}:a:b", directory.display());
            refused(
                &run_bridge(&["attach", "-a", "-e", &directory, "-T", "1"]),
                status::BINARY,
                &[],
            );
        }),
        test("a_32_bit_binary_is_refused", || {
            // The ticker with the class byte of a 32-bit file: refused by its header alone.
            let mut bytes = fs::read(build("ticker")).unwrap();
            bytes[4] = 1;
            let path = scratch("bad").join("narrow");
            fs::write(&path, bytes).unwrap();
            let selector = format!("usdt:{}:demo:*", path.display());
            refused(
                &run_bridge(&["attach", "-a", "-e", &selector, "-T", "1"]),
                status::BINARY,
                &["narrow"],
            );
        }),
        test("a_command_that_cannot_be_started_is_refused", || {
            refused(
                &run_bridge(&["attach", "-T", "1", "--", "/no/such"]),
                status::TARGET,
                &["/no/such"],
            );
            refused(
                &run_bridge(&["attach", "-T", "1", "--", "/etc/passwd"]),
                status::TARGET,
                &["/etc/passwd"],
            );
        }),
        test("an_output_that_cannot_be_created_is_refused", || {
            let target = Target::start("ticker", &["1", "1"]);
            let pid = target.pid.to_string();
            let ran = run_bridge(&[
                "attach",
                "-p",
                &pid,
                "-o",
                "/nowhere/out",
                "-e",
                "demo:*",
                "-T",
                "1",
            ]);
            refused(&ran, status::OUTPUT, &["/nowhere/out"]);
        }),
        bpf_test("a_full_disk_ends_it_with_a_message", || {
            let target = Target::start("ticker", &["100000", "100"]);
            let pid = target.pid.to_string();
            target.go();
            let ran = run_bridge(&[
                "attach",
                "-p",
                &pid,
                "-o",
                "/dev/full",
                "-e",
                "demo:*",
                "-T",
                "10",
            ]);
            assert_eq!(ran.status, status::OUTPUT, "{}", ran.err);
            assert!(
                ran.err.contains("/dev/full") && ran.err.contains("No space left"),
                "{}",
                ran.err
            );
        }),
        bpf_test("without_rights_the_missing_one_is_named", || {
            let target = Target::start("ticker", &["1", "1"]);
            let pid = target.pid.to_string();
            let ran = run_without_rights(&["attach", "-p", &pid, "-T", "1"]);
            refused(&ran, status::RIGHTS, &["CAP_"]);
        }),
        bpf_test(
            "a_snapshot_of_a_process_that_may_not_be_looked_at_names_the_right",
            || {
                let target = Target::start("ticker", &["1", "1"]);
                let pid = target.pid.to_string();
                let ran = run_without_rights(&["snapshot", "-p", &pid]);
                refused(&ran, status::RIGHTS, &[&pid, "CAP_SYS_PTRACE"]);
            },
        ),
        test(
            "a_file_without_definitions_is_said_to_define_nothing",
            || {
                let file = scratch("probes").join("empty");
                fs::write(&file, "# nothing yet\n\n").unwrap();
                let file = file.to_str().unwrap();
                let ran = run_bridge(&["attach", "--probes", file, "-T", "1", "--", "true"]);
                refused(&ran, status::NO_MATCH, &["--probes define nothing"]);
            },
        ),
        test(
            "a_flight_recorder_of_a_program_without_rings_says_what_to_leave_out",
            || {
                let target = Target::start("ticker", &["1", "1"]);
                let pid = target.pid.to_string();
                let ran = run_bridge(&["attach", "-p", &pid, "--flight-recorder", "-T", "1"]);
                refused(&ran, status::TARGET, &["has no rings", "--flight-recorder"]);
                assert!(!ran.err.contains("--via"), "{}", ran.err);
            },
        ),
        bpf_test("each_missing_capability_is_named", || {
            let bridge = bridge().get_program().to_owned();
            let run = |drop: &str, args: &str| {
                let line = format!("{} attach {args} -T 0.2", bridge.display());
                let mut command = Command::new("capsh");
                command.args([&format!("--drop={drop}"), "--", "-c", &line]);
                Ran::from(command.output().unwrap())
            };
            let all = "-a -e sched:sched_switch";
            refused(
                &run("cap_bpf,cap_sys_admin", all),
                status::RIGHTS,
                &["CAP_BPF"],
            );
            refused(
                &run("cap_perfmon,cap_sys_admin", all),
                status::RIGHTS,
                &["CAP_PERFMON"],
            );
            // A process with more rights than ours may not be looked at.
            let init = run(
                "cap_sys_ptrace",
                &format!("-p {}", std::os::unix::process::parent_id()),
            );
            refused(&init, status::RIGHTS, &["CAP_SYS_PTRACE"]);
        }),
        bpf_test(
            "tracefs_that_is_not_mounted_is_mounted_for_the_bridge_alone",
            || {
                let script = format!(
                    "umount -a -t tracefs,debugfs; {} attach -v -a -e irq:softirq_entry -T 0.3 >&2; grep -c tracefs /proc/mounts",
                    bridge().get_program().display()
                );
                let output = Command::new("unshare")
                    .args(["-m", "sh", "-c", &script])
                    .output()
                    .unwrap();
                let err = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(err.contains("attached 1 probes"), "{err}");
                assert_eq!(
                    String::from_utf8_lossy(&output.stdout),
                    "0\n",
                    "a mount was left behind: {err}"
                );
            },
        ),
        bpf_test(
            "a_target_that_dies_while_it_is_attached_harms_nobody",
            || {
                for delay in [0, 5, 20, 60, 120] {
                    let mut target = Command::new(build("ticker"))
                        .args(["1000000", "100", "at-once"])
                        .spawn()
                        .unwrap();
                    let pid = target.id().to_string();
                    let bridge =
                        std::thread::spawn(move || run_bridge(&["attach", "-p", &pid, "-T", "5"]));
                    std::thread::sleep(std::time::Duration::from_millis(delay));
                    target.kill().unwrap();
                    target.wait().unwrap();
                    let ran = bridge.join().unwrap();
                    assert!(
                        ran.status == 0 || ran.status == status::TARGET,
                        "{}: {}",
                        ran.status,
                        ran.err
                    );
                    assert!(!ran.err.contains("panicked"), "{}", ran.err);
                }
            },
        ),
        bpf_test(
            "another_tracer_that_holds_the_probe_without_its_semaphore_is_named",
            || {
                let path = build("ticker").display().to_string();
                let listed = run_bridge(&["list", "-v", &path, "demo:guarded"]).out;
                let offset = listed
                    .split("offset ")
                    .nth(1)
                    .and_then(|rest| rest.split(')').next())
                    .unwrap();
                // gdb and older tools do the same: a uprobe at the address, and the semaphore left alone.
                let events = "/sys/kernel/tracing/uprobe_events";
                let script = format!(
                    "set -e; mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing\n\
                 echo 'p:bridge_test/guarded {path}:{offset}' >> {events}\n\
                 on=/sys/kernel/tracing/events/bridge_test/guarded/enable; echo 1 > $on\n\
                 trap 'echo 0 > $on; echo -:bridge_test/guarded >> {events}' EXIT\n\
                 echo READY $$; read line || true"
                );
                let target = Target::start("ticker", &["1", "1"]);
                let mut holder = Command::new("unshare")
                    .args(["-m", "sh", "-c", &script])
                    .stdin(std::process::Stdio::piped())
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut ready = String::new();
                std::io::BufRead::read_line(
                    &mut std::io::BufReader::new(holder.stdout.take().unwrap()),
                    &mut ready,
                )
                .unwrap();
                let ran = run_bridge(&[
                    "attach",
                    "-p",
                    &target.pid.to_string(),
                    "-e",
                    "demo:guarded",
                    "-T",
                    "1",
                ]);
                drop(holder.stdin.take());
                assert!(holder.wait().unwrap().success() && ready.starts_with("READY"));
                refused(
                    &ran,
                    status::TARGET,
                    &["another tracer", "semaphore", &path],
                );
            },
        ),
        bpf_test(
            "a_request_that_cannot_be_served_leaves_the_output_file_as_it_is",
            || {
                let target = Target::start("ticker", &["1", "1"]);
                let path = scratch("kept").join("stream.txt");
                fs::write(&path, "precious").unwrap();
                let pid = target.pid.to_string();
                let ran = run_bridge(&[
                    "attach",
                    "-p",
                    &pid,
                    "-o",
                    path.to_str().unwrap(),
                    "-e",
                    "demo:tik",
                ]);
                refused(&ran, status::NO_MATCH, &["demo:tick"]);
                assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
            },
        ),
        bpf_test("a_wrong_file_does_not_hide_a_wrong_name", || {
            let target = Target::start("ticker", &["1", "1"]);
            let pid = target.pid.to_string();
            let ran = run_bridge(&[
                "attach",
                "-p",
                &pid,
                "-e",
                "usdt:/no/such:a:b",
                "-e",
                "demo:tik",
            ]);
            refused(&ran, status::BINARY, &["/no/such", "demo:tick"]);
        }),
    ];
    support::run(trials)
}
