//! A region of another process, seen from here: found, checked, taken, asked.
//!
//! Everything in it was written by the target and is copied before it is looked at. What we write are
//! requests: bytes of wanted events and counters, answered by the target's helper thread.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tracebraid_ring::{Geometry, Region};
use tracebraid_wire::region::{self, Header, RegionError, control};

use crate::error::{Error, ErrorKind, Result};
use crate::target::ProcessEnd;

/// What the kernel calls the memfd.
const LINK: &str = "/memfd:tracebraid (deleted)";

/// How often a wait looks whether the target is still there.
const LOOK: Duration = Duration::from_millis(20);

/// A region that this bridge owns, until it is dropped.
pub(super) struct Shared {
    region: Arc<Region>,
    header: Header,
    /// Of the target: whoever has ended answers nothing.
    end: ProcessEnd,
    /// Holds the exclusive lock of its open file description.
    _owner: File,
}

/// The regions of a process: one for each copy of the SDK in it that was initialised.
pub(super) fn of_process(pid: u32) -> Vec<PathBuf> {
    let named = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{pid}/{folder}"))
            .into_iter()
            .flatten()
            .flatten();
        let is_ours =
            |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link.as_os_str() == LINK);
        entries.map(|entry| entry.path()).filter(is_ours).collect()
    };
    // A daemon closes descriptors that it does not know; the mapping stays.
    let mut found = named("fd");
    if found.is_empty() {
        found = named("map_files");
    }
    let mut seen = Vec::new();
    found.retain(
        |path| match fs::metadata(path).map(|file| (file.dev(), file.ino())) {
            Ok(id) if seen.contains(&id) => false,
            Ok(id) => {
                seen.push(id);
                true
            }
            Err(_) => false,
        },
    );
    found
}

impl Shared {
    /// Opens a region and takes it.
    ///
    /// # Errors
    /// It is no region of a version we know, or another bridge has it.
    pub(super) fn take(path: &PathBuf, pid: u32) -> Result<Shared> {
        let end = ProcessEnd::of(pid)?;
        let cannot = |what: &str| {
            Error::new(
                ErrorKind::Target,
                format!("the rings of process {pid}: {what}"),
            )
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| cannot("cannot be opened").because(error))?;
        let mut bytes = [0; region::HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|error| cannot("cannot be read").because(error))?;
        let header = Header::parse(&bytes).map_err(|error| match error {
            RegionError::Version(version) => cannot(&format!("are of version {version}"))
                .hint("this bridge knows version 1: use the bridge that belongs to the program's SDK, or --via usdt"),
            _ => cannot("begin with no header"),
        })?;
        let rings = header.rings as usize;
        if rings > Geometry::MAX_RINGS {
            return Err(cannot("claim to be more than can be"));
        }
        let header_bytes = region::header_bytes(rings).next_multiple_of(Geometry::PAGE);
        let geometry = Geometry::new(
            header_bytes,
            rings,
            usize::try_from(header.ring_bytes).unwrap_or(0),
        )
        .map_err(|bad| cannot(&format!("have impossible sizes ({bad:?})")))?;
        if !lock(&file).map_err(|error| cannot("cannot be locked").because(error))? {
            return Err(
                cannot("are taken by another bridge, or by the program itself")
                    .hint("end the other bridge, or use --via usdt"),
            );
        }
        let mapped = OwnedFd::from(
            file.try_clone()
                .map_err(|error| cannot("cannot be mapped").because(error))?,
        );
        let region = Region::open(mapped, geometry)
            .map_err(|error| cannot("cannot be mapped").because(error))?;
        Ok(Shared {
            region: Arc::new(region),
            header,
            end,
            _owner: file,
        })
    }

    /// The rings.
    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// What the target said when it made them.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// A copy of what the directory holds by now.
    pub(super) fn directory(&self) -> Vec<u8> {
        let used = self.word(control::DIRECTORY_USED).load(Ordering::Acquire) as usize;
        self.copy(region::DIRECTORY, used.min(region::DIRECTORY_BYTES))
    }

    /// Events lost so far on a CPU's ring.
    pub(super) fn losses(&self, ring: usize, event: u16) -> u32 {
        self.atomic(region::loss_offset(ring, event))
            .load(Ordering::Relaxed)
    }

    /// Sets whether an event is wanted. Takes effect with [`ask`](Self::ask).
    pub(super) fn want(&self, event: u16, wanted: bool) {
        // SAFETY: within the header area; the target reads it as a volatile byte.
        unsafe {
            self.region
                .header()
                .add(region::WANTED + usize::from(event))
                .write_volatile(wanted.into())
        };
    }

    /// Asks the helper to look at what is wanted, and at libraries that were loaded. Whether it answered in
    /// time.
    pub(super) fn ask(&self, limit: Duration) -> bool {
        let asked = self.word(control::ASKED);
        let number = asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        wake(asked);
        self.header.helper != 0 && self.wait_for(control::ANSWERED, number, limit)
    }

    /// After this, every append that began before is visible. Whether the helper answered in time.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        if self.header.helper == 0 {
            return false;
        }
        let asked = self.word(control::FLUSH_ASKED);
        let number = asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        // The helper waits on this one for both.
        wake(self.word(control::ASKED));
        self.wait_for(control::FLUSHED, number, limit)
    }

    /// Waits until a word that the target counts up has reached `number`.
    fn wait_for(&self, which: usize, number: u32, limit: Duration) -> bool {
        let word = self.word(which);
        let end = Instant::now() + limit;
        loop {
            let now = word.load(Ordering::Acquire);
            if now.wrapping_sub(number) < u32::MAX / 2 {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.end.has_come() {
                return false;
            }
            // Nothing wakes us when the target ends.
            let slice = left.min(LOOK);
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: libc::c_long::from(slice.subsec_nanos() as i32),
            };
            // SAFETY: a mapped, aligned word shared with the target; every outcome means: look again.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT,
                    now,
                    &raw const time,
                )
            };
        }
    }

    fn word(&self, which: usize) -> &AtomicU32 {
        self.atomic(region::CONTROL + which)
    }

    fn atomic(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= self.region.geometry().header_bytes());
        // SAFETY: within the header area, 4-aligned; both sides use it as an atomic.
        unsafe { &*self.region.header().add(at).cast() }
    }

    fn copy(&self, from: usize, length: usize) -> Vec<u8> {
        let words = length.div_ceil(4);
        let word = |index: usize| {
            self.atomic(from + index * 4)
                .load(Ordering::Relaxed)
                .to_le_bytes()
        };
        let mut bytes: Vec<u8> = (0..words).flat_map(word).collect();
        bytes.truncate(length);
        bytes
    }
}

fn lock(file: &File) -> io::Result<bool> {
    // SAFETY: all zeros is a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: a descriptor of ours and a filled lock.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) {
        Ok(false)
    } else {
        Err(error)
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: a mapped, aligned word shared with the target.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
