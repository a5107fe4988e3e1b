//! The fit on simulated clocks, and on that of this machine.

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
fn many_readings_are_converted_as_single_ones_are() {
    let mut fit = Fit::default();
    let pairs = simulate(40, 2.6e9, |round| 1.0 + round as f64 * 1e-7);
    pairs.iter().for_each(|pair| fit.add(*pair));
    let mut conversion = fit.conversion();
    let (first, last) = (pairs[0].ticks - 1000, pairs[39].ticks + 52_000_000);
    for ticks in (first..last).step_by(999_983).chain([0, u64::MAX, first]) {
        let (one, many) = (fit.nanoseconds(ticks), conversion.nanoseconds(ticks));
        let error = one.unwrap_or(0).abs_diff(many.unwrap_or(0));
        assert!(error <= 1, "{ticks}: {one:?} {many:?}");
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

/// A clock (ns) over a counter of 2.6 GHz, by the slopes that it has from some moments (s) on.
struct Slewed(Vec<(f64, f64)>);

const HERTZ: f64 = 2.6e9;
/// How far apart the bridge's pairs are, s.
const APART_SECONDS: f64 = 0.01;

impl Slewed {
    /// The moment at this second of the counter.
    fn at(&self, second: f64) -> Pair {
        let mut nanoseconds = 1e12;
        for (index, &(from, slope)) in self.0.iter().enumerate() {
            let to = self.0.get(index + 1).map_or(f64::INFINITY, |next| next.0);
            nanoseconds += (second.min(to) - from).max(0.0) * 1e9 * slope;
        }
        Pair {
            ticks: (second * HERTZ) as u64,
            nanoseconds: nanoseconds.round() as u64,
        }
    }

    /// The largest error (ns) of a fit that gets pairs as the bridge's does, each up to `bracket` ns off,
    /// in what is converted before the next pair comes.
    fn largest_error(&self, seconds: f64, bracket: f64) -> u64 {
        let mut fit = Fit::default();
        let mut largest = 0;
        for round in 0..(seconds / APART_SECONDS) as u64 {
            let second = round as f64 * APART_SECONDS;
            let mut pair = self.at(second);
            let off = bracket * if round % 3 == 0 { -1.0 } else { 1.0 };
            pair.nanoseconds = pair.nanoseconds.saturating_add_signed(off as i64);
            fit.add(pair);
            if round < 2 {
                continue;
            }
            for part in 1..20 {
                let truth = self.at(second - APART_SECONDS * f64::from(part) / 20.0);
                let found = fit.nanoseconds(truth.ticks).expect("two pairs");
                largest = largest.max(found.abs_diff(truth.nanoseconds));
            }
        }
        largest
    }
}

#[test]
fn a_frequency_that_steps_costs_a_quarter_of_the_step_over_the_distance_of_two_pairs() {
    for step in [1e-6, 8e-6, 50e-6, 500e-6] {
        let bound = step / 4.0 * APART_SECONDS * 1e9;
        // At each phase between two pairs; up, down and up again.
        for phase in [0.0, 0.1, 0.25, 0.5, 0.75, 0.9] {
            let at = |number: f64| 0.2 * number + phase * APART_SECONDS;
            let clock = Slewed(vec![
                (0.0, 1.0),
                (at(1.0), 1.0 + step),
                (at(2.0), 1.0 - step),
                (at(3.0), 1.0),
            ]);
            let error = clock.largest_error(0.8, 0.0);
            // The second of them is of twice the size.
            assert!(error as f64 <= 2.0 * bound + 2.0, "{step} {phase}: {error}");
            if phase == 0.5 {
                assert!(error as f64 >= bound, "the bound is not sharp: {error}");
            }
        }
    }
    let single = Slewed(vec![(0.0, 1.0), (0.205, 1.0 + 8e-6)]);
    assert!(single.largest_error(0.4, 0.0) <= 20 + 2);
}

#[test]
fn a_frequency_that_drifts_costs_nothing() {
    // A hundred parts in a million within a second: no crystal does that.
    let steps = 1000;
    let slope = |step: i32| 1.0 + 1e-4 * f64::from(step) / f64::from(steps);
    let clock = (0..steps).map(|step| (f64::from(step) / f64::from(steps), slope(step)));
    let error = Slewed(clock.collect()).largest_error(1.0, 0.0);
    assert!(error <= 2 + 2, "{error}");
}

#[test]
fn what_pairs_are_off_by_is_not_made_larger() {
    let error = Slewed(vec![(0.0, 1.0)]).largest_error(1.0, 15.0);
    assert!((14..=17).contains(&error), "{error}");
}

#[test]
fn a_counter_that_begins_anew_is_right_from_its_second_pair_on() {
    let (before, after) = (Slewed(vec![(0.0, 1.0)]), Slewed(vec![(0.0, 1.0 + 3e-6)]));
    let mut fit = Fit::default();
    let second = |round: u32| 5.0 + f64::from(round) * APART_SECONDS;
    (0..50).for_each(|round| fit.add(before.at(second(round))));
    // The machine moved: the counter is at another place, the clock goes on.
    let moved = |second: f64| Pair {
        ticks: after.at(second).ticks - (4.0 * HERTZ) as u64,
        ..after.at(second)
    };
    (51..60).for_each(|round| fit.add(moved(second(round))));
    for round in 51..60 {
        let truth = moved(second(round) - APART_SECONDS / 3.0);
        let found = fit.nanoseconds(truth.ticks).expect("two pairs");
        assert!(found.abs_diff(truth.nanoseconds) <= 2);
    }
}

/// Moments between the bridge's, each with its bracket, which the fit does not get. With
/// `TRACEBRAID_SOAK=1` for ten minutes.
#[cfg(target_arch = "x86_64")]
#[test]
fn held_out_moments_of_this_machine_lie_on_the_fit() {
    use std::time::{Duration, Instant};

    let soak = std::env::var_os("TRACEBRAID_SOAK").is_some();
    let length = Duration::from_secs(if soak { 600 } else { 1 });
    let (mut fit, mut open) = (Fit::default(), Vec::<(u64, Pair)>::new());
    let (mut errors, mut beyond) = (Vec::new(), Vec::new());
    let end = Instant::now() + length;
    let mut phase = 1_u64;
    // A machine that others keep busy may take all of the time for one of them.
    while Instant::now() < end || errors.len() < 10 {
        fit.add(read());
        for (width, pair) in std::mem::take(&mut open) {
            let Some(found) = fit.nanoseconds(pair.ticks) else {
                continue;
            };
            // Half of the bracket, in ns.
            let half = (fit.nanoseconds(pair.ticks + width).unwrap_or(found) - found) / 2;
            let error = found.abs_diff(pair.nanoseconds);
            errors.push(error);
            beyond.push(error.saturating_sub(half));
        }
        phase = phase * 5 % 9001;
        std::thread::sleep(Duration::from_micros(phase));
        open.push(bracketed());
        std::thread::sleep(Duration::from_micros(9001 - phase));
    }
    let part = |values: &mut Vec<u64>, part: f64| {
        values.sort_unstable();
        values[((values.len() - 1) as f64 * part) as usize]
    };
    let of = |values: &mut Vec<u64>| [0.5, 0.99, 0.999, 1.0].map(|it| part(values, it));
    println!(
        "{} moments; off by {:?} ns at p50, p99, p99.9 and most; beyond half of the bracket {:?}",
        errors.len(),
        of(&mut errors),
        of(&mut beyond),
    );
    if soak {
        assert!(part(&mut beyond, 0.999) <= 20);
    }
    // A bound of order, not of speed: a fit that is wrong is wrong by far more.
    assert!(part(&mut errors, 0.5) < 1_000);
}

#[test]
fn a_span_is_the_distance_of_its_ends_on_one_line_and_on_two() {
    let mut fit = Fit::default();
    let pairs = simulate(40, 2.6e9, |round| 1.0 + round as f64 * 1e-7);
    pairs.iter().for_each(|pair| fit.add(*pair));
    let mut conversion = fit.conversion();
    let (first, last) = (pairs[0].ticks - 1000, pairs[39].ticks + 52_000_000);
    for later in (first..last).step_by(9_999_983) {
        let end = conversion.nanoseconds(later).unwrap();
        for before in [0, 17, 2_600, 26_000_000, 1 << 33] {
            let earlier = later.saturating_sub(before);
            let span = end - fit.nanoseconds(earlier).unwrap();
            let found = conversion.between(earlier, later);
            assert!(found.abs_diff(span) <= 2, "{before}: {found} {span}");
        }
        assert_eq!(conversion.between(later, later - 1), 0);
    }
    assert_eq!(Fit::default().conversion().between(1, 2), 0);
}
