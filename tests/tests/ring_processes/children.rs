//! Children of fork: those that nobody reads cost nothing, those that read themselves have rings of their
//! own. (Those that a bridge follows record in rings of their parent's region.)

#![allow(unsafe_code)]

use std::thread;

use tracebraid::Options;
use tracebraid_tests::requirement::{is_short, is_soak};
use tracebraid_tests::scenario::Scenario;

use super::{begin, note, ring_memory, take, tell, text_of, thread_id};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "children_that_fire_nothing_take_no_ring_memory",
        &[],
        || silent(Options::new()),
    ),
    Scenario::new(
        "a_childs_events_are_in_rings_of_its_own_under_its_own_thread_id",
        &[],
        || own_rings(Options::new(), false),
    ),
    Scenario::new(
        "a_childs_events_carry_its_thread_id_also_where_it_calls_init_first",
        &[],
        || own_rings(Options::new(), true),
    ),
    Scenario::new(
        "a_childs_events_are_in_rings_of_its_own_under_locks",
        &[],
        || own_rings(super::locked(), false),
    ),
    Scenario::new(
        "a_storm_of_forks_leaves_the_parents_events_whole",
        &[],
        storm,
    ),
    Scenario::new("an_event_in_a_child_leaves_errno_alone", &[], errno),
];

/// Runs `body` in a child; it ends with status 0 where `body` does.
pub(crate) fn in_child(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child goes on in this thread only and ends in `_exit`.
    unsafe {
        match libc::fork() {
            -1 => panic!("{}", std::io::Error::last_os_error()),
            0 => {
                // One that hangs ends by this signal.
                libc::alarm(30);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                libc::_exit(if ended.is_ok() { 0 } else { 101 });
            }
            child => child,
        }
    }
}

pub(crate) fn assert_ended_well(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of ours and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "wait status {status:#x}");
}

fn silent(options: Options) {
    // The helper reads what a bridge may want, which takes pages of the region, when it comes to it.
    begin(options.no_thread());
    note(0, 0);
    let before = ring_memory();
    assert_eq!(before.len(), 1);
    let children = match (is_soak(), is_short()) {
        (true, _) => 5_000,
        (_, true) => 20,
        _ => 200,
    };
    for _ in 0..children {
        // What the child has is what it inherited: one region, and it is the parent's.
        assert_ended_well(in_child(|| assert_eq!(ring_memory().len(), 1)));
    }
    assert_eq!(ring_memory(), before);
    assert_eq!(take().len(), 1);
}

fn own_rings(options: Options, init_first: bool) {
    begin(options.no_thread());
    for index in 0..10 {
        note(0, index);
    }
    let parent = (thread_id(), ring_memory());
    assert_ended_well(in_child(|| {
        assert_ne!(thread_id(), parent.0);
        if init_first {
            tracebraid::init();
        }
        let regions = |expected| assert_eq!(ring_memory().len(), expected);
        regions(1 + usize::from(init_first));
        // Nobody reads a child yet: what is hit goes nowhere, at no cost.
        note(1, 99);
        regions(1 + usize::from(init_first));
        assert_eq!(take().len(), 0);
        for index in 0..5 {
            note(1, index);
            tell(1, index + 20, text_of(index + 20));
        }
        regions(2);
        let seen = take();
        assert_eq!(seen.len(), 10, "{seen:?}");
        assert!(
            seen.iter()
                .all(|seen| (seen.who, seen.thread) == (1, thread_id()))
        );
    }));
    assert_eq!(ring_memory(), parent.1, "the parent's rings have not grown");
    let seen = take();
    assert_eq!(seen.len(), 10);
    assert!(
        seen.iter()
            .all(|seen| (seen.who, seen.thread) == (0, parent.0))
    );
}

/// Children are made, write and die in all states of the parent's other threads.
fn storm() {
    const WRITERS: u64 = 3;
    begin(Options::new().ring(1 << 16));
    let forks = match (is_soak(), is_short()) {
        (true, _) => 3_000,
        (_, true) => 10,
        _ => 60,
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    let done = &done;
    let (mut seen, mut written) = (Vec::new(), 0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|who| scope.spawn(move || super::note_until(done, who)))
            .collect();
        for fork in 0..forks {
            assert_ended_well(in_child(|| {
                // It reads itself from here on.
                assert_eq!(take().len(), 0);
                for index in 0..20 {
                    note(100 + fork, index);
                }
                // Its own events and no others.
                let seen = take();
                assert_eq!(seen.len(), 20);
                assert!(seen.iter().all(|seen| seen.who == 100 + fork));
            }));
            seen.extend(take());
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        written = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum();
    });
    seen.extend(take());
    assert!(seen.iter().all(|seen| seen.who < WRITERS));
    assert_eq!(seen.len() as u64 + tracebraid::lost("note"), written);
}

fn errno() {
    begin(Options::new());
    note(0, 0);
    assert_ended_well(in_child(|| {
        // SAFETY: this thread's errno; and numbers only.
        unsafe {
            // No more descriptors: the child's rings cannot be made.
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none), 0);
            *libc::__errno_location() = 4321;
            note(1, 1);
            assert_eq!(*libc::__errno_location(), 4321);
        }
    }));
}
