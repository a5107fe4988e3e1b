//! Who receives the `tracing` events of a process: it can be one only, set once.

use tracing_perfetto::PerfettoLayer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::nobody::Nobody;

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
