//! The ways in which a process may write its own text, and processes that may not.

#![allow(unsafe_code)]

use std::error::Error as _;
use std::fs;

use tracebraid::{ErrorKind, Options, Patching};
use tracebraid_tests::mdwe::deny_write_execute;
use tracebraid_tests::own_text;
use tracebraid_tests::requirement::Need;
use tracebraid_tests::scenario::Scenario;
use tracebraid_tests::uprobe;

use super::{hit, tested, tracepoint};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "written_through_proc_the_text_stays_file_backed_and_unwritable",
        &[Need::OwnText],
        through_proc,
    ),
    Scenario::new(
        "written_by_mprotect_no_page_stays_writable_and_executable",
        &[],
        by_mprotect,
    ),
    Scenario::new(
        "a_process_that_denies_write_execute_enables_through_proc",
        &[Need::Mdwe, Need::OwnText],
        denied_through_proc,
    ),
    Scenario::new(
        "a_process_that_denies_write_execute_refuses_the_way_by_mprotect",
        &[Need::Mdwe],
        denied_by_mprotect,
    ),
    Scenario::new(
        "a_process_that_denies_write_execute_stays_off_and_says_why_where_the_kernel_refuses_proc_too",
        &[Need::Mdwe],
        denied_by_itself,
    ),
    Scenario::new(
        "after_giving_up_root_the_kept_handle_still_enables",
        &[Need::Root, Need::OwnText],
        after_setuid,
    ),
    Scenario::new(
        "where_both_ways_are_refused_the_site_stays_off_and_the_error_says_why",
        &[Need::Root, Need::Mdwe],
        both_refused,
    ),
];

fn init(patching: Patching) {
    tracebraid::init_with(Options::new().patching(patching)).unwrap();
}

/// On, off, and on by a callback.
fn toggles() {
    assert!(!hit(0));
    assert_eq!(tracebraid::enable("hit").unwrap(), 1);
    assert!(hit(1));
    tracebraid::disable("hit").unwrap();
    assert!(!hit(2));
    let attachment = tracepoint("hit").attach(|_| {}).unwrap();
    assert!(hit(3));
    drop(attachment);
    assert!(!hit(4));
}

/// The mapping of the site's code.
fn mapping() -> String {
    let address = tracepoint("hit").sites()[0].address as u64;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (start, rest) = line.split_once('-').unwrap();
        let (end, _) = rest.split_once(' ').unwrap();
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        (start..end).contains(&address)
    };
    maps.lines().find(holds).unwrap().to_owned()
}

fn through_proc() {
    let before = mapping();
    init(Patching::ProcMem);
    toggles();
    tracebraid::enable("hit").unwrap();
    assert_eq!(mapping(), before);
    assert!(before.contains(" r-xp "), "{before}");
    let address = tracepoint("hit").sites()[0].address as u64;
    let (file, _) = uprobe::mapped(address).unwrap();
    assert_eq!(file, std::env::current_exe().unwrap().to_str().unwrap());
}

fn by_mprotect() {
    init(Patching::Mprotect);
    toggles();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("rwxp"), "{maps}");
    assert!(mapping().contains(" r-xp "));
}

fn denied_through_proc() {
    deny_write_execute();
    init(Patching::ProcMem);
    toggles();
    assert!(mapping().contains(" r-xp "));
}

fn denied_by_itself() {
    deny_write_execute();
    init(Patching::Auto);
    match own_text::refusal() {
        Some(_) => assert_refused(),
        None => toggles(),
    }
}

fn denied_by_mprotect() {
    init(Patching::Mprotect);
    deny_write_execute();
    assert_refused();
}

fn become_nobody() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: both calls take numbers only.
    unsafe {
        assert_eq!(libc::setresgid(NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0);
    }
    let reopened = fs::OpenOptions::new().write(true).open("/proc/self/mem");
    assert!(
        reopened.is_err(),
        "this process was to lose the right to open its memory"
    );
}

fn after_setuid() {
    init(Patching::ProcMem);
    become_nobody();
    toggles();
    assert!(tracebraid::status().text.is_ok());
}

fn both_refused() {
    become_nobody();
    deny_write_execute();
    init(Patching::Auto);
    assert_refused();
    assert!(tracebraid::status().text.is_err());
    // What needs no patching works all the same.
    tracebraid::enable("tested").unwrap();
    assert!(tested(1));
}

/// Nothing can be switched on; the cause is told, nothing is left behind and nothing breaks.
fn assert_refused() {
    let before = mapping();
    for _ in 0..2 {
        let error = tracebraid::enable("hit").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Text);
        let cause = error.source().expect("a cause").to_string();
        assert!(cause.contains("denied"), "{error}: {cause}");
        assert!(!hit(1) && !tracebraid::is_enabled("hit"));
    }
    let error = tracepoint("hit").attach(|_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Text);
    tracebraid::disable("hit").unwrap_err();
    tracebraid::disable("hit").unwrap();
    assert_eq!(tracebraid::status().sites_on, 0);
    assert!(!hit(2));
    assert_eq!(mapping(), before);
}
