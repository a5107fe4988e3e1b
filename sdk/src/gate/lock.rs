//! The one lock under which text is written and wishes change.
//!
//! A child of fork has only the thread that forked. So that it never inherits a lock which another
//! thread held, fork itself takes the lock and both sides give it back.

use std::sync::Once;

use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Mutex, MutexGuard, RawMutex};

use super::text::Writer;
use crate::registry::Wishes;

/// What the lock protects.
pub(crate) struct Locked {
    pub(crate) writer: Writer,
    pub(crate) wishes: Wishes,
}

static LOCKED: Mutex<Locked> = Mutex::new(Locked {
    writer: Writer::new(),
    wishes: Wishes::new(),
});

/// Takes the lock.
pub(crate) fn lock() -> MutexGuard<'static, Locked> {
    static FORK: Once = Once::new();
    FORK.call_once(|| {
        // SAFETY: the three functions only take and give back a lock; they are never unregistered
        // but by the C library when this object is unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
    LOCKED.lock()
}

fn raw() -> &'static RawMutex {
    // SAFETY: the lock is only taken and given back in pairs, by the thread that forks.
    unsafe { LOCKED.raw() }
}

extern "C" fn before_fork() {
    raw().lock();
}

extern "C" fn after_fork() {
    // SAFETY: `before_fork` took it in this thread.
    unsafe { raw().unlock() };
}
