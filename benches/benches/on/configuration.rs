//! The processes that measure: what is global in a process can be in one state only.
//!
//! ```text
//! tracing-noop, -fmt, -perfetto   the one subscriber of `tracing`; LTTng beside the first
//! probes                          a counting uprobe of the kernel on each USDT probe
//! overwrite                       rings that overwrite what is oldest, beside LTTng's
//! tracy                           few rounds, for what it records is kept
//! ```
//! Ours and the floor are in each of them, so that every peer has ours in its own rounds.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracebraid::Options;
use tracebraid_benches::paired::Series;

use crate::counter::{self, Counter};
use crate::lttng::{Library, Mode};
use crate::shapes::Shape;
use crate::sites::{self, Peer};
use crate::subscriber;

/// Bytes of a ring of ours: what one run writes, twice over.
const RING: usize = 2 << 20;
/// The tracepoints that go through the rings.
const RECORDED: &str = "on:*";

/// What a process measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configuration {
    /// `tracing` to a subscriber that does nothing; LTTng in mode discard.
    Noop,
    /// `tracing`'s formatter, to a sink.
    Fmt,
    /// `tracing-perfetto`, to a sink.
    Perfetto,
    /// USDT probes.
    Probes,
    /// Rings and buffers that overwrite.
    Overwrite,
    /// Tracy.
    Tracy,
}

impl Configuration {
    /// All of them.
    pub(crate) const ALL: [Configuration; 6] = [
        Configuration::Noop,
        Configuration::Fmt,
        Configuration::Perfetto,
        Configuration::Probes,
        Configuration::Overwrite,
        Configuration::Tracy,
    ];

    /// What it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Configuration::Noop => "noop",
            Configuration::Fmt => "fmt",
            Configuration::Perfetto => "perfetto",
            Configuration::Probes => "probes",
            Configuration::Overwrite => "overwrite",
            Configuration::Tracy => "tracy",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Configuration> {
        Configuration::ALL
            .into_iter()
            .find(|configuration| configuration.name() == name)
    }

    /// How our series is called in its processes.
    pub(crate) fn ours(self) -> &'static str {
        match self {
            Configuration::Overwrite => "tracebraid-overwrite",
            _ => sites::OURS.name,
        }
    }

    /// The others that it measures, by the names they have in results.
    pub(crate) fn peers(self) -> &'static [&'static str] {
        match self {
            Configuration::Noop => &["tracing-noop", "lttng-ust-discard"],
            Configuration::Fmt => &["tracing-fmt"],
            Configuration::Perfetto => &["tracing-perfetto"],
            Configuration::Probes => &["tracebraid-usdt", "usdt", "probe"],
            Configuration::Overwrite => &["lttng-ust-overwrite"],
            Configuration::Tracy => &["tracy"],
        }
    }

    /// Whether a machine may lack what it needs: the right to set uprobes, a C++ compiler.
    pub(crate) fn may_be_absent(self) -> bool {
        matches!(self, Configuration::Probes | Configuration::Tracy)
    }

    /// Of so many rounds, those that it can have.
    pub(crate) fn rounds(self, wanted: usize) -> usize {
        match self {
            Configuration::Noop => wanted,
            Configuration::Tracy => wanted.min(20),
            _ => wanted.div_ceil(2),
        }
    }
}

/// A process in such a state.
#[derive(Debug)]
pub(crate) struct Prepared {
    configuration: Configuration,
    peers: Vec<Peer>,
    counters: Vec<Counter>,
}

