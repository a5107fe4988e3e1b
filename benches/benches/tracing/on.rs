//! Events and spans that are on: in each process a subscriber that does nothing, ours around it, and one other.
//!
//! Each series sets its dispatcher for its run. The rings are emptied between runs, as a bridge does it.

use std::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracebraid::Options;
use tracebraid_benches::paired::{Run, Series};
use tracing::dispatcher::{Dispatch, with_default};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::nobody::Nobody;
use crate::sites;

/// Bytes of a ring: several times what one run writes.
const RING: usize = 2 << 20;
/// The tracepoints that go through the rings.
const RECORDED: &str = "tracing.sites:*";
/// What is measured of each.
pub(crate) const SHAPES: [&str; 2] = ["3u64", "span"];

/// Another that receives what `tracing` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The formatter of `tracing-subscriber`, to a sink.
    Fmt,
    /// `tracing-perfetto`, to a sink.
    Perfetto,
    /// `tracing-chrome`, whose thread writes to a sink.
    Chrome,
    /// `tracing-tracy`, to which nobody is connected.
    Tracy,
    /// The console's layer, whose server nobody asks.
    Console,
}

/// The dispatchers that are measured, each with a type of its own.
macro_rules! dispatchers {
    ($($module:ident = $make:expr;)*) => {$(
        mod $module {
            use super::*;

            static DISPATCH: OnceLock<Dispatch> = OnceLock::new();

            fn dispatch() -> &'static Dispatch {
                DISPATCH.get_or_init(|| $make)
            }

            pub(super) fn event(rounds: u64, items: &[u64], code: i32) {
                with_default(dispatch(), || sites::event(rounds, items, code));
            }

            pub(super) fn span(rounds: u64, items: &[u64], code: i32) {
                with_default(dispatch(), || sites::span(rounds, items, code));
            }

            /// The runs of [`SHAPES`].
            pub(super) const RUNS: [Run; 2] = [event, span];
        }
    )*};
}

dispatchers! {
    noop = Dispatch::new(Nobody);
    ours = Dispatch::new(tracebraid::tracing::wrap(Nobody));
    fmt = Dispatch::new(
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::ACTIVE)
            .with_writer(std::io::sink)
            .finish(),
    );
    perfetto = Dispatch::new(
        tracing_subscriber::registry()
            .with(tracing_perfetto::PerfettoLayer::new(std::io::sink).with_debug_annotations(true)),
    );
    chrome = {
        let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new()
            .writer(std::io::sink())
            .include_args(true)
            .build();
        // Its thread writes for as long as the process runs.
        std::mem::forget(guard);
        Dispatch::new(tracing_subscriber::registry().with(layer))
    };
}

#[cfg(feature = "tracy")]
dispatchers! {
    tracy = Dispatch::new(
        tracing_subscriber::registry().with(tracing_tracy::TracyLayer::default()),
    );
}

#[cfg(all(feature = "console", tokio_unstable))]
dispatchers! {
    console = {
        let (layer, server) = console_subscriber::ConsoleLayer::builder()
            .server_addr(([127, 0, 0, 1], 0))
            .build();
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(server.serve()).is_ok())
        });
        Dispatch::new(tracing_subscriber::registry().with(layer))
    };
}

impl Peer {
    /// All of them.
    pub(crate) const ALL: [Peer; 5] = [
        Peer::Fmt,
        Peer::Perfetto,
        Peer::Chrome,
        Peer::Tracy,
        Peer::Console,
    ];

    /// What it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Fmt => "fmt-sink",
            Peer::Perfetto => "perfetto-sink",
            Peer::Chrome => "chrome-sink",
            Peer::Tracy => "tracy",
            Peer::Console => "console",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Of so many rounds, those that it can have: what Tracy's client records it keeps.
    pub(crate) fn rounds(self, wanted: usize) -> usize {
        match self {
            Peer::Tracy => wanted.min(20),
            _ => wanted,
        }
    }

    /// Its runs.
    fn runs(self) -> Result<[Run; 2], String> {
        match self {
            Peer::Fmt => Ok(fmt::RUNS),
            Peer::Perfetto => Ok(perfetto::RUNS),
            Peer::Chrome => Ok(chrome::RUNS),
            #[cfg(feature = "tracy")]
            Peer::Tracy => Ok(tracy::RUNS),
            #[cfg(all(feature = "console", tokio_unstable))]
            Peer::Console => Ok(console::RUNS),
            // The layer refuses to be made in any other build.
            #[cfg(not(all(feature = "console", tokio_unstable)))]
            Peer::Console => Err(
                "built without --features console and RUSTFLAGS=\"--cfg tokio_unstable\""
                    .to_owned(),
            ),
            #[cfg(not(feature = "tracy"))]
            Peer::Tracy => Err("built without --features tracy".to_owned()),
        }
    }

    /// Why it cannot be measured, if so.
    pub(crate) fn absence(self) -> Option<String> {
        self.runs().err()
    }
}

/// Gets the dispatchers of a process ready. What is measured.
pub(crate) fn prepare(peer: Peer) -> Result<Vec<Series>, Box<dyn Error>> {
    tracebraid::init_with(Options::new().ring(RING).record(RECORDED))?;
    let all = [
        ("noop", noop::RUNS),
        ("tracebraid", ours::RUNS),
        (peer.name(), peer.runs()?),
    ];
    let mut series = Vec::new();
    for (name, runs) in all {
        for (shape, run) in SHAPES.into_iter().zip(runs) {
            // Registered, and on: else nothing would be measured.
            run(1, &[1, 2, 3], 0);
            series.push(Series {
                prepare: empty_rings,
                ..Series::new(format!("tracing/on/{shape}/{name}"), run)
            });
        }
    }
    tracebraid::enable(RECORDED)?;
    Ok(series)
}

/// Sees to it that what was measured is what happened.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    empty_rings();
    let (read, lost) = (READ.load(Ordering::Relaxed), tracebraid::lost(RECORDED));
    if read == 0 || lost > 0 {
        return Err(format!("{read} events were recorded, and {lost} lost").into());
    }
    Ok(())
}

/// Events of ours that were taken out of the rings.
static READ: AtomicUsize = AtomicUsize::new(0);

/// Makes room in the rings, outside of what is measured.
fn empty_rings() {
    let read = tracebraid::drain(|_| ()).expect("the rings are ours");
    READ.fetch_add(read, Ordering::Relaxed);
}
