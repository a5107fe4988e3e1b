//! The locks of the SDK, and what fork does to them.
//!
//! ```text
//! gate lock     writing text, wishes, what is attached
//!   └▶ loader lock    walking the loaded objects
//! ```
//! A child of fork has only the thread that forked. So that it never inherits a lock which another
//! thread held, fork itself takes both and both sides give them back. The C library's own lock of its
//! list of objects is among what could be inherited so: this is why walking has a lock of ours.
//!
//! What runs under a lock may allocate, and a global allocator may hit places that ask for a lock: these
//! look first whether their thread has one ([`is_held_here`]).
//!
//! They are the standard library's mutexes: a lock that is queued for in a table of the process (as
//! `parking_lot` does) is handed on, in the child, to a thread that is not there.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::gate::text::Writer;
use crate::probe::{self, Attached, Retired};
use crate::registry::Wishes;
use crate::ring::{self, Listing};

/// What the gate lock protects.
pub(crate) struct Locked {
    pub(crate) writer: Writer,
    pub(crate) wishes: Wishes,
    /// Tracepoints that had callbacks.
    pub(crate) attached: Vec<Attached>,
    /// Lists of callbacks that may still be read.
    pub(crate) retired: Vec<Retired>,
    /// Why the helper thread could not be started.
    pub(crate) helper_failure: Option<String>,
    /// Why there are no rings.
    pub(crate) ring_failure: Option<String>,
    /// Which tracepoints go to the rings.
    pub(crate) listing: Listing,
    /// The dispatchers of `tracing` that ours are in.
    #[cfg(feature = "tracing")]
    pub(crate) dispatches: Vec<tracing_core::dispatcher::WeakDispatch>,
}

static LOCKED: Mutex<Locked> = Mutex::new(Locked {
    writer: Writer::new(),
    wishes: Wishes::new(),
    attached: Vec::new(),
    retired: Vec::new(),
    helper_failure: None,
    ring_failure: None,
    listing: Listing::new(),
    #[cfg(feature = "tracing")]
    dispatches: Vec::new(),
});

/// What the loader lock protects besides the loader's list: the rows of tracepoints made at run time.
static LOADER: Mutex<Vec<u64>> = Mutex::new(Vec::new());

thread_local! {
    /// How many of the locks this thread has.
    static HERE: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread has one of the locks, so that it must not ask for one.
#[cfg(feature = "tracing")]
pub(crate) fn is_held_here() -> bool {
    HERE.with(Cell::get) != 0
}

/// A lock that this thread has.
pub(crate) struct Guard<T: 'static>(MutexGuard<'static, T>);

impl<T> Guard<T> {
    fn take(lock: &'static Mutex<T>) -> Guard<T> {
        follow_fork();
        HERE.with(|here| here.set(here.get() + 1));
        Guard(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        // A moment before the lock is given back: nothing is run in between.
        HERE.with(|here| here.set(here.get() - 1));
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Takes the gate lock.
pub(crate) fn lock() -> Guard<Locked> {
    Guard::take(&LOCKED)
}

/// Takes the loader lock: the last one to be taken.
pub(crate) fn loader() -> Guard<Vec<u64>> {
    Guard::take(&LOADER)
}

fn follow_fork() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the three functions only take and give back locks; the C library forgets them when
        // this object is unloaded.
        unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
        }
    });
}

type Guards = (Guard<Locked>, Guard<Vec<u64>>);

/// What a thread that forks holds meanwhile.
struct Held(UnsafeCell<Option<Guards>>);

// SAFETY: it is only used by a thread that holds both locks, which is one at a time.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before() {
    let guards = (lock(), loader());
    // SAFETY: this thread holds the locks.
    unsafe { *HELD.0.get() = Some(guards) };
}

extern "C" fn after_in_parent() {
    // SAFETY: `before` took the locks in this thread.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn after_in_child() {
    // SAFETY: `before` took the locks in this thread, which is the only one here.
    let held = unsafe { (*HELD.0.get()).take() };
    tracebraid_ring::thread::forget();
    if let Some((locked, _loader)) = held {
        probe::forget_readers(&locked.attached);
        ring::forget_readers();
    }
}
