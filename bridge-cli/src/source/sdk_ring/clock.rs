//! From time stamp counter ticks to nanoseconds of CLOCK_MONOTONIC: a rolling fit.
//!
//! ```text
//! pairs    (ticks, ns) (ticks, ns) (ticks, ns) …    taken with every round, narrowest of some tries;
//!          older ones are thinned out
//! a record between two neighbours lies on the line through them
//! ```
//! The kernel derives the clock from the same counter, with a slope that it changes now and then by
//! little: between neighbours a straight line is as right as the pairs are. A pair is as good as its
//! bracket is narrow: the clock was read somewhere between two readings of the counter.
//!
//! What a time can be wrong by is at most, beside half of such a bracket:
//!
//! * where the frequency steps by a part `d` between two pairs, `d / 4` of their distance: pairs are 10 ms
//!   apart, so 20 ns at a step of 8 parts in a million, of which a clock that is kept by NTP makes few;
//! * where it drifts by a part `d` a second, `d / 8` of the square of the distance in seconds: nothing;
//! * where a clock jumps, what it jumped by, from the last pair before it to the first behind: 10 ms.

#![allow(unsafe_code)]

use std::collections::VecDeque;

/// Recent pairs kept: at one in 5 ms or less, 2.5 seconds and more.
const KEPT: usize = 512;
/// Nearer than this (ns) the newer of two pairs takes the place of the older: over a short way the errors
/// of both make a wrong slope.
const APART: u64 = 5_000_000;
/// Older pairs kept, a second apart: what a flight recorder may reach back.
const OLD: usize = 600;
/// How far apart (ns) those are.
const OLD_APART: u64 = 1_000_000_000;
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
    old: VecDeque<Pair>,
    pairs: VecDeque<Pair>,
}

impl Fit {
    /// Takes in a moment, later than all before. One that contradicts the last (either clock stood still or
    /// went back) begins anew: the counter was stopped, or the machine moved.
    pub fn add(&mut self, pair: Pair) {
        if let Some(&last) = self.pairs.back() {
            if pair.ticks <= last.ticks || pair.nanoseconds <= last.nanoseconds {
                self.forget();
            } else if self.pairs.len() >= 2 && !self.follows(pair) {
                // A jump (a suspended machine): what was before says nothing of what comes.
                self.forget();
                self.pairs.push_back(last);
            } else if self.pairs.len() >= 2
                && pair.nanoseconds - self.pairs[self.pairs.len() - 2].nanoseconds < APART
            {
                self.pairs.pop_back();
            }
        }
        if self.pairs.len() == KEPT {
            self.pairs
                .pop_front()
                .into_iter()
                .for_each(|pair| self.grow_old(pair));
        }
        self.pairs.push_back(pair);
    }

    fn forget(&mut self) {
        self.old.clear();
        self.pairs.clear();
    }

    fn grow_old(&mut self, pair: Pair) {
        if let Some(last) = self.old.back()
            && pair.nanoseconds.saturating_sub(last.nanoseconds) < OLD_APART
        {
            return;
        }
        if self.old.len() == OLD {
            self.old.pop_front();
        }
        self.old.push_back(pair);
    }

    fn len(&self) -> usize {
        self.old.len() + self.pairs.len()
    }

    fn get(&self, index: usize) -> Option<&Pair> {
        match index.checked_sub(self.old.len()) {
            None => self.old.get(index),
            Some(index) => self.pairs.get(index),
        }
    }

    /// Whether a pair is where the slope so far leads to, within a tenth of the way.
    fn follows(&self, pair: Pair) -> bool {
        let (Some(&last), Some(expected)) = (self.pairs.back(), self.nanoseconds(pair.ticks))
        else {
            return true;
        };
        let way = pair
            .nanoseconds
            .max(expected)
            .saturating_sub(last.nanoseconds);
        pair.nanoseconds.abs_diff(expected) <= way / 10 + 1000
    }

