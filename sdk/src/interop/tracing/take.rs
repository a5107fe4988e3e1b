//! Taking hits: of an event, and of what happens to a span.

use tracing_core::span::{Attributes, Record};
use tracing_core::{Event, Metadata};

use super::callsite::{Known, Points, SpanPoints, level_number};
use super::spans::{self, Span};
use super::values::{Message, Values, texts};
use super::{generic, interest, thread};
use crate::clock;
use crate::made::{Hit, Made};

/// The number of the span that something is in: of its explicit parent, else of the innermost that the
/// thread is in; 0 where there is none, or none that we follow.
fn surrounding(explicit: Option<u64>, is_contextual: bool) -> u64 {
    let innermost = || thread::innermost().map(|span| span.number);
    match explicit {
        Some(id) => spans::find(id).map(|found| found.span.number),
        None if is_contextual => innermost(),
        None => None,
    }
    .unwrap_or(0)
}

/// Takes an event.
pub(super) fn event(known: &Known, event: &Event<'_>) {
    let Points::Event(point) = &known.points else {
        return;
    };
    let metadata = event.metadata();
    let explicit = event.parent().map(tracing_core::span::Id::into_u64);
    let span = surrounding(explicit, event.is_contextual());
    if point.is_on() {
        let words = [level_number(*metadata.level()).into(), span];
        take(point, words, metadata, |values| event.record(values));
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
pub(super) fn new_span(known: &Known, attributes: &Attributes<'_>) -> Span {
    let explicit = attributes.parent().map(tracing_core::span::Id::into_u64);
    let parent = surrounding(explicit, attributes.is_contextual());
    let metadata = attributes.metadata();
    let span = Span {
        number: spans::number(),
        start: clock::now(),
        callsite: known.index,
    };
    if let Points::Span(points) = &known.points
        && points.new.is_on()
    {
        let words = [level_number(*metadata.level()).into(), span.number, parent];
        take(&points.new, words, metadata, |values| {
            attributes.record(values)
        });
    }
    generic::span(metadata, span.number, "new");
    span
}

/// Takes values that a span is given later.
pub(super) fn record(known: &Known, span: Span, values: &Record<'_>) {
    if let Some(SpanPoints { record, .. }) = points(known)
        && record.is_on()
    {
        take(record, [span.number], known.metadata, |visitor| {
            values.record(visitor)
        });
    }
    generic::span(known.metadata, span.number, "record");
}

/// Takes that a span follows from another, which may be none that we follow.
pub(super) fn follows(known: &Known, span: Span, other: u64) {
    let other = spans::find(other).map_or(0, |found| found.span.number);
    if let Some(SpanPoints { follows, .. }) = points(known) {
        take_words(follows, [span.number, other]);
    }
    generic::span(known.metadata, span.number, "follows");
}

/// Takes that a thread enters a span.
#[inline]
pub(super) fn enter(known: &Known, span: Span) {
    if let Some(SpanPoints { enter, .. }) = points(known) {
        take_words(enter, [span.number]);
    }
    generic::span(known.metadata, span.number, "enter");
}

/// Takes that a thread leaves a span.
#[inline]
pub(super) fn exit(known: &Known, span: Span) {
    if let Some(SpanPoints { exit, .. }) = points(known) {
        take_words(exit, [span.number]);
    }
    generic::span(known.metadata, span.number, "exit");
}

/// Takes that a span has ended.
pub(super) fn close(known: &Known, span: Span) {
    if let Some(SpanPoints { close, .. }) = points(known)
        && close.is_on()
    {
        let ns = clock::now().saturating_sub(span.start);
        take_words(close, [span.number, ns]);
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
    if point.is_on() && thread::within_hit(|| point.take(&mut Hit::new(words, 0))).is_none() {
        point.count_nested();
    }
}

/// Takes a hit with the values of a callsite's fields that `show` shows.
fn take<const WORDS: usize>(
    point: &Made,
    words: [u64; WORDS],
    metadata: &Metadata<'_>,
    show: impl FnOnce(&mut Values<'_, '_>),
) {
    let taken = thread::within_hit(|| {
        let fields = metadata.fields().len();
        let mut texts = texts();
        let mut hit = Hit::new(words, fields);
        let mut values = Values::new(&mut hit, &mut texts, fields);
        show(&mut values);
        if values.panics > 0 {
            point.count_panics(values.panics);
        }
        point.take(&mut hit);
    });
    if taken.is_none() {
        point.count_nested();
    }
}
