//! Other processors, and systems that have no tracepoints.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracebraid_tests::programs;
use tracebraid_tests::requirement::{self, Need, trial};
use tracebraid_tests::stapsdt;

const ARM: &str = "aarch64-unknown-linux-gnu";
const ARM_LINKER: &str = "aarch64-linux-gnu-gcc";
const ARM_EMULATOR: &str = "qemu-aarch64-static";
const WEB: &str = "wasm32-unknown-unknown";
const WINDOWS: &str = "x86_64-pc-windows-gnu";

fn main() {
    requirement::run(vec![
        trial(
            "on_aarch64_a_tracepoint_is_off_on_and_off_again",
            &[
                Need::Target(ARM),
                Need::Tool(ARM_LINKER),
                Need::Tool(ARM_EMULATOR),
            ],
            arm_runs,
        ),
        trial(
            "an_aarch64_file_is_listed_and_said_to_be_for_another_machine",
            &[
                Need::Target(ARM),
                Need::Tool(ARM_LINKER),
                Need::Tool("readelf"),
            ],
            arm_is_listed,
        ),
        trial(
            "on_wasm_nothing_of_a_tracepoint_is_left",
            &[Need::Target(WEB)],
            web_has_nothing,
        ),
        trial(
            "on_wasm_fields_are_type_checked",
            &[Need::Target(WEB)],
            || checks_fields(WEB),
        ),
        trial(
            "on_windows_fields_are_type_checked",
            &[Need::Target(WINDOWS)],
            || checks_fields(WINDOWS),
        ),
    ]);
}

fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn build(target: &str, file: &str) -> PathBuf {
    let mut cargo = programs::cargo("build", target, directory());
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", ARM_LINKER);
    programs::build(cargo.args(["--package", "foreign"]));
    directory()
        .join("programs")
        .join(target)
        .join("release")
        .join(file)
}

fn arm_runs() {
    let program = build(ARM, "foreign");
    let output = Command::new(ARM_EMULATOR)
        .args(["-L", "/usr/aarch64-linux-gnu"])
        .arg(program)
        .output()
        .expect("the emulator starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        ["off false", "enable Ok(4)", "on true", "off false"],
        "{text}"
    );
    let mut rest = lines.split_off(4);
    let drained = [
        "drained Ok(0) lost 0",
        "drained foreign:hit: n=10 seen=false",
        "drained Ok(1) lost 0",
    ];
    assert_eq!(rest.split_off(rest.len() - 3), drained, "{text}");
    rest.sort_unstable();
    // How long the call took is another number each time.
    let returned = rest
        .iter()
        .position(|line| line.starts_with("foreign:charge__return: ns="));
    let returned = rest.remove(returned.unwrap_or_else(|| panic!("{text}")));
    assert!(returned.ends_with(" ret=Ok(5)"), "{text}");
    assert_eq!(
        rest,
        [
            "foreign:charge 2",
            "foreign:charge: order_id=4 cents=-1",
            "foreign:charge__return 3",
            "foreign:hit 2",
            "foreign:hit: n=4 seen=false",
            "foreign:queued 2",
            "foreign:queued: id=4 user=ada",
        ]
    );
}

fn arm_is_listed() {
    let program = build(ARM, "foreign");
    let notes = stapsdt::notes(&program, "foreign");
    let mut names: Vec<&str> = notes.iter().map(|note| note.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["charge", "charge__return", "hit", "queued"]);
    for note in &notes {
        assert!(note.base != 0 && note.semaphore != 0, "{note:?}");
        assert!(note.arguments.starts_with("8@[x0, 0]"), "{note:?}");
    }
    let bridge = programs::bridge(directory());
    let list = Command::new(&bridge)
        .arg("list")
        .arg(&program)
        .output()
        .expect("the bridge starts");
    assert!(list.status.success(), "{list:?}");
    let listed = String::from_utf8_lossy(&list.stdout);
    for name in names {
        assert!(
            listed.lines().any(|line| line == format!("foreign:{name}")),
            "{listed}"
        );
    }
    let remark = String::from_utf8_lossy(&list.stderr);
    assert!(
        remark.contains("for aarch64, and cannot be attached to"),
        "{remark}"
    );
    let selector = format!("usdt:{}:foreign:hit", program.display());
    let attach = Command::new(&bridge)
        .args(["attach", "-T", "1", "-e", &selector])
        .output()
        .expect("the bridge starts");
    assert_eq!(attach.status.code(), Some(4), "{attach:?}");
    let refusal = String::from_utf8_lossy(&attach.stderr);
    assert!(refusal.contains("for aarch64"), "{refusal}");
}

/// The program is there, and of its tracepoints not even the names.
fn web_has_nothing() {
    let program = build(WEB, "foreign.wasm");
    let bytes = std::fs::read(program).expect("the program");
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds("nothing to start"), "the program's own text");
    for text in ["order_id", "cents", "id={id} user={user}"] {
        assert!(!holds(text), "{text:?}");
    }
}

/// A program that is right compiles, and a field of a type that is no field kind is an error.
fn checks_fields(target: &str) {
    let check = || {
        let mut cargo = programs::cargo("check", target, directory());
        cargo.args(["--package", "foreign"]);
        cargo
    };
    programs::build(&mut check());
    let output = check()
        .args(["--features", "bad-field"])
        .output()
        .expect("cargo starts");
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("`std::sync::Mutex<u64>` cannot be a field of a tracepoint"),
        "{errors}"
    );
}
