//! What this process may do, and which missing right stands behind a refusal.
//!
//! EPERM and EACCES alone can mean a capability, a sysctl, lockdown or a security module; only together
//! with the call that was refused do they say which.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// A right that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    right: String,
    remedy: String,
}

impl Missing {
    pub(crate) fn error(&self, what: &str) -> Error {
        let message = format!("no {} for {what}: {}", self.right, self.remedy);
        Error::new(
            ErrorKind::Permission {
                right: self.right.clone(),
            },
            message,
        )
    }
}

/// Capability bits (linux/capability.h).
pub(crate) const CAP_DAC_READ_SEARCH: u32 = 2;
pub(crate) const CAP_SYS_PTRACE: u32 = 19;
pub(crate) const CAP_SYS_ADMIN: u32 = 21;
pub(crate) const CAP_SYSLOG: u32 = 34;
pub(crate) const CAP_PERFMON: u32 = 38;
pub(crate) const CAP_BPF: u32 = 39;

pub(crate) const SUDO: &str = "run with sudo, or give the binary the rights: \
    setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_syslog+ep";

/// The first right that loading and attaching needs and this process lacks. `None`: it has them all,
/// so a refusal has another reason.
pub(crate) fn missing_right() -> Option<Missing> {
    let rights = Rights::read()?;
    for (bit, name) in [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")] {
        if !rights.has(bit) {
            return Some(Missing {
                right: name.into(),
                remedy: SUDO.into(),
            });
        }
    }
    if lockdown().as_deref() == Some("confidentiality") {
        return Some(Missing {
            right: "kernel memory (lockdown is \"confidentiality\")".into(),
            remedy: "boot without lockdown=confidentiality".into(),
        });
    }
    None
}

/// An error for a refusal (EPERM, EACCES) of `what`, with the most likely reason.
pub(crate) fn refused(what: &str, error: io::Error) -> Error {
    missing_right()
        .unwrap_or_else(unknown_right)
        .error(what)
        .because(error)
}

/// The same for a file.
pub(crate) fn refused_file(path: &Path, error: io::Error) -> Error {
    let what = format!("reading {}", path.display());
    match Rights::read() {
        Some(rights) if !rights.has(CAP_DAC_READ_SEARCH) => {
            let right = "CAP_DAC_READ_SEARCH".to_owned();
            Missing {
                right,
                remedy: SUDO.into(),
            }
            .error(&what)
            .because(error)
        }
        _ => unknown_right().error(&what).because(error),
    }
}

/// The same for a perf uprobe, which takes more than the link that replaced it.
pub(crate) fn refused_perf_uprobe(what: &str, error: io::Error) -> Error {
    match Rights::read() {
        Some(rights) if !rights.has(CAP_SYS_ADMIN) => {
            let right = "CAP_SYS_ADMIN".to_owned();
            let remedy =
                "before Linux 6.6, user probes go through perf, which asks for it: run with \
                sudo"
                    .to_owned();
            Missing { right, remedy }.error(what).because(error)
        }
        _ => refused(what, error),
    }
}

fn unknown_right() -> Missing {
    let paranoid = sysctl("kernel/perf_event_paranoid");
    let remedy = format!(
        "the rights are all there; kernel.perf_event_paranoid is {}, lockdown is {}, and a security \
         module or seccomp may refuse too",
        paranoid.map_or("unknown".into(), |level| level.to_string()),
        lockdown().unwrap_or_else(|| "unknown".into())
    );
    Missing {
        right: "permission".to_owned(),
        remedy,
    }
}

/// The effective capabilities of this process.
pub(crate) struct Rights(u64);

impl Rights {
    pub(crate) fn read() -> Option<Rights> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Rights)
    }

    pub(crate) fn has_itself(&self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    /// CAP_SYS_ADMIN includes what was split off it later.
    pub(crate) fn has(&self, bit: u32) -> bool {
        let split_off = matches!(bit, CAP_BPF | CAP_PERFMON | CAP_SYSLOG);
        self.has_itself(bit) || (split_off && self.has_itself(CAP_SYS_ADMIN))
    }
}

/// The bracketed word of the lockdown file: `none`, `integrity` or `confidentiality`.
pub(crate) fn lockdown() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    let (level, _) = rest.split_once(']')?;
    Some(level.to_owned())
}

pub(crate) fn sysctl(name: &str) -> Option<i64> {
    std::fs::read_to_string(Path::new("/proc/sys").join(name))
        .ok()?
        .trim()
        .parse()
        .ok()
}

pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}
