//! Regions in a core dump.
//!
//! ```text
//! NT_FILE note   address range ─▶ "/memfd:tracebraid (deleted)", offset
//! PT_LOAD        address range ─▶ bytes in the core file
//! ```
//! A memfd counts as anonymous shared memory, which the kernel dumps by default (`coredump_filter` bit 1).
//! What the core has of it is put together in a memfd of ours, which is then read as any region is. Pages
//! that were never written are not in the core, and zeros. Every number in the file is taken for hostile.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tracebraid_ring::Region;
use tracebraid_wire::region;

use super::header;
use super::shared::Shared;
use super::taken::Taken;
use crate::error::{Error, ErrorKind, Result};

/// How mappings of a region are called in the note.
const NAME: &[u8] = b"/memfd:tracebraid (deleted)";
/// The largest note that is read, bytes: a mapping takes some hundred.
const MAX_NOTE: u64 = 64 << 20;
/// The most program headers that are read: the format's own limit.
const MAX_HEADERS: u16 = 0xfffe;
/// Bytes copied at once.
const PIECE: usize = 1 << 20;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const ET_CORE: u16 = 4;
const NT_PRPSINFO: u32 = 3;
const NT_FILE: u32 = 0x4649_4c45;
/// Where `pr_pid` is in `struct elf_prpsinfo` (include/linux/elfcore.h) on 64-bit machines.
const PRPSINFO_PID: usize = 24;

/// A part of the process's memory that the core has.
struct Loaded {
    addresses: Range<u64>,
    offset: u64,
}

/// A mapping of a region.
struct Mapped {
    addresses: Range<u64>,
    /// Where its bytes are in the memfd.
    offset: u64,
}

