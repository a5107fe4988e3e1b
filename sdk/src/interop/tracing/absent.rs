//! On platforms without tracepoints: everything is as it would be without us.

use crate::error::{Error, ErrorKind, Result};
use tracing_core::Subscriber;

/// The subscriber itself.
pub type Wrapped<S> = S;

/// Gives the subscriber back.
pub fn wrap<S: Subscriber>(subscriber: S) -> Wrapped<S> {
    subscriber
}

/// The subscriber of a program that has none.
pub type Nothing = tracing_core::subscriber::NoSubscriber;

/// One that wants nothing.
pub fn subscriber() -> Wrapped<Nothing> {
    Nothing::new()
}

/// Does nothing.
pub fn init() {}

/// Says that there is nothing to do.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn try_init() -> Result<()> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "tracepoints work on x86-64 and aarch64 Linux",
    ))
}

/// What is forwarded: nothing.
#[derive(Debug)]
pub struct Forwarding(());

impl Forwarding {
    /// How many tracepoints are forwarded: none.
    #[must_use]
    pub fn tracepoints(&self) -> usize {
        0
    }
}

/// Says that there is nothing to forward.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn forward(_: &str) -> Result<Forwarding> {
    try_init().map(|()| Forwarding(()))
}
