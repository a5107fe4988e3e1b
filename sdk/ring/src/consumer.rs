//! Reading a ring that somebody else writes, perhaps with ill will.
//!
//! Nothing in the region is believed: words are copied out with relaxed atomic loads into a buffer of
//! ours, and only the copy is checked and used. Sizes come from the reader's own [`Geometry`]. A ring
//! that contradicts itself is damaged: it is reported once and not read again.
//!
//! [`Geometry`]: crate::Geometry

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::region::Region;

/// Words copied out at once.
const CHUNK: usize = 8 * 1024;
/// The longest record that a length of 16 bits can say.
const MAX_RECORD: usize = u16::MAX as usize;
/// The most words that are copied out at once: one record at least.
const MOST: usize = CHUNK + MAX_RECORD;

/// What was wrong with a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The head is behind what was consumed, or further ahead than the ring is long.
    Head {
        /// What the ring says, bytes.
        head: u64,
        /// What was consumed, bytes.
        consumed: u64,
    },
    /// A record's length is impossible or leads past the head.
    Length {
        /// Where, bytes from the ring's beginning of time.
        at: u64,
        /// The length it says, words.
        words: u16,
    },
}

/// The reader of one ring of a region, which it borrows or shares.
pub struct Consumer<R> {
    region: R,
    ring: usize,
    consumed: u64,
    damaged: bool,
    copy: Vec<u64>,
}

impl<R: Borrow<Region>> Consumer<R> {
    /// A reader that begins where the last one ended.
    ///
    /// # Panics
    /// There is no such ring in the region.
    pub fn new(region: R, ring: usize) -> Consumer<R> {
        let consumed = region.borrow().control(ring).tail.load(Ordering::Relaxed) & !7;
        Consumer {
            region,
            ring,
            consumed,
            damaged: false,
            copy: Vec::new(),
        }
    }

    /// Which ring it reads.
    pub fn ring(&self) -> usize {
        self.ring
    }

    /// Bytes appended so far, as the ring says. Records before this are whole.
    pub fn head(&self) -> u64 {
        self.region
            .borrow()
            .control(self.ring)
            .head
            .load(Ordering::Acquire)
    }

    /// Whether the ring was found damaged.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Takes every record before `until` (a value of [`head`](Self::head)) out of the ring, in order. A
    /// slice is a whole record: word 0 with its length, word 1 the time.
    ///
    /// # Errors
    /// The ring is damaged: said once. Later calls find nothing.
    pub fn drain(&mut self, until: u64, mut each: impl FnMut(&[u64])) -> Result<(), Damage> {
        if self.damaged {
            return Ok(());
        }
        let capacity = self.region.borrow().geometry().ring_bytes() as u64;
        if until < self.consumed || until - self.consumed > capacity || !until.is_multiple_of(8) {
            return self.damage(Damage::Head {
                head: until,
                consumed: self.consumed,
            });
        }
        while self.consumed < until {
            let words = (((until - self.consumed) / 8) as usize).min(MOST);
            self.copy_out(self.consumed, words);
            let mut at = 0;
            while at < words {
                let length = self.copy[at] as u16;
                let end = at + usize::from(length);
                if end > words && words == MOST && at > 0 {
                    // The record goes on in the next chunk.
                    break;
                }
                if length < 2 || end > words {
                    let at = self.consumed + at as u64 * 8;
                    return self.damage(Damage::Length { at, words: length });
                }
                each(&self.copy[at..end]);
                at = end;
            }
            self.consumed += at as u64 * 8;
            self.region
                .borrow()
                .control(self.ring)
                .tail
                .store(self.consumed, Ordering::Release);
        }
        Ok(())
    }

    /// Shows what an overwriting ring holds now, oldest first, without taking it. What the producer
    /// reaches meanwhile is left out.
    ///
    /// # Errors
    /// The ring is damaged: said once.
    pub fn snapshot(&mut self, mut each: impl FnMut(&[u64])) -> Result<(), Damage> {
        if self.damaged {
            return Ok(());
        }
        let capacity = self.region.borrow().geometry().ring_bytes() as u64;
        let sub_buffer = crate::sub_buffer_bytes(capacity as usize) as u64;
        let control = self.region.borrow().control(self.ring);
        // In this order: a reader that is interrupted in between must not find that more is gone than was
        // ever there.
        let oldest = control.oldest.load(Ordering::Acquire);
        let head = control.head.load(Ordering::Acquire);
        let first = head.saturating_sub(capacity).max(oldest);
        if first > head || !head.is_multiple_of(8) {
            return self.damage(Damage::Head {
                head,
                consumed: first,
            });
        }
        // A sub-buffer begins on a record. (None begins where the numbers end.)
        let begin = |first: u64| first.checked_next_multiple_of(sub_buffer);
        let Some(start) = begin(first).filter(|&start| start < head) else {
            return Ok(());
        };
        let words = ((head - start) / 8) as usize;
        self.copy_out(start, words);
        fence(Ordering::Acquire);
        let reached = self
            .region
            .borrow()
            .control(self.ring)
            .oldest
            .load(Ordering::Relaxed);
        let Some(intact) = begin(reached.max(start)) else {
            return Ok(());
        };
        let mut at = ((intact - start) / 8).min(words as u64) as usize;
        while at < words {
            let length = self.copy[at] as u16;
            let end = at + usize::from(length);
            if length == 0 || end > words {
                return self.damage(Damage::Length {
                    at: start + at as u64 * 8,
                    words: length,
                });
            }
            // Padding has event 0 and may be a single word.
            if length >= 2 && (self.copy[at] >> 16) as u16 != 0 {
                each(&self.copy[at..end]);
            }
            at = end;
        }
        Ok(())
    }

    fn damage(&mut self, damage: Damage) -> Result<(), Damage> {
        self.damaged = true;
        self.copy = Vec::new();
        Err(damage)
    }

    fn copy_out(&mut self, from: u64, words: usize) {
        let mask = self.region.borrow().geometry().ring_bytes() as u64 - 1;
        // Callers ask for no more than the ring's length.
        if self.copy.len() < words {
            self.copy.resize(words, 0);
        }
        // SAFETY: the data area is mapped twice, and no more than its length is read from a place in the
        // first half. Others may write these words: they are read as atomics.
        unsafe {
            let source = self
                .region
                .borrow()
                .data_of(self.ring)
                .add((from & mask & !7) as usize)
                .cast::<AtomicU64>();
            for (index, word) in self.copy[..words].iter_mut().enumerate() {
                *word = (*source.add(index)).load(Ordering::Relaxed);
            }
        }
    }
}
