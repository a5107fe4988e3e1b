//! Enabling by pattern, and what `status` says.

use std::thread;

use tracebraid::Options;
use tracebraid_tests::scenario::Scenario;

use super::{hit, tested};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "two_enables_and_one_disable_leave_it_on",
        &[],
        enables_count,
    ),
    Scenario::new("enables_by_different_patterns_add_up", &[], patterns_add_up),
    Scenario::new(
        "a_disable_without_an_enable_takes_nothing_from_a_later_one",
        &[],
        no_debt,
    ),
    Scenario::new(
        "a_pattern_names_providers_and_names_with_wildcards",
        &[],
        patterns,
    ),
    Scenario::new(
        "two_threads_that_enable_and_disable_leave_what_they_began_with",
        &[],
        at_once,
    ),
    Scenario::new("status_says_what_works_before_and_after_init", &[], status),
    Scenario::new(
        "without_a_helper_thread_the_process_can_enable",
        &[],
        no_thread,
    ),
];

fn enables_count() {
    assert!(!hit(1));
    for _ in 0..2 {
        assert_eq!(tracebraid::enable("processes:hit").unwrap(), 1);
        assert!(hit(2) && tracebraid::is_enabled("hit"));
    }
    assert_eq!(tracebraid::disable("processes:hit").unwrap(), 1);
    assert!(hit(3) && tracebraid::is_enabled("hit"));
    tracebraid::disable("processes:hit").unwrap();
    assert!(!hit(4) && !tracebraid::is_enabled("hit"));
}

fn patterns_add_up() {
    tracebraid::enable("*").unwrap();
    tracebraid::enable("hit").unwrap();
    tracebraid::disable("*").unwrap();
    assert!(hit(1) && !tested(1));
    let attachment = super::tracepoint("hit").attach(|_| {}).unwrap();
    tracebraid::disable("hit").unwrap();
    assert!(hit(2));
    drop(attachment);
    assert!(!hit(3));
}

fn no_debt() {
    assert_eq!(tracebraid::disable("hit").unwrap(), 1);
    assert!(!hit(1));
    tracebraid::enable("hit").unwrap();
    assert!(hit(2));
}

fn patterns() {
    let count = |pattern: &str| {
        let count = tracebraid::enable(pattern).unwrap();
        assert_eq!(tracebraid::disable(pattern).unwrap(), count);
        count
    };
    // The SDK, with its feature `tracing`, has some of its own.
    let points = tracebraid::tracepoints();
    let is_own = |point: &&tracebraid::Tracepoint| point.provider() == "processes";
    let (all, own) = (points.len(), points.iter().filter(is_own).count());
    assert!(own >= 2);
    for (pattern, expected) in [
        ("hit", 1),
        ("processes:hit", 1),
        ("proc*:h?t", 1),
        ("*:[gh]it", 1),
        ("*", all),
        ("processes:*", own),
        ("other:*", 0),
        ("processes:", 0),
        ("hi", 0),
        ("", 0),
    ] {
        assert_eq!(count(pattern), expected, "{pattern:?}");
    }
    assert!(!hit(1) && !tested(1));
}

fn at_once() {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..2_000 {
                    tracebraid::enable("hit").unwrap();
                    assert!(hit(n));
                    tracebraid::disable("hit").unwrap();
                }
            });
        }
    });
    assert!(!hit(0));
}

fn status() {
    let before = tracebraid::status();
    assert!(
        before
            .helper
            .as_ref()
            .is_err_and(|why| why.contains("init()")),
        "{before}"
    );
    tracebraid::init();
    tracebraid::enable("hit").unwrap();
    let after = tracebraid::status();
    assert!(after.helper.is_ok() && after.text.is_ok(), "{after}");
    assert_eq!((after.objects, after.sites_on), (1, 1), "{after}");
    assert_eq!(after.tracepoints, tracebraid::tracepoints().len());
    let text = after.to_string();
    assert!(text.contains("helper thread: yes"), "{text}");
}

fn no_thread() {
    tracebraid::init_with(Options::new().no_thread()).unwrap();
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert_eq!(threads, 1);
    tracebraid::enable("*").unwrap();
    assert!(hit(1) && tested(1));
    assert!(tracebraid::status().helper.is_err());
}
