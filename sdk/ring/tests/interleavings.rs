//! Every order in which threads may run and see one another's stores, for as long as a model is small:
//! what a run of the compiled code shows only when it is unlucky.
//!
//! The code that is checked is that of the crate: its sources, compiled here over the atomics of a model
//! checker instead of those of the machine (`--cfg loom`; `cargo xtask test` has a step for it).
//! Restartable sequences are assembly and the kernel's promise: `storms` is for them.

#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "sources of another crate")]

// Those of the crate.
#[path = "../src/consumer.rs"]
mod consumer;
#[path = "../src/geometry.rs"]
mod geometry;
#[path = "../src/locked.rs"]
mod locked;
#[path = "../src/requests.rs"]
mod protocol;

// What they stand on.
#[path = "interleavings/region.rs"]
mod region;
#[path = "interleavings/sync.rs"]
mod sync;
#[path = "interleavings/thread.rs"]
mod thread;
use tracebraid_ring::{Appended, Mode};

#[path = "interleavings/appends.rs"]
mod appends;
#[path = "interleavings/requests.rs"]
mod requests;

/// Tries all interleavings with so many preemptions: `TRACEBRAID_SOAK=1` has one more.
fn model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let soak = std::env::var_os("TRACEBRAID_SOAK").is_some();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions + usize::from(soak));
    model.max_branches = 100_000;
    model.check(check);
}
