//! Shared mappings of BPF maps: memory that the kernel writes while we look.
//!
//! Nothing here hands out references into a mapping. Words are read with atomic loads, bytes are
//! copied, and every offset is checked against the mapping's length.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Bytes of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Nanoseconds of CLOCK_MONOTONIC: the clock of every record.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A mapping of a file of the kernel's, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: *mut u8,
    length: usize,
    writable: bool,
}

// SAFETY: the mapping is owned, and all access to it goes through atomics or copies.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` allows no unsynchronised write.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes at `offset` of a map.
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        writable: bool,
    ) -> Result<Mapping> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice; nothing of ours is replaced.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(Error::system("cannot map a BPF map into memory", error));
        }
        Ok(Mapping {
            address: address.cast(),
            length,
            writable,
        })
    }

    /// The word at a byte offset, which is a multiple of 8 and inside.
    pub(crate) fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }

    /// The half word at a byte offset, which is a multiple of 4 and inside.
    pub(crate) fn load_u32(&self, offset: usize, order: Ordering) -> u32 {
        assert!(offset.is_multiple_of(4) && offset <= self.length.saturating_sub(4));
        // SAFETY: inside the mapping (asserted), aligned (asserted; mappings begin on pages), and
        // only ever accessed atomically or by copy.
        unsafe { AtomicU32::from_ptr(self.address.add(offset).cast()) }.load(order)
    }

    /// Stores a word; the mapping must be writable.
    pub(crate) fn store(&self, offset: usize, value: u64, order: Ordering) {
        assert!(self.writable);
        self.word(offset).store(value, order);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset <= self.length.saturating_sub(8));
        // SAFETY: inside the mapping and aligned (asserted), and lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.address.add(offset).cast()) }
    }

    /// Replaces what is in `to` with a copy of `length` bytes. The caller knows that their writer is
    /// done with them. False, and nothing copied, where they are not inside.
    pub(crate) fn copy(&self, offset: usize, length: usize, to: &mut Vec<u8>) -> bool {
        to.clear();
        if offset
            .checked_add(length)
            .is_none_or(|end| end > self.length)
        {
            return false;
        }
        to.reserve(length);
        // SAFETY: the source is inside the mapping (checked), the destination has the capacity
        // (reserved), the two do not overlap, and after the copy `length` bytes are initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(self.address.add(offset), to.as_mut_ptr(), length);
            to.set_len(length);
        }
        true
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and not used after this.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}

/// A file without a name, of so many zeros, that rings in tests are laid out in.
#[cfg(test)]
pub(crate) fn nameless_file(name: &str, bytes: usize) -> std::fs::File {
    let path = std::env::temp_dir().join(format!(
        "tracebraid-{name}-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut options = std::fs::File::options();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(bytes as u64).unwrap();
    file
}
