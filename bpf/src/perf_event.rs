//! Perf events: what a program is run at where no link of the kernel's names the place itself.
//!
//! ```text
//! open (a uprobe, a kprobe, a tracepoint) ─▶ link a program to it ─▶ enable
//! open (side band) ─▶ map its ring: see `mappings`
//! ```
//! Events are descriptors, as links are: what closes the last one takes the probe away.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;

use crate::kernel::owned;
use crate::spec::FunctionPlace;

const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// `_IO('$', 0)`
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = 0x2400;

/// A uprobe of the perf kind in all processes. `kind` is the PMU's number.
pub(crate) fn open_uprobe(
    kind: u32,
    file: &Path,
    offset: u64,
    semaphore: u64,
    at_return: bool,
) -> io::Result<OwnedFd> {
    let semaphore = u32::try_from(semaphore).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a semaphore beyond 4 GiB in its file",
        )
    })?;
    let file = CString::new(file.as_os_str().as_bytes())?;
    let mut attributes = sys::perf_event_attr {
        type_: kind,
        size: size_of::<sys::perf_event_attr>() as u32,
        // The PMU's format files: ref_ctr_offset is config:32-63, retprobe config:0.
        config: u64::from(semaphore) << 32 | u64::from(at_return),
        ..Default::default()
    };
    attributes.__bindgen_anon_3.uprobe_path = file.as_ptr() as u64;
    attributes.__bindgen_anon_4.probe_offset = offset;
    open(&attributes, -1, 0)
}

/// A kprobe of the perf kind. `kind` is the PMU's number.
pub(crate) fn open_kprobe(
    kind: u32,
    place: &FunctionPlace,
    at_return: bool,
) -> io::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: kind,
        size: size_of::<sys::perf_event_attr>() as u32,
        // The PMU's format file: retprobe is config:0.
        config: at_return.into(),
        ..Default::default()
    };
    // It lives until the event is opened.
    let name;
    match place {
        FunctionPlace::Symbol(symbol, offset) => {
            name = CString::new(symbol.as_bytes())?;
            attributes.__bindgen_anon_3.kprobe_func = name.as_ptr() as u64;
            attributes.__bindgen_anon_4.probe_offset = *offset;
        }
        FunctionPlace::Address(address) => attributes.__bindgen_anon_4.kprobe_addr = *address,
    }
    open(&attributes, -1, 0)
}

/// A tracepoint, by the number that tracefs gives it. The CPU does not matter: programs of a
/// tracepoint run on every CPU.
pub(crate) fn open_tracepoint(id: u64, cpu: u32) -> io::Result<OwnedFd> {
    let attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_TRACEPOINT,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: id,
        ..Default::default()
    };
    open(&attributes, -1, cpu)
}

/// What all processes map, become and fork, on one CPU: an event that counts nothing and only carries
/// the kernel's records of that.
pub(crate) fn open_side_band(cpu: u32) -> io::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: sys::PERF_COUNT_SW_DUMMY.into(),
        sample_type: (sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME).into(),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_task(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    open(&attributes, -1, cpu)
}

fn open(attributes: &sys::perf_event_attr, process: i32, cpu: u32) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are a whole structure whose `size` says so; what they point to (the
    // path of a uprobe) outlives the call, which copies it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            process,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Runs a program at a perf event; the link keeps the event.
pub(crate) fn link(program: BorrowedFd<'_>, event: &OwnedFd, cookie: u64) -> io::Result<OwnedFd> {
    let mut options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as _,
        ..Default::default()
    };
    options.__bindgen_anon_1.perf_event =
        sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_1 { bpf_cookie: cookie };
    // SAFETY: both descriptors are open; the options are zeroed but for size and cookie.
    let fd = unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            event.as_raw_fd(),
            sys::BPF_PERF_EVENT,
            &options,
        )
    };
    let link = owned(fd)?;
    // SAFETY: enabling a perf event takes no argument.
    let enabled = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0) };
    if enabled < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(link)
}
