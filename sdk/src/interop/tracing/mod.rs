//! Every span and event of `tracing` is a tracepoint.
//!
//! ```text
//! the program, hyper, h2, sqlx, …  ─▶ tracing ─▶ Wrapped ─┬▶ what the inner subscriber wants, to it
//!                                                         └▶ what is wanted of us: rings, callbacks, USDT
//! ```
//! One word in `main` around the subscriber that there is, or [`init`] where there is none:
//!
//! ```no_run
//! # fn theirs() -> impl tracing_core::Subscriber + Send + Sync { tracing_subscriber::registry() }
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! tracebraid::tracing::wrap(theirs()).init();
//! ```
//! A callsite is the tracepoint `TARGET:NAME`, the target's `::` written as `.`; an event, which has no
//! name, is `TARGET:FILE.rs:LINE`. Of a span there are also `TARGET:NAME__enter`, `__exit`, `__close`,
//! `__record` and `__follows`. A tracepoint is known from its callsite's first registration, and switched
//! through `tracing`'s own cache of interests: while nobody wants it, it costs what it costs without us.
//! The guide is `docs/tracing.md`.

#[cfg(not(tracebraid_keys))]
mod absent;
#[cfg(tracebraid_keys)]
mod callsite;
#[cfg(tracebraid_keys)]
mod forward;
#[cfg(tracebraid_keys)]
mod generic;
#[cfg(tracebraid_keys)]
mod interest;
#[cfg(all(feature = "tracing-layer", tracebraid_keys))]
mod layer;
#[cfg(tracebraid_keys)]
mod nothing;
#[cfg(tracebraid_keys)]
mod spans;
#[cfg(tracebraid_keys)]
mod subscriber;
#[cfg(tracebraid_keys)]
mod take;
#[cfg(tracebraid_keys)]
mod thread;
#[cfg(tracebraid_keys)]
mod values;

#[cfg(not(tracebraid_keys))]
pub use absent::{Forwarding, Nothing, Wrapped, forward, init, subscriber, try_init, wrap};
#[cfg(tracebraid_keys)]
pub use forward::{Forwarding, forward};
#[cfg(tracebraid_keys)]
pub(crate) use interest::{follow, follow_registrations};
#[cfg(all(feature = "tracing-layer", tracebraid_keys))]
pub use layer::{Tracepoints, Wanted, layer};
#[cfg(tracebraid_keys)]
pub use nothing::Nothing;
#[cfg(tracebraid_keys)]
pub use subscriber::Wrapped;

#[cfg(tracebraid_keys)]
use {
    crate::error::{Error, ErrorKind, Result},
    tracing_core::{Dispatch, Subscriber, dispatcher},
};

/// Puts the bridge around a subscriber: to be called on the whole of it, last, and made the default as the
/// subscriber would have been. Gets the SDK ready, as [`crate::init`] does, where the program has not.
///
/// The inner subscriber sees what it saw before, whoever attaches: hits that it does not want are not
/// shown to it. `downcast_ref` finds what is inside, so that handles for reloading go on working.
#[cfg(tracebraid_keys)]
pub fn wrap<S: Subscriber>(subscriber: S) -> Wrapped<S> {
    crate::control::begin();
    Wrapped::new(subscriber)
}

/// The subscriber that [`init`] makes the default, for those who make it another's, or a thread's.
#[cfg(tracebraid_keys)]
pub fn subscriber() -> Wrapped<Nothing> {
    wrap(Nothing)
}

/// For a program that has no subscriber: its spans and events are tracepoints, and nothing is printed.
/// Where there is a subscriber already, nothing changes; [`try_init`] tells.
#[cfg(tracebraid_keys)]
pub fn init() {
    // That there is another is no reason to stop a program.
    let _ = try_init();
}

/// As [`init`].
///
/// # Errors
/// [`ErrorKind::Busy`]: the program has set another global default subscriber before.
#[cfg(tracebraid_keys)]
pub fn try_init() -> Result<()> {
    let dispatch = Dispatch::new(subscriber());
    dispatcher::set_global_default(dispatch).map_err(|_| {
        Error::new(
            ErrorKind::Busy,
            "the program has another global default subscriber: put tracebraid::tracing::wrap() around that one",
        )
    })
}
