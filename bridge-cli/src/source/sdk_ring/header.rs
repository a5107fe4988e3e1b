//! The header of a region: whether it is there yet, and what it says.
//!
//! Another process writes it. It is copied, and what it says of sizes is checked, before anything is mapped.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tracebraid_ring::Geometry;
use tracebraid_wire::region::{self, Group, Header, RegionError};

use crate::error::{Error, ErrorKind, Result};

/// How long a program may take between making a region and saying what it is.
const MAKING: Duration = Duration::from_millis(20);

/// Whether a region is there to be looked at. Its program may just be making it: the first word of its
/// header is the last that is written. That takes no time, but it may have been interrupted.
pub(super) fn is_made(path: &Path) -> bool {
    let deadline = Instant::now() + MAKING;
    loop {
        let mut first = [0; 8];
        let read = File::open(path).and_then(|file| file.read_at(&mut first, 0));
        // What cannot be read is for somebody else to say.
        if read.map_or(true, |read| read == first.len() && first != [0; 8]) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The process that a region belongs to, as that process numbers itself.
pub(super) fn owner(path: &Path) -> Option<u32> {
    of(path).map(|header| header.pid)
}

/// What the program said of a region, if it is one that we know.
pub(super) fn of(path: &Path) -> Option<Header> {
    let file = File::open(path).ok()?;
    read(&file, 0).ok().map(|(header, _)| header)
}

/// What is wrong with the rings of a process.
pub(super) fn cannot(pid: u32, what: &str) -> Error {
    Error::new(
        ErrorKind::Target,
        format!("the rings of process {pid}: {what}"),
    )
}

/// Reads and checks a header, and the sizes in it.
pub(super) fn read(file: &File, pid: u32) -> Result<(Header, Geometry)> {
    let mut bytes = [0; region::HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| cannot(pid, "cannot be read").because(error))?;
    check(&bytes, pid)
}

/// Checks a header, and the sizes in it.
pub(super) fn check(bytes: &[u8], pid: u32) -> Result<(Header, Geometry)> {
    let cannot = |what: &str| cannot(pid, what);
    let header = Header::parse(bytes).map_err(|error| match error {
        RegionError::Version(version) => cannot(&format!("are of version {version}")).hint(format!(
            "this bridge knows version {}: use the bridge that belongs to the program's SDK, or --via usdt",
            region::VERSION
        )),
        _ => cannot("begin with no header"),
    })?;
    if header.cpu_rings > possible_cpus() {
        return Err(cannot("claim to be more than this machine has CPUs"));
    }
    let rings = Group::ALL.len() * header.cpu_rings as usize;
    let header_bytes = region::header_bytes(rings).next_multiple_of(Geometry::PAGE);
    let ring_bytes = usize::try_from(header.ring_bytes).unwrap_or(0);
    let geometry = Geometry::new(header_bytes, rings, ring_bytes)
        .map_err(|bad| cannot(&format!("have impossible sizes ({bad:?})")))?;
    Ok((header, geometry))
}

/// How many CPUs this machine can have.
fn possible_cpus() -> u32 {
    /// What a kernel for x86-64 can be built for.
    const MOST: u32 = 8192;
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next();
    last.and_then(|cpu| cpu.parse::<u32>().ok())
        .map_or(MOST, |cpu| cpu.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_is_being_made_is_none_yet() {
        let path = std::env::temp_dir().join(format!("tracebraid-made-{}", std::process::id()));
        let is_made_of = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            is_made(&path)
        };
        assert!(!is_made_of(b""));
        assert!(!is_made_of(&[0; 4096]));
        assert!(is_made_of(&region::MAGIC.to_le_bytes()));
        // What it is else is for who takes it to say.
        assert!(is_made_of(b"anything else"));
        fs::remove_file(&path).unwrap();
        assert!(is_made(&path));
    }
}
