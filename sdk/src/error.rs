//! The library's one error.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This system does not let the process patch its own code, so keys stay off.
    Text,
    /// The bytes at a site are not a key: somebody else's breakpoint stands there, perhaps.
    Site,
    /// The helper thread could not be started.
    Thread,
    /// The object that holds the tracepoint is no longer loaded.
    Unloaded,
    /// There are no rings in this process.
    Rings,
    /// A bridge has the rings.
    Busy,
    /// Not supported on this platform or by this build.
    Unsupported,
}

/// Something that the SDK could not do. Tracing errors never stop the program: what could not be
/// switched on stays off.
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    cause: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Error {
        Error {
            kind,
            message: message.into(),
            cause: None,
        }
    }

    #[cfg(tracebraid_keys)]
    pub(crate) fn because(mut self, cause: io::Error) -> Error {
        self.cause = Some(cause);
        self
    }

    /// What kind of thing went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.kind, self.message)?;
        match &self.cause {
            Some(cause) => write!(out, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
