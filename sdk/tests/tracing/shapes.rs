//! Small programs: one for each way of saying something through `tracing`.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

use tracing::instrument::{Instrument, WithSubscriber};
use tracing::{
    Level, Span, debug, error, event, field, info, info_span, instrument, span, trace, trace_span,
    warn,
};

/// Name and program.
pub(crate) const SHAPES: &[(&str, fn())] = &[
    ("an event", || info!("plain")),
    ("an event without a message", || info!(key = 1)),
    ("every type of field", every_type),
    ("every level", || {
        error!("1");
        warn!("2");
        info!("3");
        debug!("4");
        trace!("5");
    }),
    (
        "a target of its own",
        || info!(target: "other::place", "there"),
    ),
    ("ways to write a field", || {
        let (local, shown) = (3_u64, "x\ny");
        info!(local, ?shown, %local, dotted.name = 1, "any text" = true, r#type = "kind", "{} of {}", 1, 2);
    }),
    ("fields that have no value", || {
        info!(none = None::<u64>, some = Some(5_u64), empty = field::Empty);
    }),
    ("an event in a span", || {
        info_span!("outer", n = 1).in_scope(|| info!("in"))
    }),
    ("nested spans", || {
        let _a = info_span!("a").entered();
        let _b = trace_span!("b", deep = true).entered();
        let _c = info_span!("c").entered();
        debug!("deepest");
    }),
    ("sibling spans", || {
        let _root = info_span!("root").entered();
        (0..3_u64).for_each(|n| info_span!("child", n).in_scope(|| trace!(n)));
    }),
    ("an event with another parent", || {
        let other = info_span!("other");
        let _here = info_span!("here").entered();
        info!(parent: &other, "said there");
        info!(parent: None, "said nowhere");
    }),
    ("a span with another parent", || {
        let other = info_span!("other");
        let _here = info_span!("here").entered();
        info_span!(parent: &other, "child").in_scope(|| info!("in child"));
        info_span!(parent: None, "root").in_scope(|| info!("in root"));
        let by_id = span!(parent: other.id(), Level::INFO, "by_id");
        drop(by_id);
    }),
    ("values that come later", || {
        let span = info_span!("late", a = field::Empty, b = field::Empty, c = 1);
        span.record("a", "first");
        span.record("b", 2.5);
        span.record("a", field::debug(Some("again")));
        span.record("unknown", 1);
    }),
    ("following from others", || {
        let (cause, effect) = (info_span!("cause"), info_span!("effect"));
        effect.follows_from(&cause);
        effect.follows_from(None::<tracing::span::Id>);
        drop(cause);
    }),
    ("a span that is entered twice", || {
        let span = info_span!("twice");
        span.in_scope(|| info!("once"));
        span.in_scope(|| span.in_scope(|| info!("again, within itself")));
    }),
    ("spans that are left out of order", || {
        let (first, second) = (
            info_span!("first").entered(),
            info_span!("second").entered(),
        );
        let first = first.exit();
        info!("in second");
        drop(second);
        info!("nowhere");
        drop(first);
    }),
    ("a span that moves to another thread", || {
        let span = info_span!("moving");
        span.in_scope(|| info!("here"));
        in_thread(move || span.in_scope(|| info!("there")));
    }),
    ("a span that is closed by another thread", || {
        let span = info_span!("shared");
        let copy = span.clone();
        drop(span);
        in_thread(move || drop(copy));
    }),
    ("a span that outlives its handles' scope", || {
        let copies: Vec<Span> = (0..4).map(|_| info_span!("copied")).collect();
        let more = copies.clone();
        drop(copies);
        drop(more);
    }),
    ("a function", || {
        counted("ada", 3);
    }),
    ("a function with its result", || {
        assert!(divided(7, 2).is_ok() && divided(7, 0).is_err());
    }),
    ("an async function", || {
        run(asked(2));
    }),
    ("two tasks on one thread", || {
        let mut one = pin!(asked(2).instrument(info_span!("task", n = 1)));
        let mut other = pin!(asked(1).instrument(info_span!("task", n = 2)));
        let mut context = Context::from_waker(Waker::noop());
        let mut done = [false; 2];
        while done != [true; 2] {
            if !done[0] {
                done[0] = one.as_mut().poll(&mut context).is_ready();
            }
            if !done[1] {
                done[1] = other.as_mut().poll(&mut context).is_ready();
            }
        }
    }),
    ("a task that is dropped before its end", || {
        let mut task = Box::pin(asked(5).instrument(info_span!("dropped")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_pending());
    }),
    ("a task with its own subscriber, which is this one", || {
        run(asked(1).with_current_subscriber());
    }),
    ("spans that are none", || {
        let none = Span::none();
        none.in_scope(|| info!("in none"));
        none.record("x", 1);
        info_span!(parent: &none, "child of none").in_scope(|| ());
    }),
    ("the current span", || {
        let _outer = info_span!("outer", later = field::Empty).entered();
        Span::current().record("later", "now");
        info_span!(parent: Span::current(), "inner").in_scope(|| info!("in"));
        Span::current().or_current().in_scope(|| info!("again"));
    }),
    ("a child that outlives its parent", || {
        let parent = info_span!("parent");
        let child = parent.in_scope(|| info_span!("child"));
        drop(parent);
        child.in_scope(|| info!("alone"));
    }),
    ("fields named as the stream's own", || {
        let span = info_span!("named", level = "high", id = 7, parent = "me", span = 1);
        span.in_scope(|| {
            info!(
                level = 9,
                span = "s",
                id = "i",
                parent = 2,
                thread = 3,
                ns = 4
            )
        });
    }),
    ("thirty-two fields", thirty_two),
    ("a name with blanks", || {
        drop(info_span!("GET /cart", "http.status" = 200))
    }),
    ("a field that says something itself", || {
        info!(speaker = ?Speaker, "listen");
    }),
    ("a panic that leaves a span", || {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let caught = std::panic::catch_unwind(|| {
            let _span = info_span!("left").entered();
            info!("before");
            panic!("out");
        });
        std::panic::set_hook(hook);
        assert!(caught.is_err());
    }),
    ("ids that are used again", || {
        for n in 0..500_u64 {
            let span = info_span!("short", n);
            span.in_scope(|| event!(Level::DEBUG, n));
        }
    }),
    ("many spans at once", || {
        let spans: Vec<Span> = (0..2000_u64)
            .map(|n| info_span!("one of many", n))
            .collect();
        spans.iter().rev().for_each(|span| span.in_scope(|| ()));
    }),
];

fn in_thread(run: impl FnOnce() + Send) {
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    thread::scope(|scope| {
        scope.spawn(move || tracing::dispatcher::with_default(&dispatch, run));
    });
}

fn every_type() {
    let error = "x".parse::<u8>().unwrap_err();
    let error: &(dyn std::error::Error + 'static) = &error;
    info!(
        a = -1_i8,
        b = u64::MAX,
        c = i64::MIN,
        d = u128::MAX,
        e = i128::MIN,
        f = 1.5_f32,
        g = f64::NAN,
        h = true,
        i = "text with \"quotes\" and ü",
        j = ?vec![1, 2],
        k = %std::net::Ipv4Addr::LOCALHOST,
        error,
        m = String::from("owned"),
        n = std::num::NonZeroU8::MIN,
        o = &&5_u16,
        "all {}",
        "of them"
    );
}

#[rustfmt::skip]
fn thirty_two() {
    info!(
        f00 = 0, f01 = 1, f02 = 2, f03 = 3, f04 = 4, f05 = 5, f06 = 6, f07 = 7, f08 = 8, f09 = 9, f10 = 10,
        f11 = "eleven", f12 = ?Some(12), f13 = 13, f14 = 14, f15 = 15, f16 = 16, f17 = 17, f18 = 18, f19 = 19,
        f20 = 20, f21 = 21, f22 = 22, f23 = 23, f24 = 24, f25 = 25, f26 = 26, f27 = 27, f28 = 28, f29 = 29,
        f30 = 30, f31 = 31,
    );
}

#[instrument(fields(twice = n * 2))]
fn counted(who: &str, n: u64) -> u64 {
    debug!("counting");
    n + 1
}

#[instrument(ret, err)]
fn divided(a: u32, b: u32) -> Result<u32, String> {
    a.checked_div(b).ok_or_else(|| "by nothing".to_owned())
}

#[instrument]
async fn asked(times: u32) -> u32 {
    for n in 0..times {
        info!(n, "asking");
        Yield(false).await;
    }
    times
}

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

fn run<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
            return result;
        }
    }
}

struct Speaker;

impl std::fmt::Debug for Speaker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _span = info_span!("speaking").entered();
        info!("said by a field");
        out.write_str("Speaker")
    }
}
