//! The memory of a set of rings: one memfd, mapped so that no record wraps.
//!
//! The header area and the control blocks are mapped once. Each data area is mapped twice in a row, so
//! that a record which begins near its end goes on in the same addresses. Pages cost memory when they
//! are first written: a ring whose CPU appends nothing is free.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::geometry::{Control, Geometry};

/// A mapped region.
pub struct Region {
    file: OwnedFd,
    /// Device and inode.
    identity: (u64, u64),
    geometry: Geometry,
    /// Header area and control blocks.
    head: Mapping,
    /// The data areas, each twice.
    data: Mapping,
}

/// An address range of ours, unmapped when dropped.
struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: a mapping is plain memory; who may touch what is the business of producer and consumer.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes the memory of `length` bytes from `offset` on, both whole pages within it.
    fn take_memory(&self, offset: usize, length: usize) -> io::Result<()> {
        assert!(offset.saturating_add(length) <= self.length);
        if length == 0 {
            return Ok(());
        }
        // SAFETY: within the mapping.
        let start = unsafe { self.start.add(offset) };
        // SAFETY: as above; no byte is changed.
        let taken = unsafe { libc::madvise(start.cast(), length, libc::MADV_POPULATE_WRITE) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if taken == 0 => return Ok(()),
            // Before Linux 5.14.
            Some(libc::EINVAL) => {}
            _ => return Err(error),
        }
        for page in (0..length).step_by(Geometry::PAGE) {
            // SAFETY: within the mapping. Adding nothing changes nothing, also for who writes there now.
            unsafe { AtomicU8::from_ptr(start.add(page)) }.fetch_or(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours and nobody keeps pointers into it past its owner.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

impl Region {
    /// Makes a region of zeros, sealed against resizing.
    ///
    /// # Errors
    /// Those of `memfd_create`, `ftruncate` and `mmap`.
    pub fn create(name: &CStr, geometry: Geometry) -> io::Result<Region> {
        let file = memfd(name)?;
        // SAFETY: a descriptor of ours.
        check(unsafe { libc::ftruncate(file.as_raw_fd(), geometry.file_bytes() as libc::off_t) })?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: likewise.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Region::map(file, geometry)
    }

    /// Maps a region that somebody made, for a reader. Its size must be that of `geometry`, and sealed: a
    /// file that could shrink under the mapping would kill its reader.
    ///
    /// # Errors
    /// Those of the system calls; [`io::ErrorKind::InvalidData`] for a wrong size or missing seals.
    pub fn open(file: OwnedFd, geometry: Geometry) -> io::Result<Region> {
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        // SAFETY: a descriptor of ours; a file that knows no seals answers EINVAL.
        let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
        if seals & libc::F_SEAL_SHRINK == 0 {
            return invalid("the region could be shrunk under its reader");
        }
        // SAFETY: plain memory that the call fills.
        let mut status = unsafe { std::mem::zeroed::<libc::stat>() };
        // SAFETY: as above.
        check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
        if status.st_size as u64 != geometry.file_bytes() as u64 {
            return invalid("the region's size is not what its header says");
        }
        Region::map(file, geometry)
    }

    fn map(file: OwnedFd, geometry: Geometry) -> io::Result<Region> {
        let head = map_file(&file, 0, geometry.data_offset(0))?;
        let data = reserve(2 * geometry.ring_bytes() * geometry.rings())?;
        for ring in 0..geometry.rings() {
            for half in 0..2 {
                let at = (2 * ring + half) * geometry.ring_bytes();
                // SAFETY: within the reserved range, which is ours to replace.
                let place = unsafe { data.start.add(at) };
                // SAFETY: likewise.
                let got = unsafe {
                    libc::mmap(
                        place.cast(),
                        geometry.ring_bytes(),
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_SHARED | libc::MAP_FIXED,
                        file.as_raw_fd(),
                        geometry.data_offset(ring) as libc::off_t,
                    )
                };
                if got == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(Region {
            identity: identity(file.as_fd())?,
            file,
            geometry,
            head,
            data,
        })
    }

    /// Takes the memory of the header area, the control blocks and these rings now, instead of when it is
    /// first written. What is in it stays as it is, and may be written meanwhile.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn take_memory(&self, rings: Range<usize>) -> io::Result<()> {
        let last = self.geometry.rings();
        let rings = rings.start.min(last)..rings.end.min(last);
        let bytes = 2 * rings.len() * self.geometry.ring_bytes();
        self.head.take_memory(0, self.head.length)?;
        let first = 2 * rings.start * self.geometry.ring_bytes();
        self.data.take_memory(first, bytes)
    }

    /// The region's sizes.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The memfd.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether that descriptor is still the memfd: a program may close what it does not know, and use the
    /// number for another file. The mapping stays in any case.
    pub fn has_file(&self) -> bool {
        identity(self.file()).is_ok_and(|identity| identity == self.identity)
    }

    /// The header area: `geometry().header_bytes()` bytes that others may write at any time.
    pub fn header(&self) -> *mut u8 {
        self.head.start
    }

    /// The control block of a ring.
    ///
    /// # Panics
    /// `ring` is not below `geometry().rings()`.
    pub fn control(&self, ring: usize) -> &Control {
        assert!(
            ring < self.geometry.rings(),
            "ring {ring} of {}",
            self.geometry.rings()
        );
        // SAFETY: the blocks lie behind the header area, zeroed or written as atomics only.
        unsafe { &*self.controls().add(ring) }
    }

    /// The first control block.
    pub(crate) fn controls(&self) -> *const Control {
        // SAFETY: within the mapping.
        unsafe { self.head.start.add(self.geometry.header_bytes()).cast() }
    }

    /// The data area of ring 0, twice; the others' follow.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn data(&self) -> *mut u8 {
        self.data.start
    }

    /// Writes words into a ring's data area, where byte `at` of the ring's time goes.
    ///
    /// # Panics
    /// They are more than the area has.
    pub(crate) fn write(&self, ring: usize, at: u64, words: &[u64]) {
        for (place, &word) in self.words(ring, at, words.len()).iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Reads words out of a ring's data area, from where byte `at` of the ring's time goes.
    ///
    /// # Panics
    /// They are more than the area has.
    pub(crate) fn read(&self, ring: usize, at: u64, words: &mut [u64]) {
        let places = self.words(ring, at, words.len());
        for (word, place) in words.iter_mut().zip(places) {
            *word = place.load(Ordering::Relaxed);
        }
    }

    fn words(&self, ring: usize, at: u64, count: usize) -> &[AtomicU64] {
        let bytes = self.geometry.ring_bytes();
        assert!(
            ring < self.geometry.rings() && count <= bytes / 8,
            "{count} words of ring {ring}"
        );
        let offset = at as usize & (bytes - 1) & !7;
        // SAFETY: the area is mapped twice in a row, so that its length from any place in the first half
        // is within the mapping; 8-aligned; locked writers and readers use it as atomics.
        unsafe {
            let first = self.data.start.add(2 * ring * bytes + offset);
            std::slice::from_raw_parts(first.cast(), count)
        }
    }
}

fn memfd(name: &CStr) -> io::Result<OwnedFd> {
    /// Linux 6.3; 6.1 answers EINVAL.
    const MFD_NOEXEC_SEAL: libc::c_uint = 8;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    for flags in [flags | MFD_NOEXEC_SEAL, flags] {
        // SAFETY: a terminated name.
        let file = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if file >= 0 {
            // SAFETY: a descriptor that nobody else has.
            return Ok(unsafe { OwnedFd::from_raw_fd(file) });
        }
    }
    Err(io::Error::last_os_error())
}

fn map_file(file: &OwnedFd, offset: usize, length: usize) -> io::Result<Mapping> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    mapping(start, length)
}

fn reserve(length: usize) -> io::Result<Mapping> {
    // SAFETY: as above; nothing is committed.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    mapping(start, length)
}

fn mapping(start: *mut libc::c_void, length: usize) -> io::Result<Mapping> {
    if start == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(Mapping {
            start: start.cast(),
            length,
        })
    }
}

/// Device and inode of an open file.
fn identity(file: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: all zeros is a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a number that is or was a descriptor, and a place for the answer.
    check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) })?;
    Ok((stat.st_dev, stat.st_ino))
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
