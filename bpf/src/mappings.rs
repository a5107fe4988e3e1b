//! What processes map, become and fork, from the kernel's own records of it (perf's "side band").
//!
//! ```text
//! mmap of code ─▶ Mapped     exec ─▶ Replaced     fork ─▶ Forked
//! ```
//! The records of a CPU come in a ring of its own and carry the clock of every other record, so an address
//! can be looked up in the mappings that its process had at that moment, also when the process is gone.
//! A mapping that is taken away leaves no record: it stands until another one takes its place.
//!
//! A ring is a page of positions (`perf_event_mmap_page`, include/uapi/linux/perf_event.h) and its data,
//! which wraps.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::cpus;
use crate::error::Result;
use crate::memory::{Mapping, page_size};
use crate::perf_event;
use crate::rights;

/// Bytes of each CPU's ring: a thousand records, of which a program that starts makes some ten.
const RING: usize = 128 << 10;

/// Where the positions stand in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Types of records, and a flag of the kernel's (perf_event.h).
const COMM: u32 = 3;
const LOST: u32 = 2;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const COMM_EXEC: u16 = 1 << 13;

/// Something that changed what a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The process (numbered as in the reader's pid namespace).
    pub process: u32,
    /// What.
    pub what: What,
}

/// See [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It maps memory that can be executed.
    Mapped(Mapped),
    /// It became another program; what it had mapped is gone. The new program's mappings follow.
    Replaced,
    /// It was forked, and has what its parent has.
    Forked {
        /// The parent.
        parent: u32,
    },
}

/// A new mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Run-time addresses.
    pub range: Range<u64>,
    /// Of the first byte, in the file.
    pub offset: u64,
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// 0 where there is no file.
    pub inode: u64,
    /// The path as the process sees it, `[vdso]`, `//anon` and the like.
    pub name: Vec<u8>,
}

/// Follows the mappings of all processes until dropped.
#[derive(Debug)]
pub struct Mappings {
    rings: Vec<Ring>,
    lost: u64,
}

#[derive(Debug)]
struct Ring {
    _event: OwnedFd,
    memory: Mapping,
    position: u64,
    bytes: Vec<u8>,
}

impl Mappings {
    /// Begins to follow.
    ///
    /// # Errors
    /// [`Permission`](crate::ErrorKind::Permission) with the right that is missing.
    pub fn follow() -> Result<Mappings> {
        let mut rings = Vec::new();
        for cpu in cpus::online()? {
            let event = perf_event::open_side_band(cpu).map_err(|error| {
                rights::refused("what processes map (perf events of all processes)", error)
            })?;
            let memory = Mapping::new(event.as_fd(), 0, page_size() + RING, true)?;
            rings.push(Ring {
                _event: event,
                memory,
                position: 0,
                bytes: Vec::new(),
            });
        }
        Ok(Mappings { rings, lost: 0 })
    }

    /// Hands out what changed since the last call, in order of time.
    pub fn drain(&mut self, out: &mut Vec<Change>) {
        let before = out.len();
        for ring in &mut self.rings {
            self.lost += ring.drain(out);
        }
        out[before..].sort_by_key(|change| change.time);
    }

    /// How many records were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

impl Ring {
    /// How many records were lost.
    fn drain(&mut self, out: &mut Vec<Change>) -> u64 {
        let head = self.memory.load(HEAD, Ordering::Acquire);
        let mut lost = 0;
        // The kernel never writes further than the reader is by a whole ring.
        if head.wrapping_sub(self.position) > RING as u64 {
            self.position = head;
        }
        while self.position < head {
            let Some(size) = self.header(head) else {
                self.position = head;
                break;
            };
            self.copy(size);
            lost += read(&self.bytes, out);
            self.position += size as u64;
        }
        self.memory.store(TAIL, self.position, Ordering::Release);
        lost
    }

    /// The size of the next record, where it makes sense.
    fn header(&mut self, head: u64) -> Option<usize> {
        self.copy(8);
        let size = usize::from(u16::from_ne_bytes([self.bytes[6], self.bytes[7]]));
        let is_whole = size >= 8 && size.is_multiple_of(8) && size as u64 <= head - self.position;
        is_whole.then_some(size)
    }

