//! A uprobe of the kernel that only counts: what a USDT probe costs at least while somebody looks.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::FromRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use bridge::target::Binary;

/// The first 72 bytes of `struct perf_event_attr`, which is all of it that uprobes need
/// (`PERF_ATTR_SIZE_VER1` in linux/perf_event.h).
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
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

/// `PERF_FLAG_FD_CLOEXEC` of linux/perf_event.h.
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// A probe in this process, from now until it is dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    name: String,
    file: File,
}

/// A counter on each place of each probe that these providers have in this program.
pub(crate) fn on_providers(providers: &[&str]) -> Result<Vec<Counter>, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let binary = Binary::open(&program)?;
    let ours = binary.tracepoints().iter();
    let ours = ours.map(|point| (&point.provider, &point.name, point.attachable()));
    let theirs = binary.usdt_probes().iter();
    let theirs = theirs.map(|probe| (&probe.provider, &probe.name, probe.attachable()));
    let mut counters = Vec::new();
    // Tracepoints of ours are probes of the file as well: two counters at one place would cost twice.
    let mut counted = BTreeSet::new();
    for (provider, name, probe) in ours.chain(theirs) {
        if !providers.contains(&provider.as_str()) {
            continue;
        }
        for location in &probe.locations {
            if !counted.insert(location.offset) {
                continue;
            }
            let name = format!("{provider}:{name}");
            let (offset, semaphore) = (location.offset, location.semaphore);
            counters.push(Counter::attach(name, &program, offset, semaphore)?);
        }
    }
    match counters.is_empty() {
        false => Ok(counters),
        true => Err("this program has no probe that can be attached".into()),
    }
}

impl Counter {
    /// Attaches to an instruction of a file, for this process's threads to come and the calling one.
    /// A semaphore's offset of 0 means none.
    fn attach(name: String, binary: &Path, offset: u64, semaphore: u64) -> io::Result<Counter> {
        let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
        let kind = kind.trim().parse().map_err(io::Error::other)?;
        let path = CString::new(binary.as_os_str().as_bytes())?;
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            // Bits 32 to 63 are the semaphore's offset (…/devices/uprobe/format).
            config: semaphore << 32,
            config1: path.as_ptr().expose_provenance() as u64,
            config2: offset,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads `size` bytes of the attributes and the path's text, both alive here;
        // pid 0 is the calling thread, cpu -1 all of them, group -1 none.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                0,
                -1,
                -1,
                FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a file descriptor that the kernel just gave us, and nobody else has.
        let file = unsafe { File::from_raw_fd(fd as i32) };
        Ok(Counter { name, file })
    }

    /// The probe that is counted: `provider:name`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Hits so far.
    pub(crate) fn hits(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
