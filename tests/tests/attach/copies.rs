//! A program with two copies of `tracing`: its own, and that of a library that it loads.

use std::process::Command;

use super::bridge::{Attached, Ran, Via};
use super::target::{Target, built};

const CHORUS: &[&str] = &["-e", "chorus.*:*"];

/// The library is a program of its own as far as `tracing` goes: what it says is nobody's until its own copy
/// of the SDK is its subscriber, and then it is in rings of its own, which the bridge reads as well.
pub(crate) fn of_tracing() {
    let [program, library] = &built().chorus;
    let mut target = Target::spawn(&mut Command::new(program));
    target.ask(&format!("open {}", library.display()));

    let attached = Attached::start(target.pid(), Via::Ring, CHORUS);
    for line in ["say 1", "library 2", "within 3", "say 4"] {
        assert_eq!(target.ask(line), line);
    }
    let ran = attached.interrupt();
    ran.assert_well();
    let of_program = |verse| format!("level=3 span=0 message=\"from the program\" verse={verse}");
    let span = ["level=3 id=1 parent=0 verse=3", "id=1", "id=1", "id=1"].map(str::to_owned);
    let expected: Vec<String> = [of_program(1)]
        .into_iter()
        .chain(span)
        .chain([of_program(4)])
        .collect();
    assert_eq!(bodies(&ran), expected, "{}", ran.err);

    assert_eq!(target.ask("init"), "init");
    let attached = Attached::start(target.pid(), Via::Ring, CHORUS);
    for line in ["within 5", "say 6"] {
        assert_eq!(target.ask(line), line);
    }
    let ran = attached.interrupt();
    ran.assert_well();
    // Each numbers its spans, and neither knows of the other's: the library's span has no parent.
    let events: Vec<String> = ran
        .lines()
        .map(|line| {
            let event = line
                .event
                .split_once(".rs:")
                .map_or(line.event, |(file, _)| file);
            format!("{event} {}", without_duration(line.body))
        })
        .collect();
    let expected = [
        "chorus.program:led level=3 id=2 parent=0 verse=5",
        "chorus.program:led__enter id=2",
        "chorus.library:sung level=3 id=1 parent=0 verse=5",
        "chorus.library:sung__enter id=1",
        "chorus.library:lib level=3 span=1 message=\"from the library\" verse=5",
        "chorus.library:sung__exit id=1",
        "chorus.library:sung__close id=1",
        "chorus.program:led__exit id=2",
        "chorus.program:led__close id=2",
        "chorus.program:main level=3 span=0 message=\"from the program\" verse=6",
    ];
    assert_eq!(events, expected, "{}", ran.err);
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
}

fn bodies(ran: &Ran) -> Vec<String> {
    ran.lines()
        .map(|line| without_duration(line.body).to_owned())
        .collect()
}

fn without_duration(body: &str) -> &str {
    body.split_once(" ns=").map_or(body, |(body, _)| body)
}
