//! Watched from outside: a uprobe of another tool raises the semaphore, and the key follows.

use std::path::PathBuf;
use std::time::Duration;

use tracebraid::{ErrorKind, Options};
use tracebraid_tests::requirement::Need;
use tracebraid_tests::scenario::{Scenario, eventually};
use tracebraid_tests::stapsdt;
use tracebraid_tests::uprobe::{self, Uprobe};

use super::{hit, tested, tracepoint};

const NEEDS: &[Need] = &[Need::Uprobe, Need::Tool("readelf")];
/// More than a helper thread needs that looks every 250 ms, on a machine that is busy.
const SOON: Duration = Duration::from_secs(5);

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a_key_follows_a_semaphore_that_a_tool_raises_and_lowers",
        NEEDS,
        key_follows,
    ),
    Scenario::new(
        "a_key_stays_on_while_either_a_tool_or_the_process_wants_it",
        NEEDS,
        either,
    ),
    Scenario::new(
        "a_gate_that_tests_its_semaphore_needs_no_init",
        NEEDS,
        without_init,
    ),
    Scenario::new(
        "without_a_helper_thread_settle_looks_at_semaphores",
        NEEDS,
        by_settle,
    ),
    Scenario::new(
        "a_site_under_another_tool_s_breakpoint_is_left_alone_and_the_error_says_so",
        &[Need::Uprobe],
        foreign_breakpoint,
    ),
    Scenario::new(
        "a_tool_that_does_not_raise_the_semaphore_leaves_the_key_off",
        NEEDS,
        not_raised,
    ),
];

/// A probe of this very binary, with its semaphore.
fn probe(name: &str) -> Uprobe {
    attach(name, true)
}

fn attach(name: &str, raises: bool) -> Uprobe {
    let file: PathBuf = std::env::current_exe().unwrap();
    let notes = stapsdt::notes(&file, "processes");
    let note = notes
        .iter()
        .find(|note| note.name == name)
        .expect("the note");
    let semaphore = match raises {
        true => stapsdt::file_offset(&file, note.semaphore),
        false => 0,
    };
    let offset = stapsdt::file_offset(&file, note.location);
    Uprobe::attach(0, &file, offset, semaphore).unwrap()
}

fn key_follows() {
    tracebraid::init();
    assert!(!hit(0));
    for _ in 0..2 {
        let mut outside = probe("hit");
        eventually("the key is on", SOON, || hit(1));
        let before = outside.hits().unwrap();
        (0..10).for_each(|n| assert!(hit(n)));
        assert_eq!(outside.hits().unwrap(), before + 10);
        drop(outside);
        eventually("the key is off", SOON, || !hit(2));
        assert_eq!(tracebraid::status().sites_on, 0);
    }
}

fn either() {
    let watch = Options::new().watch_semaphores(Duration::from_millis(5));
    tracebraid::init_with(watch).unwrap();
    tracebraid::enable("hit").unwrap();
    let mut outside = probe("hit");
    hit(1);
    assert_eq!(outside.hits().unwrap(), 1);
    tracebraid::disable("hit").unwrap();
    assert!(hit(2), "the tool still wants it");
    assert_eq!(outside.hits().unwrap(), 2);
    let attachment = tracepoint("hit").attach(|_| {}).unwrap();
    drop(outside);
    std::thread::sleep(Duration::from_millis(50));
    assert!(hit(3), "the callback still wants it");
    drop(attachment);
    assert!(!hit(4));
}

fn without_init() {
    assert!(!tested(0));
    let mut outside = probe("tested");
    assert!(tested(1) && tested(2));
    assert_eq!(outside.hits().unwrap(), 2);
    assert!(tracebraid::is_enabled("tested"));
    drop(outside);
    assert!(!tested(3));
    assert!(tracebraid::status().helper.is_err());
}

fn by_settle() {
    tracebraid::init_with(Options::new().no_thread()).unwrap();
    let outside = probe("hit");
    assert!(!hit(1));
    assert_eq!(tracebraid::settle().unwrap(), 1);
    assert_eq!(tracebraid::settle().unwrap(), 0);
    assert!(hit(2));
    drop(outside);
    assert_eq!(tracebraid::settle().unwrap(), 1);
    assert!(!hit(3));
}

fn not_raised() {
    tracebraid::init();
    let mut outside = attach("hit", false);
    std::thread::sleep(Duration::from_millis(600));
    assert!(!hit(1));
    assert_eq!(outside.hits().unwrap(), 0);
}

fn foreign_breakpoint() {
    let site = tracepoint("hit").sites()[0].address as u64;
    let (file, offset) = uprobe::mapped(site).unwrap();
    let mut outside = Uprobe::attach(0, file.as_ref(), offset, 0).unwrap();
    let error = tracebraid::enable("*").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Site);
    assert!(!hit(1) && !tracebraid::is_enabled("hit"));
    assert!(tested(1), "the other tracepoints are on");
    assert_eq!(outside.hits().unwrap(), 1);
    drop(outside);
    // What was wished holds once the breakpoint is gone.
    assert_eq!(tracebraid::settle().unwrap(), 1);
    assert!(hit(2));
    tracebraid::disable("*").unwrap();
    assert!(!hit(3) && !tested(3));
}
