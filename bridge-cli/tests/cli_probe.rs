//! `bridge-cli probe`: what it prints of good definitions, what it says of bad ones, and how it ends.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn probe(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bridge-cli"))
        .arg("probe")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// This test program: an ELF file with symbols.
fn own() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

#[test]
fn a_valid_definition_is_listed_with_its_fields_and_the_status_is_0() {
    let definition = format!(
        "p:up {}:main n=%di:s32 s=+0(%si):string\n# a comment\n",
        own()
    );
    let output = probe(&["-"], &definition);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(printed.starts_with("p:uprobes/up "), "{printed}");
    assert!(
        printed.contains("\tfield:s32 n;\toffset:16;\tsize:4;\tsigned:1;\n"),
        "{printed}"
    );
    assert!(printed.contains("\tfield:__data_loc char[] s;\toffset:20;\tsize:4;\tsigned:1;\n"));
    assert!(
        printed.contains(
            "print fmt: \"(%lx) n=%d s=\\\"%s\\\"\", REC->__probe_ip, REC->n, __get_str(s)"
        )
    );
}

#[test]
fn every_bad_line_is_told_with_its_number_the_caret_and_what_would_be_right() {
    let own = own();
    let definitions = format!("p:a {own}:main %rdi\np:b {own}:main %di\np:c {own}:main x=+0%di\n");
    let output = probe(&["-"], &definitions);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).starts_with("p:uprobes/b "));
    assert!(
        told.contains("-:1: Invalid register name (EINVAL)"),
        "{told}"
    );
    assert!(told.contains("registers are called di, si"), "{told}");
    assert!(
        told.contains("-:3: Dereference needs a brace (EINVAL)"),
        "{told}"
    );
    let carets: Vec<&str> = told.lines().filter(|line| line.trim() == "^").collect();
    assert_eq!(carets.len(), 2);
}

#[test]
fn a_symbol_that_the_file_does_not_have_is_told_with_the_nearest() {
    let definition = format!("p {}:maim", own());
    let output = probe(&["-e", &definition], "");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told.contains("The file has no such function") && told.contains("did you mean main"),
        "{told}"
    );
}

#[test]
fn lines_that_end_otherwise_and_the_last_without_an_end_are_read() {
    let own = own();
    let definitions =
        format!("p:a {own}:main v=%di:s32\r\n# a note\r\n\r\n\n\tr:b {own}:main $retval:s32");
    let output = probe(&["-"], &definitions);
    let listed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        listed.starts_with("p:uprobes/a ") && listed.contains("\nr:uprobes/b "),
        "{listed}"
    );
    // Two characters are no end of a line.
    let output = probe(&["-"], &format!("p:a {own}:main v=%di:s32\\n"));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("-:1: Unknown type is specified"), "{told}");
}

#[test]
fn a_place_that_attach_would_refuse_is_warned_of() {
    let definition = format!("p {}:0\n", own());
    let output = probe(&["-"], &definition);
    let told = text(&output.stderr);
    assert!(output.status.success());
    assert!(told.contains("is no code; attach refuses it"), "{told}");
}

#[test]
fn a_file_of_one_language_takes_no_other() {
    let definition = format!("p {}:main\n", own());
    assert!(
        probe(&["--as", "uprobe_events", "-"], &definition)
            .status
            .success()
    );
    assert_eq!(
        probe(&["--as", "kprobe_events", "-"], &definition)
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn nothing_to_check_and_a_missing_file_are_usage_errors() {
    assert_eq!(probe(&[], "").status.code(), Some(2));
    let output = probe(&["/no/such/file"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such/file"));
}

#[test]
fn a_pattern_stands_for_every_function_that_it_matches() {
    let definition = format!("uprobe:{}:mai? n=%di\n", own());
    let output = probe(&["-"], &definition);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains(":uprobes/p_cli_main "),
        "{}",
        text(&output.stdout)
    );
    let nothing = format!("uprobe:{}:no_such_*\n", own());
    assert_eq!(probe(&["-"], &nothing).status.code(), Some(2));
}
