//! Every hit that the program counted is printed, or counted as lost where it was lost.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use super::bridge::{Attached, Ran, Via};
use super::target::{Target, built};

const WORD: &str = "count:word";
const TEXT: &str = "count:text";

/// With a reader that reads.
pub(crate) fn exact(via: Via) {
    let hits = if via == Via::Ring { "200000" } else { "20000" };
    let (passed, ran) = count(via, &["count", "2", hits], "", |attached| attached.read());
    check(&ran, passed);
}

/// With a reader that does not read for two seconds, and rings that hold little.
pub(crate) fn exact_with_a_slow_reader(via: Via) {
    let hits = if via == Via::Ring { "1000000" } else { "60000" };
    let (passed, ran) = count(via, &["count", "2", hits], "", |attached| {
        std::thread::sleep(Duration::from_secs(2));
        attached.read();
    });
    let lost = check(&ran, passed);
    assert!(
        lost > 0,
        "nothing was lost: the test shows nothing\n{}",
        ran.err
    );
}

/// The other ways of appending to the rings, under the same conditions.
pub(crate) fn exact_with_an_area_of_our_own() {
    exact_otherwise("own");
}

pub(crate) fn exact_under_a_lock() {
    exact_otherwise("locked");
}

/// With a filter for each tracepoint, of which the program's threads pass half, and a reader that is slow.
pub(crate) fn exact_with_filters(via: Via) {
    let each: u64 = if via == Via::Ring { 400_000 } else { 20_000 };
    let mut command = Command::new(&built().traced);
    command
        .args(["count", "2", &each.to_string()])
        .env("TRACEBRAID_RING", "64K");
    let mut target = Target::spawn(&mut command);
    let filters = [
        "-e",
        WORD,
        "--filter",
        "n & 1",
        "-e",
        TEXT,
        "--filter",
        "thread == 1 && text ~ '*program*'",
        "--ring",
        "64K",
    ];
    let mut attached = Attached::unread(target.pid(), via, &filters);
    target.say("go");
    std::thread::sleep(Duration::from_millis(300));
    attached.read();
    let passed = parse(&target.line());
    target.say("end");
    assert!(target.finish().0.success());
    let ran = attached.finish();
    ran.assert_well();
    assert_eq!(passed[WORD], 2 * each);
    for (name, hits) in passed {
        let printed = ran
            .lines()
            .filter(|line| line.event == name && line.lost().is_none());
        let (events, counted, filtered, lost) = ran.row_with_filters(name);
        assert_eq!(events, printed.count() as u64, "{}", ran.err);
        assert_eq!(
            (counted, events + filtered + lost),
            (hits, hits),
            "{}",
            ran.err
        );
        // What finds no room in the program's rings had passed.
        if via == Via::Ring {
            assert_eq!(filtered, hits / 2, "{}", ran.err);
        }
    }
    for line in ran.lines().filter(|line| line.lost().is_none()) {
        let number = |name: &str| -> Option<u64> {
            let mut words = line.body.split(' ');
            words.find_map(|word| word.strip_prefix(name))?.parse().ok()
        };
        let passes = match line.event {
            TEXT => number("thread=") == Some(1),
            _ => number("n=").is_some_and(|n| n % 2 == 1),
        };
        assert!(passes, "{line:?}");
    }
    assert!(!ran.err.contains("unaccounted"), "{}", ran.err);
}

fn exact_otherwise(appending: &str) {
    let (passed, ran) = count(
        Via::Ring,
        &["count", "3", "100000"],
        appending,
        |attached| {
            std::thread::sleep(Duration::from_millis(500));
            attached.read();
        },
    );
    let lost = check(&ran, passed);
    assert!(
        lost > 0,
        "nothing was lost: the test shows nothing\n{}",
        ran.err
    );
}

/// Ctrl-C while the program is there and idle: nothing of what it hit is missing.
pub(crate) fn exact_when_interrupted(via: Via) {
    let mut target = Target::start(&["count", "2", "5000"]);
    let attached = Attached::start(target.pid(), via, &["-e", "count:*"]);
    let passed = parse(&target.ask("go"));
    let ran = attached.interrupt();
    check(&ran, passed);
    target.say("end");
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
}

fn count(
    via: Via,
    arguments: &[&str],
    appending: &str,
    read: impl FnOnce(&mut Attached),
) -> (BTreeMap<&'static str, u64>, Ran) {
    let mut command = Command::new(&built().traced);
    command
        .args(arguments)
        .env("TRACED_APPENDING", appending)
        .env("TRACEBRAID_RING", "64K");
    let mut target = Target::spawn(&mut command);
    let mut attached = Attached::unread(target.pid(), via, &["-e", "count:*", "--ring", "64K"]);
    target.say("go");
    read(&mut attached);
    let passed = parse(&target.line());
    target.say("end");
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
    (passed, attached.finish())
}

fn parse(line: &str) -> BTreeMap<&'static str, u64> {
    let numbers: Vec<u64> = line
        .split(' ')
        .map(|word| word.parse().unwrap_or_else(|_| panic!("{line}")))
        .collect();
    BTreeMap::from([(WORD, numbers[0]), (TEXT, numbers[1])])
}

/// Compares lines and the summary with what the program counted; how many were lost.
fn check(ran: &Ran, passed: BTreeMap<&'static str, u64>) -> u64 {
    ran.assert_well();
    let (mut printed, mut lost) = (BTreeMap::new(), BTreeMap::new());
    let mut last: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for line in ran.lines() {
        match line.lost() {
            Some(count) => *lost.entry(line.event).or_insert(0) += count,
            None => {
                *printed.entry(line.event).or_insert(0) += 1;
                // A thread's own count goes on.
                let seen = line
                    .body
                    .rsplit('=')
                    .next()
                    .and_then(|number| number.parse().ok());
                let seen: u64 = seen.unwrap_or_else(|| panic!("{line:?}"));
                let before = last.insert((line.event, line.tid), seen);
                assert!(
                    before.is_none_or(|before| before < seen),
                    "{line:?} after {before:?}"
                );
            }
        }
    }
    for (name, hits) in passed {
        let printed = printed.get(name).copied().unwrap_or(0);
        let lost = lost.get(name).copied().unwrap_or(0);
        assert_eq!(
            printed + lost,
            hits,
            "{name}: {printed} printed, {lost} lost\n{}",
            ran.err
        );
        assert_eq!(ran.row(name), (printed, hits, lost), "{}", ran.err);
    }
    assert!(!ran.err.contains("unaccounted"), "{}", ran.err);
    lost.values().sum()
}
