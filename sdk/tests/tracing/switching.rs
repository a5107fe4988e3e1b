//! What is on when: wishes, callbacks, levels.

use tracing::dispatcher::{Dispatch, with_default};
use tracing::{Level, debug, debug_span, info, info_span, trace};
use tracing_subscriber::filter::LevelFilter;

use crate::{bodies, drained, turn};

/// What says something at every level, deep in a program.
fn work() {
    let _outer = info_span!("outer", user = "ada").entered();
    debug!(key = -7_i64, "looked up");
    debug_span!("inner").in_scope(|| info!("said"));
}

#[test]
fn a_debug_event_is_in_the_ring_while_the_subscriber_wants_less() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::wrap(
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::INFO)
            .with_writer(std::io::sink)
            .finish(),
    ));
    let run = || with_default(&dispatch, work);
    run();
    assert_eq!(drained(), [""; 0]);
    assert_eq!(LevelFilter::current(), LevelFilter::INFO);

    turn.enable("tracing.switching:*");
    assert_eq!(LevelFilter::current(), LevelFilter::TRACE);
    run();
    let seen = drained();
    let of = |what: &str| seen.iter().filter(|line| line.contains(what)).count();
    assert_eq!(of("level=4"), 2, "{seen:#?}");
    assert_eq!(seen.len(), 10, "{seen:#?}");

    turn.disable_all();
    assert_eq!(LevelFilter::current(), LevelFilter::INFO);
    run();
    assert_eq!(drained(), [""; 0]);
}

#[test]
fn a_wish_for_one_kind_of_hit_is_for_that_alone() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.switching:inner__e*");
    with_default(&dispatch, work);
    let names: Vec<String> = drained()
        .iter()
        .map(|line| line.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "tracing.switching:inner__enter",
            "tracing.switching:inner__exit"
        ]
    );
}

#[test]
fn a_callsite_is_a_tracepoint_with_its_place_level_and_fields() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.switching:*");
    with_default(&dispatch, || trace!(answer = 42, "known"));
    let line = line!() - 1;
    let all = tracebraid::tracepoints();
    let name = format!("switching.rs:{line}");
    let point = all
        .iter()
        .find(|point| point.name() == name)
        .expect("it was registered");
    assert_eq!(point.provider(), "tracing.switching");
    let fields: Vec<&str> = point.fields().iter().map(|field| &*field.name).collect();
    assert_eq!(fields, ["level", "span", "message", "answer"]);
    assert!(
        point
            .fields()
            .iter()
            .all(|field| !field.in_usdt || field.name.is_empty())
    );
    let site = &point.sites()[0];
    assert!(site.file.ends_with("switching.rs") && site.line == line);
    assert!(point.is_enabled());
}

#[test]
fn a_callback_sees_the_values_and_switches_its_callsite() {
    let _turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let say = |number: u64| with_default(&dispatch, || info!(number, text = "x", "called"));
    // Known from the first registration on, which a level that is on brings.
    tracebraid::enable("tracing.switching:none").unwrap();
    say(1);
    tracebraid::disable("tracing.switching:none").unwrap();
    let point = tracebraid::tracepoints()
        .into_iter()
        .find(|point| point.fields().iter().any(|field| field.name == "number"))
        .expect("it was registered");
    let (send, receive) = std::sync::mpsc::channel();
    let attachment = point
        .attach(move |event| send.send(event.to_string()).unwrap())
        .unwrap();
    say(2);
    drop(attachment);
    say(3);
    let seen: Vec<String> = receive.iter().collect();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].ends_with("level=3 span=0 message=called number=2 text=x"),
        "{seen:?}"
    );
}

#[test]
fn records_of_log_come_through_tracing_log() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let record = || {
        let record = log::Record::builder()
            .level(log::Level::Warn)
            .target("old::module")
            .args(format_args!("said by log"))
            .module_path_static(Some("old::module"))
            .file_static(Some("old.rs"))
            .line(Some(7))
            .build();
        with_default(&dispatch, || tracing_log::format_trace(&record).unwrap());
    };
    record();
    assert_eq!(drained(), [""; 0]);
    turn.enable("log:*");
    record();
    let seen = bodies();
    assert_eq!(
        seen,
        [
            "level=2 span=0 message=said by log log.target=old::module log.module_path=old::module log.file=old.rs log.line=7"
        ]
    );
}

#[test]
fn spans_of_tracepoints_and_of_tracing_nest() {
    #[tracebraid::tracepoint(provider = "shop")]
    fn charge(order_id: u64) {
        info!(order_id, "charging");
    }
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing.switching:*");
    turn.enable("shop:*");
    with_default(&dispatch, || info_span!("request").in_scope(|| charge(17)));
    let names: Vec<String> = drained()
        .iter()
        .map(|line| {
            line.split(": ")
                .next()
                .unwrap()
                .split(':')
                .nth(1)
                .unwrap()
                .to_owned()
        })
        .collect();
    let expected = [
        "request",
        "request__enter",
        "charge",
        "switching.rs",
        "charge__return",
        "request__exit",
        "request__close",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_two_for_all_of_tracing_say_what_each_event_and_span_is() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    turn.enable("tracing:event");
    turn.enable("tracing:span");
    with_default(&dispatch, || {
        info_span!("both", n = 1)
            .in_scope(|| tracing::event!(Level::WARN, n = 2, "and {}", "more"));
    });
    let seen = bodies();
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(
        seen[0].starts_with("target=tracing::switching name=both level=3 id="),
        "{seen:?}"
    );
    let ends: Vec<&str> = seen
        .iter()
        .map(|line| line.rsplit("message=").next().unwrap())
        .collect();
    assert_eq!(ends, ["new", "enter", "and more", "exit", "close"]);
    assert!(seen[2].contains("level=2"));
}