/// The regions in a core dump, and which process it is of.
///
/// # Errors
/// The file is no core dump of a 64-bit process, or has no region.
pub(super) fn regions(path: &Path) -> Result<Vec<Taken>> {
    let core = Core::open(path)?;
    let pid = core.pid;
    let mut regions = Vec::new();
    for head in core.mapped.iter().filter(|mapped| mapped.offset == 0) {
        let mut header = [0; region::HEADER_BYTES];
        if core.read(head.addresses.start, &mut header).is_err() {
            continue;
        }
        // A child of fork has its parent's region too.
        match header::check(&header, pid) {
            Ok((header, geometry)) if header.pid == pid || core.heads() == 1 => {
                let copy = Region::create(c"tracebraid-core", geometry)
                    .and_then(|copy| core.fill(head, &copy).map(|()| copy))
                    .map_err(|error| core.failed("cannot be copied").because(error))?;
                let shared = Shared::of_copy(copy, header)
                    .map_err(|error| core.failed("cannot be copied").because(error))?;
                regions.push(Taken::of_the_dead(shared, pid));
            }
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    if regions.is_empty() {
        return Err(core
            .failed("holds no rings")
            .hint("the process had called tracebraid::init()? Its coredump_filter must have bit 1 set, as by default"));
    }
    Ok(regions)
}

struct Core {
    file: File,
    path: PathBuf,
    pid: u32,
    loaded: Vec<Loaded>,
    mapped: Vec<Mapped>,
}

impl Core {
    fn open(path: &Path) -> Result<Core> {
        let cannot =
            |why: &str| Error::new(ErrorKind::Binary, format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(|error| cannot("cannot be opened").because(error))?;
        let mut core = Core {
            file,
            path: path.to_owned(),
            pid: 0,
            loaded: Vec::new(),
            mapped: Vec::new(),
        };
        core.read_headers()
            .map_err(|error| cannot("cannot be read").because(error))?
            .then_some(core)
            .ok_or_else(|| cannot("is no core dump of a 64-bit process"))
    }

    fn failed(&self, why: &str) -> Error {
        Error::new(ErrorKind::Binary, format!("{}: {why}", self.path.display()))
    }

    /// Reads the headers and notes. Whether it is a core dump.
    fn read_headers(&mut self) -> io::Result<bool> {
        let mut header = [0; 64];
        if self.file.read_exact_at(&mut header, 0).is_err() {
            return Ok(false);
        }
        // ELF, 64-bit, little-endian.
        if !header.starts_with(b"\x7fELF\x02\x01") || u16_at(&header, 16) != Some(ET_CORE) {
            return Ok(false);
        }
        let (Some(table), Some(size), Some(count)) = (
            u64_at(&header, 32),
            u16_at(&header, 54),
            u16_at(&header, 56),
        ) else {
            return Ok(false);
        };
        let mut notes = Vec::new();
        for index in 0..count.min(MAX_HEADERS) {
            let mut header = [0; 56];
            let at = table.saturating_add(u64::from(index) * u64::from(size));
            self.file.read_exact_at(&mut header, at)?;
            let word = |at| u64_at(&header, at).unwrap_or(0);
            let (offset, address, length) = (word(8), word(16), word(32));
            match u32_at(&header, 0) {
                Some(PT_LOAD) => self.loaded.push(Loaded {
                    addresses: address..address.saturating_add(length),
                    offset,
                }),
                Some(PT_NOTE) => notes.push((offset, length.min(MAX_NOTE))),
                _ => {}
            }
        }
        for (offset, length) in notes {
            let length = length.min(self.file.metadata()?.len().saturating_sub(offset));
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            self.file.read_exact_at(&mut bytes, offset)?;
            self.read_notes(&bytes);
        }
        Ok(true)
    }

    fn read_notes(&mut self, mut notes: &[u8]) {
        while let (Some(name), Some(length), Some(kind)) =
            (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8))
        {
            let body = 12 + (name as usize).next_multiple_of(4);
            let Some(descriptor) = notes.get(body..body.saturating_add(length as usize)) else {
                return;
            };
            match kind {
                NT_FILE => self.read_files(descriptor),
                NT_PRPSINFO => self.pid = u32_at(descriptor, PRPSINFO_PID).unwrap_or(0),
                _ => {}
            }
            let next = body.saturating_add((length as usize).next_multiple_of(4));
            notes = notes.get(next..).unwrap_or(&[]);
        }
    }

    /// `count, page size, (start, end, offset in pages) …, names`.
    fn read_files(&mut self, note: &[u8]) {
        let (Some(count), Some(page)) = (u64_at(note, 0), u64_at(note, 8)) else {
            return;
        };
        let rows = usize::try_from(count).unwrap_or(usize::MAX);
        let Some(names) = rows
            .checked_mul(24)
            .and_then(|bytes| note.get(16 + bytes..))
        else {
            return;
        };
        let names = names.split(|&byte| byte == 0);
        for (row, name) in note[16..].chunks_exact(24).take(rows).zip(names) {
            if name == NAME {
                let word = |at| u64_at(row, at).unwrap_or(0);
                self.mapped.push(Mapped {
                    addresses: word(0)..word(8),
                    offset: word(16).saturating_mul(page),
                });
            }
        }
        self.mapped.sort_by_key(|mapped| mapped.addresses.start);
    }

    fn heads(&self) -> usize {
        self.mapped
            .iter()
            .filter(|mapped| mapped.offset == 0)
            .count()
    }

    /// Reads the process's memory.
    fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let found = self
            .loaded
            .iter()
            .find(|loaded| loaded.addresses.contains(&address));
        let loaded = found.ok_or(io::ErrorKind::NotFound)?;
        let left = loaded.addresses.end - address;
        if left < bytes.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let offset = loaded
            .offset
            .saturating_add(address - loaded.addresses.start);
        self.file.read_exact_at(bytes, offset)
    }

    /// Copies what the core has of the region whose first mapping this is. The kernel maps downwards: what
    /// lies between this mapping and that of another region below is of this one.
    fn fill(&self, head: &Mapped, copy: &Region) -> io::Result<()> {
        let end = copy.geometry().file_bytes() as u64;
        let to = File::from(copy.file().try_clone_to_owned()?);
        let below = self
            .mapped
            .iter()
            .filter(|other| other.offset == 0 && other.addresses.end <= head.addresses.start)
            .map(|other| other.addresses.end)
            .max()
            .unwrap_or(0);
        let only = self.heads() == 1;
        let is_of_it = |mapped: &&Mapped| {
            only || (below..head.addresses.end).contains(&mapped.addresses.start)
        };
        let mut bytes = vec![0; PIECE];
        for mapped in self.mapped.iter().filter(is_of_it) {
            for loaded in &self.loaded {
                let start = mapped.addresses.start.max(loaded.addresses.start);
                let stop = mapped.addresses.end.min(loaded.addresses.end);
                let mut at = start;
                while at < stop {
                    let place = mapped.offset + (at - mapped.addresses.start);
                    if place >= end {
                        break;
                    }
                    let length = (stop - at).min(PIECE as u64).min(end - place) as usize;
                    let piece = &mut bytes[..length];
                    self.file.read_exact_at(
                        piece,
                        loaded.offset.saturating_add(at - loaded.addresses.start),
                    )?;
                    // Zeros are there already, and cost nothing as long as nobody writes them.
                    if piece.iter().any(|&byte| byte != 0) {
                        to.write_all_at(piece, place)?;
                    }
                    at += length as u64;
                }
            }
        }
        Ok(())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let mut core = Core {
                file: File::open("/dev/null").unwrap(),
                path: PathBuf::new(),
                pid: 0,
                loaded: Vec::new(),
                mapped: Vec::new(),
            };
            core.read_notes(&bytes);
            core.read_files(&bytes);
        }
    }
}
