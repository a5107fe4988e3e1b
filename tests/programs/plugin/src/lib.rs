//! A library that is loaded while the program runs, with tracepoints and a copy of the SDK of its own.

#![deny(warnings)]

use std::sync::atomic::{AtomicU64, Ordering};

static EVALUATED: AtomicU64 = AtomicU64::new(0);

/// Hits `plugin:work`.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work(id: u64) -> u64 {
    tracebraid::event!(
        work,
        id = id,
        name = "plugin",
        evaluated = EVALUATED.fetch_add(1, Ordering::Relaxed)
    );
    shout(id as i32)
}

#[tracebraid::tracepoint]
#[inline(never)]
fn shout(volume: i32) -> u64 {
    volume.unsigned_abs().into()
}

/// How often the fields of `plugin:work` were evaluated since the library was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_evaluated() -> u64 {
    EVALUATED.load(Ordering::Relaxed)
}
