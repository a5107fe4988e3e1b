//! The system calls behind loading and attaching, each with owned results and `io::Error`.
//!
//! libbpf's own attach functions hide which call failed, make one link a probe where one would do for
//! thousands, and check what the kernel then checks again; so links are made here, and are file
//! descriptors and nothing else: whatever kills the bridge, the kernel takes its probes away.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libbpf_rs::libbpf_sys as sys;

use crate::spec::FunctionPlace;

/// What the kernel's guard dropped of a program's runs.
pub(crate) fn recursion_misses(program: BorrowedFd<'_>) -> io::Result<u64> {
    program_info(program).map(|info| info.recursion_misses)
}

/// How often a program has run, and for how long, while the kernel counted that.
pub(crate) fn runs(program: BorrowedFd<'_>) -> io::Result<(u64, Duration)> {
    program_info(program).map(|info| (info.run_cnt, Duration::from_nanos(info.run_time_ns)))
}

/// Has the kernel count the runs of programs until the descriptor is closed.
pub(crate) fn enable_stats() -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number.
    owned(unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) })
}

fn program_info(program: BorrowedFd<'_>) -> io::Result<sys::bpf_prog_info> {
    let mut info = sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is a zeroed bpf_prog_info and `length` its size, as the call wants them.
    let result =
        unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut length) };
    check(result)?;
    Ok(info)
}

/// Loads instructions of a program that is loaded already, under another name.
pub(crate) fn load_copy(
    kind: u32,
    name: &str,
    instructions: &[sys::bpf_insn],
) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as _,
        ..Default::default()
    };
    // SAFETY: name and licence are C strings, the instructions a slice of the given length, and the
    // options are zeroed but for their size; all outlive the call.
    let fd = unsafe {
        sys::bpf_prog_load(
            kind,
            name.as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as _,
            &mut options,
        )
    };
    owned(fd)
}

/// The smallest program there is, to ask the kernel whether it knows a kind.
pub(crate) fn load_trivial(kind: u32, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut instructions = [sys::bpf_insn::default(); 2];
    instructions[0].code = 0xb7; // r0 = 0
    instructions[1].code = 0x95; // exit
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as _,
        expected_attach_type: attach_type,
        prog_flags: flags,
        ..Default::default()
    };
    // SAFETY: as in `load_copy`.
    let fd = unsafe {
        sys::bpf_prog_load(
            kind,
            c"tracebraid_ask".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as _,
            &mut options,
        )
    };
    owned(fd)
}

/// What one uprobe_multi link attaches: the arrays are of one length, which the type sees to.
pub(crate) struct Sites {
    offsets: Vec<u64>,
    semaphores: Vec<u64>,
    cookies: Vec<u64>,
}

impl Sites {
    /// From (offset, semaphore or 0, cookie).
    pub(crate) fn new(sites: impl IntoIterator<Item = (u64, u64, u64)>) -> Sites {
        let mut all = Sites {
            offsets: vec![],
            semaphores: vec![],
            cookies: vec![],
        };
        for (offset, semaphore, cookie) in sites {
            all.offsets.push(offset);
            all.semaphores.push(semaphore);
            all.cookies.push(cookie);
        }
        all
    }
}

/// One link for all sites of a file, in one process or (0) in all; `at_return`: when their functions
/// return.
pub(crate) fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    file: &Path,
    sites: &Sites,
    process: u32,
    at_return: bool,
) -> io::Result<OwnedFd> {
    let file = CString::new(file.as_os_str().as_bytes())?;
    let mut options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as _,
        ..Default::default()
    };
    options.__bindgen_anon_1.uprobe_multi = sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
        flags: if at_return {
            sys::BPF_F_UPROBE_MULTI_RETURN
        } else {
            0
        },
        cnt: sites.offsets.len() as u32,
        path: file.as_ptr(),
        offsets: sites.offsets.as_ptr(),
        ref_ctr_offsets: sites.semaphores.as_ptr(),
        cookies: sites.cookies.as_ptr(),
        pid: process,
        ..Default::default()
    };
    // SAFETY: the path is a C string and the three arrays have `cnt` elements each (`Sites::new`
    // pushes to all of them); all outlive the call, which copies them.
    let fd = unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            0,
            sys::BPF_TRACE_UPROBE_MULTI,
            &options,
        )
    };
    owned(fd)
}

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
    open_perf_event(&attributes, -1, 0)
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
    open_perf_event(&attributes, -1, 0)
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
    open_perf_event(&attributes, -1, cpu)
}

fn open_perf_event(
    attributes: &sys::perf_event_attr,
    process: i32,
    cpu: u32,
) -> io::Result<OwnedFd> {
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
pub(crate) fn link_perf_event(
    program: BorrowedFd<'_>,
    event: &OwnedFd,
    cookie: u64,
) -> io::Result<OwnedFd> {
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

const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// `_IO('$', 0)`
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = 0x2400;

/// Runs a program at a raw tracepoint.
pub(crate) fn link_raw_tracepoint(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: a C string and an open descriptor.
    let fd = unsafe { sys::bpf_raw_tracepoint_open(name.as_ptr(), program.as_raw_fd()) };
    owned(fd)
}

/// Waits until every program that was running when this was called has ended: they run in RCU
/// readers, and this call of the kernel is a whole grace period. Best effort: where it is not
/// allowed, the caller's own wait decides.
pub(crate) fn wait_for_running_programs() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// The running kernel's major and minor number.
pub(crate) fn version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn check(result: i32) -> io::Result<()> {
    // libbpf returns -errno.
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(())
    }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
