//! The library's one error: what failed, on what, why, and what to do about it.
//!
//! An [`Error`] is opaque. A caller branches on its [`kind`](Error::kind) (which also fixes the exit
//! status of the program), a reader gets the message, the chain of causes and, where there is one, the
//! hint. Several errors that were found in one go, such as five wrong names, travel as one
//! [`Error::several`].

use std::error::Error as StdError;
use std::fmt;

/// What sort of failure it is. Each kind has an exit status of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Anything that no other kind describes.
    Other,
    /// The request itself is wrong: contradicting options, a malformed value.
    Usage,
    /// The process is not there, has gone, or is of a sort that cannot be traced (a kernel thread).
    Target,
    /// The file is not usable: missing, not ELF, of a foreign architecture, damaged.
    Binary,
    /// A name matches no tracepoint.
    NoMatch,
    /// A right is missing (capability, file mode, lockdown).
    Rights,
    /// This kernel cannot do it, whoever asks.
    Unsupported,
    /// The output could not be written.
    Output,
}

impl ErrorKind {
    /// The exit status that the program ends with. 0 and statuses from 128 on are never used here.
    pub const fn exit_status(self) -> u8 {
        match self {
            ErrorKind::Other => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Target => 3,
            ErrorKind::Binary => 4,
            ErrorKind::NoMatch => 5,
            ErrorKind::Rights => 6,
            ErrorKind::Unsupported => 7,
            ErrorKind::Output => 8,
        }
    }
}

/// See the module's page.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    others: Vec<Error>,
}

/// What fallible functions of this library return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error that says what failed, on what and why, in one sentence without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            source: None,
            others: Vec::new(),
        }))
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the cause; it is printed after the message.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.source = Some(cause.into());
        self
    }

    /// Puts `shown` where the message says `internal`: a path that means something to the reader in place
    /// of one that only this process understands.
    #[must_use]
    pub(crate) fn showing(mut self, internal: &str, shown: &str) -> Error {
        // `/proc/self/fd/5` must not be found in `/proc/self/fd/57`.
        let mut message = String::with_capacity(self.0.message.len());
        let mut rest = self.0.message.as_str();
        while let Some((before, after)) = rest.split_once(internal) {
            let whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric());
            message.push_str(before);
            message.push_str(if whole { shown } else { internal });
            rest = after;
        }
        message.push_str(rest);
        self.0.message = message;
        self
    }

    /// Joins errors that were found in one go. `None` where there are none; the kind is the first one's.
    pub fn several(errors: Vec<Error>) -> Option<Error> {
        let mut errors = errors.into_iter().flat_map(|mut error| {
            // What was joined before stays in its place.
            let others = std::mem::take(&mut error.0.others);
            std::iter::once(error).chain(others)
        });
        let mut first = errors.next()?;
        first.0.others.extend(errors);
        Some(first)
    }

    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message and all its causes in one line.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(inner) = cause {
            text.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        text
    }

    /// What the reader can do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The further errors of [`Error::several`].
    pub fn others(&self) -> &[Error] {
        &self.0.others
    }
}

/// What the kernel side refuses, in our kinds.
impl From<tracebraid_bpf::Error> for Error {
    fn from(error: tracebraid_bpf::Error) -> Error {
        use tracebraid_bpf::ErrorKind as Bpf;
        let (kind, hint) = match error.kind() {
            Bpf::Permission { .. } => (
                ErrorKind::Rights,
                "bridge-cli doctor says what each right is for".to_owned(),
            ),
            Bpf::Unsupported { needs } => (ErrorKind::Unsupported, format!("it takes {needs}")),
            Bpf::BadSpec => (ErrorKind::Usage, String::new()),
            Bpf::Attach { .. } => (ErrorKind::Target, String::new()),
            _ => (ErrorKind::Other, String::new()),
        };
        let mut message = error.to_string();
        let mut cause = error.source();
        // The chain is told here: its links are borrowed from an error that ends with this function.
        while let Some(inner) = cause {
            message.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        let wrapped = Error::new(kind, message);
        if hint.is_empty() {
            wrapped
        } else {
            wrapped.hint(hint)
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.with_causes())?;
        for other in &self.0.others {
            write!(f, "; {other:?}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let source: &(dyn StdError + 'static) = &**self.0.source.as_ref()?;
        Some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_errors_keep_their_order_and_the_first_one_s_kind() {
        let joined = Error::several(vec![
            Error::new(ErrorKind::NoMatch, "first"),
            Error::new(ErrorKind::Usage, "second"),
        ])
        .unwrap();
        assert_eq!(joined.kind(), ErrorKind::NoMatch);
        assert_eq!(joined.to_string(), "first");
        assert_eq!(joined.others()[0].to_string(), "second");
        assert!(Error::several(Vec::new()).is_none());
    }

    #[test]
    fn a_path_of_our_own_is_shown_as_the_reader_knows_it() {
        let error = Error::new(
            ErrorKind::Target,
            "no /proc/self/fd/5 at 0, no /proc/self/fd/57",
        );
        let shown = error.showing("/proc/self/fd/5", "/bin/app").to_string();
        assert_eq!(shown, "no /bin/app at 0, no /proc/self/fd/57");
    }

    #[test]
    fn the_cause_is_reachable_through_the_chain() {
        let io = std::io::Error::from_raw_os_error(28);
        let error = Error::new(ErrorKind::Output, "cannot write out.txt").because(io);
        assert!(
            error
                .source()
                .unwrap()
                .to_string()
                .contains("No space left")
        );
    }
}
