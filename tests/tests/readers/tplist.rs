//! bcc's tplist.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use tracebraid_tests::requirement::find_tool;
use tracebraid_tests::stapsdt;

use super::served::{Kind, names, output};

pub(crate) fn lists() {
    let built = Kind::Release.build();
    let tplist = find_tool("tplist-bpfcc").expect("the tool is here");
    let text = output(Command::new(&tplist).arg("-l").arg(&built.gate));
    let listed: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, names(&built.gate));

    // Verbose, a probe is a line of its name and lines of what it has.
    let text = output(Command::new(&tplist).args(["-v", "-l"]).arg(&built.gate));
    let mut arguments: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut probe = String::new();
    for line in text.lines() {
        if let Some((name, _)) = line.split_once(" [sema 0x") {
            probe = name.to_owned();
        } else if let Some(count) = line.trim().strip_suffix(" argument(s)") {
            let count = count.parse().expect("a number");
            arguments.entry(probe.clone()).or_default().push(count);
        }
    }
    let mut expected: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for note in stapsdt::all(&built.gate) {
        let count = note.arguments.split_whitespace().count();
        let name = format!("{}:{}", note.provider, note.name);
        expected.entry(name).or_default().push(count);
    }
    for name in [
        "shapes:plain",
        "shapes:bare",
        "shapes:wide",
        "shapes:queued",
    ] {
        assert_eq!(arguments.get(name), expected.get(name), "{name}: {text}");
    }
    // A note describes twelve slots at most; the last field would take the twelfth and a thirteenth.
    assert_eq!(expected["shapes:wide"], [11]);
}
