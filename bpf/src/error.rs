//! The one error of this crate: a [kind](ErrorKind) to act on, and a chain of causes to read.

use std::fmt;
use std::path::PathBuf;

/// What went wrong, and why. `Display` is one sentence; `source()` leads to the causes.
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure an [`Error`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A right is missing.
    Permission {
        /// Which: `CAP_BPF`, `CAP_PERFMON`, `kernel.perf_event_paranoid`, `lockdown`, …
        right: String,
    },
    /// The kernel cannot do it.
    Unsupported {
        /// The kernel option or version that it would take, such as `CONFIG_UPROBE_EVENTS`.
        needs: String,
    },
    /// The [`Spec`](crate::spec::Spec) asks for something that makes no sense or is out of range.
    BadSpec,
    /// A probe could not be attached.
    Attach {
        /// The file, for a user probe.
        file: Option<PathBuf>,
        /// The offset in it, where one is known to be the reason.
        offset: Option<u64>,
    },
    /// The kernel refused a program; the last lines of its verifier's log are in the message.
    Load,
    /// A ring held bytes that no program of ours wrote.
    Damaged,
    /// Anything else that the system refused.
    System,
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                source: None,
            }),
        }
    }

    pub(crate) fn bad_spec(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::BadSpec, message)
    }

    pub(crate) fn system(message: impl Into<String>, source: std::io::Error) -> Error {
        Error::new(ErrorKind::System, message).because(source)
    }

    /// All of them as one, of the first one's kind; `None` where there are none.
    pub(crate) fn joined(errors: Vec<Error>) -> Option<Error> {
        if errors.len() < 2 {
            return errors.into_iter().next();
        }
        let kind = errors[0].inner.kind.clone();
        let with_cause = |error: &Error| match &error.inner.source {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        let all: Vec<String> = errors.iter().map(with_cause).collect();
        Some(Error::new(kind, all.join("\n")))
    }

    pub(crate) fn because(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.inner.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("message", &self.inner.message)
            .field("source", &self.inner.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner
            .source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}
