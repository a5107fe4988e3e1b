//! The kernels, fetched once and kept between runs.
//!
//! They come from the Debian mirror of the machine's own apt, by `tests/vm/kernels.sh`, into a cache of the
//! user's; `TRACEBRAID_KERNELS` names a directory to use as it is instead, laid out as the script says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::suite::Machine;
use crate::error::Error;
use crate::process::{self, Running};

/// Pauses before a mirror that failed is asked again: it may be busy.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(20),
    Duration::from_secs(60),
];

/// The script's exit status where there is no mirror to ask.
const NO_MIRROR: i32 = 3;

/// The directory with a directory for each kernel.
pub(crate) struct Kernels(PathBuf);

impl Kernels {
    /// Fetches what is missing of the kernels of these machines, until the end, if there is one.
    ///
    /// # Errors
    /// One is not here and cannot be fetched.
    pub(crate) fn fetch(
        machines: &[&Machine],
        target: &Path,
        end: Option<Instant>,
    ) -> Result<Kernels, Error> {
        let given = std::env::var_os("TRACEBRAID_KERNELS").map(PathBuf::from);
        let kernels = Kernels(given.clone().unwrap_or_else(|| cache(target)));
        if given.is_none() {
            kernels.ask_mirror(machines, end)?;
        }
        for machine in machines {
            let image = kernels.image(machine);
            if !image.is_file() {
                return Err(Error::failed(format!("no kernel at {}", image.display())));
            }
            println!("{}: {}", machine.name, kernels.package(machine));
        }
        Ok(kernels)
    }

    /// The kernel of a machine.
    pub(crate) fn image(&self, machine: &Machine) -> PathBuf {
        self.0.join(machine.kernel).join("vmlinuz")
    }

    /// A module of a machine's kernel, there to be probed.
    pub(crate) fn module(&self, machine: &Machine) -> PathBuf {
        self.0.join(machine.kernel).join("dummy.ko")
    }

    fn package(&self, machine: &Machine) -> String {
        let text = std::fs::read_to_string(self.0.join(machine.kernel).join("package"));
        text.map_or_else(|_| "of unknown version".into(), |text| text.trim().into())
    }

    fn ask_mirror(&self, machines: &[&Machine], end: Option<Instant>) -> Result<(), Error> {
        let mut wanted: Vec<&str> = machines.iter().map(|machine| machine.kernel).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut pauses = PAUSES.iter();
        loop {
            let mut script = Command::new("tests/vm/kernels.sh");
            script.arg(&self.0).args(&wanted);
            process::show(&script);
            let mut running = Running::start(&mut script)?;
            while !running.has_ended()? {
                if end.is_some_and(|end| Instant::now() >= end) {
                    return Err(Error::failed("kernels cannot be fetched in time"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let status = running.wait()?;
            if status.success() {
                return Ok(());
            }
            // Old kernels are good enough.
            if machines.iter().all(|machine| self.image(machine).is_file()) {
                println!(
                    "kernels cannot be looked for ({status}); those of an earlier run are used"
                );
                return Ok(());
            }
            match pauses.next() {
                Some(pause) if status.code() != Some(NO_MIRROR) => {
                    println!("again in {pause:?}");
                    std::thread::sleep(*pause);
                }
                _ => {
                    return Err(Error::failed(format!(
                        "kernels cannot be fetched: tests/vm/kernels.sh ended with {status}"
                    )));
                }
            }
        }
    }
}

/// The user's cache; without one, the build's directory.
fn cache(target: &Path) -> PathBuf {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    match cache {
        Some(cache) => cache.join("tracebraid/kernels"),
        None => target.join("vm/kernels"),
    }
}
