//! Values of options: CPUs, seconds, bytes.

use std::time::Duration;

/// The CPUs of a list such as `0-3,5`, in order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuList(pub(super) Vec<u32>);

/// Above any machine that Linux runs on (its own limit is 8192).
const MAX_CPU: u32 = 8191;

pub(super) fn cpu_list(text: &str) -> Result<CpuList, String> {
    let number = |text: &str| -> Result<u32, String> {
        match text.parse() {
            Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
            _ => Err(format!("{text:?} is no CPU number from 0 to {MAX_CPU}")),
        }
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("{part:?} runs backwards"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

/// A duration in seconds, more than nothing and at most ten years.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    const MAX: f64 = 10.0 * 365.0 * 86_400.0;
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if seconds.is_nan() || seconds <= 0.0 || seconds > MAX {
        return Err("must be more than 0 seconds and at most ten years".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Bytes, with a suffix K, M or G for powers of 1024; 4 KiB to 1 GiB.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes = digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if (4096..=1 << 30).contains(&bytes) => Ok(bytes),
        Some(_) => Err("must be 4K to 1G".to_owned()),
        None => Err("not a size; write 65536, 512K or 4M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_list_is_sorted_and_holds_each_cpu_once() {
        assert_eq!(cpu_list("5,0-3,2").unwrap().0, [0, 1, 2, 3, 5]);
        for bad in ["", "3-1", "a", "0,", "-1", "0-99999999"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_take_fractions_and_refuse_nonsense() {
        assert_eq!(seconds("0.25").unwrap(), Duration::from_millis(250));
        for bad in ["0", "-1", "nan", "inf", "1e300", "", "2s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_take_suffixes_and_have_limits() {
        assert_eq!(size("1M").unwrap(), 1 << 20);
        assert_eq!(size("65536").unwrap(), 65_536);
        for bad in ["", "K", "1", "2G", "99999999999999999999G", "1é"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
