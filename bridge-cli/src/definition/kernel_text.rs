//! The code of the running kernel, through `/proc/kcore`.
//!
//! It is a core file whose segments are the kernel's address ranges. Reading it takes CAP_SYS_RAWIO and a
//! kernel that is not locked down to confidentiality.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::instructions;

/// See the module's page.
#[derive(Debug)]
pub(super) struct KernelText {
    file: File,
    /// Address, bytes and offset in the file.
    segments: Vec<(u64, u64, u64)>,
}

/// Offsets beyond this are not looked at: no function is that long.
const LONGEST: u64 = 1 << 20;

/// `endbr64`, `endbr32`, and the no-operations that stand for them: of Linux up to 6.14 and since, and of
/// FineIBT (`arch/x86/include/asm/ibt.h`).
const ENTRIES: [[u8; 4]; 5] = [
    [0xf3, 0x0f, 0x1e, 0xfa],
    [0xf3, 0x0f, 0x1e, 0xfb],
    [0x66, 0x0f, 0x1f, 0x00],
    [0x0f, 0x1f, 0x40, 0xd6],
    [0xf5, 0x0f, 0x1f, 0x00],
];

impl KernelText {
    pub(super) fn open() -> Option<KernelText> {
        let file = File::open("/proc/kcore").ok()?;
        let segments = {
            // Only the headers are read: the file is as large as the address space.
            let data = ReadCache::new(&file);
            let header = FileHeader64::<Endianness>::parse(&data).ok()?;
            let endian = header.endian().ok()?;
            let segments = header.program_headers(endian, &data).ok()?;
            segments
                .iter()
                .filter(|segment| segment.p_type(endian) == PT_LOAD)
                .map(|segment| {
                    (
                        segment.p_vaddr(endian),
                        segment.p_memsz(endian),
                        segment.p_offset(endian),
                    )
                })
                .collect()
        };
        Some(KernelText { file, segments })
    }

    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let (start, _, offset) = *self.segments.iter().find(|(start, size, _)| {
            address.checked_sub(*start).is_some_and(|within| {
                within
                    .checked_add(length as u64)
                    .is_some_and(|end| end <= *size)
            })
        })?;
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, offset + (address - start))
            .ok()?;
        Some(bytes)
    }

    pub(super) fn is_boundary(&self, address: u64, offset: u64) -> Option<bool> {
        if offset > LONGEST {
            return Some(false);
        }
        let code = self.read(address, offset as usize + 16)?;
        instructions::is_boundary(&code, offset)
    }

    /// Whether a function begins with an `endbr`, or with what the kernel has put in its place where nothing
    /// jumps to.
    pub(super) fn begins_with_endbr(&self, address: u64) -> bool {
        let first = self.read(address, 4);
        first.is_some_and(|first| ENTRIES.iter().any(|entry| *entry == *first))
    }
}
