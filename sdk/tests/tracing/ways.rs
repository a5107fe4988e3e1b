//! A hit goes one way where the rings alone want it, and another where somebody looks at its values: both say
//! the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracebraid::FieldValue;
use tracing::dispatcher::{Dispatch, get_default, with_default};
use tracing::field::Value;
use tracing::{Callsite as _, Event, Level, info, info_span};

use crate::{Turn, bodies, drained, turn};

/// What the rings hold of `run`, by the one way and by the other.
fn both(turn: &mut Turn, dispatch: &Dispatch, run: impl Fn()) -> [Vec<String>; 2] {
    turn.enable("tracing.ways:*");
    with_default(dispatch, &run);
    let straight = bodies();
    let attachments: Vec<_> = tracebraid::tracepoints()
        .into_iter()
        .filter(|point| point.provider() == "tracing.ways")
        .map(|point| point.attach(|_| ()).unwrap())
        .collect();
    assert!(!attachments.is_empty());
    with_default(dispatch, &run);
    let looked_at = bodies();
    turn.disable_all();
    [straight, looked_at]
}

#[test]
fn texts_are_cut_alike_whoever_wants_them() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let [straight, looked_at] = both(&mut turn, &dispatch, || {
        for length in (0..1100).step_by(7).chain([328, 329, 330, 500, 501, 502]) {
            let (text, wide) = ("a".repeat(length), "ü".repeat(length / 2));
            info!(text, n = 1, wide = %wide, last = ?text);
            info!(wide, text = ?text, none = tracing::field::Empty, yes = true);
        }
    });
    assert!(straight.iter().any(|line| line.contains('…')));
    assert_eq!(straight, looked_at);
}

#[test]
fn every_kind_of_value_is_the_same_whoever_wants_it() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let [straight, looked_at] = both(&mut turn, &dispatch, || {
        let error: Box<dyn std::error::Error + 'static> = "wrong".into();
        info!(
            a = 1_u8,
            b = -1_i64,
            c = u128::MAX,
            d = i128::MIN,
            e = 1.5,
            f = false,
            g = error.as_ref(),
            h = tracing::field::Empty,
            i = "",
            j = u64::MAX,
        );
    });
    assert_eq!(straight.len(), 1);
    assert_eq!(straight, looked_at);
}

#[test]
fn values_may_come_in_any_order_and_more_than_once() {
    let site = tracing::callsite! {
        name: "by hand",
        kind: tracing::metadata::Kind::EVENT,
        target: "tracing::ways",
        level: Level::INFO,
        fields: one, two, three, four
    };
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let [straight, looked_at] = both(&mut turn, &dispatch, || {
        site.register();
        let fields = site.metadata().fields();
        let field = |name| fields.field(name).unwrap();
        let [one, two, three] = ["one", "two", "three"].map(field);
        let say = |pairs: &[_; 3]| {
            let values = fields.value_set(pairs);
            get_default(|dispatch| dispatch.event(&Event::new(site.metadata(), &values)));
        };
        let number = |number: &'static u64| Some(number as &dyn Value);
        say(&[(&three, number(&3)), (&two, number(&2)), (&one, number(&1))]);
        say(&[(&one, number(&1)), (&one, number(&7)), (&three, number(&3))]);
        say(&[(&two, number(&2)), (&two, None), (&three, number(&3))]);
    });
    let expected = [
        "level=3 span=0 one=1 two=2 three=3 four=None",
        "level=3 span=0 one=7 two=None three=3 four=None",
        "level=3 span=0 one=None two=2 three=3 four=None",
    ];
    assert_eq!(straight, expected);
    assert_eq!(looked_at, expected);
}

#[test]
fn how_long_a_span_was_is_the_same_to_who_looks_and_in_the_rings() {
    let mut turn = turn();
    let dispatch = Dispatch::new(tracebraid::tracing::subscriber());
    let pause = Duration::from_millis(5);
    let run = || {
        let span = info_span!("paused");
        std::thread::sleep(pause);
        drop(span);
    };
    turn.enable("tracing.ways:*");
    let before = std::time::Instant::now();
    with_default(&dispatch, run);
    let most = before.elapsed().as_nanos() as u64;
    let ns = |line: &String| -> u64 { line.rsplit_once("ns=").unwrap().1.parse().unwrap() };
    let closed = |lines: Vec<String>| lines.iter().find(|line| line.contains("__close")).map(ns);
    // To the rings alone: the moment it began, from which whoever reads them counts.
    let straight = closed(drained()).unwrap();
    // A clock that was fitted to another is trusted to a thousandth here.
    assert!(
        (pause.as_nanos() as u64 * 999 / 1000..=most * 1001 / 1000).contains(&straight),
        "{straight} of {most}"
    );

    let seen = Arc::new(AtomicU64::new(0));
    let point = tracebraid::tracepoints()
        .into_iter()
        .find(|point| point.name() == "paused__close")
        .unwrap();
    let attachment = point.attach({
        let seen = Arc::clone(&seen);
        move |event| {
            if let Some(FieldValue::Unsigned(ns)) = event.field("ns") {
                seen.store(ns, Ordering::Relaxed);
            }
        }
    });
    with_default(&dispatch, run);
    assert_eq!(closed(drained()), Some(seen.load(Ordering::Relaxed)));
    assert!(seen.load(Ordering::Relaxed) >= pause.as_nanos() as u64 * 999 / 1000);
    drop(attachment);
}

/// A subscriber whose spans all have the ids 1, 2, 3 and so on, as any other's of its kind.
#[derive(Default)]
struct Counts(Mutex<u64>);

impl tracing::Subscriber for Counts {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut last = self.0.lock().unwrap();
        *last += 1;
        tracing::span::Id::from_u64(*last)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
    fn try_close(&self, _: tracing::span::Id) -> bool {
        true
    }
}

#[test]
fn spans_of_two_subscribers_with_the_same_ids_are_not_taken_for_one_another() {
    let mut turn = turn();
    let [one, other] =
        [(); 2].map(|()| Dispatch::new(tracebraid::tracing::wrap(Counts::default())));
    turn.enable("tracing.ways:*");
    let first = with_default(&one, || info_span!("first"));
    let second = with_default(&other, || info_span!("second"));
    assert_eq!(first.id(), second.id());
    with_default(&one, || first.in_scope(|| info!("in the first")));
    with_default(&other, || second.in_scope(|| info!("in the second")));
    drop(second);
    drop(first);
    let numbers: Vec<(String, String)> = drained()
        .iter()
        .map(|line| {
            let (name, body) = line.split_once(": ").unwrap();
            let of = |word: &str| word.starts_with("id=") || word.starts_with("span=");
            let number = body.split(' ').find(|word| of(word)).unwrap();
            let name = name.rsplit_once(".rs").map_or(name, |_| "event");
            let number = number.split_once('=').unwrap().1;
            (name.replace("tracing.ways:", ""), number.to_owned())
        })
        .collect();
    let (a, b) = (numbers[0].1.as_str(), numbers[1].1.as_str());
    assert_ne!(a, b);
    let expected = [
        ("first", a),
        ("second", b),
        ("first__enter", a),
        ("event", a),
        ("first__exit", a),
        ("second__enter", b),
        ("event", b),
        ("second__exit", b),
        ("second__close", b),
        ("first__close", a),
    ];
    let seen: Vec<_> = numbers
        .iter()
        .map(|(name, id)| (name.as_str(), id.as_str()))
        .collect();
    assert_eq!(seen, expected);
}
