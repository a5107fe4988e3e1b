//! Who receives the `tracing` events of a process: it can be one only, set once.

use std::hint::black_box;

use tracing::span;
use tracing_perfetto::PerfettoLayer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// A subscriber that wants everything and does nothing.
struct Nobody;

impl tracing::Subscriber for Nobody {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        black_box(event);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Nobody: everything is dropped.
pub(crate) fn install_nobody() {
    tracing::subscriber::set_global_default(Nobody).expect("nobody else sets one");
}

/// The formatter of `tracing-subscriber`, whose lines go nowhere.
pub(crate) fn install_fmt() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::ACTIVE)
        .with_ansi(false)
        .with_writer(std::io::sink)
        .init();
}

/// The packets of `tracing-perfetto`, which go nowhere.
pub(crate) fn install_perfetto() {
    let layer = PerfettoLayer::new(std::io::sink).with_debug_annotations(true);
    tracing_subscriber::registry().with(layer).init();
}
