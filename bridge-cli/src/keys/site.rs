//! Where the keys of a file are in a process, and what their bytes say.
//!
//! ```text
//! off   0f 1f 84 e9 <rel32>     nop DWORD PTR [rcx+rbp*8+rel32]
//! on    0f 1f c0 | e9 <rel32>   nop eax; jmp to the cold block
//! ```
//! The distance follows from the file's tables, so that eight bytes are known in both states, and one of
//! them differs.

use std::collections::HashMap;

use tracebraid_wire::table::SEMAPHORE_WORD;

use super::memory::Memory;
use crate::target::{Binary, Mapping, Semaphore};

/// Bytes of a key.
const LENGTH: u64 = 8;
/// Which of them differs.
const SWITCHED: usize = 2;
const OFF: u8 = 0x84;
const ON: u8 = 0xc0;

/// A key of a process, by run-time addresses.
#[derive(Clone, Debug)]
pub(super) struct Key {
    address: u64,
    /// Where it is in the file, and which file that is.
    offset: u64,
    inode: u64,
    /// The distance to its cold block.
    distance: i32,
    /// The semaphore words of the tracepoints of this place: an entry and its return share it.
    words: Vec<u64>,
}

/// The keys of a file that is loaded at `bias`.
pub(super) fn keys_of(binary: &Binary, bias: u64) -> impl Iterator<Item = Key> {
    let mut keys: HashMap<u64, Key> = HashMap::new();
    for point in binary.tracepoints() {
        let word_of = |row: u64| {
            let location = point.locations.iter().find(|location| location.row == row);
            match location.map(|location| location.semaphore) {
                Some(Semaphore::InFile { address, .. }) => Some(address.wrapping_add(bias)),
                _ => None,
            }
        };
        for site in point.sites.iter().filter(|site| !site.tests_semaphore) {
            let distance = site.cold.wrapping_sub(site.address).wrapping_sub(LENGTH);
            let (Ok(distance), Some(word)) = (i32::try_from(distance as i64), word_of(site.row))
            else {
                continue;
            };
            let key = keys.entry(site.address).or_insert_with(|| Key {
                address: site.address.wrapping_add(bias),
                offset: site.offset,
                inode: binary.id().inode,
                distance,
                words: Vec::new(),
            });
            key.words.push(word);
        }
    }
    keys.into_values()
}

impl Key {
    /// Whether all of it lies in code that the process maps from its place in the file.
    pub(super) fn is_mapped(&self, mappings: &[Mapping]) -> bool {
        let end = self.address.saturating_add(LENGTH);
        mappings.iter().any(|mapping| {
            mapping.executable
                && mapping.inode == self.inode
                && mapping.range.start <= self.address
                && end <= mapping.range.end
                && mapping
                    .offset
                    .wrapping_add(self.address - mapping.range.start)
                    == self.offset
        })
    }

    /// Whether it is on; `None` where its bytes are no key's.
    pub(super) fn state(&self, memory: &Memory) -> Option<bool> {
        let mut bytes = [0; LENGTH as usize];
        memory.read(self.address, &mut bytes).ok()?;
        state_of(&bytes, self.distance)
    }

    /// Whether somebody wants it on, in the program or outside; `None` where that cannot be read.
    pub(super) fn is_wanted(&self, memory: &Memory) -> Option<bool> {
        let mut wanted = false;
        for &word in &self.words {
            let mut bytes = [0; SEMAPHORE_WORD];
            memory.read(word, &mut bytes).ok()?;
            wanted |= bytes != [0; SEMAPHORE_WORD];
        }
        Some(wanted)
    }

    /// Whether somebody outside of the program wants it on.
    pub(super) fn has_readers(&self, memory: &Memory) -> bool {
        self.words.iter().any(|&word| {
            let mut readers = [0; 2];
            memory.read(word, &mut readers).is_ok() && readers != [0; 2]
        })
    }

    /// The write that switches it.
    pub(super) fn switch(&self, on: bool) -> (u64, u8) {
        let byte = if on { ON } else { OFF };
        (self.address.wrapping_add(SWITCHED as u64), byte)
    }
}

fn state_of(bytes: &[u8; LENGTH as usize], distance: i32) -> Option<bool> {
    let mut form = [0x0f, 0x1f, bytes[SWITCHED], 0xe9, 0, 0, 0, 0];
    form[4..].copy_from_slice(&distance.to_le_bytes());
    match bytes[SWITCHED] {
        ON if *bytes == form => Some(true),
        OFF if *bytes == form => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_are_a_key_in_its_two_forms_and_in_no_other() {
        let off = [0x0f, 0x1f, 0x84, 0xe9, 0x10, 0xff, 0xff, 0xff];
        let mut on = off;
        on[SWITCHED] = 0xc0;
        assert_eq!(
            (state_of(&off, -240), state_of(&on, -240)),
            (Some(false), Some(true))
        );
        assert_eq!(state_of(&off, -241), None);
        for at in 0..8 {
            for value in 0..=u8::MAX {
                let mut bytes = off;
                bytes[at] = value;
                assert_eq!(
                    state_of(&bytes, -240).is_some(),
                    bytes == off || bytes == on,
                    "{bytes:x?}"
                );
            }
        }
    }
}
