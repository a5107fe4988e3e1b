//! In-process probes: callbacks on a tracepoint's hits.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::{Attachment, ErrorKind, FieldValue, Tracepoint, event};
use tracebraid_tests::requirement;
use tracebraid_tests::scenario::{self, Scenario};

#[path = "callbacks/late.rs"]
mod late;
#[path = "callbacks/signal.rs"]
mod signal;

const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "callbacks_are_called_in_the_order_in_which_they_were_attached",
        &[],
        in_order,
    ),
    Scenario::new(
        "callbacks_attached_and_dropped_by_many_threads_see_every_hit",
        &[],
        many_threads,
    ),
    Scenario::new(
        "no_callback_runs_after_its_drop_has_returned",
        &[],
        never_after_drop,
    ),
    Scenario::new(
        "a_callback_may_hit_tracepoints_and_skips_hits_of_its_own",
        &[],
        hits_within,
    ),
    Scenario::new(
        "a_callback_may_drop_attachments_its_own_included",
        &[],
        drops_within,
    ),
    Scenario::new("a_callback_may_attach_enable_and_list", &[], works_within),
    Scenario::new(
        "a_panic_in_a_callback_is_caught_and_counted",
        &[],
        panics_within,
    ),
    Scenario::new("an_attachment_that_is_forgotten_stays", &[], forgotten),
    Scenario::new(
        "what_a_callback_captured_is_dropped_with_its_attachment",
        &[],
        captures,
    ),
    signal::HANDLER,
    late::TEARDOWN,
];

fn main() {
    requirement::run(scenario::trials(&[SCENARIOS]));
}

#[inline(never)]
fn hit(n: u64) {
    event!(hit, n);
}

#[inline(never)]
fn other(n: u64) {
    event!(other, n);
}

/// The tracepoint of a name in this binary.
fn tracepoint(name: &str) -> Tracepoint {
    tracebraid::tracepoints()
        .into_iter()
        .find(|point| point.name() == name)
        .unwrap_or_else(|| panic!("no tracepoint is named {name}"))
}

fn number(event: &tracebraid::Event<'_>) -> u64 {
    match event.field("n") {
        Some(FieldValue::Unsigned(n)) => n,
        other => panic!("{other:?}"),
    }
}

fn in_order() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let attach = |name: &'static str| {
        let calls = Arc::clone(&calls);
        let callback =
            move |event: &tracebraid::Event<'_>| calls.lock().unwrap().push((name, number(event)));
        tracepoint("hit").attach(callback).unwrap()
    };
    let (first, second) = (attach("first"), attach("second"));
    hit(1);
    drop(first);
    let third = attach("third");
    hit(2);
    drop((second, third));
    hit(3);
    let expected = [("first", 1), ("second", 1), ("second", 2), ("third", 2)];
    assert_eq!(*calls.lock().unwrap(), expected);
    assert!(!tracebraid::is_enabled("hit"));
}

