//! The helper thread, and starting up.
//!
//! The kernel raises a semaphore and tells nobody, and the loader loads a library likewise. One
//! thread looks at both a few times a second and makes the program's text equal to what it finds.
//! Without it everything works that the program itself asks for, and sites with
//! `gate = "semaphore"`; what other tools ask for is then seen only when [`settle`] is called.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tracebraid_ring::Mode;
use tracebraid_wire::region::HELPER_NAME;

use crate::dso;
use crate::error::{Error, ErrorKind, Result};
use crate::gate;
use crate::options::Options;
use crate::registry;
use crate::ring::{self, Setup};
use crate::state::Point;
use crate::status::Status;

/// The process whose helper thread runs (0: none), since a thread does not live on in a child of fork.
static HELPER: AtomicU32 = AtomicU32::new(0);

/// The last process that got ready (0: none).
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Gets ready where that was not done in this process yet: what its options were stays.
#[cfg(feature = "tracing")]
pub(crate) fn begin() {
    if BEGUN.load(Ordering::Acquire) != std::process::id() {
        init();
    }
}

/// Gets ready, with the default [`Options`]: opens what later rights might not allow and starts the
/// helper thread. Call it early in `main`; in a child of fork it may be called again. What does not
/// work here is told by [`status`](crate::status()), and tracepoints then stay off.
pub fn init() {
    // What failed is kept for `status`.
    let _ = init_with(Options::new());
}

/// Gets ready, with options.
///
/// # Errors
/// The helper thread could not be started: tracepoints that the program itself enables still work. The
/// memory that [`Options::eager`] asks for is not there: it is taken as it is written.
pub fn init_with(options: Options) -> Result<()> {
    BEGUN.store(std::process::id(), Ordering::Release);
    let mut locked = gate::lock();
    locked.writer.set_patching(options.patching);
    // Where it cannot be opened, `status` and every `enable` say so.
    let _ = locked.writer.open();
    drop(locked);
    ring::service::set_flight_recorder(options.flight_recorder);
    let rings = ring::start(&Setup {
        ring_bytes: options.ring_bytes(),
        mode: if options.flight_recorder {
            Mode::Overwrite
        } else {
            Mode::Discard
        },
        appending: options.appending,
        helper: options.thread,
    });
    gate::lock().listing.set_recording(options.recording());
    let taken = match &rings {
        Ok(rings) if options.eager => ring::take_memory(rings).map_err(|cause| {
            Error::new(ErrorKind::Rings, "the rings' memory cannot be had").because(cause)
        }),
        _ => Ok(()),
    };
    gate::lock().ring_failure = rings.err().map(|cause| cause.to_string());
    // Likewise.
    let _ = registry::settle();
    let pid = std::process::id();
    if !options.thread || HELPER.swap(pid, Ordering::AcqRel) == pid {
        return taken;
    }
    start_helper(options.watch).map_err(|cause| {
        HELPER.store(0, Ordering::Release);
        gate::lock().helper_failure = Some(cause.to_string());
        Error::new(ErrorKind::Thread, "the helper thread could not be started").because(cause)
    })?;
    ring::service::await_bridge();
    ring::service::await_follower();
    taken
}

fn start_helper(watch: Duration) -> io::Result<()> {
    // The thread inherits the mask: a signal meant for the program must not be taken by the helper.
    let mask = block_all_signals();
    let started = thread::Builder::new()
        .name(HELPER_NAME.into())
        .stack_size(256 * 1024)
        .spawn(move || help(watch));
    restore_signals(&mask);
    started.map(drop)
}

fn block_all_signals() -> libc::sigset_t {
    // SAFETY: both sets are plain memory that the calls fill.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: a mask that `pthread_sigmask` gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

fn help(watch: Duration) {
    let mut seen = None;
    loop {
        let generation = dso::generation();
        let asked = ring::service::serve();
        if asked || seen != Some(generation) || differs() {
            seen = Some(generation);
            // Nobody listens here; whoever asks `status` is told.
            let stuck = registry::settle().is_err();
            ring::service::done(stuck);
        }
        #[cfg(feature = "tracing")]
        crate::interop::tracing::follow_registrations();
        ring::service::wait(watch);
    }
}

/// Whether some object's wanted state is no longer what its text was made equal to: cheap, no lock
/// but the loader's.
fn differs() -> bool {
    let mut differs = false;
    dso::for_each(|dso| {
        differs = gate::places(dso)
            .any(|(site, wanted)| gate::is_on(&site).is_some_and(|on| on != wanted));
        !differs
    });
    differs
}

/// Whether the helper thread runs in this process, and if not, why.
pub(crate) fn helper() -> std::result::Result<(), String> {
    if HELPER.load(Ordering::Acquire) == std::process::id() {
        return Ok(());
    }
    Err(gate::lock()
        .helper_failure
        .clone()
        .unwrap_or_else(|| "tracebraid::init() was not called in this process".to_owned()))
}

/// Why there are no rings.
fn ring_failure() -> String {
    let failure = gate::lock().ring_failure.clone();
    failure.unwrap_or_else(|| "tracebraid::init() was not called in this process".to_owned())
}

/// Looks at semaphores and libraries at once, and makes the text equal to what is wanted: what the
/// helper thread does a few times a second. Returns how many sites were switched.
///
/// # Errors
/// Where the process cannot patch its own code, or a site is not what it should be.
pub fn settle() -> Result<usize> {
    registry::settle()
}

/// Tells what works in this process, and why not.
#[must_use]
pub fn status() -> Status {
    let text = gate::lock()
        .writer
        .open()
        .map(drop)
        .map_err(|error| format!("/proc/self/mem: {error}"));
    let mut status = Status {
        objects: 0,
        tracepoints: 0,
        sites: 0,
        sites_on: 0,
        text,
        helper: helper(),
        rings: ring::current().map(drop).ok_or_else(ring_failure),
        panics: 0,
        nested: 0,
    };
    dso::for_each(|dso| {
        status.objects += usize::from(!dso.is_made());
        for row in dso.points() {
            status.tracepoints += 1;
            // SAFETY: the object is loaded while it is shown.
            let state = unsafe { Point::of(&row) }.state;
            status.panics += u64::from(state.panics.load(Ordering::Relaxed));
            status.nested += u64::from(state.nested.load(Ordering::Relaxed));
        }
        for (site, _) in gate::places(dso) {
            status.sites += 1;
            status.sites_on += usize::from(gate::is_on(&site) == Some(true));
        }
        true
    });
    status
}
