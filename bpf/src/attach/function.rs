//! Probes in kernel functions: one perf kprobe each.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::error::{Error, ErrorKind, Result};
use crate::kernel;
use crate::plan::Function;
use crate::rights;
use crate::spec::FunctionPlace;

/// The number of the kprobe PMU.
pub(crate) fn kind() -> Option<u32> {
    let text = std::fs::read_to_string("/sys/bus/event_source/devices/kprobe/type").ok()?;
    text.trim().parse().ok()
}

/// Attaches one.
pub(crate) fn attach(function: &Function, program: BorrowedFd<'_>) -> Result<OwnedFd> {
    let kind = kind().ok_or_else(|| {
        let needs = "a kernel with CONFIG_KPROBE_EVENTS".to_owned();
        Error::new(
            ErrorKind::Unsupported { needs },
            "this kernel has no probes in kernel functions: it is built without CONFIG_KPROBES or \
             CONFIG_KPROBE_EVENTS",
        )
    })?;
    let event = kernel::open_kprobe(kind, &function.place, function.at_return)
        .map_err(|error| describe(function, error))?;
    kernel::link_perf_event(program, &event, function.location.into())
        .map_err(|error| describe(function, error))
}

fn describe(function: &Function, error: io::Error) -> Error {
    let place = match &function.place {
        FunctionPlace::Symbol(symbol, 0) => symbol.clone(),
        FunctionPlace::Symbol(symbol, offset) => format!("{symbol}+{offset:#x}"),
        FunctionPlace::Address(address) => format!("{address:#x}"),
    };
    let what = format!("the probe of the kernel at {place}");
    let why = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => return rights::refused(&what, error),
        Some(libc::ENOENT) => "there is no such function",
        Some(libc::EADDRNOTAVAIL) => "several functions have this name",
        Some(libc::EILSEQ) => "no instruction begins there",
        Some(libc::EINVAL) => {
            "it cannot be probed: it is part of the tracing machinery (notrace, blacklisted) or no code"
        }
        _ => "the kernel refused",
    };
    let kind = ErrorKind::Attach {
        file: None,
        offset: None,
    };
    Error::new(kind, format!("cannot attach {what}: {why}")).because(error)
}
