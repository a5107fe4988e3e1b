//! The clock that the stream's times are in.

#![allow(unsafe_code)]

/// Seconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec, which this is. It cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
