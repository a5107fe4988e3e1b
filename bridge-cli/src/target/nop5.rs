//! Probes on a 5-byte nop, and the kernels on which one harms the program.
//!
//! Linux 6.18 turns a probed `nopl 0(%rax,%rax)` into a call after its first hit. The call pushes its
//! return address onto the stack, over the red zone in which a leaf function may keep live values: of
//! 1,000 calls of such a function 999 returned garbage. From 7.2 on the kernel does this to 10-byte nops
//! only, and without writing below the stack pointer. A site of `nop` and a 5-byte nop behind it is safe
//! as long as the probe is placed on the first, where its note points; that is what we do.

use super::image::{Image, Machine};

/// The nop that is replaced: `nopl 0(%rax,%rax)`.
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// The kernels that replace it, by version: from the first on, and from the second on no longer.
const HARMFUL: std::ops::Range<(u32, u32)> = (6, 18)..(7, 2);

/// Whether the instruction at a virtual address of a file is such a nop.
pub(crate) fn stands_at(image: &Image, address: u64) -> bool {
    let bytes = image.read_at(address, NOP5.len() as u64, NOP5.len() as u64);
    image.machine == Machine::X86_64 && bytes.as_deref() == Some(&NOP5)
}

/// Whether the running kernel replaces it. One whose version cannot be read is taken for one that does.
pub(crate) fn is_harmful() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_none_or(|version| HARMFUL.contains(&version))
}

/// `6.18.44-something` → (6, 18).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|other: char| !other.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{HARMFUL, version};

    #[test]
    fn a_kernel_is_told_by_its_first_two_numbers() {
        for (release, harmful) in [
            ("6.1.0-41-cloud-amd64\n", false),
            ("6.12.117", false),
            ("6.18.44", true),
            ("7.1-rc3", true),
            ("7.2.13+deb14", false),
        ] {
            let version = version(release).unwrap();
            assert_eq!(HARMFUL.contains(&version), harmful, "{release}");
        }
        assert_eq!(version("none"), None);
    }
}
