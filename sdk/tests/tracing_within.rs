//! What traces from within: a global allocator, of which every allocation of the program and of what stands
//! between is an event; a `Debug`; a panic hook. With the subscriber as the global default, `tracing` itself
//! keeps nobody from coming back.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{debug, info, trace, trace_span};

struct Tracing;

static ON: AtomicBool = AtomicBool::new(false);

// SAFETY: it is the system's allocator, with something said before.
unsafe impl GlobalAlloc for Tracing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Ordering::Relaxed) {
            let size = layout.size();
            trace_span!("allocating", size).in_scope(|| trace!(size, "allocate"));
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if ON.load(Ordering::Relaxed) {
            trace!(size = layout.size(), "free");
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Tracing = Tracing;

/// The tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The first one makes it the default.
    let _ = tracebraid::tracing::try_init();
    tracebraid::drain(|_| ()).unwrap();
    turn
}

/// What the rings hold, without what is of the place.
fn bodies() -> Vec<String> {
    let mut seen = Vec::new();
    tracebraid::drain(|event| {
        let line = event.to_string();
        seen.extend(line.split_once(": ").map(|(_, body)| body.to_owned()));
    })
    .unwrap();
    seen
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("half")?;
        panic!("in a Debug");
    }
}

struct Allocates;

impl fmt::Debug for Allocates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        out.write_str(&text.concat()[..10])
    }
}

/// Says itself, for ever.
struct Recurses;

impl fmt::Debug for Recurses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug!(me = ?self, "again");
        out.write_str("Recurses")
    }
}

#[test]
fn a_debug_that_panics_allocates_or_says_itself_is_bounded_and_counted() {
    let _turn = turn();
    tracebraid::enable("tracing_within:*").unwrap();
    let before = tracebraid::status();
    let hook = std::panic::take_hook();
    // A hook that traces itself.
    std::panic::set_hook(Box::new(|_| info!("panicking")));
    info!(a = ?Panics, b = 1, c = ?Allocates, "odd");
    std::panic::set_hook(hook);
    assert_eq!(
        bodies(),
        [
            "level=3 span=0 message=panicking",
            "level=3 span=0 message=odd a=half<panicked> b=1 c=0123456789"
        ]
    );
    info!(first = ?Recurses);
    let seen = bodies();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.iter().all(|body| body.contains("Recurses")));
    tracebraid::disable("tracing_within:*").unwrap();
    let after = tracebraid::status();
    assert_eq!(
        (after.panics - before.panics, after.nested - before.nested),
        (1, 1)
    );
}

#[test]
fn an_allocator_that_traces_neither_recurses_nor_waits_for_itself() {
    let _turn = turn();
    // From the first registration on, in the middle of switching, and while tracepoints are listed.
    ON.store(true, Ordering::Relaxed);
    for n in 0..100_u64 {
        tracebraid::enable("tracing_within:*").unwrap();
        info!(n, text = ?vec![n], "said");
        drop(std::hint::black_box(Box::new(n)));
        std::thread::spawn(|| info!("in a thread")).join().unwrap();
        drop(tracebraid::tracepoints());
        tracebraid::disable("tracing_within:*").unwrap();
    }
    let mut said = 0;
    tracebraid::drain(|event| said += u32::from(event.to_string().contains("message=said")))
        .unwrap();
    assert!(said > 0);

    tracebraid::enable("tracing_within:*").unwrap();
    info!("last");
    drop(std::hint::black_box(vec![0_u8; 12_345]));
    tracebraid::disable("tracing_within:*").unwrap();
    ON.store(false, Ordering::Relaxed);
    let mut sizes = Vec::new();
    tracebraid::drain(|event| {
        let text = event.to_string();
        sizes.extend(
            text.split_once("message=allocate size=")
                .map(|(_, size)| size.to_owned()),
        );
    })
    .unwrap();
    assert_eq!(
        sizes.iter().filter(|size| *size == "12345").count(),
        1,
        "{sizes:?}"
    );
}
