//! Tracepoints in a signal handler that interrupts a hit of the same tracepoint.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracebraid::event;
use tracebraid_tests::scenario::Scenario;

use super::{hit, tracepoint};

pub(crate) const HANDLER: Scenario = Scenario::new(
    "hits_in_a_signal_handler_are_seen_or_counted_wherever_it_interrupts",
    &[],
    handler,
);

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: libc::c_int) {
    let n = HANDLED.fetch_add(1, Ordering::Relaxed);
    hit(n);
    event!(in_handler, n, text = %format_args!("signal {n}"));
}

fn handler() {
    let count_of = |name: &str| {
        let calls = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&calls);
        let attachment = tracepoint(name).attach(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (calls, attachment.unwrap())
    };
    let (hits, _hits) = count_of("hit");
    let (handled, _handled) = count_of("in_handler");
    let period = libc::timeval {
        tv_sec: 0,
        tv_usec: 150,
    };
    let timer = libc::itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the handler only hits tracepoints and adds to an atomic; both calls get valid places.
    unsafe {
        let handler = on_alarm as extern "C" fn(libc::c_int);
        libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    let end = Instant::now() + Duration::from_secs(1);
    let mut looped = 0;
    while Instant::now() < end || HANDLED.load(Ordering::Relaxed) < 100 {
        hit(looped);
        looped += 1;
    }
    // SAFETY: a signal that is ignored comes no more.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
    let (signals, nested) = (HANDLED.load(Ordering::Relaxed), tracebraid::status().nested);
    assert_eq!(hits.load(Ordering::Relaxed) + nested, looped + signals);
    assert_eq!(handled.load(Ordering::Relaxed), signals);
}
