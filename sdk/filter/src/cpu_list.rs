//! Lists of CPUs as the kernel reads them: `0-3,8`, `0-31:2/4`, `N` for the last one, `all`.

use alloc::vec;
use alloc::vec::Vec;

use crate::scan::is_blank;

/// Reads the list between the braces of `CPUS{…}` into words of 64 CPUs each, as many as its
/// highest CPU needs. `None` where it is no such list, names a CPU from `cpus` on, or names none.
pub(crate) fn parse(list: &str, cpus: u16) -> Option<Vec<u64>> {
    let mut words = vec![0_u64; usize::from(cpus.div_ceil(64))];
    for region in list
        .split(|c: char| is_blank(c) || c == ',')
        .filter(|region| !region.is_empty())
    {
        let region = Region::parse(region, cpus)?;
        let mut start = region.first;
        loop {
            let end = region.last.min(start.saturating_add(region.used - 1));
            for cpu in start..=end {
                *words.get_mut(usize::from(cpu / 64))? |= 1 << (cpu % 64);
            }
            match start.checked_add(region.group) {
                Some(next) if next <= region.last => start = next,
                _ => break,
            }
        }
    }
    let used = words.iter().rposition(|&word| word != 0)? + 1;
    words.truncate(used);
    Some(words)
}

/// `first-last:used/group`: of every `group` CPUs from `first` to `last`, the first `used`.
struct Region {
    first: u16,
    last: u16,
    used: u16,
    group: u16,
}

impl Region {
    fn parse(text: &str, cpus: u16) -> Option<Region> {
        let highest = cpus.checked_sub(1)?;
        let (range, pattern) = match text.split_once(':') {
            Some((range, pattern)) => (range, Some(pattern)),
            None => (text, None),
        };
        let number = |text: &str| match text {
            "N" => Some(highest),
            // The standard library would take a `+` as well. Always base ten: `010` is CPU 10.
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse::<u16>().ok(),
            _ => None,
        };
        let (first, last) = match range.split_once('-') {
            _ if range.eq_ignore_ascii_case("all") => (0, highest),
            Some((first, last)) => (number(first)?, number(last)?),
            None => {
                let only = number(range)?;
                (only, only)
            }
        };
        let whole = last.checked_sub(first)?.checked_add(1)?;
        let (used, group) = match pattern {
            Some(pattern) => {
                let (used, group) = pattern.split_once('/')?;
                (number(used)?, number(group)?)
            }
            None => (whole, whole),
        };
        let fits = last <= highest && used > 0 && used <= group;
        fits.then_some(Region {
            first,
            last,
            used,
            group,
        })
    }
}

/// The numbers in `words` as the shortest runs: first and last of each.
pub(crate) fn runs(words: &[u64]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (word, base) in words.iter().zip((0..).step_by(64)) {
        for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
            let cpu = base + bit;
            match runs.last_mut() {
                Some(run) if run.1 + 1 == cpu => run.1 = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_the_cpus_it_names() {
        for (list, wanted) in [
            ("0", vec![(0, 0)]),
            ("0-3,5", vec![(0, 3), (5, 5)]),
            (" 1 , 2 ", vec![(1, 2)]),
            ("0-7:1/2", vec![(0, 0), (2, 2), (4, 4), (6, 6)]),
            ("N", vec![(99, 99)]),
            ("98-N", vec![(98, 99)]),
            ("all", vec![(0, 99)]),
            ("08", vec![(8, 8)]),
            ("60-70", vec![(60, 70)]),
        ] {
            assert_eq!(runs(&parse(list, 100).unwrap()), wanted, "{list}");
        }
    }

    #[test]
    fn a_list_that_names_no_cpu_or_none_of_the_machine_is_refused() {
        for bad in [
            "",
            " ",
            ",",
            "x",
            "1-0",
            "100",
            "0-100",
            "-1",
            "1-",
            "0-7:1",
            "0-7:0/2",
            "0-7:3/2",
            "0-7:1/0",
            "0x1",
            "99999999999",
            "1;2",
        ] {
            assert_eq!(parse(bad, 100), None, "{bad}");
        }
        assert_eq!(parse("0", 0), None);
    }
}
