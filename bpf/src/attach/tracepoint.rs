//! Kernel tracepoints by category and name, through tracefs and perf.
//!
//! Each is attached with a program of its own, a copy of one that was loaded and verified: so the
//! kernel's count of events that its guard dropped is a count for that tracepoint alone.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::libbpf_sys as sys;

use crate::capability;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel;
use crate::load::Program;
use crate::plan::Tracepoint;

/// Where tracefs is, if it is mounted.
pub(crate) fn tracefs() -> Option<PathBuf> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.join("events").is_dir())
}

/// Attaches one; `index` is its cookie. Returns the program's copy and the link.
pub(crate) fn attach(
    tracepoint: &Tracepoint,
    index: u64,
    program: &Program,
    cpu: u32,
) -> Result<(OwnedFd, OwnedFd)> {
    let what = format!("{}:{}", tracepoint.category, tracepoint.name);
    let failed = |error: std::io::Error| {
        if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
            return capability::refused(&format!("the tracepoint {what}"), error);
        }
        let kind = ErrorKind::Attach {
            file: None,
            offset: None,
        };
        Error::new(kind, format!("cannot attach to the tracepoint {what}")).because(error)
    };
    let id = id(tracepoint, &what)?;
    let copy = kernel::load_copy(
        sys::BPF_PROG_TYPE_TRACEPOINT,
        "tracepoint",
        &program.instructions,
    )
    .map_err(failed)?;
    let event = kernel::open_tracepoint(id, cpu).map_err(failed)?;
    let link = kernel::link_perf_event(copy.as_fd(), &event, index).map_err(failed)?;
    Ok((copy, link))
}

fn id(tracepoint: &Tracepoint, what: &str) -> Result<u64> {
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
    if [&tracepoint.category, &tracepoint.name].iter().any(|part| {
        part.is_empty() || part.contains('/') || part.as_str() == "." || part.as_str() == ".."
    }) {
        return Err(Error::bad_spec(format!(
            "{what:?} is no name of a tracepoint"
        )));
    }
    let file = root
        .join("events")
        .join(&tracepoint.category)
        .join(&tracepoint.name)
        .join("id");
    let text = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorKind::Unsupported {
                needs: "a kernel with this tracepoint".into(),
            },
            format!("this kernel has no tracepoint {what}"),
        ),
        std::io::ErrorKind::PermissionDenied => {
            capability::refused(&format!("reading {}", file.display()), error)
        }
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
