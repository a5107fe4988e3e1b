//! The two tracepoints that stand for all of `tracing`: `tracing:event` and `tracing:span`.
//!
//! Those of callsites are made at run time, and a USDT probe has to be in a file. These two are: bpftrace,
//! perf and others find them as they find any. While one is on, every callsite of its kind is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_core::Metadata;

use super::callsite::level_number;
use crate::registry::Tracepoint;

static EVENTS: AtomicBool = AtomicBool::new(false);
static SPANS: AtomicBool = AtomicBool::new(false);

/// The declarations, which the macros expand as in any crate.
mod declared {
    #![allow(unsafe_code)]
    #![allow(
        clippy::undocumented_unsafe_blocks,
        reason = "the macros say it where they are written"
    )]

    use tracebraid_macros::tracepoint;

    #[tracepoint(provider = "tracing", name = "event")]
    pub(super) fn any_event(target: &str, name: &str, level: u8, id: u64, message: &str);

    #[tracepoint(provider = "tracing", name = "span")]
    pub(super) fn any_span(target: &str, name: &str, level: u8, id: u64, message: &str);
}

/// Looks which of the two are on. Whether that has changed.
pub(super) fn look() -> bool {
    static BOTH: OnceLock<[Option<Tracepoint>; 2]> = OnceLock::new();
    if BOTH.get().is_none() {
        let all = crate::tracepoints();
        // Another copy of the SDK in the process has two of these as well.
        let is_ours = |point: &&Tracepoint| point.provider() == "tracing" && point.is_ours();
        let find = |name| {
            all.iter()
                .filter(is_ours)
                .find(|it| it.name() == name)
                .cloned()
        };
        // Another thread's may be there first.
        let _ = BOTH.set([find("event"), find("span")]);
    }
    let mut changed = false;
    for (point, flag) in BOTH.get().into_iter().flatten().zip([&EVENTS, &SPANS]) {
        let on = point.as_ref().is_some_and(Tracepoint::is_enabled);
        changed |= flag.swap(on, Ordering::Relaxed) != on;
    }
    changed
}

#[inline]
pub(super) fn events_are_on() -> bool {
    EVENTS.load(Ordering::Relaxed)
}

#[inline]
pub(super) fn spans_are_on() -> bool {
    SPANS.load(Ordering::Relaxed)
}

/// Whether callsites of this kind are on.
pub(super) fn is_on(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && events_are_on() || metadata.is_span() && spans_are_on()
}

/// An event in this span.
pub(super) fn event(metadata: &Metadata<'_>, span: u64, message: &str) {
    let level = level_number(*metadata.level());
    declared::any_event(metadata.target(), metadata.name(), level, span, message);
}

/// Something happens to a span: `what` says what.
#[inline]
pub(super) fn span(metadata: &Metadata<'_>, id: u64, what: &str) {
    if spans_are_on() {
        let level = level_number(*metadata.level());
        declared::any_span(metadata.target(), metadata.name(), level, id, what);
    }
}
