//! Switching: what `tracing` believes of our interest is made equal to what is wanted.
//!
//! `tracing` asks a subscriber once for its interest in a callsite and keeps the answer, so that a callsite
//! that nobody wants costs what it costs without any subscriber. So whatever changes what is wanted ends in
//! [`follow`], which has it ask again. Callsites above the level that subscribers hint at are not even
//! registered; while anything is wanted that such a callsite might be named by, the hint is TRACE.
//!
//! A callsite that is registered while the wish changes may keep the older answer: `tracing` asks and then
//! stores, and nothing tells that it has stored. So the helper thread has it ask again after registrations.
//!
//! Whoever returns from [`follow`] may rely on it that `tracing` has asked since its wish was there, no matter
//! which thread saw the wish first: one thread at a time compares what is wanted with what was last asked for,
//! and asks. Only [`add`] cannot wait for its turn, since `tracing` holds a lock while it calls: it looks, and
//! leaves the asking to `tracing`, which does it next.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::{Dispatch, Metadata, dispatcher};

use super::callsite::{self, Known};
use super::{forward, generic};
use crate::{gate, lock, registry};

/// Whether a dispatcher of ours was ever made.
static ANY: AtomicBool = AtomicBool::new(false);
/// What is wanted, in the bits below; above them how many times it was looked at.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// What was when `tracing` last asked again for us. Of the thread that has its turn.
static ASKED: Asked = Asked {
    wanted: AtomicU32::new(0),
    switches: AtomicU32::new(0),
};
/// How many registrations were answered.
static ANSWERED: AtomicU32 = AtomicU32::new(0);
/// How many were when the helper thread last looked.
static SETTLED: AtomicU32 = AtomicU32::new(0);
/// How many more times the helper thread asks again for what was registered.
static ROUNDS: AtomicU32 = AtomicU32::new(0);

/// Callsites of every level are wanted, or are to be made known.
const OPEN: u32 = 1;
/// `tracing:event` is on.
const EVENTS: u32 = 2;
/// `tracing:span` is on.
const SPANS: u32 = 4;
const BITS: u32 = OPEN | EVENTS | SPANS;

/// What answers were made of.
struct Asked {
    /// The bits of [`WANTED`].
    wanted: AtomicU32,
    /// [`gate::made_switches`].
    switches: AtomicU32,
}

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
    WANTED.load(Ordering::Relaxed) & OPEN != 0
}

/// Whether events go to `tracing:event`.
#[inline]
pub(super) fn events_are_on() -> bool {
    WANTED.load(Ordering::Relaxed) & EVENTS != 0
}

/// Whether what happens to spans goes to `tracing:span`.
#[inline]
pub(super) fn spans_are_on() -> bool {
    WANTED.load(Ordering::Relaxed) & SPANS != 0
}

/// Whether we want hits of a callsite.
pub(super) fn wants(known: &Known) -> bool {
    let metadata = known.metadata;
    known.is_on() || metadata.is_event() && events_are_on() || metadata.is_span() && spans_are_on()
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

/// Looks what is wanted; its bits. What another thread looked at earlier never replaces it.
fn look() -> u32 {
    let mut before = WANTED.load(Ordering::Acquire);
    loop {
        let [events, spans] = generic::are_on();
        let open = events || spans || registry::awaits_made() || callsite::all().any(Known::is_on);
        let bit = |bit: u32, on: bool| if on { bit } else { 0 };
        let now = bit(OPEN, open) | bit(EVENTS, events) | bit(SPANS, spans);
        let next = (before & !BITS).wrapping_add(BITS + 1) | now;
        match WANTED.compare_exchange(before, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return now,
            Err(newer) => before = newer,
        }
    }
}

/// Follows what is wanted now. Called without any lock.
pub(crate) fn follow() {
    if !ANY.load(Ordering::Acquire) {
        return;
    }
    let _turn = Turn::take();
    // Before it is looked at: what comes later is asked for by whoever brings it.
    let switches = gate::made_switches();
    let wanted = look();
    let same = |asked: &AtomicU32, now| asked.load(Ordering::Relaxed) == now;
    if !same(&ASKED.wanted, wanted) || !same(&ASKED.switches, switches) {
        ask_again();
        ASKED.wanted.store(wanted, Ordering::Relaxed);
        ASKED.switches.store(switches, Ordering::Relaxed);
    }
}

/// Has registrations asked again that came meanwhile: the helper thread's part.
pub(crate) fn follow_registrations() {
    if !ANY.load(Ordering::Acquire) {
        return;
    }
    let answered = ANSWERED.load(Ordering::Acquire);
    let rounds = match SETTLED.swap(answered, Ordering::AcqRel) == answered {
        true => ROUNDS.load(Ordering::Relaxed),
        // The thread that had the last answer may be kept from storing it for a while, and what it was asked
        // before is then wanted by a wish that comes meanwhile.
        false => 2,
    };
    ROUNDS.store(rounds.saturating_sub(1), Ordering::Relaxed);
    if rounds > 0 && is_open() {
        let _turn = Turn::take();
        ask_again();
    }
}

/// A thread's turn to have interests asked again: the answers that stay are those to the last question.
struct Turn {
    /// Not so where it already was this thread's: a subscriber may change what is wanted while it is asked.
    was_taken: bool,
}

/// The process whose thread has its turn, else 0. In a child of fork that thread may not be there.
static TURN: AtomicU32 = AtomicU32::new(0);

impl Turn {
    fn take() -> Turn {
        if ASKING.with(Cell::get) {
            return Turn { was_taken: false };
        }
        let process = std::process::id();
        loop {
            let other = match TURN.load(Ordering::Relaxed) {
                other if other == process => {
                    std::thread::yield_now();
                    continue;
                }
                other => other,
            };
            let taken = TURN.compare_exchange(other, process, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Turn { was_taken: true };
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.was_taken {
            TURN.store(0, Ordering::Release);
        }
    }
}

/// Has all interests asked again, in this thread's turn.
fn ask_again() {
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
