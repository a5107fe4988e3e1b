//! Return probes in programs that may make some system calls only, and the kernels on which one kills them.
//!
//! From Linux 6.11 on a probed function of x86-64 returns through a system call of its own, `uretprobe`, which no
//! seccomp filter knows: one that kills for what it does not know kills the program at the first return. 6.14
//! lets the call pass, and so do later versions of 6.12 and 6.13.

/// A kernel's version.
type Version = (u32, u32, u32);

/// The kernels whose call filters see.
const FILTERED: [std::ops::Range<Version>; 3] = [
    (6, 11, 0)..(6, 12, 0),
    (6, 12, 0)..(6, 12, 13),
    (6, 13, 0)..(6, 13, 2),
];

/// Whether the running kernel shows it to filters. One whose version cannot be read is taken for one that does.
pub(crate) fn is_filtered() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_none_or(shows)
}

fn shows(version: Version) -> bool {
    FILTERED.iter().any(|range| range.contains(&version))
}

/// `6.12.48+deb13-amd64` → (6, 12, 48).
fn version(release: &str) -> Option<Version> {
    let mut numbers = release.trim().split(|other: char| !other.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?, next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{shows, version};

    #[test]
    fn a_kernel_is_told_by_its_three_numbers() {
        for (release, expected) in [
            ("6.1.0-41-cloud-amd64\n", false),
            ("6.10.14", false),
            ("6.11.2", true),
            ("6.12.0", true),
            ("6.12.12+deb13-amd64", true),
            ("6.12.48+deb13-amd64", false),
            ("6.13-rc4", true),
            ("6.13.2", false),
            ("6.14", false),
            ("7.2.13+deb14", false),
        ] {
            assert_eq!(version(release).map(shows), Some(expected), "{release}");
        }
        assert_eq!(version("none"), None);
    }
}
