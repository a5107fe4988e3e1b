//! The subscriber of a program that has none: it wants nothing.

use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};

use super::{callsite, spans, thread};

/// The inner subscriber of a program that has none. What the thread is in are spans of ours, since there are no others.
#[derive(Debug)]
pub struct Nothing;

impl Subscriber for Nothing {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Never called: none is wanted.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn current_span(&self) -> Current {
        // One of a dispatcher with spans of its own may be further in.
        let innermost = thread::innermost().filter(|span| spans::is_own(span.key));
        let known = innermost.and_then(|span| Some((span, callsite::at(span.callsite)?)));
        known.map_or_else(Current::none, |(span, known)| {
            Current::new(Id::from_u64(span.key), known.metadata)
        })
    }
}
