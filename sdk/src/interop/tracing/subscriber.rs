//! The outermost subscriber: it forwards to the inner one exactly what that wants, and takes what we want.
//!
//! ```text
//!                      inner: never      sometimes                   always
//! we do not want it    never             sometimes                   always
//! we want it           always            sometimes                   always
//!                      forward nothing   forward what it lets pass   forward all
//! ```
//! Between the question, [`enabled`](Subscriber::enabled), and the hit the program evaluates its fields, and
//! may hit other callsites. So what the inner subscriber refused and we want is remembered by callsite.
//!
//! Spans that the inner subscriber does not want have ids of ours, and it never hears of them: as without
//! us, they are not there. A span of its own with such a parent is a root, as it would have been.

#![allow(unsafe_code)]

use std::any::TypeId;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};

use super::callsite::{self, Known};
use super::spans::{self, Found, Ids};
use super::{interest, take, thread};

/// A subscriber with the bridge around it: see [`wrap`](super::wrap).
pub struct Wrapped<S> {
    inner: S,
    /// The inner subscriber's interest by callsite.
    interests: Interests,
    ids: Ids,
}

impl<S> Wrapped<S> {
    pub(super) fn new(inner: S) -> Wrapped<S> {
        Wrapped {
            inner,
            ids: Ids::new(),
            interests: Interests::default(),
        }
    }

    /// Whether the inner subscriber wants a hit that comes now. To be asked once a hit.
    #[inline]
    fn forwards(&self, metadata: &Metadata<'_>, known: Option<&Known>) -> bool {
        if known.is_some_and(|known| self.interests.of(known) == NEVER) {
            return false;
        }
        !thread::was_refused(known.map_or_else(|| callsite::key(metadata), |known| known.key))
    }
}

impl<S> fmt::Debug for Wrapped<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Wrapped")
    }
}

/// The span that is followed under a key.
#[inline]
pub(super) fn found(key: u64) -> Option<(Found, &'static Known)> {
    let found = spans::find(key)?;
    Some((found, callsite::at(found.span.callsite)?))
}

