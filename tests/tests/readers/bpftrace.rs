//! bpftrace.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tracebraid_tests::scenario;

use super::served::{Kind, Served, assert_hits, names, output};

pub(crate) fn lists() {
    let built = Kind::Release.build();
    let gate = built.gate.to_str().expect("a path in UTF-8");
    let text = output(Command::new("bpftrace").args(["-l", &format!("usdt:{gate}:*")]));
    let listed: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("usdt:{gate}:")))
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, names(&built.gate));
}

/// A program that prints the values of fifty hits in a row.
fn program(kind: Kind, file: &Path) -> String {
    let (provider, name) = kind.tracepoint();
    let print = match kind {
        Kind::Release | Kind::FatLto => r#"printf("%lu %ld %lu\n", arg0, arg1, arg2);"#,
        Kind::Library => r#"printf("%lu %s\n", arg0, str(arg1, arg2));"#,
    };
    format!(
        "usdt:{}:{provider}:{name} {{ {print} @n++; if (@n >= 50) {{ exit(); }} }}",
        file.display()
    )
}

fn parse(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect()
}

pub(crate) fn receives(kind: Kind) {
    let built = kind.build();
    let served = Served::start(&built);
    let program = program(kind, &kind.file(&built));
    let text = output(Command::new("bpftrace").args(["-e", &program]));
    assert_hits(kind, &parse(&text));
    served.assert_left_alone(kind, &built);
    let text = output(Command::new("bpftrace").args(["-p", &served.pid(), "-e", &program]));
    assert_hits(kind, &parse(&text));
    served.assert_left_alone(kind, &built);
}

pub(crate) fn two_at_once() {
    let kind = Kind::Release;
    let built = kind.build();
    let served = Served::start(&built);
    let program = program(kind, &kind.file(&built));
    let start = || {
        let mut command = Command::new("bpftrace");
        command.args(["-e", &program]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("bpftrace starts")
    };
    let tools = [start(), start()];
    for tool in tools {
        let end =
            scenario::wait(tool, Duration::from_secs(60)).expect("the tool can be waited for");
        assert!(
            end.status.is_some_and(|status| status.success()),
            "{}",
            end.errors
        );
        assert_hits(kind, &parse(&end.output));
    }
    served.assert_left_alone(kind, &built);
}
