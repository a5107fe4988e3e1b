//! Events and spans that are on, in one process: each series sets its dispatcher for its run.

use std::error::Error;
use std::sync::OnceLock;

use tracebraid::Options;
use tracebraid_benches::paired::{Run, Series};
use tracing::dispatcher::{Dispatch, with_default};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::nobody::Nobody;
use crate::sites;

/// What the process is called.
pub(crate) const NAME: &str = "on";
/// Bytes of a ring. Full ones overwrite, so that nobody has to read.
const RING: usize = 2 << 20;

macro_rules! dispatchers {
    ($($name:literal $module:ident = $make:expr;)*) => {
        $(mod $module {
            use super::*;

            static DISPATCH: OnceLock<Dispatch> = OnceLock::new();

            pub(super) fn make() {
                DISPATCH.get_or_init(|| $make);
            }

            pub(super) fn event(rounds: u64, items: &[u64], code: i32) {
                let dispatch = DISPATCH.get_or_init(|| $make);
                with_default(dispatch, || sites::event(rounds, items, code));
            }

            pub(super) fn span(rounds: u64, items: &[u64], code: i32) {
                let dispatch = DISPATCH.get_or_init(|| $make);
                with_default(dispatch, || sites::span(rounds, items, code));
            }
        })*

        /// By name: what makes it, and its runs.
        const ALL: &[(&str, fn(), Run, Run)] = &[$(($name, $module::make, $module::event, $module::span)),*];
    };
}

dispatchers! {
    "noop" noop = Dispatch::new(Nobody);
    "tracebraid" ours = Dispatch::new(tracebraid::tracing::wrap(Nobody));
    "fmt-sink" fmt = Dispatch::new(
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::ACTIVE)
            .with_writer(std::io::sink)
            .finish(),
    );
    "perfetto-sink" perfetto = Dispatch::new(
        tracing_subscriber::registry()
            .with(tracing_perfetto::PerfettoLayer::new(std::io::sink).with_debug_annotations(true)),
    );
}

/// Gets all dispatchers ready. What is measured.
pub(crate) fn prepare() -> Result<Vec<Series>, Box<dyn Error>> {
    let options = Options::new()
        .flight_recorder(RING)
        .record("tracing.sites:*");
    tracebraid::init_with(options)?;
    let mut series = Vec::new();
    for (name, make, event, span) in ALL {
        make();
        for (shape, run) in [("3u64", event), ("span", span)] {
            series.push(Series {
                name: format!("tracing/on/{shape}/{name}"),
                run: *run,
                elements: 1,
                prepare: || (),
            });
        }
    }
    // Registered, and on: else nothing would be measured.
    ours::event(1, &[1, 2, 3], 0);
    ours::span(1, &[1, 2, 3], 0);
    for (name, count) in [("span", 1), ("span__close", 1)] {
        let found = tracebraid::tracepoints();
        let on = found
            .iter()
            .filter(|point| point.name() == name && point.is_enabled());
        if on.count() < count {
            return Err(format!("the tracepoint {name} is not on").into());
        }
    }
    Ok(series)
}
