//! Taking hits: of an event, and of what happens to a span.

use tracing_core::Event;
use tracing_core::span::{Attributes, Id, Record};

use super::callsite::{self, Known, Points, SpanPoints, level_number};
use super::spans::{self, Ids, Span};
use super::thread::{self, Entered};
use super::values::Message;
use super::{generic, interest};
use crate::made::{Made, Source, texts};
use crate::stamp::Stamp;

/// The number of the span that something is in: of its explicit parent, else of the innermost that the
/// thread is in; 0 where there is none, or none that we follow.
fn surrounding(explicit: Option<&Id>, is_contextual: bool, ids: Ids) -> u64 {
    let innermost = || thread::innermost().map(|span| span.number);
    match explicit {
        Some(id) => spans::find(ids.key(id)).map(|found| found.span.number),
        None if is_contextual => innermost(),
        None => None,
    }
    .unwrap_or(0)
}

/// Takes an event.
pub(super) fn event(known: &Known, event: &Event<'_>, ids: Ids) {
    let Points::Event(point) = &known.points else {
        return;
    };
    let metadata = event.metadata();
    let span = surrounding(event.parent(), event.is_contextual(), ids);
    if point.is_on() {
        let words = [level_number(*metadata.level()).into(), span];
        take(point, words, event);
    }
    if interest::events_are_on() {
        thread::within_hit(|| {
            let mut texts = texts();
            let mut message = Message::new(&mut texts);
            event.record(&mut message);
            generic::event(metadata, span, message.finish());
        });
    }
}

/// Takes a span that begins.
pub(super) fn new_span(known: &Known, attributes: &Attributes<'_>, ids: Ids) -> Span {
    let parent = surrounding(attributes.parent(), attributes.is_contextual(), ids);
    let metadata = attributes.metadata();
    let number = spans::number();
    let begun = match points(known) {
        Some(points) if points.new.is_on() => {
            let words = [level_number(*metadata.level()).into(), number, parent];
            take(&points.new, words, attributes)
        }
        _ => None,
    };
    generic::span(metadata, number, "new");
    Span {
        number,
        start: Stamp::or_now(begun),
        callsite: known.index,
    }
}

/// Takes values that a span is given later.
pub(super) fn record(known: &Known, span: Span, values: &Record<'_>) {
    if let Some(SpanPoints { record, .. }) = points(known)
        && record.is_on()
    {
        take(record, [span.number], values);
    }
    generic::span(known.metadata, span.number, "record");
}

/// Takes that a span follows from the one of a key, which may be none that we follow.
pub(super) fn follows(known: &Known, span: Span, other: u64) {
    let other = spans::find(other).map_or(0, |found| found.span.number);
    if let Some(SpanPoints { follows, .. }) = points(known) {
        take_words(follows, [span.number, other]);
    }
    generic::span(known.metadata, span.number, "follows");
}

/// Takes that a thread enters the span of this key, if it is followed.
#[inline]
pub(super) fn enter(key: u64) {
    let Some(span) = spans::find(key).map(|found| found.span) else {
        return;
    };
    if let Some(known) = callsite::at(span.callsite) {
        if let Some(SpanPoints { enter, .. }) = points(known) {
            take_words(enter, [span.number]);
        }
        generic::span(known.metadata, span.number, "enter");
    }
    thread::enter(Entered {
        key,
        number: span.number,
        callsite: span.callsite,
    });
}

/// Takes that a thread leaves the span of this key, if it is followed.
#[inline]
pub(super) fn exit(key: u64) {
    // Mostly it is the one that was entered last, and then that says all.
    let (number, callsite) = match thread::exit_innermost(key) {
        Some(span) => (span.number, span.callsite),
        None => {
            let Some(found) = spans::find(key) else {
                return;
            };
            thread::exit(key);
            (found.span.number, found.span.callsite)
        }
    };
    if let Some(known) = callsite::at(callsite) {
        if let Some(SpanPoints { exit, .. }) = points(known) {
            take_words(exit, [number]);
        }
        generic::span(known.metadata, number, "exit");
    }
}

/// Takes that a span has ended.
pub(super) fn close(known: &Known, span: Span) {
    if let Some(SpanPoints { close, .. }) = points(known)
        && close.is_on()
        && thread::within_hit(|| close.take_end(span.number, span.start)).is_none()
    {
        close.count_nested();
    }
    generic::span(known.metadata, span.number, "close");
}

fn points(known: &Known) -> Option<&SpanPoints> {
    match &known.points {
        Points::Span(points) => Some(points),
        Points::Event(_) => None,
    }
}

#[inline]
fn take_words<const WORDS: usize>(point: &Made, words: [u64; WORDS]) {
    if point.is_on() && thread::within_hit(|| point.take_words(words)).is_none() {
        point.count_nested();
    }
}

/// Takes a hit with the values of a callsite's fields. Its stamp, where it is in the rings.
fn take<const WORDS: usize>(
    point: &Made,
    words: [u64; WORDS],
    source: &impl Source,
) -> Option<Stamp> {
    let taken = thread::within_hit(|| point.take(words, source));
    if taken.is_none() {
        point.count_nested();
    }
    taken.flatten()
}
