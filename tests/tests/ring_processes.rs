//! The rings in what processes do: forks and threads by the thousand, libraries that are unloaded,
//! signals, the beginning and the end of a process, an `init` that fails. Each scenario is a process of
//! its own, and reads its own rings.

use std::sync::atomic::{AtomicBool, Ordering};

use tracebraid::{Appending, Options};
use tracebraid_tests::{requirement, scenario};

#[path = "ring_processes/children.rs"]
mod children;
#[path = "ring_processes/library.rs"]
mod library;
#[path = "ring_processes/moments.rs"]
mod moments;
#[path = "ring_processes/sharing.rs"]
mod sharing;
#[path = "ring_processes/signals.rs"]
mod signals;
#[path = "ring_processes/threads.rs"]
mod threads;

fn main() {
    let groups = [
        children::SCENARIOS,
        library::SCENARIOS,
        moments::SCENARIOS,
        sharing::SCENARIOS,
        signals::SCENARIOS,
        threads::SCENARIOS,
    ];
    requirement::run(scenario::trials(&groups));
}

/// The events that a scenario writes: `who` is up to it, `check` follows from the others.
#[inline(never)]
fn note(who: u64, index: u64) {
    tracebraid::event!(note, who = who, index = index, check = checksum(who, index));
}

/// Writes events of `who` until it is `done`; how many.
fn note_until(done: &AtomicBool, who: u64) -> u64 {
    let mut index = 0;
    while !done.load(Ordering::Relaxed) {
        note(who, index);
        index += 1;
        if index % 64 == 0 {
            std::thread::yield_now();
        }
    }
    index
}

/// The same with a text, which is encoded and not only copied.
#[inline(never)]
fn tell(who: u64, index: u64, text: &str) {
    tracebraid::event!(tell, who = who, index = index, text = text);
}

fn checksum(who: u64, index: u64) -> u64 {
    (who << 32 ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// An event that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    thread: u32,
    time: u64,
    who: u64,
    index: u64,
}

/// Gets this process's rings ready and begins to read them.
fn begin(options: Options) {
    tracebraid::init_with(options).expect("a helper thread, where one is wanted");
    tracebraid::enable("note").expect("the process can patch itself");
    tracebraid::enable("tell").expect("the process can patch itself");
    assert_eq!(tracebraid::drain(|_| {}).expect("the rings are ours"), 0);
}

/// Takes what is in the rings, and checks it.
fn take() -> Vec<Seen> {
    let mut seen = Vec::new();
    tracebraid::drain(|event| {
        let number = |name| match event.field(name) {
            Some(tracebraid::FieldValue::Unsigned(number)) => number,
            other => panic!("{name} is {other:?}"),
        };
        let (who, index) = (number("who"), number("index"));
        match event.name() {
            "note" => assert_eq!(number("check"), checksum(who, index), "torn"),
            _ => assert_eq!(
                event.field("text"),
                Some(tracebraid::FieldValue::Str(text_of(index))),
                "torn"
            ),
        }
        seen.push(Seen {
            thread: event.thread(),
            time: event.time(),
            who,
            index,
        });
    })
    .expect("the rings are ours");
    seen
}

/// A text of some length.
fn text_of(index: u64) -> &'static str {
    const TEXT: &str =
        "a text that is longer than what is copied without a call, and then some more of it";
    &TEXT[..index as usize % TEXT.len()]
}

fn locked() -> Options {
    Options::new().appending(Appending::Locked)
}

#[allow(unsafe_code)]
fn thread_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() as u32 }
}

/// Bytes of memory that the rings of this process have: of each memfd of that name among its
/// descriptors.
fn ring_memory() -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut found: Vec<(u64, u64)> = std::fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let to = std::fs::read_link(&path).ok()?;
            // The descriptor of the directory itself is gone by now.
            let metadata = std::fs::metadata(&path).ok()?;
            (to.as_os_str() == "/memfd:tracebraid (deleted)")
                .then(|| (metadata.ino(), metadata.blocks() * 512))
        })
        .collect();
    // `drain` has opened it a second time.
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, bytes)| bytes).collect()
}
