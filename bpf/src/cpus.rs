//! Which CPUs there are.

use crate::error::{Error, Result};

/// CPUs that are online, ascending: each gets a ring.
pub(crate) fn online() -> Result<Vec<u32>> {
    read("/sys/devices/system/cpu/online")
}

/// One more than the highest CPU that there can be.
pub(crate) fn possible_bound() -> Result<u32> {
    Ok(read("/sys/devices/system/cpu/possible")?
        .last()
        .map_or(1, |last| last + 1))
}

fn read(path: &str) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::system(format!("cannot read {path}"), error))?;
    parse(text.trim()).ok_or_else(|| {
        let error = std::io::Error::from(std::io::ErrorKind::InvalidData);
        Error::system(format!("{path} holds no list of CPUs: {text:?}"), error)
    })
}

/// `0-3,8,10-11`
fn parse(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_ranges_and_single_numbers() {
        assert_eq!(parse("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse("0"), Some(vec![0]));
        for bad in ["", "2-1", "a", "0-", "0-99999999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
