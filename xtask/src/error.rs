//! The one error type: what could not be done, and the cause.

use std::fmt;
use std::process::ExitCode;

/// What could not be done.
#[derive(Debug)]
pub(crate) struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The command line makes no sense.
    Usage,
    /// Something that was tried went wrong.
    Failed,
}

impl Error {
    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error {
            kind: Kind::Usage,
            message: message.into(),
            source: None,
        }
    }

    /// Something that was tried went wrong, and no lower error says why.
    pub(crate) fn failed(message: impl Into<String>) -> Error {
        Error {
            kind: Kind::Failed,
            message: message.into(),
            source: None,
        }
    }

    /// What was tried, for `map_err`.
    pub(crate) fn doing<E: std::error::Error + Send + Sync + 'static>(
        message: impl Into<String>,
    ) -> impl FnOnce(E) -> Error {
        |source| Error {
            kind: Kind::Failed,
            message: message.into(),
            source: Some(Box::new(source)),
        }
    }

    /// 2 for a wrong command line, as shells have it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.kind == Kind::Usage { 2 } else { 1 })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