    /// Copies so many bytes from the position on.
    fn copy(&mut self, size: usize) {
        let at = (self.position % RING as u64) as usize;
        let first = size.min(RING - at);
        let mut part = Vec::new();
        self.memory.copy(page_size() + at, first, &mut self.bytes);
        self.memory.copy(page_size(), size - first, &mut part);
        self.bytes.extend(part);
    }
}

/// Reads a record; how many others it says are lost.
fn read(bytes: &[u8], out: &mut Vec<Change>) -> u64 {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    // Every record but a loss ends with process, thread and time: what `sample_id_all` asks for.
    let time = bytes.len().checked_sub(8).and_then(u64_at);
    let kind = u32_at(0);
    let misc = u32_at(4).map_or(0, |word| word as u16);
    if kind == Some(LOST) {
        return u64_at(16).unwrap_or(0);
    }
    let change = || {
        let (time, process) = (time?, u32_at(8)?);
        let what = match kind? {
            MMAP2 => What::Mapped(Mapped {
                range: u64_at(16)?..u64_at(16)?.checked_add(u64_at(24)?)?,
                offset: u64_at(32)?,
                device: (u32_at(40)?, u32_at(44)?),
                inode: u64_at(48)?,
                name: name(bytes.get(72..bytes.len().checked_sub(16)?)?),
            }),
            COMM if misc & COMM_EXEC != 0 => What::Replaced,
            FORK if u32_at(12)? != process => What::Forked {
                parent: u32_at(12)?,
            },
            _ => return None,
        };
        Some(Change {
            time,
            process,
            what,
        })
    };
    out.extend(change());
    0
}

/// The bytes before the first NUL.
fn name(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes[..end.unwrap_or(bytes.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64], text: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        let size = 8 + 8 * words.len() + text.len() + 16;
        bytes.extend(misc.to_ne_bytes());
        bytes.extend((size as u16).to_ne_bytes());
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend(text);
        bytes.extend([0; 8]);
        bytes.extend(77u64.to_ne_bytes());
        bytes
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    fn changes(bytes: &[u8]) -> Vec<Change> {
        let mut out = Vec::new();
        read(bytes, &mut out);
        out
    }

    #[test]
    fn mappings_execs_and_forks_are_read_and_threads_are_not() {
        let words = [
            pair(10, 11),
            0x7000,
            0x2000,
            0x1000,
            pair(8, 1),
            99,
            5,
            pair(5, 2),
        ];
        let mapped = changes(&record(MMAP2, 2, &words, b"/lib/a.so\0\0\0\0\0\0\0"));
        let what = What::Mapped(Mapped {
            range: 0x7000..0x9000,
            offset: 0x1000,
            device: (8, 1),
            inode: 99,
            name: b"/lib/a.so".to_vec(),
        });
        assert_eq!(
            mapped,
            [Change {
                time: 77,
                process: 10,
                what
            }]
        );
        let exec = record(COMM, COMM_EXEC, &[pair(10, 10)], b"name\0\0\0\0");
        assert_eq!(changes(&exec)[0].what, What::Replaced);
        assert_eq!(
            changes(&record(COMM, 0, &[pair(10, 10)], b"name\0\0\0\0")),
            []
        );
        let fork = record(FORK, 0, &[pair(12, 10), pair(12, 10), 77], b"");
        assert_eq!(changes(&fork)[0].what, What::Forked { parent: 10 });
        assert_eq!(
            changes(&record(FORK, 0, &[pair(10, 10), pair(13, 10), 77], b"")),
            []
        );
    }

    #[test]
    fn a_record_cut_anywhere_is_passed_over() {
        let words = [
            pair(10, 11),
            0x7000,
            u64::MAX,
            0x1000,
            pair(8, 1),
            99,
            5,
            pair(5, 2),
        ];
        let whole = record(MMAP2, 2, &words, b"/lib/a.so\0\0\0\0\0\0\0");
        assert_eq!(changes(&whole), [], "its end wraps around");
        for length in 0..whole.len() {
            changes(&whole[..length]);
        }
        let mut lost = record(LOST, 0, &[1, 17], b"");
        assert_eq!(read(&lost, &mut Vec::new()), 17);
        lost.truncate(12);
        assert_eq!(read(&lost, &mut Vec::new()), 0);
    }
}