    /// For many readings that are near one another.
    pub fn conversion(&self) -> Conversion<'_> {
        Conversion {
            fit: self,
            line: None,
        }
    }

    /// The time of a counter's reading; `None` before there are two pairs.
    pub fn nanoseconds(&self, ticks: u64) -> Option<u64> {
        self.line(ticks)?.at(ticks)
    }

    /// The line that a counter's reading lies on.
    fn line(&self, ticks: u64) -> Option<Line> {
        let before = |pairs: &VecDeque<Pair>| pairs.partition_point(|pair| pair.ticks < ticks);
        let after = match before(&self.pairs) {
            0 => before(&self.old),
            recent => self.old.len() + recent,
        };
        // Outside the pairs the nearest two are extended.
        let index = after.clamp(1, self.len().max(2) - 1);
        let (first, second) = (self.get(index - 1)?, self.get(index)?);
        // The first and the last line go on for ever.
        let from = if index == 1 { 0 } else { first.ticks };
        let to = if index == self.len() - 1 {
            u64::MAX
        } else {
            second.ticks
        };
        Some(Line {
            first: *first,
            span: second.ticks - first.ticks,
            time: second.nanoseconds - first.nanoseconds,
            from,
            to,
        })
    }
}

/// The line through two moments.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: Pair,
    span: u64,
    time: u64,
    /// Readings that lie on it.
    from: u64,
    to: u64,
}

impl Line {
    fn at(&self, ticks: u64) -> Option<u64> {
        let distance = i128::from(ticks) - i128::from(self.first.ticks);
        let time = distance.saturating_mul(i128::from(self.time)) / i128::from(self.span);
        u64::try_from(i128::from(self.first.nanoseconds) + time).ok()
    }
}

/// See [`Fit::conversion`].
#[derive(Clone, Debug)]
pub struct Conversion<'a> {
    fit: &'a Fit,
    /// The line of the last reading, and its slope in 2⁻³² ns.
    line: Option<(Line, u64)>,
}

impl Conversion<'_> {
    /// As [`Fit::nanoseconds`].
    #[inline]
    pub fn nanoseconds(&mut self, ticks: u64) -> Option<u64> {
        if let Some((line, slope)) = &self.line
            && (line.from..=line.to).contains(&ticks)
            && let Some(distance) = ticks.checked_sub(line.first.ticks)
            // On a longer way the slope's last bit would count.
            && distance < 1 << 32
        {
            let time = (u128::from(distance) * u128::from(*slope)) >> 32;
            return line.first.nanoseconds.checked_add(time as u64);
        }
        let line = self.fit.line(ticks)?;
        let slope = (u128::from(line.time) << 32) / u128::from(line.span);
        if let Ok(slope) = u64::try_from(slope) {
            self.line = Some((line, slope));
        }
        line.at(ticks)
    }

    /// Nanoseconds from one reading to a later one, of which [`nanoseconds`](Self::nanoseconds) was asked
    /// last. What began on another line does not change the one that is remembered. 0 where the later is none.
    #[inline]
    pub fn between(&self, earlier: u64, later: u64) -> u64 {
        let ticks = later.saturating_sub(earlier);
        match &self.line {
            Some((line, slope)) if (line.from..=line.to).contains(&earlier) && ticks < 1 << 32 => {
                ((u128::from(ticks) * u128::from(*slope)) >> 32) as u64
            }
            _ => {
                let at = |ticks| self.fit.nanoseconds(ticks).unwrap_or(0);
                at(later).saturating_sub(at(earlier))
            }
        }
    }
}

/// Reads both clocks now.
#[cfg(target_arch = "x86_64")]
pub fn read() -> Pair {
    bracketed().1
}

/// Reads both clocks now, and says how many ticks the clock was read within.
#[cfg(target_arch = "x86_64")]
fn bracketed() -> (u64, Pair) {
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
    (1..TRIES).map(|_| reading()).fold(
        first,
        |best, next| if next.0 < best.0 { next } else { best },
    )
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
mod tests;
