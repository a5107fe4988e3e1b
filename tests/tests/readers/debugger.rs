//! gdb.

use std::collections::BTreeSet;
use std::process::Command;

use tracebraid_tests::stapsdt;

use super::served::{Kind, names, output};

fn gdb() -> Command {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
    gdb
}

pub(crate) fn lists() {
    let built = Kind::Release.build();
    let text = output(gdb().args(["-ex", "info probes stap"]).arg(&built.gate));
    let mut listed = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["stap", provider, name, place, semaphore, _] = words[..] {
            listed.insert((
                provider.to_owned(),
                name.to_owned(),
                place.to_owned(),
                semaphore.to_owned(),
            ));
        }
    }
    let expected = stapsdt::all(&built.gate).into_iter().map(|note| {
        let hex = |address: u64| format!("{address:#018x}");
        (
            note.provider,
            note.name,
            hex(note.location),
            hex(note.semaphore),
        )
    });
    assert_eq!(listed, expected.collect());
    assert!(names(&built.gate).len() > 20);
}

pub(crate) fn stops() {
    let built = Kind::Release.build();
    let show = r#"printf "hit %ld %ld %ld of %d\n", $_probe_arg0, $_probe_arg1, $_probe_arg2, $_probe_argc"#;
    let mut gdb = gdb();
    for command in [
        "break -probe-stap shapes:plain",
        "run",
        show,
        "continue",
        show,
        "kill",
    ] {
        gdb.args(["-ex", command]);
    }
    let text = output(gdb.arg("--args").arg(&built.gate).args(["serve", "20"]));
    let hits: Vec<Vec<i64>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("hit ")?.strip_suffix(" of 3"))
        .map(|values| {
            values
                .split(' ')
                .map(|value| value.parse().expect("a number"))
                .collect()
        })
        .collect();
    assert_eq!(hits.len(), 2, "{text}");
    for (hit, next) in hits.iter().zip(&hits[1..]) {
        assert_eq!(next[0], hit[0] + 1);
    }
    for hit in hits {
        assert_eq!(hit, [hit[0], -hit[0], 2 * hit[0]]);
    }
}
