//! States of a process in which DEBUG events are off: it can be in one only.

use tracebraid_benches::paired::Series;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::sites;

/// Why the events are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no subscriber.
    None,
    /// There is ours alone.
    Init,
    /// There is `fmt` at INFO.
    Fmt,
    /// Ours around it.
    FmtWrapped,
    /// There is an `EnvFilter` at info, and a formatter.
    EnvFilter,
    /// Ours around them.
    EnvFilterWrapped,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [State; 6] = [
        State::None,
        State::Init,
        State::Fmt,
        State::FmtWrapped,
        State::EnvFilter,
        State::EnvFilterWrapped,
    ];

    /// With ours and without.
    pub(crate) const PAIRS: [(State, State); 3] = [
        (State::Init, State::None),
        (State::FmtWrapped, State::Fmt),
        (State::EnvFilterWrapped, State::EnvFilter),
    ];

    /// What it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::None => "alone",
            State::Init => "tracebraid",
            State::Fmt => "fmt-info",
            State::FmtWrapped => "tracebraid-around-fmt-info",
            State::EnvFilter => "env-filter",
            State::EnvFilterWrapped => "tracebraid-around-env-filter",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Its series.
    pub(crate) fn series(self) -> String {
        format!("tracing/off/x16-3fields/{}", self.name())
    }

    /// Puts this process in the state, once and for good. What it measures.
    pub(crate) fn prepare(self) -> Vec<Series> {
        let fmt = || {
            tracing_subscriber::fmt()
                .with_max_level(tracing::Level::INFO)
                .with_writer(std::io::sink)
                .finish()
        };
        let filtered = || {
            tracing_subscriber::registry()
                .with(EnvFilter::new("info"))
                .with(tracing_subscriber::fmt::layer().with_writer(std::io::sink))
        };
        match self {
            State::None => {}
            State::Init => tracebraid::tracing::init(),
            State::Fmt => fmt().init(),
            State::FmtWrapped => tracebraid::tracing::wrap(fmt()).init(),
            State::EnvFilter => filtered().init(),
            State::EnvFilterWrapped => tracebraid::tracing::wrap(filtered()).init(),
        }
        vec![Series {
            name: self.series(),
            run: sites::sixteen_off,
            elements: 16,
            prepare: || (),
        }]
    }
}
