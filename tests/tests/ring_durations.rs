//! How long a return says that its body took, whatever became of its entry: in the rings, before there were
//! any, seen by somebody else, in another thread or in another process.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid::{FieldValue, Options, Recorded, tracepoint};

const PAUSE: Duration = Duration::from_millis(5);

#[tracepoint(skip_all)]
fn work(step: &dyn Fn()) {
    step();
}

#[tracepoint(ret)]
fn counted(number: u64) -> u64 {
    thread::sleep(PAUSE);
    number + 1
}

#[tracepoint]
async fn task() {
    Yield(false).await;
    thread::sleep(PAUSE);
}

/// Ready when it is polled again.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// An event as it is compared here.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    time: u64,
    ns: Option<u64>,
}

impl Seen {
    fn of(event: &Recorded<'_>) -> Seen {
        let ns = match event.field("ns") {
            Some(FieldValue::Unsigned(ns)) => Some(ns),
            None => None,
            other => panic!("{other:?} is no number of nanoseconds"),
        };
        Seen {
            name: event.name().to_owned(),
            time: event.time(),
            ns,
        }
    }
}

fn drain() -> Vec<Seen> {
    let mut seen = Vec::new();
    tracebraid::drain(|event| seen.push(Seen::of(event))).unwrap();
    seen
}

/// What one body takes that begins before the process has rings and ends when it has.
static BEFORE: LazyLock<(Duration, Vec<Seen>)> = LazyLock::new(|| {
    tracebraid::enable("*").unwrap();
    let begin = Instant::now();
    work(&|| {
        thread::sleep(PAUSE);
        tracebraid::init_with(Options::new()).unwrap();
        assert_eq!(drain().len(), 0);
    });
    (begin.elapsed(), drain())
});

/// One test at a time, with rings that are read and tracepoints that are off.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    LazyLock::force(&BEFORE);
    tracebraid::disable("*").unwrap();
    drain();
    one
}

/// Runs something with some tracepoints on: what it took, and the events.
fn with(patterns: &[&str], run: impl FnOnce()) -> (Duration, Vec<Seen>) {
    patterns.iter().for_each(|pattern| {
        assert!(tracebraid::enable(pattern).unwrap() > 0);
    });
    let begin = Instant::now();
    run();
    let took = begin.elapsed();
    tracebraid::disable("*").unwrap();
    (took, drain())
}

/// The `ns` of the only return.
fn ns(seen: &[Seen]) -> u64 {
    let returns: Vec<u64> = seen.iter().filter_map(|event| event.ns).collect();
    assert_eq!(returns.len(), 1, "{seen:?}");
    returns[0]
}

/// It is a duration of [`PAUSE`] at least, within what the caller measured around it. (A hundredth is left
/// for what two clocks may differ.)
fn assert_within(ns: u64, took: Duration) {
    let most = took.as_nanos() as u64;
    let least = PAUSE.as_nanos() as u64;
    assert!(
        (least - least / 100..=most + most / 100).contains(&ns),
        "{ns} ns of {took:?}"
    );
}

#[test]
fn a_return_says_the_time_between_the_two_events() {
    let _alone = alone();
    let (_, seen) = with(&["work*", "counted*"], || {
        for number in 0..20 {
            work(&|| thread::sleep(PAUSE / 10));
            counted(number);
        }
    });
    assert_eq!(seen.len(), 80);
    for pair in seen.chunks(2) {
        assert_eq!(pair[1].name, format!("{}__return", pair[0].name));
        assert_eq!(pair[1].ns, Some(pair[1].time - pair[0].time));
    }
}

#[test]
fn a_return_alone_says_it_as_well() {
    let _alone = alone();
    let (took, seen) = with(&["work__return"], || work(&|| thread::sleep(PAUSE)));
    assert_within(ns(&seen), took);
    let (took, seen) = with(&["counted__return"], || assert_eq!(counted(6), 7));
    assert_within(ns(&seen), took);
}

#[test]
fn a_body_that_began_before_there_were_rings_took_as_long_as_it_took() {
    let _alone = alone();
    let (took, seen) = &*BEFORE;
    assert_within(ns(seen), *took);
}

