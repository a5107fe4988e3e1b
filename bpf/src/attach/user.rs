//! User probes: one uprobe_multi link a file, or one perf uprobe a site where the kernel has no such
//! links (before 6.6).
//!
//! With perf, the probe stands in all processes and the program looks at the process id: tied to a
//! process, every idle probe would be switched at every context switch. Taking one away waits for a
//! grace period under a lock of the kernel's (45 ms on 6.1, 80 ms on 6.18), so a thousand take a minute.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{self, Sites};
use crate::perf_event;
use crate::plan::{Binary, Site};
use crate::rights;
use crate::spec::{Fetch, Location, ProbeId, UserProbe};

/// How user probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One link a file, in one process or (0) in all.
    Multi { process: u32 },
    /// One perf event a site; the number is the PMU's.
    Perf { kind: u32 },
}

/// Probes whose misses nobody counts: the kernel notes the returns of 64 calls in one another, and lets those of
/// deeper ones go. At an entry it misses nothing.
pub(crate) fn uncounted(probes: &[UserProbe]) -> Vec<ProbeId> {
    let at_return = |location: &Location| matches!(&location.fetch, Fetch::Program(program) if program.at_return);
    let probes = probes.iter();
    let of_returns = probes.filter(|probe| probe.locations.iter().any(at_return));
    of_returns.map(|probe| probe.id).collect()
}

/// Attaches every site of a file.
pub(crate) fn attach(binary: &Binary, program: BorrowedFd<'_>, way: Way) -> Result<Vec<OwnedFd>> {
    match way {
        Way::Multi { process } => {
            // Entries stand before returns, and a link is of one sort.
            let entries = binary.sites.partition_point(|site| !site.at_return);
            let (entries, returns) = binary.sites.split_at(entries);
            let mut links = Vec::with_capacity(2);
            for sites in [entries, returns]
                .into_iter()
                .filter(|sites| !sites.is_empty())
            {
                links.push(multi(binary, sites, program, process).map_err(|error| {
                    explain(binary, sites, way, error, |sites| {
                        multi(binary, sites, program, process).map(drop)
                    })
                })?);
            }
            Ok(links)
        }
        Way::Perf { kind } => {
            let one = |site: &Site| {
                let (offset, semaphore) = (site.offset, site.semaphore);
                let event =
                    perf_event::open_uprobe(kind, &binary.path, offset, semaphore, site.at_return)?;
                perf_event::link(program, &event, site.location.into())
            };
            let mut links = Vec::with_capacity(binary.sites.len());
            for site in &binary.sites {
                match one(site) {
                    Ok(link) => links.push(link),
                    Err(error) => {
                        let again =
                            |sites: &[Site]| sites.iter().try_for_each(|site| one(site).map(drop));
                        return Err(describe(binary, site, way, error, &again));
                    }
                }
            }
            Ok(links)
        }
    }
}

fn multi(
    binary: &Binary,
    sites: &[Site],
    program: BorrowedFd<'_>,
    process: u32,
) -> io::Result<OwnedFd> {
    let at_return = sites.first().is_some_and(|site| site.at_return);
    let sites = Sites::new(
        sites
            .iter()
            .map(|site| (site.offset, site.semaphore, site.location.into())),
    );
    kernel::link_uprobe_multi(program, &binary.path, &sites, process, at_return)
}

/// Finds the site at fault by halves, since the kernel does not say.
fn explain(
    binary: &Binary,
    mut sites: &[Site],
    way: Way,
    error: io::Error,
    attach: impl Fn(&[Site]) -> io::Result<()>,
) -> Error {
    if !matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::ENOENT | ENOTSUPP)
    ) {
        return describe_whole(binary, error);
    }
    let mut error = error;
    while sites.len() > 1 {
        let (left, right) = sites.split_at(sites.len() / 2);
        match attach(left) {
            Err(found) => (sites, error) = (left, found),
            Ok(()) => match attach(right) {
                Err(found) => (sites, error) = (right, found),
                Ok(()) => return describe_whole(binary, error),
            },
        }
    }
    match sites {
        [site] => describe(binary, site, way, error, &attach),
        _ => describe_whole(binary, error),
    }
}

/// The kernel's own, for "this instruction cannot be probed".
const ENOTSUPP: i32 = 524;

fn describe(
    binary: &Binary,
    site: &Site,
    way: Way,
    error: io::Error,
    attach: &dyn Fn(&[Site]) -> io::Result<()>,
) -> Error {
    let place = format!("{} at offset {:#x}", binary.path.display(), site.offset);
    if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
        let what = format!("the probe of {place}");
        return match way {
            Way::Multi { .. } => rights::refused(&what, error),
            Way::Perf { .. } => rights::refused_perf_uprobe(&what, error),
        };
    }
    let why = match error.raw_os_error() {
        Some(libc::EINVAL) if site.semaphore != 0 => {
            // The kernel keeps one semaphore for an address, whoever came first.
            if attach(&[Site {
                semaphore: 0,
                ..*site
            }])
            .is_ok()
            {
                "another tracer holds this address without the semaphore; end it and try again"
            } else {
                "another tracer holds this address with another semaphore, or it is not in the \
                 file's code"
            }
        }
        Some(libc::EINVAL) => {
            "another tracer holds this address with a semaphore, or it is not in the file's code"
        }
        Some(ENOTSUPP) => "the kernel cannot probe the instruction there",
        Some(libc::EIO) => "the file could not be read there",
        _ => "the kernel refused",
    };
    let kind = ErrorKind::Attach {
        file: Some(binary.path.clone()),
        offset: Some(site.offset),
    };
    Error::new(kind, format!("cannot probe {place}: {why}")).because(error)
}

fn describe_whole(binary: &Binary, error: io::Error) -> Error {
    let what = format!("{} probes of {}", binary.sites.len(), binary.path.display());
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => return rights::refused(&what, error),
        Some(libc::ESRCH) => {
            let kind = ErrorKind::Attach {
                file: Some(binary.path.clone()),
                offset: None,
            };
            return Error::new(kind, format!("cannot attach {what}: the process is gone"))
                .because(error);
        }
        _ => {}
    }
    let kind = ErrorKind::Attach {
        file: Some(binary.path.clone()),
        offset: None,
    };
    Error::new(kind, format!("cannot attach {what}")).because(error)
}
