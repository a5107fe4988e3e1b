//! tracefs for as long as a command runs: mounted where it is missing and we may, unmounted after.

use std::path::Path;
use std::process::Command;

use crate::process;

const PLACE: &str = "/sys/kernel/tracing";

/// tracefs, while this lives.
pub(crate) enum Tracefs {
    /// It was there already.
    Found,
    /// We mounted it, and unmount it when this is dropped.
    Mounted,
    /// It is not there, for this reason.
    Absent(String),
}

impl Tracefs {
    /// Mounts tracefs unless it is there.
    pub(crate) fn mount() -> Tracefs {
        if Path::new(PLACE).join("events").is_dir() {
            return Tracefs::Found;
        }
        if !process::is_root() {
            let reason = "tracefs cannot be read or is not mounted, and only root may mount it";
            return Tracefs::Absent(reason.to_owned());
        }
        match process::run(Command::new("mount").args(["-t", "tracefs", "none", PLACE])) {
            Ok(()) => Tracefs::Mounted,
            Err(error) => Tracefs::Absent(error.to_string()),
        }
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if matches!(self, Tracefs::Mounted)
            && let Err(error) = process::run(Command::new("umount").arg(PLACE))
        {
            eprintln!("xtask: {PLACE} stays mounted: {error}");
        }
    }
}
