//! The clock of records: time stamp counter ticks where the kernel trusts them.

use std::fs;

use tracebraid_ring::Clock;

use crate::clock;

/// Which clock the rings of this process use.
pub(crate) fn choose() -> Clock {
    let source =
        fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let trusted = cfg!(target_arch = "x86_64")
        && source.is_ok_and(|source| source.trim() == "tsc")
        && invariant();
    if trusted { Clock::Tsc } else { Clock::Given }
}

/// Whether the counter runs at one rate in all power states (CPUID 8000_0007h, EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant() -> bool {
    false
}

/// A moment in both clocks: ticks, and nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) ticks: u64,
    pub(crate) nanoseconds: u64,
}

impl Ticks {
    /// Now: the narrowest of some tries.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn now() -> Ticks {
        let try_once = || {
            let before = ticks();
            let nanoseconds = clock::now();
            let after = ticks();
            (
                after - before,
                Ticks {
                    ticks: before + (after - before) / 2,
                    nanoseconds,
                },
            )
        };
        (0..8)
            .map(|_| try_once())
            .min_by_key(|(width, _)| *width)
            .map_or_else(|| try_once().1, |(_, pair)| pair)
    }

    /// Now.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn now() -> Ticks {
        let nanoseconds = clock::now();
        Ticks {
            ticks: nanoseconds,
            nanoseconds,
        }
    }

    /// The time of `ticks` on the line through two moments, of which this is the earlier.
    pub(crate) fn interpolate(self, later: Ticks, ticks: u64) -> u64 {
        let span = later.ticks.saturating_sub(self.ticks).max(1);
        let time = later.nanoseconds.saturating_sub(self.nanoseconds);
        let distance = i128::from(ticks) - i128::from(self.ticks);
        (i128::from(self.nanoseconds) + distance * i128::from(time) / i128::from(span)).max(0)
            as u64
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn ticks() -> u64 {
    // SAFETY: reading the counter has no preconditions; it is allowed to programs wherever it is the
    // kernel's clock source.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Never called: the clock is not of ticks here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn ticks() -> u64 {
    clock::now()
}
