//! Texts that know their length are all of their bytes, zero bytes too: printed, as JSON, and to filters.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use support::{Ran, bpf_test, run_bridge, scratch};

/// `tests/targets/sized.rs`, built once.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/sized.rs");
    let program = scratch("sized").join("sized");
    let output = Command::new("rustc")
        .args(["-g", "-Copt-level=1", "--edition=2024", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .unwrap_or_else(|error| panic!("rustc starts: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    program
}

fn attach(definition: &str, more: &[&str]) -> Ran {
    let program = program().display().to_string();
    let definition = definition.replace('@', &format!("{program}:"));
    let ran = run_bridge(&[&["attach", "-e", &definition], more, &["--", &program]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    ran
}

fn values(ran: &Ran) -> Vec<String> {
    let after = |body: &String| body.split_once(") ").map_or("", |it| it.1).to_owned();
    ran.bodies("uprobes:says").iter().map(after).collect()
}

fn main() {
    let trials = vec![
        bpf_test("zero_bytes_inside_a_text_are_part_of_it", || {
            let ran = attach(
                "p:says @sized::says text bytes:string",
                &["--string-limit", "16"],
            );
            let long = "x\\0".repeat(7);
            let expected = [
                r#"text="a\0b" bytes="\0\0x""#.to_owned(),
                r#"text="" bytes="""#.to_owned(),
                r#"text="plain" bytes="\0""#.to_owned(),
                format!(r#"text="{long}x"…(400 bytes) bytes="end""#),
            ];
            assert_eq!(values(&ran), expected, "{}", ran.err);
        }),
        bpf_test("zero_bytes_are_in_the_json_and_at_a_return_too", || {
            let ran = attach("r:says @sized::says text n=$retval", &["--format", "json"]);
            let first = ran.out.lines().next().unwrap_or("");
            assert!(
                first.contains(r#""text":"a\u0000b","n":6"#),
                "{first}{}",
                ran.err
            );
        }),
        bpf_test(
            "filters_compare_all_bytes_of_a_text_wherever_they_are_evaluated",
            || {
                for (filter, expected) in [
                    ("text == \"a\"", vec![]),
                    ("text ~ \"a*b\"", vec![r#"text="a\0b""#]),
                    ("text ~ \"a?b\"", vec![r#"text="a\0b""#]),
                    ("text == \"plain\"", vec![r#"text="plain""#]),
                    ("text == \"\"", vec![r#"text="""#]),
                    ("text ~ \"*b\"", vec![r#"text="a\0b""#]),
                ] {
                    let kernel = attach("p:says @sized::says text", &["--filter", filter]);
                    assert_eq!(values(&kernel), expected, "{filter}: {}", kernel.err);
                    let bridge = attach(
                        "p:says @sized::says text",
                        &["--filter", filter, "--user-filter"],
                    );
                    assert_eq!(values(&bridge), expected, "{filter}: {}", bridge.err);
                }
            },
        ),
    ];
    support::run(trials);
}
