//! Switching while threads hit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tracing::dispatcher::{Dispatch, with_default};
use tracing::{Subscriber, debug, info, info_span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::{bodies, drained, turn};

static EVENTS: AtomicU64 = AtomicU64::new(0);
static SPANS: AtomicU64 = AtomicU64::new(0);

/// Counts what a layer under a filter sees.
struct Counts;

impl<S: Subscriber> Layer<S> for Counts {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        assert!(*event.metadata().level() <= tracing::Level::INFO);
        EVENTS.fetch_add(1, Ordering::Relaxed);
    }
    fn on_close(&self, _: tracing::span::Id, _: Context<'_, S>) {
        SPANS.fetch_add(1, Ordering::Relaxed);
    }
}

fn hit(n: u64) {
    let span = info_span!("span", n);
    span.in_scope(|| {
        info!(n, "for all");
        debug!(n, "for us");
    });
}

#[test]
fn no_state_is_lost_in_a_storm_of_switches_and_others_see_what_they_saw() {
    // On and off: 10,000 of each in a soak.
    let switches = match std::env::var_os("TRACEBRAID_SOAK") {
        Some(_) => 10_000,
        None => 200,
    };
    let mut turn = turn();
    let theirs = Registry::default()
        .with(EnvFilter::new("info"))
        .with(Counts);
    let dispatch = Dispatch::new(tracebraid::tracing::wrap(theirs));
    let stop = AtomicBool::new(false);
    let hits: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    with_default(&dispatch, || {
                        let mut hits = 0;
                        while !stop.load(Ordering::Relaxed) {
                            hit(hits);
                            hits += 1;
                            thread::yield_now();
                        }
                        hits
                    })
                })
            })
            .collect();
        for switch in 0..switches {
            turn.enable("tracing.storm:*");
            turn.disable_all();
            if switch % 64 == 0 {
                drained();
            }
        }
        stop.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert!(hits > 100, "{hits}");
    assert_eq!(EVENTS.load(Ordering::Relaxed), hits);
    assert_eq!(SPANS.load(Ordering::Relaxed), hits);
    drained();

    with_default(&dispatch, || hit(1));
    assert_eq!(drained(), [""; 0]);
    turn.enable("tracing.storm:*");
    with_default(&dispatch, || hit(2));
    let seen = bodies();
    assert_eq!(seen.len(), 6, "{seen:#?}");
    assert_eq!(EVENTS.load(Ordering::Relaxed), hits + 2);
}

#[test]
fn a_wish_is_followed_when_enable_returns_whoever_else_looks_meanwhile() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            // As the helper thread does, and as others that switch do.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    tracebraid::settle().unwrap();
                }
            });
        }
        let missed = (0..1000).find(|n| {
            turn.enable("tracing.storm:*");
            with_default(&dispatch, || info!(n, "wanted"));
            turn.disable_all();
            with_default(&dispatch, || info!(n, "not wanted"));
            bodies() != [format!("level=3 span=0 message=wanted n={n}")]
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(missed, None);
    });
}
