//! Medians, and how well they are known.
//!
//! Times on a shared machine have a long upper tail: an interrupt only ever adds. The median does not
//! move with it, and its interval needs no assumption on the distribution: it is between two order
//! statistics.

/// A median with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median itself.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Median {
    /// The median of samples; `None` where there is none. Samples are finite.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Option<Median> {
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        let last = count.checked_sub(1)?;
        // The number of samples below the true median is binomial with p = 1/2; 1.96 standard
        // deviations of it are 0.98 √n.
        let reach = 0.98 * (count as f64).sqrt();
        let middle = count as f64 / 2.0;
        let low = (middle - reach).floor().max(0.0) as usize;
        let high = (middle + reach).ceil().min(last as f64) as usize;
        Some(Median {
            value: f64::midpoint(samples[last / 2], samples[count / 2]),
            low: samples[low],
            high: samples[high],
        })
    }
}

/// The smallest sample that is not below the share `p` (0 to 1) of all; `None` where there is none.
#[must_use]
pub fn percentile(mut samples: Vec<f64>, p: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let rank = (p * samples.len() as f64).ceil().max(1.0) as usize;
    samples.get(rank - 1).or(samples.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_samples_is_between_the_middle_two() {
        let median = Median::of(vec![4.0, 1.0, 3.0, 2.0]).map(|median| median.value);
        assert_eq!(median, Some(2.5));
    }

    #[test]
    fn outliers_move_neither_the_median_nor_its_interval() {
        let calm: Vec<f64> = (0..400).map(|i| 10.0 + f64::from(i % 10)).collect();
        let mut noisy = calm.clone();
        noisy.extend([1e6; 9]);
        let (calm, noisy) = (Median::of(calm).unwrap(), Median::of(noisy).unwrap());
        assert!(
            (calm.value - noisy.value).abs() <= 1.0,
            "{calm:?} {noisy:?}"
        );
        assert!(noisy.high < 20.0, "{noisy:?}");
    }

    #[test]
    fn the_interval_of_few_samples_is_all_of_them() {
        let median = Median::of(vec![1.0, 2.0, 9.0]).unwrap();
        assert_eq!((median.low, median.high), (1.0, 9.0));
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(Median::of(Vec::new()), None);
        assert_eq!(percentile(Vec::new(), 0.99), None);
    }

    #[test]
    fn the_99th_percentile_of_a_hundred_is_the_99th() {
        let samples = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(samples, 0.99), Some(99.0));
    }
}
