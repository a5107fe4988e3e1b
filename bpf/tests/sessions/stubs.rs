//! Places to probe: a few instructions each, with the bytes that a tracepoint's site has.
#![allow(unsafe_code)]

use std::arch::global_asm;
use std::path::PathBuf;

use tracebraid_bpf::spec::{Fetch, Location, ProbeId, UserProbe};

global_asm!(
    ".macro tb_site",
    "nop",
    ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
    "ret",
    ".endm",
    ".globl tb_test_slots",
    "tb_test_slots: tb_site",
    ".globl tb_test_guarded",
    "tb_test_guarded: tb_site",
    // rdi, rsi, rdx and rcx are the caller's; the rest is set here.
    ".globl tb_test_arguments",
    "tb_test_arguments:",
    "mov r8, -2",
    "mov eax, 0x11223344",
    // 12 bytes, then what ProbeRelative finds.
    "tb_site",
    ".quad 0x7777888899990000",
    // A thousand places, 2 bytes apart.
    ".globl tb_test_many",
    "tb_test_many: .rept 1000",
    "nop",
    "ret",
    ".endr",
);

unsafe extern "C" {
    fn tb_test_slots(slots: *const u64);
    fn tb_test_guarded(slots: *const u64);
    fn tb_test_arguments(first: u64, second: *const u64, third: u64, fourth: u64);
    fn tb_test_many();
}

/// A semaphore as the kernel wants it: in the file, writable, aligned.
#[used]
#[unsafe(link_section = ".probes")]
static SEMAPHORE: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);

pub(crate) fn semaphore() -> u16 {
    SEMAPHORE.load(std::sync::atomic::Ordering::Relaxed)
}

/// Offset in the file of the semaphore.
pub(crate) fn semaphore_offset() -> u64 {
    offset(SEMAPHORE.as_ptr() as usize)
}

pub(crate) fn hit_slots(slots: &[u64]) {
    // SAFETY: the stub touches nothing but its own instructions.
    unsafe { tb_test_slots(slots.as_ptr()) }
}

pub(crate) fn hit_address(slots: *const u64) {
    // SAFETY: as above; it does not follow the pointer, and a program that does may fail to.
    unsafe { tb_test_slots(slots) }
}

pub(crate) fn hit_guarded(slots: &[u64]) {
    // SAFETY: as above.
    unsafe { tb_test_guarded(slots.as_ptr()) }
}

pub(crate) fn hit_arguments(first: u64, second: &[u64], third: u64, fourth: u64) {
    // SAFETY: as above; it also sets registers that a call may clobber.
    unsafe { tb_test_arguments(first, second.as_ptr(), third, fourth) }
}

pub(crate) fn hit_many() {
    for index in 0..1000 {
        // SAFETY: each place is `nop; ret`, 2 bytes long: a function without arguments.
        unsafe {
            let place: unsafe extern "C" fn() =
                std::mem::transmute(tb_test_many as *const () as usize + 2 * index);
            place();
        }
    }
}

/// The number of the last of those places.
pub(crate) const LAST: u64 = 999;

pub(crate) fn hit_last(first: u64, second: u64, third: u64) {
    // SAFETY: `nop; ret`, as above; arguments do not matter to it.
    unsafe {
        let place: unsafe extern "C" fn(u64, u64, u64) =
            std::mem::transmute(tb_test_many as *const () as usize + 2 * LAST as usize);
        place(first, second, third);
    }
}

pub(crate) fn slots_offset() -> u64 {
    offset(tb_test_slots as *const () as usize)
}

pub(crate) fn guarded_offset() -> u64 {
    offset(tb_test_guarded as *const () as usize)
}

/// Of the probed instruction, behind two that set registers (7 and 5 bytes).
pub(crate) fn arguments_offset() -> u64 {
    offset(tb_test_arguments as *const () as usize) + 12
}

pub(crate) fn arguments_address() -> u64 {
    tb_test_arguments as *const () as u64 + 12
}

pub(crate) fn many_offset(index: u64) -> u64 {
    offset(tb_test_many as *const () as usize) + 2 * index
}

pub(crate) fn binary() -> PathBuf {
    std::env::current_exe().expect("a running program has a path")
}

/// A probe of one place.
pub(crate) fn probe(id: u32, offset: u64, semaphore: u64, fetch: Fetch) -> UserProbe {
    UserProbe {
        id: ProbeId(id),
        binary: binary(),
        locations: vec![Location {
            offset,
            semaphore,
            fetch,
        }],
    }
}

/// Where in its file an address of this process is.
fn offset(address: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("proc is mounted");
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(_), Some(offset)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Some((start, end)) = range.split_once('-') else {
            continue;
        };
        let number = |text| usize::from_str_radix(text, 16).expect("maps has hexadecimal numbers");
        if (number(start)..number(end)).contains(&address) {
            return (address - number(start) + number(offset)) as u64;
        }
    }
    panic!("{address:#x} is not mapped");
}