impl<S: Subscriber> Subscriber for Wrapped<S> {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        interest::add(dispatch);
        self.inner.on_register_dispatch(dispatch);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let theirs = self.inner.register_callsite(metadata);
        // Before it is looked at: what is wanted later has interests asked again.
        interest::answered();
        let Some(known) = callsite::find_or_make(metadata) else {
            return match interest::might_want(metadata) {
                true if theirs.is_never() => Interest::sometimes(),
                _ => theirs,
            };
        };
        self.interests.set(known, &theirs);
        if theirs.is_never() && interest::wants(known) {
            return Interest::always();
        }
        theirs
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let known = callsite::find(metadata);
        let never = known.is_some_and(|known| self.interests.of(known) == NEVER);
        let key = known.map_or_else(|| callsite::key(metadata), |known| known.key);
        // Of a hit that never came.
        thread::was_refused(key);
        if !never && self.inner.enabled(metadata) {
            return true;
        }
        let wanted = match known {
            Some(known) => interest::wants(known),
            None => interest::might_want(metadata),
        };
        if wanted && !never {
            thread::refuse(key);
        }
        wanted
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let theirs = self.inner.max_level_hint();
        if interest::is_open() {
            return Some(LevelFilter::TRACE);
        }
        theirs
    }

    fn event_enabled(&self, _: &Event<'_>) -> bool {
        // `event` asks.
        true
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let known = callsite::find_or_late(metadata);
        let forwards = self.forwards(metadata, known);
        if let Some(known) = known.filter(|known| interest::wants(known)) {
            take::event(known, event, self.ids);
        }
        if forwards && self.inner.event_enabled(event) {
            self.inner.event(event);
        }
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let known = callsite::find_or_late(metadata);
        let forwards = self.forwards(metadata, known);
        let span = known
            .filter(|known| interest::wants(known))
            .map(|known| take::new_span(known, attributes, self.ids));
        let id = if forwards {
            match attributes.parent() {
                Some(parent) if spans::is_own(parent.into_u64()) => {
                    let root = Attributes::new_root(metadata, attributes.values());
                    self.inner.new_span(&root)
                }
                _ => self.inner.new_span(attributes),
            }
        } else {
            let number = span.map_or_else(spans::number, |span| span.number);
            Id::from_u64(spans::own_id(number))
        };
        if let Some(span) = span {
            // Where there is no room it is a span that is not followed.
            spans::insert(self.ids.key(&id), span);
        }
        id
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some((found, known)) = found(self.ids.key(id)) {
            take::record(known, found.span, values);
        }
        if !spans::is_own(id.into_u64()) {
            self.inner.record(id, values);
        }
    }

    fn record_follows_from(&self, id: &Id, other: &Id) {
        if let Some((found, known)) = found(self.ids.key(id)) {
            take::follows(known, found.span, self.ids.key(other));
        }
        if ![id, other]
            .into_iter()
            .any(|id| spans::is_own(id.into_u64()))
        {
            self.inner.record_follows_from(id, other);
        }
    }

    fn enter(&self, id: &Id) {
        take::enter(self.ids.key(id));
        if !spans::is_own(id.into_u64()) {
            self.inner.enter(id);
        }
    }

    fn exit(&self, id: &Id) {
        take::exit(self.ids.key(id));
        if !spans::is_own(id.into_u64()) {
            self.inner.exit(id);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        let known = spans::find(self.ids.key(id));
        if spans::is_own(id.into_u64()) {
            if let Some(known) = known {
                known.clone_handle();
            }
            return id.clone();
        }
        let clone = self.inner.clone_span(id);
        if let Some(known) = known.filter(|_| clone != *id) {
            spans::insert(self.ids.key(&clone), known.span);
        }
        clone
    }

    fn drop_span(&self, id: Id) {
        self.try_close(id);
    }

    fn try_close(&self, id: Id) -> bool {
        // Before it is closed: its id may then be another span's.
        let key = self.ids.key(&id);
        let found = found(key);
        let closed = if spans::is_own(id.into_u64()) {
            found.is_some_and(|(found, _)| found.drop_handle())
        } else {
            self.inner.try_close(id)
        };
        if let Some((found, known)) = found.filter(|_| closed) {
            take::close(known, found.span);
            found.remove(key);
        }
        closed
    }

    fn current_span(&self) -> Current {
        self.inner.current_span()
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some((&raw const *self).cast());
        }
        // SAFETY: the caller's promise is passed on: what it gives is used as what was asked for.
        unsafe { self.inner.downcast_raw(id) }
    }
}

const UNKNOWN: u8 = 0;
const NEVER: u8 = 1;
const SOMETIMES: u8 = 2;
const ALWAYS: u8 = 3;

/// The inner subscriber's interests. Parts of the table come as callsites do.
#[derive(Default)]
struct Interests([OnceLock<Box<[AtomicU8; 256]>>; 32]);

impl Interests {
    fn place(&self, known: &Known) -> (Option<&OnceLock<Box<[AtomicU8; 256]>>>, usize) {
        let index = known.index as usize;
        (self.0.get(index / 256), index % 256)
    }

    fn set(&self, known: &Known, interest: &Interest) {
        let value = match interest {
            interest if interest.is_never() => NEVER,
            interest if interest.is_always() => ALWAYS,
            _ => SOMETIMES,
        };
        let (Some(part), at) = self.place(known) else {
            return;
        };
        if part.get().is_none() {
            let new = thread::alone(|| Box::new([const { AtomicU8::new(UNKNOWN) }; 256]));
            // Another thread's may be there first.
            let _ = new.map(|new| part.set(new));
        }
        if let Some(part) = part.get() {
            part[at].store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    fn of(&self, known: &Known) -> u8 {
        let (part, at) = self.place(known);
        part.and_then(OnceLock::get)
            .map_or(UNKNOWN, |part| part[at].load(Ordering::Relaxed))
    }
}
