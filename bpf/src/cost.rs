//! What programs cost: how often each ran and for how long, which the kernel counts as long as somebody
//! asks it to.
//!
//! Counting is off in a kernel where nobody asks, since it reads a clock twice a run of every program of the
//! machine. [`Metering`] asks, and is a file descriptor: what ends the bridge ends that too.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::kernel;
use crate::spec::ProbeId;

/// The kernel counts runs and run times of BPF programs until this is dropped.
#[derive(Debug)]
pub struct Metering(#[allow(dead_code, reason = "it is held")] Option<OwnedFd>);

impl Metering {
    /// Begins.
    ///
    /// # Errors
    /// [`Permission`](ErrorKind::Permission) without CAP_SYS_ADMIN, unless the machine's administrator has
    /// switched it on (`kernel.bpf_stats_enabled`); [`Unsupported`](ErrorKind::Unsupported) before Linux 5.8.
    pub fn start() -> Result<Metering> {
        let error = match kernel::enable_stats() {
            Ok(held) => return Ok(Metering(Some(held))),
            Err(error) => error,
        };
        let switch = std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
        if switch.is_ok_and(|text| text.trim() == "1") {
            return Ok(Metering(None));
        }
        let what = "the run times of BPF programs cannot be had";
        Err(match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let right = "CAP_SYS_ADMIN".to_owned();
                let message = format!("{what}: CAP_SYS_ADMIN is missing");
                Error::new(ErrorKind::Permission { right }, message).because(error)
            }
            Some(libc::EINVAL) => {
                let needs = "Linux 5.8".to_owned();
                let message = format!("{what}: this kernel does not count them");
                Error::new(ErrorKind::Unsupported { needs }, message).because(error)
            }
            _ => Error::system(what, error),
        })
    }
}

/// What a program has cost since it was loaded. Where several probes share a program none is told from
/// another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The probes that it serves.
    pub probes: Vec<ProbeId>,
    /// How often it ran while somebody [metered](Metering): also for hits that turned out not to be wanted.
    pub runs: u64,
    /// How long these runs took.
    pub time: Duration,
}

/// A program whose cost can be asked for.
#[derive(Debug)]
pub(crate) struct Meter {
    program: OwnedFd,
    probes: Vec<ProbeId>,
}

impl Meter {
    /// Of a program that these probes share.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn new(program: impl AsFd, probes: Vec<ProbeId>) -> Result<Meter> {
        let program = program
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::system("cannot keep a BPF program", error))?;
        Ok(Meter { program, probes })
    }

    /// What it has cost so far.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn read(&self) -> Result<Cost> {
        let (runs, time) = kernel::runs(self.program.as_fd())
            .map_err(|error| Error::system("cannot ask for a BPF program's run time", error))?;
        Ok(Cost {
            probes: self.probes.clone(),
            runs,
            time,
        })
    }
}
