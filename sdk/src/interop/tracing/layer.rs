//! The form of a layer, where the outermost place is somebody else's.
//!
//! It is a layer under a filter of its own, which is our interest: its answers silence no neighbour, and it
//! hears of nothing that a filter of the whole stack (an `EnvFilter` beside it) drops. That the stack has a
//! layer with a filter at all makes `tracing-subscriber` ask for each hit what it would else remember, for
//! callsites that others always want.

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::spans::{self, Ids};
use super::{callsite, interest, subscriber, take};

/// Takes what its stack shows it: see [`layer`].
#[derive(Debug)]
pub struct Tracepoints(Ids);

/// Lets through what is wanted of us.
#[derive(Debug)]
pub struct Wanted(());

/// A layer for a stack of `tracing-subscriber`, where [`wrap`](super::wrap) around all of it cannot be had.
///
/// It sees what filters of the whole stack let through, and no more: under `EnvFilter=info` beside it no DEBUG
/// event arrives. Gets the SDK ready, as [`crate::init`] does.
///
/// ```no_run
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry()
///     .with(tracebraid::tracing::layer())
///     .init();
/// ```
#[must_use]
pub fn layer<S>() -> Filtered<Tracepoints, Wanted, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    crate::control::begin();
    Tracepoints(Ids::new()).with_filter(Wanted(()))
}

impl<S> Filter<S> for Wanted {
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        interest::answered();
        match callsite::find_or_make(metadata) {
            Some(known) if interest::wants(known) => Interest::always(),
            Some(_) => Interest::never(),
            None if interest::might_want(metadata) => Interest::sometimes(),
            None => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        match callsite::find(metadata) {
            Some(known) => interest::wants(known),
            None => interest::might_want(metadata),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match interest::is_open() {
            true => LevelFilter::TRACE,
            false => LevelFilter::OFF,
        })
    }
}

impl<S: Subscriber> Layer<S> for Tracepoints {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        interest::add(dispatch);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if let Some(known) = callsite::find_wanted(attributes.metadata()) {
            let span = take::new_span(known, attributes, self.0);
            // Where there is no room it is a span that is not followed.
            spans::insert(self.0.key(id), span);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some((found, known)) = subscriber::found(self.0.key(id)) {
            take::record(known, found.span, values);
        }
    }

    fn on_follows_from(&self, id: &Id, other: &Id, _: Context<'_, S>) {
        if let Some((found, known)) = subscriber::found(self.0.key(id)) {
            take::follows(known, found.span, self.0.key(other));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some(known) = callsite::find_wanted(event.metadata()) {
            take::event(known, event, self.0);
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        take::enter(self.0.key(id));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        take::exit(self.0.key(id));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let key = self.0.key(&id);
        if let Some((found, known)) = subscriber::found(key) {
            take::close(known, found.span);
            found.remove(key);
        }
    }
}
