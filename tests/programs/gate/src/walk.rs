//! One walk through every tracepoint, in a fixed order with fixed values.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shapes::Shape;

/// Hits each site.
pub fn walk() {
    black_box(shapes::plain(black_box(17), black_box(-4200)));
    black_box(shapes::generic(black_box(u64::MAX)));
    black_box(shapes::generic(black_box('ß')));
    black_box(uses::generics(black_box("from uses"), black_box(-5)));
    black_box(shapes::inlined(black_box(1)));
    black_box(uses::inlined(black_box(10)));
    black_box(shapes::twin_a(black_box(1)));
    black_box(shapes::twin_b(black_box(2)));
    shapes::bare();
    black_box(shapes::closure(black_box(3))(black_box(4)));
    black_box(block_on(shapes::asynchronous(black_box(5))));
    // Never polled: its body has not begun.
    drop(shapes::asynchronous(6));
    drop_halfway(shapes::asynchronous(black_box(7)));
    black_box(shapes::Square(black_box(3)).twice(black_box(2)));
    black_box(shapes::fallible(black_box("41")).is_ok());
    black_box(shapes::fallible(black_box("x")).is_err());
    shapes::queued(black_box(8), 9, "gate");
    uses::queued(black_box(10));
    black_box(shapes::tested(black_box(11)));
    shapes::wide(black_box(12));
    shapes::two_places(black_box(1));
    shapes::two_places(black_box(2));
    black_box(labels::labelled(black_box(13_u64)));
    black_box(shapes::labelled(black_box(1.5)));
    let opaque = black_box(|x: u32| {
        tracebraid::event!(outer::in_main, x = shapes::seen(x));
        x
    });
    black_box(opaque(14));
}

fn drop_halfway(future: impl Future) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
