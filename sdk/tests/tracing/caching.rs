//! `tracing` asks once for an interest and keeps the answer: it is the right one all the same.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tracing::dispatcher::{Dispatch, set_default, with_default};
use tracing::subscriber::NoSubscriber;
use tracing::{debug, info, info_span};
use tracing_subscriber::filter::LevelFilter;

use crate::{Written, bodies, drained, turn};

macro_rules! callsites {
    ($($name:ident)*) => { [$((|| debug!(callsite = stringify!($name))) as fn()),*] };
}

#[test]
fn a_callsite_that_registers_while_the_wish_changes_is_on_in_the_end() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let fresh = callsites!(a b c d e f g h i j k l m n o p q r s t u v w x y z);
    for callsite in fresh {
        turn.disable_all();
        let go = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !go.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                with_default(&dispatch, callsite);
            });
            go.store(true, Ordering::Release);
            turn.enable("tracing.caching:*");
        });
        drained();
        // What the other thread stored last is asked again by the helper thread, a few times a second.
        let seen = (0..100).any(|_| {
            with_default(&dispatch, callsite);
            let seen = !drained().is_empty();
            if !seen {
                thread::sleep(std::time::Duration::from_millis(20));
            }
            seen
        });
        assert!(seen);
    }
}

#[test]
fn a_span_that_several_threads_come_to_first_is_whole_for_each() {
    macro_rules! spans {
        ($($name:ident)*) => {
            [$((|| info_span!(stringify!($name)).in_scope(|| ())) as fn()),*]
        };
    }
    const THREADS: usize = 4;
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.caching:*");
    for span in spans!(a b c d e f g h i j k l m n o p q r s t u v w x y z) {
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    with_default(&dispatch, || {
                        barrier.wait();
                        span();
                    });
                });
            }
        });
        let seen = drained();
        // Each is new, entered, left and closed.
        assert_eq!(seen.len(), 4 * THREADS, "{seen:#?}");
    }
}

#[test]
fn each_of_several_dispatchers_gets_what_it_wants() {
    let mut turn = turn();
    fn say() {
        info!("said");
        debug!("murmured");
    }
    let (plain, around) = (Written::default(), Written::default());
    let fmt = |written: &Written, level| {
        let written = written.clone();
        let builder = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_max_level(level);
        builder.with_writer(move || written.clone()).finish()
    };
    let others = [
        Dispatch::new(fmt(&plain, LevelFilter::DEBUG)),
        Dispatch::new(NoSubscriber::new()),
        Dispatch::none(),
    ];
    let ours = [
        Dispatch::new(tracebraid::tracing::wrap(fmt(&around, LevelFilter::INFO))),
        Dispatch::new(tracebraid::tracing::subscriber()),
    ];
    for on in [false, true, false, true] {
        match on {
            true => turn.enable("tracing.caching:*"),
            false => turn.disable_all(),
        }
        others
            .iter()
            .for_each(|dispatch| with_default(dispatch, say));
        assert_eq!(drained(), [""; 0], "others' events are not ours");
        assert_eq!(plain.take().lines().count(), 2);
        ours.iter().for_each(|dispatch| with_default(dispatch, say));
        assert_eq!(around.take().lines().count(), 1);
        assert_eq!(bodies().len(), if on { 4 } else { 0 });
        assert_eq!(plain.take(), "");
    }
}

#[test]
fn a_subscriber_of_one_thread_alone_is_switched_from_any() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let guard = set_default(&dispatch);
    let wished = &mut *turn;
    let say = || debug!("in this thread");
    say();
    thread::scope(|scope| {
        scope.spawn(|| wished.enable("tracing.caching:*"));
    });
    say();
    assert_eq!(bodies(), ["level=4 span=0 message=in this thread"]);
    thread::scope(|scope| {
        scope.spawn(say);
    });
    assert_eq!(drained(), [""; 0], "the other thread has no subscriber");
    say();
    assert_eq!(bodies().len(), 1);
    drop(guard);
    say();
    assert_eq!(drained(), [""; 0]);
}

#[test]
fn a_dispatcher_that_is_gone_is_none() {
    let mut turn = turn();
    let say = || debug!("to nobody");
    let first = Dispatch::new(tracebraid::tracing::subscriber());
    with_default(&first, say);
    drop(first);
    turn.enable("tracing.caching:*");
    say();
    assert_eq!(drained(), [""; 0]);
    let second = Dispatch::new(tracebraid::tracing::subscriber());
    with_default(&second, say);
    assert_eq!(bodies().len(), 1);
    turn.disable_all();
    drop(second);
    say();
}
