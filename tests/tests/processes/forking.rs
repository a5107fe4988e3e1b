//! A child of fork has its own text, and none of its parent's threads.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::Options;
use tracebraid_tests::requirement::is_soak;
use tracebraid_tests::scenario::Scenario;

use super::{hit, tracepoint};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a_child_that_enables_leaves_its_parent_off",
        &[],
        child_enables,
    ),
    Scenario::new(
        "a_parent_that_enables_leaves_its_child_off",
        &[],
        parent_enables,
    ),
    Scenario::new(
        "a_child_keeps_what_was_on_when_it_was_made",
        &[],
        child_inherits,
    ),
    Scenario::new("a_child_has_a_helper_thread_once_it_asks", &[], child_init),
    Scenario::new(
        "a_child_of_fork_is_never_stuck_in_what_another_thread_held",
        &[],
        many_forks,
    ),
    Scenario::new("a_child_may_be_made_within_a_callback", &[], fork_within),
];

/// Runs `body` in a child and returns its pid; the child ends with status 0, or 101 where it panics.
fn child(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child runs on in this thread only, and ends in `_exit` without running destructors
    // or handlers of the parent.
    unsafe {
        match libc::fork() {
            -1 => panic!("{}", std::io::Error::last_os_error()),
            0 => {
                // A child that hangs ends by this signal.
                libc::alarm(20);
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                libc::_exit(if result.is_ok() { 0 } else { 101 });
            }
            pid => pid,
        }
    }
}

fn assert_ended_well(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of ours and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "wait status {status:#x}");
}

/// Lets one process wait for the other: a pipe of one-byte messages.
struct Turn([i32; 2]);

impl Turn {
    fn new() -> Turn {
        let mut ends = [0; 2];
        // SAFETY: a place for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        Turn(ends)
    }

    fn give(&self) {
        // SAFETY: one byte of memory that is read.
        let written = unsafe { libc::write(self.0[1], [1_u8].as_ptr().cast(), 1) };
        assert_eq!(written, 1);
    }

    fn take(&self) {
        let mut byte = [0_u8];
        // SAFETY: one byte of memory that is written.
        let read = unsafe { libc::read(self.0[0], byte.as_mut_ptr().cast(), 1) };
        assert_eq!(read, 1);
    }
}

fn child_enables() {
    tracebraid::init();
    let (parent, of_child) = (Turn::new(), Turn::new());
    let child = child(|| {
        assert_eq!(tracebraid::enable("hit").unwrap(), 1);
        assert!(hit(1) && tracebraid::is_enabled("hit"));
        parent.give();
        of_child.take();
        assert!(hit(2));
    });
    parent.take();
    assert!(!hit(1) && !tracebraid::is_enabled("hit"));
    assert_eq!(tracebraid::status().sites_on, 0);
    tracebraid::enable("hit").unwrap();
    tracebraid::disable("hit").unwrap();
    of_child.give();
    assert_ended_well(child);
}

fn parent_enables() {
    tracebraid::init();
    let (of_child, parent) = (Turn::new(), Turn::new());
    let child = child(|| {
        of_child.take();
        assert!(!hit(1) && !tracebraid::is_enabled("hit"));
        // Its handle is its own from the first use on.
        tracebraid::enable("hit").unwrap();
        tracebraid::disable("hit").unwrap();
        parent.give();
        of_child.take();
        assert!(!hit(2));
    });
    tracebraid::enable("hit").unwrap();
    of_child.give();
    parent.take();
    assert!(hit(1) && tracebraid::is_enabled("hit"));
    of_child.give();
    assert_ended_well(child);
    assert!(hit(2));
}

fn child_inherits() {
    tracebraid::init();
    tracebraid::enable("hit").unwrap();
    let child = child(|| {
        assert!(hit(1) && tracebraid::is_enabled("hit"));
        tracebraid::disable("hit").unwrap();
        assert!(!hit(2));
    });
    assert_ended_well(child);
    assert!(hit(1) && tracebraid::is_enabled("hit"));
}

fn child_init() {
    tracebraid::init();
    let child = child(|| {
        assert!(tracebraid::status().helper.is_err());
        tracebraid::init();
        let status = tracebraid::status();
        assert!(status.helper.is_ok() && status.text.is_ok(), "{status}");
    });
    assert_ended_well(child);
    assert!(tracebraid::status().helper.is_ok());
}

/// Other threads look, toggle, attach, drop and hit all along, so that each lock and each count of
/// readers is held at some fork.
fn many_forks() {
    static END: AtomicBool = AtomicBool::new(false);
    let watch = Options::new().watch_semaphores(Duration::from_millis(1));
    tracebraid::init_with(watch).unwrap();
    let kept = tracepoint("hit").attach(|_| ()).unwrap();
    let busy = |work: fn()| {
        thread::spawn(move || {
            while !END.load(Ordering::Relaxed) {
                work();
            }
        })
    };
    let threads = [
        busy(|| {
            tracebraid::enable("hit").unwrap();
            tracebraid::disable("hit").unwrap();
        }),
        busy(|| drop(tracepoint("hit").attach(|_| thread::yield_now()).unwrap())),
        busy(|| {
            hit(1);
        }),
        busy(|| {
            let _ = tracebraid::tracepoints();
        }),
    ];
    let limit = Duration::from_secs(if is_soak() { 60 } else { 4 });
    let (start, mut forks) = (Instant::now(), 0);
    while start.elapsed() < limit || forks < 50 {
        let child = child(|| {
            tracebraid::enable("hit").unwrap();
            assert!(hit(2));
            drop(tracepoint("hit").attach(|_| ()).unwrap());
            tracebraid::disable("hit").unwrap();
            assert!(tracebraid::status().sites >= 1);
        });
        assert_ended_well(child);
        forks += 1;
    }
    END.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    drop(kept);
    assert!(!hit(3), "after {forks} forks");
}

fn fork_within() {
    let attachment = tracepoint("hit").attach(|_| {
        let child = child(|| {
            drop(tracepoint("tested").attach(|_| ()).unwrap());
        });
        assert_ended_well(child);
    });
    let attachment = attachment.unwrap();
    assert!(hit(1));
    drop(attachment);
    assert!(!hit(2));
    assert_eq!(tracebraid::status().panics, 0);
}
