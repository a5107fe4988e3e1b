//! The states of a process in which `tracing` events are off: it can be in one only.

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Why the `tracing` events of this process are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscriber {
    /// There is none.
    None,
    /// There is one for `INFO` and above; events are `DEBUG`.
    MaxInfo,
    /// There is one for another module's events.
    EnvFilter,
}

impl Subscriber {
    /// All of them.
    pub(crate) const ALL: [Subscriber; 3] =
        [Subscriber::None, Subscriber::MaxInfo, Subscriber::EnvFilter];

    /// What a `tracing` site of such a process is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subscriber::None => "tracing",
            Subscriber::MaxInfo => "tracing-max-info",
            Subscriber::EnvFilter => "tracing-env-filter",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Subscriber> {
        Subscriber::ALL
            .into_iter()
            .find(|subscriber| subscriber.name() == name)
    }

    /// Puts this process in the state, once and for good.
    pub(crate) fn install(self) {
        let registry = tracing_subscriber::registry();
        match self {
            Subscriber::None => {}
            Subscriber::MaxInfo => registry.with(LevelFilter::INFO).init(),
            Subscriber::EnvFilter => registry.with(EnvFilter::new("another_module=trace")).init(),
        }
    }
}
