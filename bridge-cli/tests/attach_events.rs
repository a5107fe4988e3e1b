//! Probes at events, attached: they have the fields of the event's record and what these lead to, only the hits
//! that the filter behind `if` wants, and the values that the kernel's own event probes print.

mod support;
mod tracing_instance;

use std::path::PathBuf;

use libtest_mimic::Trial;
use support::{Ran, bpf_test, build, pid_of, run_bridge, scratch, test};
use tracing_instance::Instance;

const OPENED: &str = "e:op syscalls.sys_enter_openat dfd=$dfd:s32 raw=$dfd file=+0($filename):ustring \
    flags=$flags:x32 nr=$__syscall_nr:u16";
const RENAMED: &str = "e:rn task.task_rename pid=$pid:s32 old=$oldcomm:string new=$newcomm:string \
    adj=$oom_score_adj:s16 first=+0($newcomm):u8 low=$pid:b4@0/32 c=$COMM:string all=+0($newcomm):x8[3]";

/// Runs `attach ARGS -- kernel_calls FILE` until no event of another task was in the way: programs at
/// tracepoints keep one another out, where the kernel counts that (since 6.7).
fn attach(args: &[&str]) -> Ran {
    let target = build("kernel_calls").display().to_string();
    let all = [&["attach", "-v"], args, &["--", &target, "/etc/passwd"]].concat();
    let is_whole = |ran: &Ran| {
        let rows = ran.err.lines().filter(|line| line.contains(" eprobes:"));
        rows.filter(|line| !line.contains("through "))
            .all(|line| matches!(line.split_whitespace().nth_back(1), Some("0" | "?")))
    };
    let ran = (0..20).map(|_| run_bridge(&all)).find(is_whole);
    let ran = ran.expect("an attempt in which nothing is missed");
    assert_eq!(ran.status, 3, "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("<not captured>"), "{}", ran.out);
    ran
}

/// Bodies without the event in front.
fn values(ran: &Ran, name: &str) -> Vec<String> {
    let bodies = ran.bodies(name);
    let after = |body: &String| body.split_once(") ").map_or("", |it| it.1).to_owned();
    bodies.iter().map(after).collect()
}

/// Hits, and of these what the filter refused.
fn hits(ran: &Ran, name: &str) -> (u64, u64, u64) {
    let row = ran.row(name);
    let number = |index: usize| row[index].parse::<u64>().expect("a number");
    (number(0), number(1), number(2))
}

/// What the kernel's own event probes print of the same run, by a definition's name.
fn by_the_kernel(definitions: &[&str], run: impl FnOnce() -> Ran) -> (Ran, Instance) {
    let instance = Instance::with_probes("eprobes", definitions);
    instance.start();
    let ran = run();
    instance.stop();
    (ran, instance)
}

/// A test that compares with the kernel's own event probes.
fn eprobe_test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    if tracing_instance::takes("e:tried sched.sched_switch") {
        return bpf_test(name, run);
    }
    Trial::test(name, || Ok(()))
        .with_kind("needs a kernel with CONFIG_EPROBE_EVENTS, and tracefs")
        .with_ignored_flag(true)
}

/// Our line without the file's name where the kernel could not read it: 6.1 reads no text of the process in its
/// event probes.
fn readable(ours: &str, kernel: &str) -> String {
    let Some((before, rest)) = ours.split_once("file=\"") else {
        return ours.to_owned();
    };
    let (_, after) = rest.split_once('"').expect("its end");
    match kernel.contains("file=<fault>") {
        true => format!("{before}file=<fault>{after}"),
        false => ours.to_owned(),
    }
}

