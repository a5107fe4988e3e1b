//! Threads as their events come out of rings: in the order of what they did, under their names, and to nobody
//! who may not look at them.

mod ring_program;
mod support;

use nix::sys::signal::Signal;
use ring_program::{NAMES, Program, seq};
use support::{Attached, bridge, test};

fn main() {
    ring_program::run_if_asked();
    support::run(vec![
        test(
            "threads_that_take_turns_on_changing_cpus_stand_in_the_order_of_their_turns",
            || {
                let count = if is_soak() { 200_000 } else { 2_000 };
                let mut program = Program::start(&format!("turns {count}"));
                // A file takes what comes meanwhile; of a pipe that nobody reads yet events would be lost.
                let stream = support::scratch("turns").join("stream");
                let attached = attach(&program, &["-o", stream.to_str().unwrap()]);
                assert_eq!(program.ask("go"), "done");
                let mut ran = attached.stop(Signal::SIGINT);
                ran.out = std::fs::read_to_string(&stream).unwrap();
                let seqs: Vec<u64> = ran.bodies("app:words").iter().map(|it| seq(it)).collect();
                assert_eq!(seqs, (0..count).collect::<Vec<_>>(), "{}", ran.err);
                assert!(!ran.out.contains("(late)"), "{}", ran.out);
                program.finish();
            },
        ),
        test("whatever_threads_are_called_an_event_is_one_line", || {
            let mut program = Program::start("named");
            let attached = attach(&program, &[]);
            assert_eq!(program.ask("go"), "done");
            let ran = attached.stop(Signal::SIGINT);
            assert_eq!(ran.out.lines().count(), NAMES.len(), "{}", ran.out);
            let is_bare = |c: char| c.is_control() && c != '\n';
            assert!(!ran.out.contains(is_bare), "{:?}", ran.out);
            for (number, line) in ran.out.lines().enumerate() {
                assert_eq!(seq(line), number as u64, "{line}");
            }
            program.finish();
        }),
        test("names_of_threads_are_json_that_reads_back", || {
            let mut program = Program::start("named");
            let attached = attach(&program, &["--format", "json"]);
            assert_eq!(program.ask("go"), "done");
            let ran = attached.stop(Signal::SIGINT);
            let lines: Vec<serde_json::Value> = ran
                .out
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_eq!(lines.len(), NAMES.len(), "{}", ran.out);
            for (line, name) in lines.iter().zip(NAMES) {
                match name.to_str() {
                    Ok(name) => assert_eq!(line["comm"], name),
                    Err(_) => assert_eq!(line["comm"]["hex"], "fffe", "{line}"),
                }
            }
            program.finish();
        }),
        as_root("another_user_s_rings_are_not_to_be_had", || {
            use std::os::unix::process::CommandExt;
            const NOBODY: u32 = 65534;
            let mut program = Program::start("ticks 5");
            // Somebody else cannot look into our build directory.
            let place = std::env::temp_dir().join(format!("bridge-user-{}", std::process::id()));
            std::fs::copy(env!("CARGO_BIN_EXE_bridge-cli"), &place).unwrap();
            for command in ["attach", "snapshot"] {
                let mut bridge = std::process::Command::new(&place);
                bridge.args([command, "-p", &program.pid.to_string(), "-e", "app:*"]);
                let output = bridge.uid(NOBODY).gid(NOBODY).current_dir("/").output();
                let output = output.unwrap();
                let err = String::from_utf8_lossy(&output.stderr);
                assert!(output.stdout.is_empty(), "{command}: {output:?}");
                assert!(
                    matches!(output.status.code(), Some(3 | 6)),
                    "{command}: {err}"
                );
            }
            std::fs::remove_file(&place).unwrap();
            assert_eq!(program.ask("go"), "done");
            program.finish();
        }),
    ]);
}

fn is_soak() -> bool {
    std::env::var_os("TRACEBRAID_SOAK").is_some()
}

fn attach(program: &Program, more: &[&str]) -> Attached {
    let pid = program.pid.to_string();
    let args = [
        "attach",
        "-v",
        "-p",
        &pid,
        "-e",
        "app:words",
        "--via",
        "ring",
    ];
    Attached::spawn(bridge().args(args).args(more))
}

/// A test that becomes another user.
fn as_root(name: &str, run: impl FnOnce() + Send + 'static) -> libtest_mimic::Trial {
    let is_root = nix::unistd::geteuid().is_root();
    match is_root {
        true => test(name, run),
        false => test(name, run)
            .with_kind("needs root")
            .with_ignored_flag(true),
    }
}
