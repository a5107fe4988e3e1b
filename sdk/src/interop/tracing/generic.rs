//! The two tracepoints that stand for all of `tracing`: `tracing:event` and `tracing:span`.
//!
//! Those of callsites are made at run time, and a USDT probe has to be in a file. These two are: bpftrace,
//! perf and others find them as they find any. While one is on, every callsite of its kind is.

use std::sync::OnceLock;

use tracing_core::Metadata;

use super::callsite::level_number;
use super::interest;
use crate::registry::Tracepoint;

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

/// Whether the code of the two is on: `tracing:event`, `tracing:span`.
pub(super) fn are_on() -> [bool; 2] {
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
    let is_on = |point: &Option<Tracepoint>| point.as_ref().is_some_and(Tracepoint::is_enabled);
    BOTH.get()
        .map_or([false; 2], |both| both.each_ref().map(is_on))
}

/// An event in this span.
pub(super) fn event(metadata: &Metadata<'_>, span: u64, message: &str) {
    let level = level_number(*metadata.level());
    declared::any_event(metadata.target(), metadata.name(), level, span, message);
}

/// Something happens to a span: `what` says what.
#[inline]
pub(super) fn span(metadata: &Metadata<'_>, id: u64, what: &str) {
    if interest::spans_are_on() {
        let level = level_number(*metadata.level());
        declared::any_span(metadata.target(), metadata.name(), level, id, what);
    }
}