impl Prepared {
    /// Puts this process into the state, once and for good. `lttng` is where the libraries of LTTng are, if
    /// it is here.
    ///
    /// # Errors
    /// The kernel refuses a uprobe, or something does not work that should.
    pub(crate) fn new(
        configuration: Configuration,
        lttng: Option<&Path>,
    ) -> Result<Prepared, Box<dyn Error>> {
        let options = Options::new().record(RECORDED);
        tracebraid::init_with(match configuration {
            Configuration::Overwrite => options.flight_recorder(RING),
            _ => options.ring(RING),
        })?;
        let mut peers = Vec::new();
        let mut counters = Vec::new();
        let mut tracing = |install: fn()| {
            install();
            peers.push(sites::TRACING);
        };
        match configuration {
            Configuration::Noop => tracing(subscriber::install_nobody),
            Configuration::Fmt => tracing(subscriber::install_fmt),
            Configuration::Perfetto => tracing(subscriber::install_perfetto),
            Configuration::Probes => {
                usdt::register_probes()?;
                counters = counter::on_providers(&["on_usdt", "on_usdt_crate", "on_probe_crate"])?;
                // The kernel has raised the semaphores; this is what the helper thread would do a moment later.
                tracebraid::settle()?;
                peers.extend([sites::OURS_USDT, sites::USDT, sites::PROBE]);
            }
            Configuration::Overwrite => {}
            #[cfg(feature = "tracy")]
            Configuration::Tracy => crate::zones::start(),
            #[cfg(not(feature = "tracy"))]
            Configuration::Tracy => return Err("built without the feature `tracy`".into()),
        }
        let beside = match configuration {
            Configuration::Noop => Some((Mode::Discard, sites::LTTNG_DISCARD)),
            Configuration::Overwrite => Some((Mode::Overwrite, sites::LTTNG_OVERWRITE)),
            _ => None,
        };
        if let (Some((mode, peer)), Some(lttng)) = (beside, lttng) {
            Library::load(lttng, mode)?;
            peers.push(peer);
        }
        if configuration != Configuration::Overwrite {
            tracebraid::drain(|_| ())?;
            tracebraid::enable(RECORDED)?;
        }
        Ok(Prepared {
            configuration,
            peers,
            counters,
        })
    }

    /// What is measured.
    pub(crate) fn series(&self) -> Vec<Series> {
        let floor = |name: &str, run| Series::new(format!("floor/{name}"), run);
        let mut series = vec![
            floor("rdtsc", sites::rdtsc),
            floor("clock_gettime", sites::clock_gettime),
        ];
        let subscriber = self.configuration.peers().first().copied();
        for shape in Shape::ALL {
            let name = |peer: &str| format!("on/{}/{peer}", shape.name());
            let mut ours = Series::new(name(self.configuration.ours()), sites::OURS.run(shape));
            if self.configuration != Configuration::Overwrite {
                ours.prepare = empty_rings;
            }
            series.push(ours);
            for peer in &self.peers {
                let peer_name = match peer.name {
                    "tracing" => subscriber.unwrap_or(peer.name),
                    name => name,
                };
                series.push(Series::new(name(peer_name), peer.run(shape)));
            }
            #[cfg(feature = "tracy")]
            if self.configuration == Configuration::Tracy
                && let Some(run) = crate::zones::run(shape)
            {
                series.push(Series::new(name("tracy"), run));
            }
        }
        series
    }

    /// Sees to it that what was measured is what happened: every event of ours was recorded, every probe
    /// was hit.
    pub(crate) fn check(&mut self) -> Result<(), Box<dyn Error>> {
        if self.configuration != Configuration::Overwrite {
            empty_rings();
            let (read, lost) = (READ.load(Ordering::Relaxed), tracebraid::lost(RECORDED));
            if read == 0 || lost > 0 {
                return Err(format!("{read} events were recorded, and {lost} lost").into());
            }
        }
        for counter in &mut self.counters {
            if counter.hits()? == 0 {
                return Err(format!("the probe {} was never hit", counter.name()).into());
            }
        }
        Ok(())
    }
}

/// Events of ours that were taken out of the rings.
static READ: AtomicUsize = AtomicUsize::new(0);

/// Makes room in the rings, outside of what is measured.
fn empty_rings() {
    let read = tracebraid::drain(|_| ()).expect("the rings are ours");
    READ.fetch_add(read, Ordering::Relaxed);
}
