//! Events in signal handlers that interrupt events.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::Options;
use tracebraid_tests::requirement::is_soak;
use tracebraid_tests::scenario::Scenario;

use super::{begin, note, take, tell, text_of};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "an_event_in_a_handler_that_interrupts_a_sequence_is_read_or_counted",
        &[],
        || interrupt(Options::new()),
    ),
    Scenario::new(
        "an_event_in_a_handler_that_interrupts_a_locked_append_is_read_or_counted",
        &[],
        || interrupt(super::locked()),
    ),
];

/// Who the handler is.
const HANDLER: u64 = 99;
const THREADS: u64 = 3;

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: libc::c_int) {
    let index = HANDLED.fetch_add(2, Ordering::Relaxed);
    note(HANDLER, index);
    tell(HANDLER, index + 1, text_of(index + 1));
}

fn interrupt(options: Options) {
    begin(options.ring(64 * 1024));
    // SAFETY: a filled action whose handler only counts and fires events.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        let installed = libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        assert_eq!(installed, 0);
    }
    let length = Duration::from_millis(if is_soak() { 60_000 } else { 700 });
    let (done, quiet) = (AtomicBool::new(false), AtomicBool::new(false));
    let ids: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let mut read = 0;
    let mut written = 0;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|who| {
                let (id, done, quiet) = (&ids[who as usize], &done, &quiet);
                scope.spawn(move || {
                    id.store(super::thread_id().into(), Ordering::Release);
                    let mut index = 0;
                    while !done.load(Ordering::Relaxed) {
                        note(who, index);
                        tell(who, index + 1, text_of(index + 1));
                        index += 2;
                        if index % 128 == 0 {
                            thread::yield_now();
                        }
                    }
                    // Until no more signals come.
                    while !quiet.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    index
                })
            })
            .collect();
        let end = Instant::now() + length;
        while Instant::now() < end {
            for id in &ids {
                let id = id.load(Ordering::Acquire);
                if id != 0 {
                    // SAFETY: numbers only; the thread stays until it is quiet.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR1) };
                }
            }
            read += take().len() as u64;
        }
        done.store(true, Ordering::Relaxed);
        quiet.store(true, Ordering::Release);
        written = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum::<u64>();
    });
    read += take().len() as u64;
    let handled = HANDLED.load(Ordering::Relaxed);
    let lost = tracebraid::lost("note") + tracebraid::lost("tell");
    println!("written {written}, in handlers {handled}, read {read}, lost {lost}");
    assert!(handled > 0);
    assert_eq!(read + lost, written + handled);
}
