//! Where tracefs is, and a private mount of it where it is nowhere.
//!
//! Kernel tracepoints are described by files of tracefs. Where it is not mounted, the bridge mounts it in
//! a mount namespace of its own: nobody else sees it, and the kernel takes it away with the process.

use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statfs::{FsType, statfs};

use crate::error::{Error, ErrorKind, Result};

/// Where tracefs belongs.
pub const TRACEFS: &str = "/sys/kernel/tracing";
/// Where it also appears once debugfs is mounted.
const UNDER_DEBUGFS: &str = "/sys/kernel/debug/tracing";
/// TRACEFS_MAGIC of linux/magic.h.
const MAGIC: i64 = 0x7472_6163;

/// Whether tracefs is mounted at one of its two places.
pub fn tracefs_is_mounted() -> bool {
    [TRACEFS, UNDER_DEBUGFS]
        .iter()
        .any(|place| is_tracefs(Path::new(place)))
}

fn is_tracefs(place: &Path) -> bool {
    statfs(place).is_ok_and(|fs| fs.filesystem_type() == FsType(MAGIC))
}

/// Makes tracefs readable for this process at one of its two places, by a private mount where needed.
///
/// The mount namespace is one of the calling thread and of threads that it starts later: call this
/// before any are started, and after the target was, if it is started by us.
///
/// # Errors
/// [`ErrorKind::Rights`] where it may not be mounted or read, [`ErrorKind::Unsupported`] where the
/// kernel has none.
pub fn ensure_tracefs() -> Result<()> {
    if !tracefs_is_mounted() {
        mount_privately().map_err(|(what, errno)| {
            let kind = match errno {
                Errno::EPERM | Errno::EACCES => ErrorKind::Rights,
                _ => ErrorKind::Unsupported,
            };
            Error::new(kind, format!("tracefs is not mounted at {TRACEFS} and cannot be mounted: {what}"))
                .because(errno)
                .hint(match kind {
                    ErrorKind::Rights => "run as root, or let an administrator run: mount -t tracefs none /sys/kernel/tracing",
                    _ => "kernel events need a kernel with CONFIG_TRACING; the application's own tracepoints work without",
                })
        })?;
    }
    let events =
        [TRACEFS, UNDER_DEBUGFS].map(|place| std::fs::read_dir(Path::new(place).join("events")));
    if events.iter().any(std::result::Result::is_ok) {
        return Ok(());
    }
    let [error, _] = events;
    let error = error
        .err()
        .unwrap_or_else(|| std::io::Error::from(Errno::ENOENT));
    Err(Error::new(
        ErrorKind::Rights,
        format!("{TRACEFS} is mounted, but may not be read"),
    )
    .because(error)
    .hint("run as root or give the bridge CAP_DAC_READ_SEARCH"))
}

fn mount_privately() -> Result<(), (&'static str, Errno)> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| ("no mount namespace of our own", errno))?;
    const NONE: Option<&str> = None;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .map_err(|errno| ("mounts could not be made private", errno))?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tracefs"), TRACEFS, Some("tracefs"), quiet, NONE).map_err(|errno| ("mount", errno))
}
