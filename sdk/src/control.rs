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

use parking_lot::Mutex;

use crate::dso;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::{self, text::Patching};
use crate::registry;

/// How the SDK works in this process. The default is right for most.
#[derive(Clone, Debug)]
pub struct Options {
    thread: bool,
    watch: Duration,
    patching: Patching,
}

impl Default for Options {
    fn default() -> Options {
        Options { thread: true, watch: Duration::from_millis(250), patching: Patching::Auto }
    }
}

impl Options {
    /// The defaults: a helper thread that looks at semaphores every 250 ms.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Starts no helper thread: for programs that `unshare`, or whose sandbox forbids threads.
    #[must_use]
    pub fn no_thread(mut self) -> Options {
        self.thread = false;
        self
    }

    /// How often semaphores are looked at: 1 ms or more.
    #[must_use]
    pub fn watch_semaphores(mut self, every: Duration) -> Options {
        self.watch = every.max(Duration::from_millis(1));
        self
    }

    /// How text is written.
    #[must_use]
    pub fn patching(mut self, patching: Patching) -> Options {
        self.patching = patching;
        self
    }
}

/// The process whose helper thread runs (0: none), since a thread does not live on in a child of fork.
static HELPER: AtomicU32 = AtomicU32::new(0);
static HELPER_FAILURE: Mutex<Option<String>> = Mutex::new(None);

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
/// The helper thread could not be started. Tracepoints that the program itself enables still work.
pub fn init_with(options: Options) -> Result<()> {
    let mut locked = gate::lock();
    locked.writer.set_patching(options.patching);
    // Where it cannot be opened, `status` and every `enable` say so.
    let _ = locked.writer.open();
    drop(locked);
    // Likewise.
    let _ = registry::settle();
    let pid = std::process::id();
    if !options.thread || HELPER.swap(pid, Ordering::AcqRel) == pid {
        return Ok(());
    }
    start_helper(options.watch).map_err(|cause| {
        HELPER.store(0, Ordering::Release);
        *HELPER_FAILURE.lock() = Some(cause.to_string());
        Error::new(ErrorKind::Thread, "the helper thread could not be started").because(cause)
    })
}

fn start_helper(watch: Duration) -> io::Result<()> {
    // The thread inherits the mask: a signal meant for the program must not be taken by the helper.
    let mask = block_all_signals();
    let started = thread::Builder::new().name("tracebraid".into()).stack_size(256 * 1024).spawn(move || help(watch));
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
        if seen != Some(generation) || differs() {
            seen = Some(generation);
            // Nobody listens here; whoever asks `status` is told.
            let _ = registry::settle();
        }
        thread::sleep(watch);
    }
}

/// Whether some object's wanted state is no longer what its text was made equal to: cheap, no lock
/// but the loader's.
fn differs() -> bool {
    let mut differs = false;
    dso::for_each(|dso| {
        differs = gate::places(dso).any(|(site, wanted)| gate::is_on(&site).is_some_and(|on| on != wanted));
        !differs
    });
    differs
}

/// Whether the helper thread runs in this process, and if not, why.
pub(crate) fn helper() -> std::result::Result<(), String> {
    if HELPER.load(Ordering::Acquire) == std::process::id() {
        return Ok(());
    }
    Err(HELPER_FAILURE.lock().clone().unwrap_or_else(|| "tracebraid::init() was not called in this process".to_owned()))
}

/// Looks at semaphores and libraries at once, and makes the text equal to what is wanted: what the
/// helper thread does a few times a second. Returns how many sites were switched.
///
/// # Errors
/// Where the process cannot patch its own code, or a site is not what it should be.
pub fn settle() -> Result<usize> {
    registry::settle()
}
