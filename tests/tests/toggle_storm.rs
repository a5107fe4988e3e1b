//! A key that is switched all along while threads run through it and a tool probes the same page.
//!
//! `TRACEBRAID_SOAK=1`: a million toggles and two hundred probes each.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::{Options, Patching};
use tracebraid_tests::mdwe;
use tracebraid_tests::requirement::{self, Need, is_short, is_soak};
use tracebraid_tests::scenario::{self, Scenario, eventually};
use tracebraid_tests::uprobe::{self, Uprobe};

#[path = "toggle_storm/page.rs"]
mod page;

const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a_key_survives_a_storm_of_toggles_through_proc",
        &[Need::Uprobe, Need::OwnText],
        through_proc,
    ),
    Scenario::new(
        "a_key_survives_a_storm_of_toggles_by_mprotect",
        &[Need::Uprobe],
        by_mprotect,
    ),
    Scenario::new(
        "a_key_survives_a_storm_of_toggles_where_write_execute_is_denied",
        &[Need::Uprobe, Need::Mdwe, Need::OwnText],
        denied,
    ),
];

fn main() {
    requirement::run(scenario::trials(&[SCENARIOS]));
}

fn through_proc() {
    storm(Patching::ProcMem);
}

fn by_mprotect() {
    storm(Patching::Mprotect);
}

fn denied() {
    mdwe::deny_write_execute();
    storm(Patching::Auto);
}

/// How often the key's cold side ran.
static HITS: AtomicU64 = AtomicU64::new(0);
static END: AtomicBool = AtomicBool::new(false);
/// Rounds that each of the runners has begun.
static ROUNDS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Calls of a probed function between an attach and its detach, and after it.
const CALLS: u64 = 200;

fn storm(patching: Patching) {
    let (toggles, probes) = match (is_soak(), is_short()) {
        (true, _) => (1_000_000, 200),
        (_, true) => (500, 2),
        _ => (20_000, 8),
    };
    tracebraid::init_with(Options::new().patching(patching)).unwrap();
    let runners: Vec<_> = (0..ROUNDS.len())
        .map(|runner| thread::spawn(move || run_through(runner)))
        .collect();
    let prober = thread::spawn(move || probe_neighbour(probes, patching));

    let (start, mut toggled) = (Instant::now(), 0);
    while toggled < toggles || !prober.is_finished() {
        tracebraid::enable("storm").unwrap();
        tracebraid::disable("storm").unwrap();
        toggled += 2;
    }
    let elapsed = start.elapsed();
    let probed = prober.join().expect("no hit of the probe was lost");

    assert!(HITS.load(Ordering::Relaxed) > 0);
    tracebraid::enable("storm").unwrap();
    assert!(tracebraid::is_enabled("storm"));
    let before = HITS.load(Ordering::Relaxed);
    eventually("the key is on at last", Duration::from_secs(60), || {
        HITS.load(Ordering::Relaxed) > before + 1000
    });
    tracebraid::disable("storm").unwrap();
    assert!(!tracebraid::is_enabled("storm"));
    // A thread that was in the cold side may still come out of it.
    all_go_on();
    let before = HITS.load(Ordering::Relaxed);
    all_go_on();
    assert_eq!(
        HITS.load(Ordering::Relaxed),
        before,
        "the key is off at last"
    );

    END.store(true, Ordering::Relaxed);
    let calls: u64 = runners
        .into_iter()
        .map(|runner| runner.join().unwrap())
        .sum();
    println!("{toggled} toggles, {probed} probes, {calls} calls, {before} hits in {elapsed:?}");
}

/// Waits until each runner has begun and ended a round from now on.
fn all_go_on() {
    for rounds in &ROUNDS {
        let now = rounds.load(Ordering::Relaxed);
        eventually("a runner goes on", Duration::from_secs(60), || {
            rounds.load(Ordering::Relaxed) > now + 1
        });
    }
}

/// Runs through the site, and checks what the function computes beside it.
fn run_through(runner: usize) -> u64 {
    let mut calls = 0;
    while !END.load(Ordering::Relaxed) {
        ROUNDS[runner].fetch_add(1, Ordering::Relaxed);
        for _ in 0..1000 {
            assert_eq!(page::site(black_box(calls), 3), page::expected(calls, 3));
            calls += 1;
        }
    }
    calls
}

/// Attaches and detaches a uprobe on the site's page; each counts every call in between.
///
/// By mprotect the page is writable at times. The kernel sets no probe in it then, and whether it does so when
/// the page is as before depends on whether it merges what the first mprotect had split: so it is tried until
/// there is a hit, and from that on none is lost.
fn probe_neighbour(rounds: u64, patching: Patching) -> u64 {
    let (neighbour, address) = page::neighbour();
    let (file, offset) = uprobe::mapped(address).unwrap();
    let call = |n| assert_eq!(neighbour(black_box(n), 3), page::expected(n, 3));
    for round in 0..rounds {
        let mut probe = Uprobe::attach(0, file.as_ref(), offset, 0).unwrap();
        if patching == Patching::Mprotect {
            eventually("the probe is set", Duration::from_secs(60), || {
                call(0);
                if probe.hits().unwrap() == 0 {
                    probe = Uprobe::attach(0, file.as_ref(), offset, 0).unwrap();
                }
                call(0);
                probe.hits().unwrap() > 0
            });
        }
        let before = probe.hits().unwrap();
        (0..CALLS).for_each(call);
        assert_eq!(probe.hits().unwrap() - before, CALLS, "round {round}");
        drop(probe);
        (0..CALLS).for_each(call);
    }
    rounds
}
