//! Children that share their parent's memory until they call exec: `vfork`, `posix_spawn`, `CLONE_VM`.

#![allow(unsafe_code)]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tracebraid::Options;
use tracebraid_tests::requirement::{is_short, is_soak};
use tracebraid_tests::scenario::Scenario;

use super::children::assert_ended_well;
use super::{Seen, begin, note, take, thread_id};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a_child_that_shares_its_parents_memory_tears_nothing",
        &[],
        sharing,
    ),
    Scenario::new(
        "a_program_that_is_spawned_tears_nothing_with_nothing_said_before",
        &[],
        spawning,
    ),
];

/// How many children. Each time that one gives up its CPU the writers have that for as long as they may.
fn children() -> u64 {
    match (is_soak(), is_short()) {
        (true, _) => 2_000,
        (_, true) => 6,
        _ => 20,
    }
}

/// Events of one child; fewer for a machine that is emulated.
static EVENTS: AtomicU64 = AtomicU64::new(2_000);

/// What a child does: it runs in a stack of its own, in its parent's memory and with its thread's
/// variables, while that thread waits.
extern "C" fn child(number: *mut libc::c_void) -> libc::c_int {
    let who = 100 + number.addr() as u64;
    for index in 0..EVENTS.load(Ordering::Relaxed) {
        note(who, index);
        if index % 16 == 0 {
            // SAFETY: no preconditions.
            unsafe { libc::sched_yield() };
        }
    }
    0
}

/// Makes so many children while other threads write. Each event of this process's is read whole, or counted.
fn beside_writers(children: u64, make: impl Fn(u64)) {
    const WRITERS: u64 = 3;
    // All that there is room for is read after each child, which takes an emulated CPU seconds.
    begin(Options::new().ring(if is_short() { 1 << 16 } else { 1 << 20 }));
    let done = AtomicBool::new(false);
    let done = &done;
    let (mut seen, mut written) = (Vec::new(), 0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|who| scope.spawn(move || super::note_until(done, who)))
            .collect();
        for number in 0..children {
            make(number);
            seen.extend(take());
        }
        done.store(true, Ordering::Relaxed);
        let writers = writers.into_iter();
        written = writers.map(|writer| writer.join().unwrap()).sum();
    });
    seen.extend(take());
    // What a child appends is nobody's here: no bridge follows it.
    assert!(seen.iter().all(|seen| seen.who < 100));
    let total = seen.len() as u64 + tracebraid::lost("note");
    assert_eq!(total, written + children);
    let mut own = seen.iter().filter(|seen| seen.who == 99);
    assert!(own.all(|seen: &Seen| seen.thread == thread_id()));
}

fn sharing() {
    if is_short() {
        EVENTS.store(400, Ordering::Relaxed);
    }
    beside_writers(children(), |number| {
        let mut stack = vec![0_u8; 256 * 1024];
        let top = stack.as_mut_ptr().wrapping_add(stack.len());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let number = std::ptr::without_provenance_mut(number as usize);
        let _sharing = tracebraid::before_vfork();
        note(99, 0);
        // SAFETY: the child uses this stack and ends before this call returns (CLONE_VFORK).
        let pid = unsafe { libc::clone(child, top.cast(), flags, number) };
        assert!(pid > 0, "{}", std::io::Error::last_os_error());
        assert_ended_well(pid);
    });
}

/// The C library blocks signals in such a child, and nothing of the program runs in it.
fn spawning() {
    beside_writers(children(), |_| {
        note(99, 0);
        let status = Command::new("true").status().expect("it starts");
        assert!(status.success());
    });
}
