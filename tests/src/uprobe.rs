//! A uprobe through `perf_event_open`: what perf, bcc and bpftrace do, without any of them.
//!
//! The event only counts, so that its number of hits can be compared with what the program did.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// The part of the kernel's `perf_event_attr` that counting needs (its first published size).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
}

const _: () = assert!(size_of::<Attributes>() == 72);

/// An attached uprobe; dropping it detaches it.
#[derive(Debug)]
pub struct Uprobe(File);

impl Uprobe {
    /// Probes the instruction at a file offset; counts the hits of one thread (0: the calling one).
    /// `semaphore` is the file offset of a USDT semaphore to raise meanwhile, or 0.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(thread: i32, file: &Path, offset: u64, semaphore: u64) -> io::Result<Uprobe> {
        let path = CString::new(file.as_os_str().as_bytes())?;
        let attributes = Attributes {
            kind: pmu_type()?,
            size: size_of::<Attributes>() as u32,
            config: semaphore << 32,
            config1: path.as_ptr().addr() as u64,
            config2: offset,
            ..Attributes::default()
        };
        let (any_cpu, no_group, close_on_exec) = (-1, -1, 8);
        // SAFETY: the kernel reads the attributes and the path, both alive during the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                ptr::from_ref(&attributes),
                thread,
                any_cpu,
                no_group,
                close_on_exec,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel has just given us.
        Ok(Uprobe(unsafe { File::from_raw_fd(fd as i32) }))
    }

    /// How often the instruction was hit.
    ///
    /// # Errors
    /// The counter cannot be read.
    pub fn hits(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count)?;
        Ok(u64::from_le_bytes(count))
    }
}

fn pmu_type() -> io::Result<u32> {
    let text = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Why no uprobe can be set here; `None` where one can.
#[must_use]
pub fn refusal() -> Option<String> {
    #[inline(never)]
    extern "C" fn probed() {}

    let attempt = || {
        let address = (probed as extern "C" fn() as *const ()).addr() as u64;
        let (file, offset) = mapped(address)?;
        Uprobe::attach(0, Path::new(&file), offset, 0)
    };
    attempt()
        .err()
        .map(|error: io::Error| format!("no uprobe can be set here: {error}"))
}

/// The file that is mapped at an address of this process, and the offset in it.
///
/// # Errors
/// No file is mapped there.
pub fn mapped(address: u64) -> io::Result<(String, u64)> {
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), _, Some(offset)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let path = words.nth(2);
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        let Some((start, end)) = range.split_once('-') else {
            continue;
        };
        if (hex(start)..hex(end)).contains(&address)
            && let Some(path) = path
        {
            return Ok((path.to_owned(), address - hex(start) + hex(offset)));
        }
    }
    Err(io::Error::from(io::ErrorKind::NotFound))
}
