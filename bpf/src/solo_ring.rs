//! The consumer of one CPU's solo ring, whose producers never meet.
//!
//! `struct solo_ring` of `bpf/abi.h` says what is where. Programs of tracepoints write it, of which the kernel
//! lets one at a time run on a CPU: they need no lock, and the bridge needs no busy flag. What they have begun
//! before they read the clock is a position; so that fixes the records that [`SoloRing::drain`] waits for.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};

use crate::abi::{SOLO_BEGUN, SOLO_DATA, SOLO_DONE, SOLO_MORE, SOLO_READ};
use crate::error::{Error, Result};
use crate::memory::{Mapping, now, page_size};
use crate::patience::{await_some, damaged};

/// The word with which a record begins.
const LENGTH: usize = 8;
/// So many times a ring it is said how far it is read: not with each record, since the writer looks there each time.
const SHARE: u64 = 16;

#[derive(Debug)]
pub(crate) struct SoloRing {
    cpu: u32,
    mapping: Mapping,
    size: u64,
    position: u64,
    /// Everything with an earlier time has been handed out.
    complete: u64,
    bytes: Vec<u8>,
}

impl SoloRing {
    /// Bytes of a ring with so much data, which is a power of two; whole pages.
    pub(crate) fn bytes(data: usize) -> usize {
        (SOLO_DATA + data + SOLO_MORE).next_multiple_of(page_size())
    }

    /// Maps the ring of a CPU, of those that stand one behind the other in the map behind `fd`.
    pub(crate) fn new(cpu: u32, fd: BorrowedFd<'_>, data: usize) -> Result<SoloRing> {
        let bytes = SoloRing::bytes(data);
        let mapping = Mapping::new(fd, bytes * cpu as usize, bytes, true)?;
        let position = mapping.load(SOLO_READ, Ordering::Acquire);
        Ok(SoloRing {
            cpu,
            mapping,
            size: data as u64,
            position,
            complete: now(),
            bytes: Vec::new(),
        })
    }

    /// Hands out every record that was begun when it was called, and returns the time before which nothing more
    /// will come: now, or that of the drain before where a record stayed unfinished.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let start = now();
        // The position is not read before the clock.
        fence(Ordering::SeqCst);
        let begun = self.mapping.load(SOLO_BEGUN, Ordering::Acquire);
        let done = self.finished(begun);
        if done.wrapping_sub(self.position) > self.size {
            return Err(self.damaged("its positions are further apart than it is long"));
        }
        let mut said = self.position;
        while self.position != done {
            let at = SOLO_DATA + (self.position & (self.size - 1)) as usize;
            let length = self.mapping.load(at, Ordering::Relaxed);
            let step = length.min(SOLO_MORE as u64 + 1).next_multiple_of(8);
            let longest = (done - self.position).min(SOLO_MORE as u64);
            if length <= LENGTH as u64 || step > longest {
                return Err(self.damaged("a record is longer than what was written"));
            }
            let (at, rest) = (at + LENGTH, length as usize - LENGTH);
            if !self.mapping.copy(at, rest, &mut self.bytes) {
                return Err(self.damaged("a record reaches past its end"));
            }
            each(&self.bytes)?;
            self.position += step;
            if self.position - said >= self.size / SHARE {
                self.mapping
                    .store(SOLO_READ, self.position, Ordering::Release);
                said = self.position;
            }
        }
        self.mapping
            .store(SOLO_READ, self.position, Ordering::Release);
        if done.wrapping_sub(begun) as i64 >= 0 {
            self.complete = start;
        }
        Ok(self.complete)
    }

    /// How far it is written: up to `begun` at least, unless that takes too long.
    fn finished(&self, begun: u64) -> u64 {
        let is_done = || self.mapping.load(SOLO_DONE, Ordering::Acquire);
        let enough = |done: &u64| done.wrapping_sub(begun) as i64 >= 0;
        await_some(|| Some(is_done()).filter(enough)).unwrap_or_else(is_done)
    }

    fn damaged(&self, what: &str) -> Error {
        damaged(self.cpu, what)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::error::ErrorKind;
    use crate::memory::nameless_file;

    const SIZE: usize = 4096;

    /// A file laid out as two rings, of which the second is read.
    struct Fake {
        file: File,
        ring: SoloRing,
    }

    impl Fake {
        fn new() -> Fake {
            let file = nameless_file("solo-ring", 2 * SoloRing::bytes(SIZE));
            let ring = SoloRing::new(1, file.as_fd(), SIZE).unwrap();
            Fake { file, ring }
        }

        fn write(&self, offset: usize, bytes: &[u8]) {
            let offset = SoloRing::bytes(SIZE) + offset;
            self.file.write_all_at(bytes, offset as u64).unwrap();
        }

        fn record(&self, position: usize, length: u64, data: &[u8]) {
            let at = SOLO_DATA + position % SIZE;
            self.write(at, &length.to_ne_bytes());
            self.write(at + 8, data);
        }

        fn positions(&self, begun: u64, done: u64) {
            self.write(SOLO_BEGUN, &begun.to_ne_bytes());
            self.write(SOLO_DONE, &done.to_ne_bytes());
        }

        fn drain(&mut self) -> Result<(Vec<Vec<u8>>, u64)> {
            let mut all = Vec::new();
            let until = self.ring.drain(|bytes| {
                all.push(bytes.to_vec());
                Ok(())
            })?;
            Ok((all, until))
        }
    }

    #[test]
    fn records_come_in_order_and_whole_also_where_the_data_ends() {
        let mut fake = Fake::new();
        let long = vec![7; SIZE - 32];
        fake.record(0, SIZE as u64 - 24, &long);
        fake.positions(SIZE as u64 - 24, SIZE as u64 - 24);
        let before = now();
        let (records, until) = fake.drain().unwrap();
        assert_eq!(records, [long]);
        assert!(until >= before);
        fake.record(SIZE - 24, 48, &[1; 40]);
        fake.record(SIZE + 24, 13, &[2; 8]);
        fake.positions(SIZE as u64 + 40, SIZE as u64 + 40);
        assert_eq!(fake.drain().unwrap().0, [vec![1; 40], vec![2; 5]]);
        let read = fake.ring.mapping.load(SOLO_READ, Ordering::Relaxed);
        assert_eq!(read, SIZE as u64 + 40);
        assert_eq!(fake.drain().unwrap().0, Vec::<Vec<u8>>::new());
    }

    #[test]
    fn an_unfinished_record_holds_back_what_is_promised_and_nothing_is_lost() {
        let mut fake = Fake::new();
        let promised = fake.drain().unwrap().1;
        fake.record(0, 16, &[1; 8]);
        fake.positions(32, 16);
        assert_eq!(fake.drain().unwrap(), (vec![vec![1; 8]], promised));
        fake.record(16, 16, &[2; 8]);
        fake.positions(32, 32);
        let (records, until) = fake.drain().unwrap();
        assert_eq!(records, [vec![2; 8]]);
        assert!(until > promised);
    }

    #[test]
    fn a_ring_that_makes_no_sense_is_an_error_and_no_crash() {
        for (length, position) in [
            (0, 16),
            (8, 16),
            (13, 12),
            (24, 16),
            (u64::MAX, 16),
            (16, 1 << 40),
            (16, u64::MAX),
            (SOLO_MORE as u64 + 8, 4096),
        ] {
            let mut fake = Fake::new();
            fake.record(0, length, b"");
            fake.positions(position, position);
            let error = fake.drain().unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Damaged, "{length:#x} {position}");
        }
    }
}