/// Two threads hit all along while others attach and drop. A thread that hits between its own attach
/// and its own drop sees each of these hits.
fn many_threads() {
    let end = Instant::now() + Duration::from_secs(1);
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while Instant::now() < end {
                    hit(0);
                }
            });
        }
        for id in 1..=4_u64 {
            let (rounds, end) = (&rounds, &end);
            scope.spawn(move || {
                while Instant::now() < *end {
                    let mine = Arc::new(AtomicU64::new(0));
                    let count = Arc::clone(&mine);
                    let attachment = tracepoint("hit")
                        .attach(move |event| {
                            if number(event) == id {
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                        })
                        .unwrap();
                    (0..5).for_each(|_| hit(id));
                    drop(attachment);
                    hit(id);
                    assert_eq!(mine.load(Ordering::Relaxed), 5);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(rounds.load(Ordering::Relaxed) > 0);
    assert!(!tracebraid::is_enabled("hit"));
}

/// Hits whose callbacks last, and several threads that drop attachments of one tracepoint meanwhile.
fn never_after_drop() {
    let end = Instant::now() + Duration::from_secs(3);
    let late = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while Instant::now() < end {
                    hit(0);
                }
            });
        }
        for pause in [5_u64, 50, 300, 900] {
            let (late, end) = (&late, &end);
            scope.spawn(move || {
                while Instant::now() < *end {
                    let alive = Arc::new(AtomicBool::new(true));
                    let (alive_there, late) = (Arc::clone(&alive), Arc::clone(late));
                    let attachment = tracepoint("hit")
                        .attach(move |_| {
                            let begun = Instant::now();
                            while begun.elapsed() < Duration::from_micros(pause) {
                                if !alive_there.load(Ordering::SeqCst) {
                                    late.fetch_add(1, Ordering::SeqCst);
                                    return;
                                }
                                thread::yield_now();
                            }
                        })
                        .unwrap();
                    thread::sleep(Duration::from_micros(pause));
                    drop(attachment);
                    alive.store(false, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(
        late.load(Ordering::SeqCst),
        0,
        "callbacks ran after their drop"
    );
}

fn hits_within() {
    let (outer, inner) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (in_outer, in_inner) = (Arc::clone(&outer), Arc::clone(&inner));
    let _outer = tracepoint("hit")
        .attach(move |event| {
            in_outer.fetch_add(1, Ordering::Relaxed);
            hit(100);
            other(number(event) + 1);
        })
        .unwrap();
    let _inner = tracepoint("other")
        .attach(move |event| {
            in_inner.fetch_add(number(event), Ordering::Relaxed);
            hit(200);
        })
        .unwrap();
    hit(4);
    // From outside, the inner callback's hit runs the outer callback, which hits the inner one's own.
    other(10);
    assert_eq!(outer.load(Ordering::Relaxed), 2);
    assert_eq!(inner.load(Ordering::Relaxed), 5 + 10);
    // hit(100) twice, hit(200) once within hit, other(201) within other.
    assert_eq!(tracebraid::status().nested, 4);
}

fn drops_within() {
    static MINE: Mutex<Vec<Attachment>> = Mutex::new(Vec::new());
    let calls = Arc::new(AtomicU64::new(0));
    let attach = || {
        let calls = Arc::clone(&calls);
        tracepoint("hit")
            .attach(move |_| {
                calls.fetch_add(1, Ordering::Relaxed);
                let attachments = std::mem::take(&mut *MINE.lock().unwrap());
                drop(attachments);
            })
            .unwrap()
    };
    let attachments = vec![attach(), attach()];
    *MINE.lock().unwrap() = attachments;
    // Both are detached by the first; the second is still called, since the hit had begun.
    hit(1);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert!(!tracebraid::is_enabled("hit"));
    hit(2);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    // What could not be freed then is freed now.
    let last = attach();
    hit(3);
    drop(last);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(Arc::strong_count(&calls), 1);
}

fn works_within() {
    static LATER: OnceLock<Attachment> = OnceLock::new();
    let calls = Arc::new(AtomicU64::new(0));
    let in_later = Arc::clone(&calls);
    let attachment = tracepoint("hit")
        .attach(move |_| {
            assert!(tracebraid::tracepoints().len() >= 2);
            assert!(tracebraid::is_enabled("hit"));
            assert_eq!(tracebraid::enable("*:other").unwrap(), 1);
            let in_later = Arc::clone(&in_later);
            LATER.get_or_init(|| {
                let count = move |_: &tracebraid::Event<'_>| {
                    in_later.fetch_add(1, Ordering::Relaxed);
                };
                tracepoint("other").attach(count).unwrap()
            });
            tracebraid::settle().unwrap();
        })
        .unwrap();
    hit(1);
    drop(attachment);
    other(2);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(tracebraid::status().panics, 0);
}

fn panics_within() {
    std::panic::set_hook(Box::new(|_| {}));
    let calls = Arc::new(AtomicU64::new(0));
    let after = Arc::clone(&calls);
    let _bad = tracepoint("hit").attach(|_| panic!("on purpose")).unwrap();
    let _good = tracepoint("hit")
        .attach(move |_| {
            after.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    hit(1);
    hit(2);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!(tracebraid::status().panics, 2);
    assert_eq!(tracebraid::status().nested, 0);
}

fn forgotten() {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let attachment = tracepoint("hit").attach(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    std::mem::forget(attachment.unwrap());
    tracebraid::enable("hit").unwrap();
    tracebraid::disable("hit").unwrap();
    hit(1);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

fn captures() {
    let captured = Arc::new(());
    let attach = || {
        let captured = Arc::clone(&captured);
        let callback = move |_: &tracebraid::Event<'_>| {
            let _ = &captured;
        };
        tracepoint("hit").attach(callback).unwrap()
    };
    let attachments: Vec<Attachment> = (0..10).map(|_| attach()).collect();
    assert_eq!(Arc::strong_count(&captured), 11);
    drop(attachments);
    assert_eq!(Arc::strong_count(&captured), 1);
    // Kinds of errors are there to be matched.
    assert_ne!(ErrorKind::Text, ErrorKind::Site);
}
