//! The consumer of one CPU's BPF ring buffer.
//!
//! Layout (kernel/bpf/ringbuf.c): a page with the consumer's position, a page with the producer's, then
//! the data, mapped twice in a row so that no record wraps. A record is an 8-byte header, whose first
//! four bytes are its length with two flags on top, and the data, padded to 8. Positions only grow.
//!
//! A producer moves its position when it reserves, and clears the busy flag when it submits. Reading
//! the position therefore fixes the set of records that [`Ring::drain`] waits for.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::memory::{Mapping, now, page_size};
use crate::patience::{await_some, damaged};

const BUSY: u32 = 1 << 31;
const DISCARD: u32 = 1 << 30;
const HEADER: usize = 8;

#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) cpu: u32,
    consumer: Mapping,
    producer: Mapping,
    size: u64,
    position: u64,
    /// Everything with an earlier time has been handed out.
    complete: u64,
    bytes: Vec<u8>,
}

impl Ring {
    /// Maps the ring behind `fd`, of `size` bytes (a power of two of pages).
    pub(crate) fn new(cpu: u32, fd: BorrowedFd<'_>, size: usize) -> Result<Ring> {
        let page = page_size();
        let consumer = Mapping::new(fd, 0, page, true)?;
        let producer = Mapping::new(fd, page, page + 2 * size, false)?;
        let position = consumer.load(0, Ordering::Acquire);
        Ok(Ring {
            cpu,
            consumer,
            producer,
            size: size as u64,
            position,
            complete: now(),
            bytes: Vec::new(),
        })
    }

    /// Hands out every record that was reserved when it was called, and returns the time before which
    /// nothing more will come: now, or that of the drain before where a record stayed unfinished.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let start = now();
        let end = self.producer.load(0, Ordering::Acquire);
        if end.wrapping_sub(self.position) > self.size {
            return Err(self.damaged("its positions are further apart than it is long"));
        }
        let data = page_size();
        while self.position != end {
            let at = data + (self.position & (self.size - 1)) as usize;
            let Some(header) = self.finished(at) else {
                return Ok(self.complete);
            };
            let length = header & !(BUSY | DISCARD);
            let step = (HEADER as u64 + u64::from(length)).next_multiple_of(8);
            if step > end - self.position {
                return Err(self.damaged("a record is longer than what was written"));
            }
            if header & DISCARD == 0 {
                if !self
                    .producer
                    .copy(at + HEADER, length as usize, &mut self.bytes)
                {
                    return Err(self.damaged("a record reaches past its end"));
                }
                each(&self.bytes)?;
            }
            self.position += step;
            self.consumer.store(0, self.position, Ordering::Release);
        }
        self.complete = start;
        Ok(start)
    }

    /// The header at `at` once its record is submitted; `None` where that takes too long.
    fn finished(&self, at: usize) -> Option<u32> {
        await_some(|| {
            let header = self.producer.load_u32(at, Ordering::Acquire);
            (header & BUSY == 0).then_some(header)
        })
    }

    fn damaged(&self, what: &str) -> Error {
        damaged(self.cpu, what)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::error::ErrorKind;
    use crate::memory::nameless_file;

    const SIZE: usize = 4096;

    /// A file laid out as the kernel lays out a ring: what is written to it appears in the mappings.
    /// The second copy of the data is not the first, as a real ring's is.
    struct Fake {
        file: std::fs::File,
        ring: Ring,
    }

    impl Fake {
        fn new() -> Fake {
            let file = nameless_file("ring", 2 * page_size() + 2 * SIZE);
            let ring = Ring::new(3, file.as_fd(), SIZE).unwrap();
            Fake { file, ring }
        }

        fn write(&self, offset: usize, bytes: &[u8]) {
            std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset as u64).unwrap();
        }

        fn record(&self, at: usize, header: u32, data: &[u8]) {
            self.write(2 * page_size() + at, &header.to_ne_bytes());
            self.write(2 * page_size() + at + 8, data);
        }

        fn produced(&self, position: u64) {
            self.write(page_size(), &position.to_ne_bytes());
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
    fn records_come_in_order_and_discarded_ones_do_not() {
        let mut fake = Fake::new();
        fake.record(0, 5, b"first");
        fake.record(16, 3 | DISCARD, b"no!");
        fake.record(32, 6, b"second");
        fake.produced(48);
        let before = now();
        let (records, until) = fake.drain().unwrap();
        assert_eq!(records, [b"first".to_vec(), b"second".to_vec()]);
        assert!(until >= before);
        assert_eq!(fake.ring.consumer.load(0, Ordering::Relaxed), 48);
        assert_eq!(fake.drain().unwrap().0, Vec::<Vec<u8>>::new());
    }

    #[test]
    fn an_unfinished_record_holds_back_what_is_promised_and_nothing_is_lost() {
        let mut fake = Fake::new();
        let promised = fake.drain().unwrap().1;
        fake.record(0, 5, b"first");
        fake.record(16, 4 | BUSY, b"");
        fake.record(32, 5, b"third");
        fake.produced(48);
        let (records, until) = fake.drain().unwrap();
        assert_eq!((records, until), (vec![b"first".to_vec()], promised));
        fake.record(16, 4, b"more");
        let (records, until) = fake.drain().unwrap();
        assert_eq!(records, [b"more".to_vec(), b"third".to_vec()]);
        assert!(until > promised);
    }

    #[test]
    fn a_ring_that_makes_no_sense_is_an_error_and_no_crash() {
        for (header, produced) in [
            (4090, 16),
            (!BUSY, 24),
            (8, u64::MAX),
            (8, 1 << 40),
            (1 << 20, 4096),
        ] {
            let mut fake = Fake::new();
            fake.record(0, header, b"");
            fake.produced(produced);
            let error = fake.drain().unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Damaged, "{header:#x} {produced}");
        }
    }
}
