//! From time stamp counter ticks to nanoseconds of CLOCK_MONOTONIC: a rolling fit.
//!
//! ```text
//! pairs    (ticks, ns) (ticks, ns) (ticks, ns) …    taken with every round, narrowest of some tries
//! a record between two neighbours lies on the line through them
//! ```
//! The kernel derives the clock from the same counter, with a slope that it changes now and then by
//! little: between neighbours a straight line is as right as the pairs are. A pair is as good as its
//! bracket is narrow: the clock was read somewhere between two readings of the counter.

#![allow(unsafe_code)]

use std::collections::VecDeque;

/// Pairs kept: at 50 rounds a second, what a second and a quarter need.
const KEPT: usize = 64;
/// Readings of which the narrowest counts.
const TRIES: usize = 12;

/// A moment in both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Time stamp counter.
    pub ticks: u64,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub nanoseconds: u64,
}

/// See the module's page.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    pairs: VecDeque<Pair>,
}

impl Fit {
    /// Takes in a moment. One that contradicts the last (either clock stood still or went back) is left
    /// out: the counter was stopped, or the machine moved.
    pub fn add(&mut self, pair: Pair) {
        if let Some(last) = self.pairs.back() {
            if pair.ticks <= last.ticks || pair.nanoseconds <= last.nanoseconds {
                self.pairs.clear();
            } else if self.pairs.len() >= 2 && !self.follows(pair) {
                // A jump (a suspended machine): what was before says nothing of what comes.
                let last = *last;
                self.pairs.clear();
                self.pairs.push_back(last);
            }
        }
        if self.pairs.len() == KEPT {
            self.pairs.pop_front();
        }
        self.pairs.push_back(pair);
    }

    /// Whether a pair is where the slope so far leads to, within a tenth of the way.
    fn follows(&self, pair: Pair) -> bool {
        let (Some(&last), Some(expected)) = (self.pairs.back(), self.nanoseconds(pair.ticks))
        else {
            return true;
        };
        let way = pair.nanoseconds.max(expected) - last.nanoseconds;
        pair.nanoseconds.abs_diff(expected) <= way / 10 + 1000
    }

    /// The time of a counter's reading; `None` before there are two pairs.
    pub fn nanoseconds(&self, ticks: u64) -> Option<u64> {
        let after = self.pairs.partition_point(|pair| pair.ticks < ticks);
        // Outside the pairs the nearest two are extended.
        let second = after.clamp(1, self.pairs.len().max(2) - 1);
        let (first, second) = (self.pairs.get(second - 1)?, self.pairs.get(second)?);
        let (span, time) = (
            second.ticks - first.ticks,
            second.nanoseconds - first.nanoseconds,
        );
        let distance = i128::from(ticks) - i128::from(first.ticks);
        let nanoseconds = i128::from(first.nanoseconds)
            + distance.saturating_mul(i128::from(time)) / i128::from(span);
        u64::try_from(nanoseconds).ok()
    }
}

/// Reads both clocks now.
#[cfg(target_arch = "x86_64")]
pub fn read() -> Pair {
    let reading = || {
        // SAFETY: reading the counter has no preconditions; the target's rings use it as their clock.
        let before = unsafe { std::arch::x86_64::_rdtsc() };
        let nanoseconds = now();
        // SAFETY: as above.
        let after = unsafe { std::arch::x86_64::_rdtsc() };
        (
            after.wrapping_sub(before),
            Pair {
                ticks: before + after.wrapping_sub(before) / 2,
                nanoseconds,
            },
        )
    };
    let first = reading();
    (1..TRIES)
        .map(|_| reading())
        .fold(
            first,
            |best, next| if next.0 < best.0 { next } else { best },
        )
        .1
}

/// Reads the clock now; the counter is none of ours here.
#[cfg(not(target_arch = "x86_64"))]
pub fn read() -> Pair {
    Pair {
        ticks: now(),
        nanoseconds: now(),
    }
}

/// CLOCK_MONOTONIC, nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the result; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of `hertz` beside a clock whose slope the kernel changes.
    fn simulate(rounds: u64, hertz: f64, slope: impl Fn(u64) -> f64) -> Vec<Pair> {
        let mut nanoseconds = 1e12;
        (0..rounds)
            .map(|round| {
                nanoseconds += 20e6 * slope(round);
                Pair {
                    ticks: 1_000_000 + (round as f64 * 0.02 * hertz) as u64,
                    nanoseconds: nanoseconds as u64,
                }
            })
            .collect()
    }

    #[test]
    fn between_two_pairs_the_error_is_that_of_the_pairs_also_where_the_slope_changes() {
        let pairs = simulate(
            200,
            2.6e9,
            |round| if round % 50 < 25 { 1.0 } else { 1.0 + 5e-6 },
        );
        let mut fit = Fit::default();
        for window in pairs.windows(2) {
            fit.add(window[0]);
            let mut ahead = fit.clone();
            ahead.add(window[1]);
            let middle = window[0].ticks + (window[1].ticks - window[0].ticks) / 2;
            let truth = window[0].nanoseconds + (window[1].nanoseconds - window[0].nanoseconds) / 2;
            if let Some(found) = ahead.nanoseconds(middle) {
                assert!(found.abs_diff(truth) <= 2, "{found} {truth}");
            }
        }
    }

    #[test]
    fn a_jump_of_the_clock_forgets_what_was_before() {
        let mut fit = Fit::default();
        for pair in simulate(20, 2.6e9, |_| 1.0) {
            fit.add(pair);
        }
        let last = fit.pairs[fit.pairs.len() - 1];
        let jumped = Pair {
            ticks: last.ticks + 52_000_000,
            nanoseconds: last.nanoseconds + 3_600_000_000_000,
        };
        fit.add(jumped);
        let later = Pair {
            ticks: jumped.ticks + 52_000_000,
            nanoseconds: jumped.nanoseconds + 20_000_000,
        };
        fit.add(later);
        let middle = fit.nanoseconds(jumped.ticks + 26_000_000).unwrap();
        assert!(middle.abs_diff(jumped.nanoseconds + 10_000_000) <= 2);
    }

    #[test]
    fn a_counter_that_lies_gives_some_time_and_no_panic() {
        let mut fit = Fit::default();
        assert_eq!(fit.nanoseconds(5), None);
        for (ticks, nanoseconds) in [
            (u64::MAX, 1),
            (0, u64::MAX),
            (7, 7),
            (7, 8),
            (8, 9),
            (u64::MAX, u64::MAX),
        ] {
            fit.add(Pair { ticks, nanoseconds });
            let _ = fit.nanoseconds(0);
            let _ = fit.nanoseconds(u64::MAX);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn held_out_moments_of_this_machine_lie_on_the_fit() {
        let mut fit = Fit::default();
        let mut held_out = Vec::new();
        for _ in 0..40 {
            fit.add(read());
            std::thread::sleep(std::time::Duration::from_millis(2));
            held_out.push(read());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        fit.add(read());
        let mut errors: Vec<u64> = held_out
            .iter()
            .map(|pair| {
                fit.nanoseconds(pair.ticks)
                    .unwrap()
                    .abs_diff(pair.nanoseconds)
            })
            .collect();
        errors.sort_unstable();
        // A bound of order, not of speed: a fit that is wrong is wrong by far more.
        assert!(errors[errors.len() / 2] < 1_000, "{errors:?}");
    }
}
