//! The rseq area of a thread: the C library's, or one of our own.
//!
//! glibc registers one for each thread since 2.35 and says where in `__rseq_offset`; its `__rseq_size`
//! is 0 where it was told not to (the offset then still looks usable). Where the C library has none,
//! threads register a thread-local of ours when they first append, and take it back in a destructor: the
//! kernel writes the area as long as it is registered, and its memory goes with the thread.

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::sync::OnceLock;

/// What the kernel checks in front of an abort handler (arch/x86: RSEQ_SIG).
const SIGNATURE: u32 = 0x5305_3053;
/// Bytes of the original area, which every kernel takes.
const AREA_BYTES: u32 = 32;
const UNREGISTER: u32 = 1;

// The C library's two symbols, weak, so that programs link without them; and the area, in static TLS so
// that its offset from the thread pointer is a constant and no access to it allocates.
global_asm!(
    ".pushsection .data.rel.ro.tracebraid,\"aw\",@progbits",
    ".balign 8",
    ".weak __rseq_offset",
    ".weak __rseq_size",
    ".hidden tracebraid_rseq_symbols",
    ".globl tracebraid_rseq_symbols",
    "tracebraid_rseq_symbols: .quad __rseq_offset, __rseq_size",
    ".popsection",
    ".pushsection .tdata.tracebraid,\"awT\",@progbits",
    ".balign 32",
    ".hidden tracebraid_rseq_area",
    ".globl tracebraid_rseq_area",
    ".type tracebraid_rseq_area,@object",
    // cpu_id_start 0, cpu_id −1: not registered.
    "tracebraid_rseq_area: .long 0, -1",
    ".quad 0",
    ".long 0, 0, 0, 0",
    ".size tracebraid_rseq_area, 32",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "tracebraid_rseq_symbols"]
    static SYMBOLS: [Option<&'static i64>; 2];
}

/// Whose area it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The C library's.
    CLibrary,
    /// Ours, registered by each thread.
    Own,
}

/// Where a thread's area is: so far from its thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    pub(super) offset: isize,
    source: Source,
}

impl Area {
    /// The C library's area, if it has registered one.
    pub fn of_c_library() -> Option<Area> {
        // SAFETY: two words of ours: addresses of the C library's constants, or null.
        let [offset, size] = unsafe { SYMBOLS };
        // `__rseq_size` is an unsigned int, `__rseq_offset` a ptrdiff_t.
        let size = size.map_or(0, |size| {
            // SAFETY: the symbol's first four bytes are the whole of it.
            unsafe { (&raw const *size).cast::<u32>().read() }
        });
        match offset {
            Some(&offset) if size != 0 => Some(Area {
                offset: offset as isize,
                source: Source::CLibrary,
            }),
            _ => None,
        }
    }

    /// An area of our own, if the kernel lets this thread register one.
    pub fn own() -> Option<Area> {
        let area = Area {
            offset: own_offset(),
            source: Source::Own,
        };
        area.register_this_thread().then_some(area)
    }

    /// Whose it is.
    pub fn source(&self) -> Source {
        self.source
    }

    /// This thread's area.
    fn of_this_thread(&self) -> *mut u8 {
        let thread: *mut u8;
        // SAFETY: the thread pointer's own address stands at fs:0 (System V ABI for x86-64, TLS).
        unsafe {
            asm!("mov {}, fs:0", out(reg) thread, options(nostack, pure, readonly, preserves_flags))
        };
        thread.wrapping_offset(self.offset)
    }

    /// Registers this thread, where the area is ours and it has not been. Whether it now is.
    pub(super) fn register_this_thread(&self) -> bool {
        if self.source == Source::CLibrary || CLOSED.with(Cell::get) {
            return false;
        }
        let Some(&key) = destructor_key() else {
            return false;
        };
        let area = self.of_this_thread();
        if !register(area) {
            CLOSED.with(|closed| closed.set(true));
            return false;
        }
        // SAFETY: a key of ours; the value only has to be non-null for the destructor to run.
        unsafe { libc::pthread_setspecific(key, area.cast()) };
        true
    }
}

/// Registers this thread's area of ours. Whether it now is. The program's `errno` is as it was: an append
/// may stand between a call and the look at its error.
fn register(area: *mut u8) -> bool {
    // SAFETY: this thread's errno; and a 32-aligned thread-local of 32 bytes that stays until the
    // destructor takes it back.
    unsafe {
        let errno = libc::__errno_location();
        let before = errno.read();
        let result = libc::syscall(libc::SYS_rseq, area, AREA_BYTES, 0, SIGNATURE);
        // EBUSY: this very area is registered, as in a child of fork, whose parent's thread had done it.
        let registered = result == 0 || errno.read() == libc::EBUSY;
        errno.write(before);
        registered
    }
}

thread_local! {
    /// This thread can have no area (any more).
    static CLOSED: Cell<bool> = const { Cell::new(false) };
}

fn destructor_key() -> Option<&'static libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for the key, and a destructor of the right type.
        let result = unsafe { libc::pthread_key_create(&raw mut key, Some(unregister)) };
        (result == 0).then_some(key)
    })
    .as_ref()
}

unsafe extern "C" fn unregister(area: *mut libc::c_void) {
    CLOSED.with(|closed| closed.set(true));
    // SAFETY: the area that this thread registered.
    unsafe { libc::syscall(libc::SYS_rseq, area, AREA_BYTES, UNREGISTER, SIGNATURE) };
    // Not registered: appends of later destructors go elsewhere.
    // SAFETY: cpu_id of our own area, which the kernel no longer writes.
    unsafe { area.cast::<i32>().add(1).write_volatile(-1) };
}

fn own_offset() -> isize {
    let offset: isize;
    // SAFETY: loads the variable's offset from the thread pointer, a constant once we are loaded.
    unsafe {
        asm!("mov {}, [rip + tracebraid_rseq_area@GOTTPOFF]", out(reg) offset, options(nostack, pure, readonly, preserves_flags));
    }
    offset
}
