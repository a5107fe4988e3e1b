//! Sessions that come and go while the program runs on: each sees a whole piece of what happened.

use tracebraid_tests::scenario::eventually;

use super::bridge::{Attached, LONG, Line, Ran, Via};
use super::target::Target;

/// How many hits a session lasts, at least.
const HITS: u64 = 100;

/// From the first hit that a session sees to its last none is missing, none is of before it was attached,
/// and a return is seen exactly where its entry was.
pub(crate) fn whole_pieces(via: Via) {
    let mut target = Target::start(&["serve"]);
    let mut seen_before = None;
    for round in 0..6 {
        let attached = Attached::start(target.pid(), via, &["-e", "serve:*"]);
        eventually("switched on", LONG, || {
            target.ask("is_enabled serve:along") == "true"
        });
        let before = target.along();
        eventually("a hundred hits", LONG, || target.along() > before + HITS);
        if round % 2 == 1 {
            // What it had printed by then may end anywhere.
            attached.signal(libc::SIGKILL);
            attached.finish();
            continue;
        }
        let ran = attached.interrupt();
        ran.assert_well();
        let (first, last) = numbers(&ran);
        assert!(seen_before.is_none_or(|before| before < first), "{first}");
        seen_before = Some(last);
        calls(&ran);
    }
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
}

/// First and last number of the hits that came one after another.
fn numbers(ran: &Ran) -> (u64, u64) {
    let numbers: Vec<u64> = ran
        .lines()
        .filter(|line| line.event == "serve:along")
        .map(|line| {
            line.body
                .strip_prefix("n=")
                .expect("n")
                .parse()
                .expect("a number")
        })
        .collect();
    assert!(numbers.len() as u64 >= HITS, "{numbers:?}\n{}", ran.err);
    for pair in numbers.windows(2) {
        assert_eq!(pair[1], pair[0] + 1, "{}", ran.err);
    }
    (numbers[0], numbers[numbers.len() - 1])
}

/// Entry, return, entry, return: a call that was entered while off returns unseen.
///
/// The kernel places and removes probes one after the other, and may take its time: at either end of a
/// session only one of the two may be there. What is judged begins with the first entry of which also the
/// return can be seen, and ends with the last such return.
fn calls(ran: &Ran) {
    let lines: Vec<Line<'_>> = ran.lines().collect();
    let first = |event| lines.iter().position(|line| line.event == event);
    let last = |event| lines.iter().rposition(|line| line.event == event);
    let (entry, end) = ("serve:charge", "serve:charge__return");
    let both = |of: [Option<usize>; 2]| of.map(|at| at.expect("entries and returns"));
    let [first_entry, first_return] = both([first(entry), first(end)]);
    let [last_entry, last_return] = both([last(entry), last(end)]);
    let begin = first_entry.max(first_return + 1);
    let stop = last_entry.min(last_return + 1);
    assert!(begin < stop, "{}", ran.err);
    let mut expected = None;
    for line in &lines[begin..stop] {
        match line.event {
            "serve:charge" => {
                assert_eq!(expected, None, "{line:?}");
                let id = line.body.strip_prefix("order_id=");
                let id: u64 = id
                    .and_then(|rest| rest.split(' ').next()?.parse().ok())
                    .unwrap_or_else(|| panic!("{line:?}"));
                expected = Some(format!(" ret={}", id + 7));
            }
            "serve:charge__return" => {
                let end = expected.take().unwrap_or_else(|| panic!("{line:?}"));
                assert!(line.body.ends_with(&end), "{line:?}, {end}");
            }
            _ => {}
        }
    }
}
