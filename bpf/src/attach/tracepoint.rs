//! Kernel tracepoints by category and name, through tracefs and perf.
//!
//! Each is attached with a copy of the program of its own, so the kernel's count of events that its
//! guard dropped is a count for that tracepoint alone.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::perf_event;
use crate::rights;

/// Where tracefs is, if it is mounted.
pub(crate) fn tracefs() -> Option<PathBuf> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.join("events").is_dir())
}

/// Attaches one; `index` is its cookie.
pub(crate) fn attach(
    (category, name): (&str, &str),
    index: u64,
    program: BorrowedFd<'_>,
    cpu: u32,
) -> Result<OwnedFd> {
    let what = format!("{category}:{name}");
    let failed = |error: std::io::Error| {
        if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
            return rights::refused(&format!("the tracepoint {what}"), error);
        }
        let kind = ErrorKind::Attach {
            file: None,
            offset: None,
        };
        Error::new(kind, format!("cannot attach to the tracepoint {what}")).because(error)
    };
    let id = id(category, name, &what)?;
    let event = perf_event::open_tracepoint(id, cpu).map_err(failed)?;
    perf_event::link(program, &event, index).map_err(failed)
}

fn id(category: &str, name: &str, what: &str) -> Result<u64> {
    let root = tracefs().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported {
                needs: "tracefs".into(),
            },
            format!(
                "tracefs is not mounted, so the tracepoint {what} cannot be looked up: \
                 mount -t tracefs none /sys/kernel/tracing"
            ),
        )
    })?;
    // Names come from the user: none may lead out of `events`.
    if [category, name]
        .iter()
        .any(|part| part.is_empty() || part.contains('/') || *part == "." || *part == "..")
    {
        return Err(Error::bad_spec(format!(
            "{what:?} is no name of a tracepoint"
        )));
    }
    let file = root.join("events").join(category).join(name).join("id");
    let text = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorKind::Unsupported {
                needs: "a kernel with this tracepoint".into(),
            },
            format!("this kernel has no tracepoint {what}"),
        ),
        std::io::ErrorKind::PermissionDenied => rights::refused_file(&file, error),
        _ => Error::system(format!("cannot read {}", file.display()), error),
    })?;
    text.trim().parse().map_err(|error| {
        Error::new(
            ErrorKind::System,
            format!("{} holds no number", file.display()),
        )
        .because(error)
    })
}
