//! What a key's bytes are, on and off.

#![allow(unsafe_code)]

use tracebraid_wire::table::SiteRow;

/// A write that switches a key: so many bytes at this address, at once.
pub(super) struct Switch {
    pub(super) address: usize,
    pub(super) bytes: Bytes,
}

#[cfg(target_arch = "x86_64")]
mod encoding {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::{SiteRow, Switch, byte};

    /// One byte, which cannot tear.
    pub(in crate::gate) type Bytes = [u8; 1];

    pub(super) fn store(address: usize, bytes: Bytes) {
        // SAFETY: the caller of `Switch::store` made the page writable.
        unsafe { AtomicU8::from_ptr(address as *mut u8) }.store(bytes[0], Ordering::Relaxed);
    }

    /// `nop DWORD PTR [rcx+rbp*8+rel32]`: byte 2 of a site that is off.
    const OFF: u8 = 0x84;
    /// `nop eax; jmp rel32`: byte 2 of a site that is on.
    const ON: u8 = 0xc0;

    pub(in crate::gate) fn state(site: &SiteRow) -> Option<bool> {
        match [0, 1, 2, 3].map(|at| byte(site, at)) {
            [0x0f, 0x1f, ON, 0xe9] => Some(true),
            [0x0f, 0x1f, OFF, 0xe9] => Some(false),
            _ => None,
        }
    }

    pub(super) fn switch(site: &SiteRow, on: bool) -> Option<Switch> {
        Some(Switch {
            address: site.code as usize + 2,
            bytes: [if on { ON } else { OFF }],
        })
    }
}

#[cfg(target_arch = "aarch64")]
mod encoding {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{SiteRow, Switch, byte};

    /// One instruction, which is aligned and cannot tear.
    pub(in crate::gate) type Bytes = [u8; 4];

    pub(super) fn store(address: usize, bytes: Bytes) {
        // SAFETY: the caller of `Switch::store` made the page writable; instructions are aligned.
        unsafe { AtomicU32::from_ptr(address as *mut u32) }
            .store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        // Instruction fetches do not see stores by themselves. (Writes through /proc/self/mem are made
        // visible by the kernel.)
        // SAFETY: cache maintenance of a mapped address, which Linux allows to programs.
        unsafe {
            std::arch::asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) address)
        };
    }

    const NOP: u32 = 0xd503_201f;

    /// `b` from the site to its cold block; `None` past its reach of 128 MiB.
    fn branch(site: &SiteRow) -> Option<u32> {
        let distance = site.cold.wrapping_sub(site.code) as i64;
        let words = i32::try_from(distance / 4).ok()?;
        (-(1 << 25)..1 << 25)
            .contains(&words)
            .then_some(0x1400_0000 | (words as u32 & 0x03ff_ffff))
    }

    pub(in crate::gate) fn state(site: &SiteRow) -> Option<bool> {
        match u32::from_le_bytes([0, 1, 2, 3].map(|at| byte(site, at))) {
            NOP => Some(false),
            other => (Some(other) == branch(site)).then_some(true),
        }
    }

    pub(super) fn switch(site: &SiteRow, on: bool) -> Option<Switch> {
        let instruction = if on { branch(site)? } else { NOP };
        Some(Switch {
            address: site.code as usize,
            bytes: instruction.to_le_bytes(),
        })
    }
}

use encoding::Bytes;
pub(super) use encoding::state;

impl Switch {
    /// What makes the site `on`; `None` where its code cannot reach its cold block.
    pub(super) fn of(site: &SiteRow, on: bool) -> Option<Switch> {
        encoding::switch(site, on)
    }

    /// Stores it in place. It cannot tear, and both values make whole instructions for threads that
    /// run through them.
    ///
    /// # Safety
    /// The page is writable, and the address that of a key.
    pub(super) unsafe fn store(&self) {
        encoding::store(self.address, self.bytes);
    }
}

fn byte(site: &SiteRow, at: usize) -> u8 {
    // SAFETY: a site row of a loaded object leads to the bytes of a key in its text. They may change
    // under us, so each is read as a volatile byte.
    unsafe { ((site.code as usize + at) as *const u8).read_volatile() }
}
