//! A core dump in which there may be rings.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bridge::filter::Hits;
use bridge::source::sdk_ring;
use tracebraid_wire::region::{self, CLOCK_TSC, Header};

use crate::elf::memory_file;

/// Reads a core dump.
pub fn check(data: &[u8]) {
    thread_local! {
        static FILE: RefCell<File> = RefCell::new(memory_file());
    }
    FILE.with_borrow(|file| {
        file.set_len(data.len() as u64).expect("a length");
        file.write_all_at(data, 0).expect("a memory file");
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if let Ok(held) = sdk_ring::held_in(&path, &mut |_| Hits::All) {
            held.events.iter().take(64).for_each(crate::print);
        }
    });
}

/// A core dump of a process with rings of which only the first page is there.
pub fn seeds() -> Vec<Vec<u8>> {
    const ADDRESS: u64 = 0x7000_0000;
    const LENGTH: u64 = 128;
    let header = Header {
        rings: 4,
        cpu_rings: 1,
        ring_bytes: 16 * 1024,
        pid: 42,
        clock: CLOCK_TSC,
        mode: region::MODE_DISCARD,
        helper: 1,
    };
    let mut notes = Vec::new();
    let mut note = |kind: u32, body: &[u8]| {
        for word in [5, body.len() as u32, kind] {
            notes.extend(word.to_le_bytes());
        }
        notes.extend(b"CORE\0\0\0\0");
        notes.extend(body);
        notes.resize(notes.len().next_multiple_of(4), 0);
    };
    let mut who = vec![0; 136];
    who[24..28].copy_from_slice(&42_u32.to_le_bytes());
    note(3, &who);
    let mut files: Vec<u8> = [1, 4096, ADDRESS, ADDRESS + LENGTH, 0]
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect();
    files.extend(b"/memfd:tracebraid (deleted)\0");
    note(0x4649_4c45, &files);

    let mut core = b"\x7fELF\x02\x01\x01".to_vec();
    core.resize(64, 0);
    for (at, value) in [(16, 4_u16), (18, 62), (52, 64), (54, 56), (56, 2)] {
        core[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    core[32..40].copy_from_slice(&64_u64.to_le_bytes());
    let data = 64 + 2 * 56;
    let load = data + notes.len() as u64;
    for (kind, offset, address, length) in [
        (4_u64, data, 0, notes.len() as u64),
        (1, load, ADDRESS, LENGTH),
    ] {
        for word in [kind, offset, address, 0, length, length, 1] {
            core.extend(word.to_le_bytes());
        }
    }
    core.extend(notes);
    let mut memory = header.encode().to_vec();
    memory.resize(LENGTH as usize, 0);
    core.extend(memory);
    vec![core]
}
