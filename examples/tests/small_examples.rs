//! The small examples, as a user would run them.
#![cfg(target_os = "linux")]

use std::process::Command;

fn output(program: &str) -> String {
    let output = Command::new(program).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn quickstart_lists_the_three_kinds_of_tracepoints_with_their_fields() {
    let text = output(env!("CARGO_BIN_EXE_quickstart"));
    for line in [
        "quickstart:charge(order_id: u64, cents: i64)",
        "quickstart:charge__return(ns: u64, end: str?, err: fmt?)",
        "quickstart:rounded(order_id: u64, euros: i64, rest: i64)",
        "quickstart:queued(id: u64, depth: u64, user: str)",
    ] {
        assert!(
            text.lines().any(|known| known == line),
            "{line} is not in\n{text}"
        );
    }
}

#[test]
fn in_process_probe_sees_the_calls_made_while_it_listens_and_no_others() {
    let text = output(env!("CARGO_BIN_EXE_in_process_probe"));
    assert!(
        text.contains("in_process_probe:fibonacci: n=90\n"),
        "{text}"
    );
    assert!(text.contains("ret=2880067194370816120\n"), "{text}");
    assert!(!text.contains("n=50"), "{text}");
    assert!(text.ends_with("6 hits seen\n"), "{text}");
}

#[test]
fn own_log_writes_down_what_it_did_in_order_and_loses_nothing() {
    let text = output(env!("CARGO_BIN_EXE_own_log"));
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(1)?.strip_prefix("own_log:"))
        .collect();
    let one = ["answer:", "lookup:", "answer__return:"];
    assert_eq!(names, [one, one, one].concat(), "{text}");
    assert!(text.contains("lookup: key=21 hit=true\n"), "{text}");
    assert!(text.ends_with("\n0 lost\n"), "{text}");
}
