//! Fields by `%` and `?`: text that is made when the event is emitted, in a bounded buffer.

use std::fmt;

use tracebraid::event;

use super::{OrderId, seen};

/// The texts of the one hit that `hit` makes of the tracepoint `name`.
fn texts(name: &str, hit: impl FnOnce()) -> Vec<String> {
    let mut hits = seen(name, hit);
    assert_eq!(hits.len(), 1, "{hits:?}");
    let (fields, _) = hits.remove(0);
    fields
        .into_iter()
        .map(|(_, text)| {
            let text = text
                .strip_prefix("Str(\"")
                .and_then(|text| text.strip_suffix("\")"));
            text.expect("a text").to_owned()
        })
        .collect()
}

#[test]
fn formatted_fields_are_what_their_type_says() {
    let order = OrderId(7);
    let list = [1, 2];
    let hit =
        || event!(says, %order, debug = ?list, empty = %"", alternate = %format_args!("{list:#?}"));
    assert_eq!(
        texts("says", hit),
        ["#7", "[1, 2]", "", "[\\n    1,\\n    2,\\n]"]
    );
}

#[test]
fn a_text_of_300_bytes_is_whole_and_a_longer_one_is_cut_with_a_mark() {
    for length in [300, 900, 1200, 100_000] {
        let long = "x".repeat(length);
        let got = texts("long", || event!(long, %long)).remove(0);
        if length <= 900 {
            assert_eq!(got, long);
            continue;
        }
        let kept = got.strip_suffix('…').expect("the mark");
        assert!(
            long.starts_with(kept) && kept.len() >= 900,
            "{}",
            kept.len()
        );
        assert!(got.len() <= 1024, "{}", got.len());
    }
}

#[test]
fn a_cut_never_splits_a_character() {
    for shift in 0..4 {
        let long = "y".repeat(shift) + &"🦀".repeat(400);
        let got = texts("crabs", || event!(crabs, %long)).remove(0);
        let kept = got.strip_suffix('…').expect("the mark");
        assert!(long.starts_with(kept) && kept.len() > 900, "{got}");
    }
}

#[test]
fn several_long_texts_share_the_room() {
    let long = "z".repeat(2000);
    let got = texts(
        "shared",
        || event!(shared, %long, other = ?long, short = %7),
    );
    for text in &got[..2] {
        assert!(text.ends_with('…') && text.len() > 250, "{text}");
    }
    assert_eq!(got[2], "7");
    assert!(got.iter().map(String::len).sum::<usize>() <= 1024 + 8);
}

/// Panics after having written something.
struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("begun ")?;
        panic!("on purpose")
    }
}

/// Says that it cannot be shown.
struct Fails;

impl fmt::Debug for Fails {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("half")?;
        Err(fmt::Error)
    }
}

#[test]
fn a_formatter_that_panics_or_fails_spoils_only_its_own_field() {
    let before = tracebraid::status().panics;
    let got = texts(
        "spoiled",
        || event!(spoiled, a = %Panics, b = ?Fails, c = %"whole"),
    );
    assert_eq!(got, ["begun <panicked>", "half", "whole"]);
    assert_eq!(tracebraid::status().panics, before + 1);
}

/// Hits a tracepoint while it is shown.
struct Traces;

impl fmt::Display for Traces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        event!(while_shown, text = %"inner");
        out.write_str("outer")
    }
}

#[test]
fn a_formatter_may_hit_tracepoints() {
    let got = seen("while_shown", || {
        let outer = texts_within("shows", || event!(shows, text = %Traces));
        assert_eq!(outer, 1);
    });
    assert_eq!(got.len(), 1);
}

/// How many hits of `name` there were; for use while another tracepoint is looked at.
fn texts_within(name: &str, hit: impl FnOnce()) -> usize {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let points = tracebraid::tracepoints();
    let point = points
        .iter()
        .find(|point| point.name() == name)
        .expect("the tracepoint");
    let attachment = point.attach(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    hit();
    drop(attachment);
    count.load(Ordering::Relaxed)
}
