//! The other layers' output is byte for byte what it was.

use tracing::dispatcher::{Dispatch, with_default};
use tracing::{Subscriber, debug, debug_span, error, info, info_span, trace, warn};
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::{Written, drained, turn};

/// Says something in every way that filters tell apart.
fn work() {
    let outer = info_span!("outer", user = "ada");
    let _outer = outer.enter();
    error!("1");
    warn!(n = 2);
    info!(target: "elsewhere", "3");
    let hidden = debug_span!("hidden", secret = true);
    hidden.in_scope(|| {
        info!("in hidden");
        let child = info_span!("child");
        child.follows_from(&hidden);
        child.in_scope(|| debug!("deep"));
        info_span!(parent: &hidden, "child of hidden").in_scope(|| info!("deeper"));
        info!(parent: &hidden, "said to hidden");
    });
    hidden.record("secret", false);
    let current = tracing::Span::current();
    current.in_scope(|| trace!("5"));
    let none = hidden.in_scope(tracing::Span::current);
    none.in_scope(|| info!("in whoever is current in hidden"));
    info!(enabled = tracing::enabled!(tracing::Level::DEBUG), "asked");
    drop((hidden, none));
    std::thread::scope(|scope| {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let outer = outer.clone();
        scope.spawn(move || with_default(&dispatch, || outer.in_scope(|| info!("there"))));
    });
}

type Make = fn(Written) -> Boxed;
type Boxed = Box<dyn Subscriber + Send + Sync>;

/// What programs have, each written to one place.
fn subscribers() -> Vec<(&'static str, Make)> {
    fn layer<S>(
        written: Written,
    ) -> fmt::Layer<
        S,
        fmt::format::DefaultFields,
        fmt::format::Format<fmt::format::Full, ()>,
        impl Fn() -> Written,
    >
    where
        S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        fmt::layer()
            .without_time()
            .with_ansi(false)
            .with_span_events(fmt::format::FmtSpan::FULL)
            .with_thread_ids(false)
            .with_writer(move || written.clone())
    }
    vec![
        ("fmt at INFO", |written| {
            let builder = fmt()
                .without_time()
                .with_ansi(false)
                .with_max_level(LevelFilter::INFO);
            Box::new(builder.with_writer(move || written.clone()).finish())
        }),
        ("fmt", |written| {
            let builder = fmt()
                .without_time()
                .with_ansi(false)
                .with_max_level(LevelFilter::TRACE);
            Box::new(builder.with_writer(move || written.clone()).finish())
        }),
        ("EnvFilter", |written| {
            Box::new(
                Registry::default()
                    .with(EnvFilter::new("info,elsewhere=off"))
                    .with(layer(written)),
            )
        }),
        ("EnvFilter by span and field", |written| {
            let filter = EnvFilter::new("warn,[outer{user=ada}]=debug");
            Box::new(Registry::default().with(filter).with(layer(written)))
        }),
        ("a filter of each layer", |written| {
            let loud = layer(written.clone()).with_filter(LevelFilter::INFO);
            let chosen =
                filter_fn(|metadata| metadata.target() == "elsewhere" || metadata.is_span());
            let quiet = layer(written).with_filter(LevelFilter::DEBUG.and(chosen));
            Box::new(Registry::default().with(loud).with(quiet))
        }),
        ("a layer without a filter beside one with", |written| {
            let all = layer(written.clone());
            let some = layer(written).with_filter(EnvFilter::new("tracing=info"));
            Box::new(Registry::default().with(all).with(some))
        }),
        ("none", |_| {
            Box::new(tracing::subscriber::NoSubscriber::new())
        }),
    ]
}

#[test]
fn what_others_write_is_the_same_alone_around_and_while_all_of_it_is_traced() {
    let mut turn = turn();
    for (name, make) in subscribers() {
        let written = Written::default();
        let alone = Dispatch::new(make(written.clone()));
        with_default(&alone, work);
        let expected = written.take();
        assert_eq!(expected.is_empty(), name == "none", "{name}");
        drop(alone);

        let around = Dispatch::new(tracebraid::tracing::wrap(make(written.clone())));
        with_default(&around, work);
        assert_eq!(written.take(), expected, "{name}: off");
        assert_eq!(drained(), [""; 0], "{name}");
        for pattern in ["tracing.beside:*", "*:hidden*", "*:*beside.rs:*"] {
            turn.enable(pattern);
            with_default(&around, work);
            assert_eq!(written.take(), expected, "{name}: {pattern}");
            assert!(!drained().is_empty(), "{name}: {pattern}");
            turn.disable_all();
        }
        with_default(&around, work);
        assert_eq!(written.take(), expected, "{name}: off again");
        assert_eq!(drained(), [""; 0], "{name}");
    }
}

#[test]
fn what_is_inside_is_found_and_reloads() {
    let mut turn = turn();
    let make = |written: Written| {
        let (filter, handle) = reload::Layer::new(LevelFilter::WARN);
        let layer = fmt::layer()
            .without_time()
            .with_ansi(false)
            .with_writer(move || written.clone());
        (Registry::default().with(filter).with(layer), handle)
    };
    let run =
        |dispatch: &Dispatch, handle: &reload::Handle<LevelFilter, Registry>, written: &Written| {
            [LevelFilter::DEBUG, LevelFilter::OFF, LevelFilter::INFO].map(|level| {
                with_default(dispatch, || {
                    work();
                    handle.reload(level).unwrap();
                    work();
                });
                written.take()
            })
        };
    let written = Written::default();
    let (theirs, handle) = make(written.clone());
    let expected = run(&Dispatch::new(theirs), &handle, &written);

    let (theirs, handle) = make(written.clone());
    let around = Dispatch::new(tracebraid::tracing::wrap(theirs));
    assert!(around.downcast_ref::<Registry>().is_some());
    with_default(&around, || handle.reload(LevelFilter::WARN).unwrap());
    turn.enable("tracing.beside:*");
    assert_eq!(run(&around, &handle, &written), expected);
    assert!(!drained().is_empty());
    turn.disable_all();
    with_default(&around, || handle.reload(LevelFilter::WARN).unwrap());
    assert_eq!(run(&around, &handle, &written), expected);
}