fn definitions_file(name: &str, text: &str) -> PathBuf {
    let path = scratch("events").join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn main() {
    let trials = vec![
        bpf_test(
            "fields_of_an_event_and_what_they_lead_to_are_fetched",
            || {
                let ran = attach(&["-e", OPENED, "-e", RENAMED]);
                let opened = values(&ran, "eprobes:op");
                for line in [
                    "dfd=-100 raw=0xffffff9c file=\"/etc/passwd\" flags=0x0 nr=257",
                    "dfd=-100 raw=0xffffff9c file=\"/no/such/file\" flags=0x0 nr=257",
                ] {
                    assert!(opened.contains(&line.to_owned()), "{opened:?}");
                }
                let line = ran.events("eprobes:rn").pop().expect("a renaming");
                let pid = pid_of(line);
                let low = pid.parse::<u32>().unwrap() & 15;
                let expected = format!("pid={pid} old=\"kernel_calls\" new=\"renamed\" adj=");
                let rest =
                    format!(" first=114 low={low} c=\"kernel_calls\" all={{0x72,0x65,0x6e}}");
                let renamed = values(&ran, "eprobes:rn").pop().unwrap();
                assert!(renamed.starts_with(&expected), "{renamed}");
                assert!(renamed.ends_with(&rest), "{renamed}");
                assert!(line.contains(": (task.task_rename) pid="), "{line}");
                assert!(
                    ran.err
                        .contains("through tracepoint: 2 probes (eprobes:op, eprobes:rn)"),
                    "{}",
                    ran.err
                );
            },
        ),
        bpf_test("an_array_s_value_is_its_address", || {
            let called = "e:en raw_syscalls.sys_enter id=$id first=+0($args):s32 second=+8($args):s64 \
                some=+8($args):x64[2] args=$args if id == 110";
            let ran = attach(&["-e", called]);
            let all = values(&ran, "eprobes:en");
            let asked = "id=0x6e first=65410 second=-5 some={0xfffffffffffffffb,0x123456789abcdef0} args=0xff";
            assert!(all.len() == 1 && all[0].starts_with(asked), "{all:?}");
        }),
        bpf_test("memory_of_the_kernel_is_not_read_as_the_process_s", || {
            let definition = "e:whose task.task_rename \
                text=$newcomm:ustring same=$newcomm:string byte=+u1($newcomm):u8 same_byte=+1($newcomm):u8 \
                behind=+0(+u0($newcomm)):u8";
            let ran = attach(&["-e", definition]);
            let expected =
                "text=<fault> same=\"renamed\" byte=<fault> same_byte=101 behind=<fault>";
            let all = values(&ran, "eprobes:whose");
            assert_eq!(all.last().map(String::as_str), Some(expected), "{all:?}");
        }),
        bpf_test("memory_of_the_process_is_read_as_such", || {
            let definition = "e:theirs syscalls.sys_enter_openat \
                text=+u0($filename):string same=+0($filename):ustring byte=+u1($filename):u8 \
                plain=+1($filename):u8 if flags == 0";
            let ran = attach(&["-e", definition]);
            let expected = "text=\"/etc/passwd\" same=\"/etc/passwd\" byte=101 plain=101";
            let all = values(&ran, "eprobes:theirs");
            assert!(all.contains(&expected.to_owned()), "{all:?}");
        }),
        bpf_test(
            "hits_that_the_filter_of_the_definition_refuses_are_only_counted",
            || {
                let ran = attach(&[
                    "-e",
                    "e:all syscalls.sys_enter_openat",
                    "-e",
                    "e:mine syscalls.sys_enter_openat file=+0($filename):ustring if filename.ustring ~ \"/no*\"",
                    "-e",
                    "e:number syscalls.sys_enter_openat f=$flags:x32 if filename != 0 && flags == 0 && comm == \"kernel_calls\"",
                    "-e",
                    "e:none syscalls.sys_enter_openat if flags == 0 && flags > 0",
                    "-e",
                    "e:new task.task_rename new=$newcomm:string if newcomm == \"renamed\"",
                ]);
                assert_eq!(values(&ran, "eprobes:mine"), ["file=\"/no/such/file\""]);
                assert_eq!(
                    values(&ran, "eprobes:number"),
                    ["f=0x0", "f=0x0"],
                    "{}",
                    ran.err
                );
                assert_eq!(values(&ran, "eprobes:new"), ["new=\"renamed\""]);
                let (all, all_hits, refused) = hits(&ran, "eprobes:all");
                assert_eq!((all, refused), (all_hits, 0));
                assert_eq!(hits(&ran, "eprobes:mine"), (1, all, all - 1), "{}", ran.err);
                assert_eq!(hits(&ran, "eprobes:none"), (0, all, all), "{}", ran.err);
            },
        ),
        bpf_test(
            "a_filter_behind_the_definition_sees_its_arguments_and_both_have_to_hold",
            || {
                let definition =
                    "e:op syscalls.sys_enter_openat f=+0($filename):ustring if flags == 0";
                for (filter, expected) in [
                    ("f ~ \"*passwd\"", vec!["f=\"/etc/passwd\""]),
                    ("f ~ \"*no*\"", vec!["f=\"/no/such/file\""]),
                    ("f == \"/etc/passwd/\"", vec![]),
                ] {
                    let ran = attach(&["-e", definition, "--filter", filter]);
                    assert_eq!(
                        values(&ran, "eprobes:op"),
                        expected,
                        "{filter}: {}",
                        ran.err
                    );
                    let here = attach(&["-e", definition, "--filter", filter, "--user-filter"]);
                    assert_eq!(
                        values(&here, "eprobes:op"),
                        expected,
                        "{filter}: {}",
                        here.err
                    );
                }
            },
        ),
        bpf_test(
            "a_file_of_definitions_with_event_probes_is_attached_and_counted",
            || {
                let text =
                    format!("{OPENED} if flags == 0 && common_pid != 0 # a comment\n\n{RENAMED}\n");
                let path = definitions_file("probes", &text);
                let path = path.display().to_string();
                let ran = attach(&["--probes", &path, "--format", "json"]);
                let lines = ran
                    .out
                    .lines()
                    .filter(|line| line.contains("\"eprobes:op\""));
                let lines: Vec<&str> = lines.collect();
                assert_eq!(lines.len(), 2, "{}", ran.out);
                assert!(
                lines[0].contains("\"fields\":{\"dfd\":-100,\"raw\":4294967196,\"file\":\"/etc/passwd\",\"flags\":0,\"nr\":257}"),
                "{}",
                lines[0]
            );
                let target = build("kernel_calls").display().to_string();
                let count = || -> serde_json::Value {
                    let ran = run_bridge(&[
                        "stat",
                        "--format",
                        "json",
                        "--probes",
                        &path,
                        "--",
                        &target,
                        "/etc/passwd",
                    ]);
                    let last = ran.out.lines().rfind(|line| line.starts_with('{'));
                    serde_json::from_str(last.unwrap_or_default())
                        .unwrap_or_else(|why| panic!("{why}: {}{}", ran.out, ran.err))
                };
                // `null` where it is not known.
                let is_whole = |counted: &serde_json::Value| {
                    let rows = counted["probes"].as_array().into_iter().flatten();
                    rows.map(|row| row["misses"].as_u64())
                        .all(|missed| missed.unwrap_or(0) == 0)
                };
                let counted = (0..20)
                    .map(|_| count())
                    .find(is_whole)
                    .expect("nothing missed");
                let rows = counted["probes"].as_array().unwrap();
                let row = rows
                    .iter()
                    .find(|row| row["probe"] == "eprobes:rn")
                    .expect("a row");
                assert_eq!(row["hits"], 1, "{counted}");
            },
        ),
        bpf_test("events_are_described_without_a_mounted_tracefs", || {
            let target = build("kernel_calls").display().to_string();
            let mut command = support::bridge();
            command.args(["attach", "-e", RENAMED, "--", &target, "/etc/passwd"]);
            let ran = Ran::from(tracing_instance::without_tracefs(&mut command));
            assert!(ran.err.contains(" eprobes:rn "), "{}", ran.err);
            let renamed = values(&ran, "eprobes:rn");
            assert!(
                renamed
                    .iter()
                    .any(|line| line.contains(" new=\"renamed\" ")),
                "{}{}",
                ran.out,
                ran.err
            );
        }),
        bpf_test(
            "stacks_of_events_and_tracepoints_have_the_program_s_functions",
            || {
                let ran = attach(&[
                    "--call-graph",
                    "dwarf",
                    "-e",
                    "e:ee task.task_rename new=$newcomm:string if newcomm == \"renamed\"",
                    "-e",
                    "t:tt task_rename new=+0($arg2):string",
                    "--filter",
                    "new == \"renamed\"",
                ]);
                for name in ["eprobes:ee", "tracepoints:tt"] {
                    let mut lines = ran.out.lines().skip_while(|line| !line.contains(name));
                    let first = lines
                        .next()
                        .unwrap_or_else(|| panic!("{}{}", ran.out, ran.err));
                    assert!(first.ends_with(" new=\"renamed\""), "{first}");
                    let stack = lines.take_while(|line| !line.is_empty());
                    let stack: Vec<&str> = stack.collect();
                    let is_main = |line: &&str| line.contains(" main+0x");
                    assert!(stack.iter().any(is_main), "{name}: {stack:#?}");
                }
            },
        ),
        test(
            "what_is_wrong_with_an_event_probe_is_said_and_nothing_runs",
            || {
                let target = build("kernel_calls").display().to_string();
                let ran = run_bridge(&[
                    "attach",
                    "-e",
                    "e:a sched.sched_swich",
                    "-e",
                    "e:b sched.sched_switch p=$prev_pidd",
                    "-e",
                    "e:c sched.sched_switch c=$comm",
                    "-e",
                    "e:d sched.sched_switch if prev_pidd == 1",
                    "-e",
                    "e:f ftrace.function ip=$ip",
                    "--",
                    &target,
                    "/etc/passwd",
                ]);
                for said in [
                    "did you mean sched.sched_switch",
                    "its fields are prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid, next_prio",
                    "write $comm:string",
                    "the filter is not valid: Field not found",
                    "e:f ftrace.function",
                ] {
                    assert!(ran.err.contains(said), "no {said:?}: {}", ran.err);
                }
                assert_eq!(ran.status, 2, "{}", ran.err);
                assert!(!ran.out.contains("OPENED"), "the command ran");
            },
        ),
        eprobe_test(
            "values_are_those_that_the_kernel_s_own_event_probes_print",
            || {
                const FILTERED: &str =
                    "e:some syscalls.sys_enter_openat file=+0($filename):ustring if flags == 0";
                let definitions = [OPENED, RENAMED, FILTERED];
                let (ran, instance) = by_the_kernel(&definitions, || {
                    let with = definitions.iter().flat_map(|it| ["-e", it]);
                    attach(&with.collect::<Vec<_>>())
                });
                let pid = pid_of(ran.events("eprobes:op")[0]).to_owned();
                for name in ["op", "rn", "some"] {
                    let ours = ran.bodies(&format!("eprobes:{name}"));
                    let kernel = instance.bodies(name, &pid);
                    assert!(!ours.is_empty(), "{name}: {}", ran.err);
                    // What the process did before it was attached only the kernel has.
                    let of_both = kernel.len().checked_sub(ours.len());
                    let of_both = &kernel[of_both.expect("no less than ours")..];
                    for (ours, kernel) in ours.iter().zip(of_both) {
                        assert_eq!(readable(ours, kernel), *kernel, "{name}");
                    }
                }
            },
        ),
    ];
    support::run(trials);
}
