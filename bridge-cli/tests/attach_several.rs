//! Several processes named at once: events of each, and of nobody else.

mod support;

use std::collections::BTreeMap;

use support::{Attached, Target, bpf_test, build, pid_of, run_bridge, test};

/// Three programs that hit a tracepoint, of which the last is not named.
fn targets(ticks: &str) -> [Target; 3] {
    [0; 3].map(|_| Target::start("ticker", &[ticks, "0"]))
}

fn list(targets: &[Target; 3]) -> String {
    format!("{},{}", targets[0].pid, targets[1].pid)
}

/// How many of these lines are of each process.
fn by_process<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(pid_of(line).parse().unwrap()).or_insert(0) += 1;
    }
    counts
}

fn main() {
    support::run(vec![
        bpf_test("events_of_each_come_until_the_last_has_ended", || {
            let targets = targets("20");
            let file = build("ticker").display().to_string();
            let probe = format!("p:call {file}:tick i=%di:s64");
            let pids = list(&targets);
            let sleeps = "syscalls:sys_enter_clock_nanosleep";
            let args = ["-p", &pids, "-e", "demo:tick", "-e", &probe, "-e", sleeps];
            let bridge = Attached::start(&args);
            let [first, second, third] = targets;
            let named = BTreeMap::from([(first.pid, 20), (second.pid, 20)]);
            // One after the other: that the first has ended ends nothing.
            for target in [first, third, second] {
                target.go();
                target.finish();
            }
            let ran = bridge.finish();
            for event in ["demo:tick", "uprobes:call", sleeps] {
                assert_eq!(by_process(ran.events(event)), named, "{event}: {}", ran.err);
            }
        }),
        bpf_test("a_library_that_one_of_them_loads_later_is_attached", || {
            let library = build("plug.so").display().to_string();
            let waits = Target::start("ticker", &["1", "0"]);
            let loads = Target::start("loader", &[&library]);
            let pids = format!("{},{}", waits.pid, loads.pid);
            let bridge = Attached::start(&["-p", &pids, "-e", "usdt:*:demo:plug"]);
            let pid = loads.pid;
            loads.go();
            loads.finish();
            waits.go();
            waits.finish();
            let ran = bridge.finish();
            let hits = by_process(ran.events("demo:plug"));
            assert_eq!(
                hits.keys().collect::<Vec<_>>(),
                [&pid],
                "{}{}",
                ran.out,
                ran.err
            );
        }),
        bpf_test("hits_of_all_of_them_are_counted_together", || {
            let targets = targets("30");
            let pids = list(&targets);
            let bridge = Attached::start_stat(&["-p", &pids, "-e", "demo:tick"]);
            for target in targets {
                target.go();
                target.finish();
            }
            let ran = bridge.finish();
            let last = ran.out.lines().rfind(|line| line.starts_with('{'));
            let total: serde_json::Value = serde_json::from_str(last.unwrap()).unwrap();
            assert_eq!(total["probes"][0]["hits"], 60, "{}{}", ran.out, ran.err);
        }),
        bpf_test("children_of_each_are_followed", || {
            let families = [0; 2].map(|_| Target::start("family", &["3"]));
            let pids = format!("{},{}", families[0].pid, families[1].pid);
            let bridge = Attached::start(&["--follow", "-p", &pids, "-e", "demo:who"]);
            let parents = [families[0].pid, families[1].pid];
            for family in families {
                family.go();
                family.finish();
            }
            let ran = bridge.finish();
            let all = ran.events("demo:who");
            assert_eq!(all.len(), 24, "{}{}", ran.out, ran.err);
            // A thread's number is its own; a child's that shares its parent's memory as well.
            let counts = by_process(all);
            assert!(parents.iter().all(|pid| counts[pid] == 3), "{}", ran.out);
        }),
        test("what_goes_with_one_process_only_is_refused", || {
            let targets = targets("1");
            let pids = list(&targets);
            let tid = targets[0].pid.to_string();
            for (args, status, said) in [
                (&["--via", "ring"][..], 2, "rings are read of one"),
                (&["--flight-recorder"], 2, "rings are read of one"),
                (&["-t", &tid], 2, "a thread (-t) is of one"),
            ] {
                let all = [&["attach", "-p", &pids, "-e", "demo:tick"], args].concat();
                let ran = run_bridge(&all);
                assert_eq!(ran.status, status, "{args:?}: {}", ran.err);
                assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
            }
            let gone = format!("{},4294967295,4294967294", targets[0].pid);
            let ran = run_bridge(&["attach", "-p", &gone, "-e", "demo:tick"]);
            assert_eq!(ran.status, 3, "{}", ran.err);
            assert!(
                ran.err.contains("4294967295") && ran.err.contains("4294967294"),
                "{}",
                ran.err
            );
            let ran = run_bridge(&["attach", "-p", "1,x", "-e", "demo:tick"]);
            assert_eq!(ran.status, 2, "{}", ran.err);
        }),
    ]);
}
