//! The system calls behind loading and attaching, each with owned results and `io::Error`.
//!
//! libbpf's own attach functions hide which call failed, make one link a probe where one would do for
//! thousands, and check what the kernel then checks again; so links are made here, and are file
//! descriptors and nothing else: whatever kills the bridge, the kernel takes its probes away.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libbpf_rs::AsRawLibbpf as _;
use libbpf_rs::btf::Btf;
use libbpf_rs::libbpf_sys as sys;

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

/// What the hits of one link ran into: a probe inside another one, or none free for a return. `None` where
/// this kernel does not count it, or the link is of another kind.
pub(crate) fn link_misses(link: BorrowedFd<'_>) -> Option<u64> {
    let mut info = sys::bpf_link_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is a zeroed bpf_link_info and `length` its size, as the call wants them.
    let result = unsafe { sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut length) };
    check(result).ok()?;
    // SAFETY: all members of these unions are plain integers, and the whole was zeroed.
    unsafe {
        match info.type_ {
            sys::BPF_LINK_TYPE_KPROBE_MULTI => Some(info.__bindgen_anon_1.kprobe_multi.missed),
            sys::BPF_LINK_TYPE_PERF_EVENT => Some(
                info.__bindgen_anon_1
                    .perf_event
                    .__bindgen_anon_1
                    .kprobe
                    .missed,
            ),
            _ => None,
        }
    }
}

/// A function's number in type information.
pub(crate) fn function_type(types: &Btf<'_>, name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the handle is that of type information which lives, and the name is a C string.
    let number = unsafe {
        sys::btf__find_by_name_kind(
            types.as_libbpf_object().as_ptr(),
            name.as_ptr(),
            sys::BTF_KIND_FUNC,
        )
    };
    u32::try_from(number).ok().filter(|&number| number != 0)
}

/// A program that is loaded, as more of the same are made of it.
pub(crate) struct Blueprint<'a> {
    kind: u32,
    attach_type: u32,
    name: CString,
    instructions: &'a [sys::bpf_insn],
    /// The type information of its object, and which of its functions are where: programs with callbacks
    /// need both.
    types: i32,
    functions: *const sys::bpf_func_info,
    functions_count: u32,
}

impl<'a> Blueprint<'a> {
    /// Of a program of this object.
    pub(crate) fn of(
        object: &'a libbpf_rs::Object,
        program: &libbpf_rs::Program<'a>,
    ) -> io::Result<Blueprint<'a>> {
        let raw = program.as_libbpf_object().as_ptr();
        let name = CString::new(program.name().as_encoded_bytes())?;
        // SAFETY: both are handles of an object that is loaded, and lives for `'a`; libbpf keeps the
        // functions' table as long as the program.
        let (types, functions, functions_count, attach_type) = unsafe {
            (
                sys::bpf_object__btf_fd(object.as_libbpf_object().as_ptr()),
                sys::bpf_program__func_info(raw),
                sys::bpf_program__func_info_cnt(raw),
                sys::bpf_program__expected_attach_type(raw),
            )
        };
        Ok(Blueprint {
            kind: program.prog_type() as u32,
            attach_type,
            name,
            instructions: program.insns(),
            types,
            functions,
            functions_count,
        })
    }

    /// Loads another one; of a tracing program, for the function of this number in the kernel's type
    /// information (else 0). Instructions name maps by descriptors that close with the object.
    pub(crate) fn load(&self, function: u32) -> io::Result<OwnedFd> {
        let mut options = sys::bpf_prog_load_opts {
            sz: size_of::<sys::bpf_prog_load_opts>() as _,
            expected_attach_type: self.attach_type,
            attach_btf_id: function,
            ..Default::default()
        };
        if let Ok(types) = u32::try_from(self.types)
            && !self.functions.is_null()
        {
            options.prog_btf_fd = types;
            options.func_info = self.functions.cast();
            options.func_info_cnt = self.functions_count;
            options.func_info_rec_size = size_of::<sys::bpf_func_info>() as u32;
        }
        // SAFETY: name and licence are C strings, the instructions a slice of the given length, the
        // table of functions has as many rows as libbpf says and lives as long as its object, which `'a`
        // borrows; all outlive the call.
        let fd = unsafe {
            sys::bpf_prog_load(
                self.kind,
                self.name.as_ptr(),
                c"Dual BSD/GPL".as_ptr(),
                self.instructions.as_ptr(),
                self.instructions.len() as _,
                &mut options,
            )
        };
        owned(fd)
    }
}

/// The smallest program there is, to ask the kernel whether it knows a kind.
pub(crate) fn load_trivial(kind: u32, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
    load_trivial_for(kind, attach_type, flags, 0)
}

/// The same for a function of the kernel, by its number in the type information.
pub(crate) fn load_trivial_for(
    kind: u32,
    attach_type: u32,
    flags: u32,
    function: u32,
) -> io::Result<OwnedFd> {
    let mut instructions = [sys::bpf_insn::default(); 2];
    instructions[0].code = 0xb7; // r0 = 0
    instructions[1].code = 0x95; // exit
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as _,
        expected_attach_type: attach_type,
        prog_flags: flags,
        attach_btf_id: function,
        ..Default::default()
    };
    // SAFETY: name and licence are C strings, the instructions an array of the given length, and the
    // options zeroed but for size and numbers; all outlive the call.
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

/// One link for these kernel functions, each with its cookie; `at_return`: when they return.
pub(crate) fn link_kprobe_multi<'a>(
    program: BorrowedFd<'_>,
    functions: impl IntoIterator<Item = (&'a str, u64)>,
    at_return: bool,
) -> io::Result<OwnedFd> {
    let (mut names, mut cookies) = (Vec::new(), Vec::new());
    for (name, cookie) in functions {
        names.push(CString::new(name)?);
        cookies.push(cookie);
    }
    let mut symbols: Vec<*const libc::c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let mut options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as _,
        ..Default::default()
    };
    options.__bindgen_anon_1.kprobe_multi = sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_2 {
        flags: if at_return {
            sys::BPF_F_KPROBE_MULTI_RETURN
        } else {
            0
        },
        cnt: symbols.len() as u32,
        syms: symbols.as_mut_ptr(),
        cookies: cookies.as_ptr(),
        ..Default::default()
    };
    // SAFETY: both arrays have `cnt` elements (they are filled together), the symbols are C strings that
    // `names` keeps; all outlive the call, which copies them.
    let fd = unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            0,
            sys::BPF_TRACE_KPROBE_MULTI,
            &options,
        )
    };
    owned(fd)
}

/// Runs a tracing program at the function it was loaded for.
pub(crate) fn link_trampoline(
    program: BorrowedFd<'_>,
    cookie: u64,
    at_return: bool,
) -> io::Result<OwnedFd> {
    let mut options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as _,
        ..Default::default()
    };
    options.__bindgen_anon_1.tracing =
        sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_4 { cookie };
    let kind = match at_return {
        true => sys::BPF_TRACE_FEXIT,
        false => sys::BPF_TRACE_FENTRY,
    };
    // SAFETY: an open descriptor; the options are zeroed but for size and cookie.
    let fd = unsafe { sys::bpf_link_create(program.as_raw_fd(), 0, kind, &options) };
    owned(fd)
}

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

/// What a call that makes a descriptor returned.
pub(crate) fn owned(fd: i32) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