#[test]
fn a_callback_and_the_rings_see_the_same_nanoseconds() {
    let _alone = alone();
    let told = Arc::new(Mutex::new(Vec::new()));
    let all = tracebraid::tracepoints();
    let point = all.iter().find(|point| point.name() == "work__return");
    let attachment = point.unwrap().attach({
        let told = Arc::clone(&told);
        move |event| {
            told.lock()
                .unwrap()
                .push(format!("{:?}", event.field("ns")))
        }
    });
    // The entry in the rings, whose stamp is of their clock, or nowhere.
    for patterns in [&["work", "work__return"][..], &["work__return"]] {
        let (took, seen) = with(patterns, || work(&|| thread::sleep(PAUSE)));
        let ns = ns(&seen);
        assert_within(ns, took);
        let said = told.lock().unwrap().pop();
        assert_eq!(said, Some(format!("Some(Unsigned({ns}))")));
    }
    drop(attachment);
}

#[test]
fn somebody_who_comes_while_a_body_runs_is_told_how_long_it_took() {
    let _alone = alone();
    let told = Mutex::new(Vec::new());
    let told: &'static Mutex<Vec<u64>> = Box::leak(Box::new(told));
    let attachment = Mutex::new(None);
    let (took, seen) = with(&["work", "work__return"], || {
        work(&|| {
            thread::sleep(PAUSE);
            let all = tracebraid::tracepoints();
            let point = all.iter().find(|point| point.name() == "work__return");
            let attached = point.unwrap().attach(|event| {
                if let Some(FieldValue::Unsigned(ns)) = event.field("ns") {
                    told.lock().unwrap().push(ns);
                }
            });
            *attachment.lock().unwrap() = Some(attached.unwrap());
        });
    });
    drop(attachment);
    assert_within(ns(&seen), took);
    assert_eq!(*told.lock().unwrap(), [ns(&seen)]);
}

#[test]
fn a_future_takes_as_long_as_it_took_on_all_its_threads() {
    let _alone = alone();
    let (took, seen) = with(&["task*"], || {
        thread::scope(|scope| {
            let mut future = Box::pin(task());
            let first = scope.spawn(move || {
                let mut context = Context::from_waker(Waker::noop());
                assert!(future.as_mut().poll(&mut context).is_pending());
                future
            });
            let mut future = first.join().unwrap();
            let last = scope.spawn(move || {
                let mut context = Context::from_waker(Waker::noop());
                assert!(pin!(future.as_mut()).poll(&mut context).is_ready());
            });
            last.join().unwrap();
        });
    });
    assert_within(ns(&seen), took);
    assert_eq!(ns(&seen), seen[1].time - seen[0].time);
}

#[test]
fn a_body_that_ends_in_a_child_of_fork_took_as_long_as_it_took_in_both() {
    let _alone = alone();
    let child = Mutex::new(-1);
    let (_, seen) = with(&["work*"], || {
        let begin = Instant::now();
        work(&|| {
            thread::sleep(PAUSE);
            // SAFETY: the child does what a child of a program with threads may, and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let started = tracebraid::drain(|_| ());
                if !matches!(started, Ok(0)) {
                    // SAFETY: ends the child, whatever its state.
                    unsafe { libc::_exit(3) };
                }
            }
            *child.lock().unwrap() = pid;
        });
        if *child.lock().unwrap() == 0 {
            let took = begin.elapsed().as_nanos() as u64;
            let mut told = None;
            let read = tracebraid::drain(|event| told = Seen::of(event).ns);
            let least = PAUSE.as_nanos() as u64;
            let right =
                told.is_some_and(|ns| (least - least / 100..=took + took / 100).contains(&ns));
            // SAFETY: as above.
            unsafe { libc::_exit(if matches!(read, Ok(1)) && right { 0 } else { 4 }) };
        }
    });
    let mut status = 0;
    // SAFETY: a child of ours and a place for its status.
    assert!(unsafe { libc::waitpid(*child.lock().unwrap(), &raw mut status, 0) } > 0);
    assert_eq!(
        (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
        (true, 0)
    );
    // In the parent the same body has returned as well.
    assert!(ns(&seen) >= PAUSE.as_nanos() as u64 / 100 * 99);
}
