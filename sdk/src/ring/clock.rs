//! The clock of records: time stamp counter ticks where the kernel trusts them.

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tracebraid_ring::Clock;
use tracebraid_wire::region;

use crate::clock;

/// The clock, as a region's header numbers it; 0 where it was not chosen yet.
static CLOCK: AtomicU32 = AtomicU32::new(0);
/// Ticks and nanoseconds of the moment when it was chosen.
static FIRST: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Those of the last moment that was noted.
static LAST: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// What a tick was between the last two moments, in 2⁻³² ns; 0 where there are no two yet.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Moments that are nearer (ns) say nothing of the rate.
const APART: u64 = 500_000_000;

/// Which clock the rings of this process use. Finding out allocates, so that children keep what their
/// parent found.
pub(super) fn chosen() -> Clock {
    known().unwrap_or_else(|| {
        let clock = choose();
        let now = Ticks::now();
        set(&FIRST, now);
        set(&LAST, now);
        CLOCK.store(number(clock), Ordering::Release);
        clock
    })
}

/// The same, where it was found out already.
#[inline]
pub(crate) fn known() -> Option<Clock> {
    match CLOCK.load(Ordering::Acquire) {
        region::CLOCK_TSC => Some(Clock::Tsc),
        region::CLOCK_MONOTONIC => Some(Clock::Given),
        _ => None,
    }
}

/// As a region's header numbers them.
pub(super) const fn number(clock: Clock) -> u32 {
    match clock {
        Clock::Tsc => region::CLOCK_TSC,
        Clock::Given => region::CLOCK_MONOTONIC,
    }
}

fn choose() -> Clock {
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

/// Nanoseconds from an earlier reading of the counter to now. The clock must be [`known`].
pub(crate) fn nanoseconds_since(start: u64) -> u64 {
    let rate = match RATE.load(Ordering::Relaxed) {
        // Nobody has noted a second moment: since the first one it is.
        0 => rate(get(&FIRST), Ticks::now()),
        noted => noted,
    };
    ((u128::from(ticks().saturating_sub(start)) * u128::from(rate)) >> 32) as u64
}

/// Takes in a moment, from which and the last the rate is known. Called by one thread at a time.
pub(super) fn note(now: Ticks) {
    let last = get(&LAST);
    if now.nanoseconds.saturating_sub(last.nanoseconds) >= APART {
        RATE.store(rate(last, now), Ordering::Relaxed);
        set(&LAST, now);
    }
}

fn rate(earlier: Ticks, later: Ticks) -> u64 {
    let span = later.ticks.saturating_sub(earlier.ticks).max(1);
    let time = later.nanoseconds.saturating_sub(earlier.nanoseconds);
    u64::try_from((u128::from(time) << 32) / u128::from(span)).unwrap_or(u64::MAX)
}

fn set(place: &[AtomicU64; 2], moment: Ticks) {
    place[0].store(moment.ticks, Ordering::Relaxed);
    place[1].store(moment.nanoseconds, Ordering::Relaxed);
}

fn get(place: &[AtomicU64; 2]) -> Ticks {
    Ticks {
        ticks: place[0].load(Ordering::Relaxed),
        nanoseconds: place[1].load(Ordering::Relaxed),
    }
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
}

/// The line through two moments, on which the times of records lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    clock: Clock,
    first: Ticks,
    second: Ticks,
}

impl Line {
    /// Through two moments, for records of this clock.
    pub(crate) fn through(clock: Clock, first: Ticks, second: Ticks) -> Line {
        Line {
            clock,
            first,
            second,
        }
    }

    /// Nanoseconds of CLOCK_MONOTONIC, of a time in a record.
    pub(crate) fn at(&self, time: u64) -> u64 {
        let Line { first, second, .. } = self;
        if self.clock == Clock::Given {
            return time;
        }
        let span = second.ticks.saturating_sub(first.ticks).max(1);
        let passed = second.nanoseconds.saturating_sub(first.nanoseconds);
        let distance = i128::from(time) - i128::from(first.ticks);
        (i128::from(first.nanoseconds) + distance * i128::from(passed) / i128::from(span)).max(0)
            as u64
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: reading the counter has no preconditions; it is allowed to programs wherever it is the
    // kernel's clock source.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Never called: the clock is not of ticks here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    clock::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: Ticks = Ticks {
        ticks: 1_000,
        nanoseconds: 5_000,
    };
    const LATER: Ticks = Ticks {
        ticks: 3_000,
        nanoseconds: 6_000,
    };

    #[test]
    fn times_lie_on_the_line_through_two_moments_before_and_after_them_too() {
        let line = Line::through(Clock::Tsc, EARLIER, LATER);
        assert_eq!(
            [0, 1_000, 2_000, 5_000].map(|ticks| line.at(ticks)),
            [4_500, 5_000, 5_500, 7_000]
        );
        assert_eq!(Line::through(Clock::Given, EARLIER, LATER).at(7), 7);
    }

    #[test]
    fn a_rate_is_nanoseconds_a_tick_and_moments_that_contradict_one_another_give_some_rate() {
        assert_eq!(rate(EARLIER, LATER), 1 << 31);
        assert_eq!(rate(LATER, EARLIER), 0);
        assert_eq!(rate(LATER, LATER), 0);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn nanoseconds_since_a_reading_of_the_counter_are_those_of_the_clock() {
        set(&FIRST, Ticks::now());
        let (start, before) = (ticks(), clock::now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let passed = nanoseconds_since(start);
        let most = clock::now() - before;
        // A bound of order: a wrong rate is wrong by far more.
        assert!(
            (19_000_000..=most + most / 100).contains(&passed),
            "{passed} {most}"
        );
    }
}
