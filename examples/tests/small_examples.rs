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
