//! The product's one clock.

#![allow(unsafe_code)]

/// Nanoseconds of CLOCK_MONOTONIC: what the kernel's `bpf_ktime_get_ns` gives.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the result; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
