//! Switching: what `tracing` believes of our interest is made equal to what is wanted.
//!
//! `tracing` asks a subscriber once for its interest in a callsite and keeps the answer, so that a callsite
//! that nobody wants costs what it costs without any subscriber. So whatever changes what is wanted ends in
//! [`follow`], which has it ask again. Callsites above the level that subscribers hint at are not even
//! registered; while anything is wanted that such a callsite might be named by, the hint is TRACE.
//!
//! A callsite that is registered while the wish changes may keep the older answer: `tracing` asks and then
//! stores, and nothing tells that it has stored. So the helper thread has it ask again after registrations.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::{Dispatch, Metadata, dispatcher};

use super::callsite::{self, Known};
use super::{forward, generic};
use crate::{lock, registry};

/// Whether a dispatcher of ours was ever made.
static ANY: AtomicBool = AtomicBool::new(false);
/// Whether callsites of every level are wanted, or are to be made known.
static OPEN: AtomicBool = AtomicBool::new(false);
/// How many registrations were answered.
static ANSWERED: AtomicU32 = AtomicU32::new(0);
/// How many were when the helper thread last had all interests asked again.
static SETTLED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread has interests asked again.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// A dispatcher of ours was made.
pub(super) fn add(dispatch: &Dispatch) {
    let weak = dispatch.downgrade();
    let mut locked = lock::lock();
    locked.dispatches.retain(|known| known.upgrade().is_some());
    locked.dispatches.push(weak);
    drop(locked);
    ANY.store(true, Ordering::Release);
    look();
}

/// Whether callsites of every level are wanted, or are to be made known.
#[inline]
pub(super) fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed)
}

/// Whether we want hits of a callsite.
pub(super) fn wants(known: &Known) -> bool {
    known.is_on() || generic::is_on(known.metadata)
}

/// Whether we might want hits of a callsite that is not known: it registers nowhere, or could not be made
/// known yet.
pub(super) fn might_want(metadata: &Metadata<'_>) -> bool {
    is_open() && (metadata.is_event() || metadata.is_span()) && !forward::is_forwarded(metadata)
}

/// A registration is answered.
pub(super) fn answered() {
    if !ASKING.with(Cell::get) {
        ANSWERED.fetch_add(1, Ordering::AcqRel);
    }
}

/// Looks what is wanted. Whether interests have to be asked again.
fn look() -> bool {
    let generic = generic::look();
    let open = registry::awaits_made()
        || generic::events_are_on()
        || generic::spans_are_on()
        || callsite::all().any(Known::is_on);
    OPEN.swap(open, Ordering::AcqRel) != open || generic
}

/// Follows what is wanted now; `made` says that something changed of tracepoints that were made. Called
/// without any lock.
pub(crate) fn follow(made: bool) {
    if ANY.load(Ordering::Acquire) && (look() || made) {
        ask_again();
    }
}

/// Has registrations asked again that came meanwhile: the helper thread's part.
pub(crate) fn follow_registrations() {
    if !ANY.load(Ordering::Acquire) {
        return;
    }
    let answered = ANSWERED.load(Ordering::Acquire);
    if SETTLED.swap(answered, Ordering::AcqRel) != answered && is_open() {
        ask_again();
    }
}

/// Has all interests asked again, by one thread at a time: the answers that stay are those to the last
/// question.
fn ask_again() {
    static ONE: AtomicU32 = AtomicU32::new(0);
    struct Out(bool);
    impl Drop for Out {
        fn drop(&mut self) {
            if self.0 {
                ONE.store(0, Ordering::Release);
            }
        }
    }
    // By whom: in a child of fork the thread that had it may not be there. A subscriber may also change what
    // is wanted while it is asked.
    let process = std::process::id();
    let take = || {
        let taken = ONE.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed);
        match taken {
            Ok(_) => true,
            Err(other) if other != process => ONE
                .compare_exchange(other, process, Ordering::Acquire, Ordering::Relaxed)
                .is_ok(),
            Err(_) => false,
        }
    };
    let is_within = ASKING.with(Cell::get);
    while !is_within && !take() {
        std::thread::yield_now();
    }
    let _out = Out(!is_within);
    let dispatches = lock::lock().dispatches.clone();
    let Some(dispatch) = dispatches.iter().rev().find_map(|weak| weak.upgrade()) else {
        return;
    };
    // Where there is only one dispatcher, `tracing` asks the one that this thread has.
    dispatcher::with_default(&dispatch, || {
        let before = ASKING.with(|asking| asking.replace(true));
        rebuild_interest_cache();
        ASKING.with(|asking| asking.set(before));
    });
}
