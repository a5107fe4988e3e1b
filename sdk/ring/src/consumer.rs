//! Reading a ring that somebody else writes, perhaps with ill will.
//!
//! Nothing in the region is believed: words are copied out with relaxed atomic loads into a buffer of
//! ours, and only the copy is checked and used. Sizes come from the reader's own [`Geometry`]. A ring
//! that contradicts itself is damaged: it is reported once and not read again.
//!
//! [`Geometry`]: crate::Geometry

use std::borrow::Borrow;

use crate::geometry::{Control, sub_buffer_bytes};
use crate::region::Region;
use crate::sync::{Ordering, fence};

/// Words copied out at once.
const CHUNK: usize = 8 * 1024;
/// The longest record that a length of 16 bits can say.
const MAX_RECORD: usize = u16::MAX as usize;
/// The most words that are copied out at once: one record at least.
const MOST: usize = CHUNK + MAX_RECORD;

/// How often a ring is looked at that seems to have lost more than it ever had.
const LOOKS: usize = 16;

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

    /// Bytes that were taken so far.
    pub fn consumed(&self) -> u64 {
        self.consumed
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
    pub fn drain(&mut self, until: u64, each: impl FnMut(&[u64])) -> Result<(), Damage> {
        self.drain_some(until, usize::MAX, each).map(drop)
    }

    /// Takes at most `limit` records before `until` out of the ring, as [`drain`](Self::drain) does.
    /// Whether that were all of them.
    ///
    /// # Errors
    /// The ring is damaged: said once. Later calls find nothing.
    pub fn drain_some(
        &mut self,
        until: u64,
        limit: usize,
        mut each: impl FnMut(&[u64]),
    ) -> Result<bool, Damage> {
        if self.damaged {
            return Ok(true);
        }
        let capacity = self.region.borrow().geometry().ring_bytes() as u64;
        if until < self.consumed || until - self.consumed > capacity || !until.is_multiple_of(8) {
            return Err(self.damage(Damage::Head {
                head: until,
                consumed: self.consumed,
            }));
        }
        let mut left = limit;
        let mut chunk = CHUNK;
        while self.consumed < until && left > 0 {
            let there = ((until - self.consumed) / 8) as usize;
            let words = there.min(chunk);
            self.copy_out(self.consumed, words);
            let mut at = 0;
            while at < words && left > 0 {
                let length = self.copy[at] as u16;
                let end = at + usize::from(length);
                if end > words && end <= there {
                    // The record goes on in the next chunk.
                    break;
                }
                if length < 2 || end > words {
                    let at = self.consumed + at as u64 * 8;
                    return Err(self.damage(Damage::Length { at, words: length }));
                }
                each(&self.copy[at..end]);
                at = end;
                left -= 1;
            }
            // A record that is longer than a chunk is read with a larger one.
            chunk = if at == 0 { MOST } else { CHUNK };
            self.consumed += at as u64 * 8;
            self.region
                .borrow()
                .control(self.ring)
                .tail
                .store(self.consumed, Ordering::Release);
        }
        Ok(self.consumed == until)
    }

    /// Shows what an overwriting ring holds now, oldest first, without taking it. What the producer
    /// reaches meanwhile is left out.
    ///
    /// # Errors
    /// The ring is damaged: said once.
    pub fn snapshot(&mut self, each: impl FnMut(&[u64])) -> Result<(), Damage> {
        let capacity = self.region.borrow().geometry().ring_bytes() as u64;
        self.look(u64::MAX, move |control| intact(control, capacity), each)
    }

    /// Shows what a refusing ring holds now that its reader has not taken yet, without taking it.
    ///
    /// # Errors
    /// The ring is damaged: said once.
    pub fn peek(&mut self, each: impl FnMut(&[u64])) -> Result<(), Damage> {
        self.look(
            u64::MAX,
            |control| control.tail.load(Ordering::Acquire),
            each,
        )
    }

    /// Shows what an overwriting ring got since the last call, or since this reader was made, and before
    /// `until`, a [`head`](Consumer::head) that was read earlier: as far as it is still there, without taking
    /// it.
    ///
    /// # Errors
    /// The ring is damaged: said once.
    pub fn news(&mut self, until: u64, each: impl FnMut(&[u64])) -> Result<(), Damage> {
        let seen = self.consumed;
        if until <= seen {
            return Ok(());
        }
        self.consumed = until;
        let capacity = self.region.borrow().geometry().ring_bytes() as u64;
        self.look(
            until,
            move |control| intact(control, capacity).max(seen),
            each,
        )
    }

    /// From here on what an overwriting ring holds now is no news.
    pub fn skip(&mut self) {
        self.consumed = self.head();
    }

    /// Shows the records from where `intact` says they begin up to the head, or to `until`. What has lost its
    /// place meanwhile, as `intact` says by then, is left out. Padding is not shown.
    fn look(
        &mut self,
        until: u64,
        intact: impl Fn(&Control) -> u64,
        mut each: impl FnMut(&[u64]),
    ) -> Result<(), Damage> {
        if self.damaged {
            return Ok(());
        }
        let capacity = self.region.borrow().geometry().ring_bytes() as u64;
        let control = |reader: &Self| {
            let first = intact(reader.region.borrow().control(reader.ring));
            first & !7
        };
        // In this order, so that no more than the ring's length lies between the two. Who is interrupted in
        // between may find that more is gone than was ever there, and looks again.
        let (mut head, mut at) = (self.head(), control(self));
        for _ in 0..LOOKS {
            if at <= head {
                break;
            }
            (head, at) = (self.head(), control(self));
        }
        if !head.is_multiple_of(8) || at > head || head - at > capacity {
            return Err(self.damage(Damage::Head { head, consumed: at }));
        }
        let head = head.min(until);
        let mut chunk = CHUNK;
        while at < head {
            let there = ((head - at) / 8) as usize;
            let words = there.min(chunk);
            self.copy_out(at, words);
            fence(Ordering::Acquire);
            let first = control(self);
            if first > at {
                at = first;
                continue;
            }
            let mut index = 0;
            while index < words {
                let length = usize::from(self.copy[index] as u16);
                let end = index + length;
                if end > words && end <= there {
                    break;
                }
                if length == 0 || end > words {
                    let at = at + index as u64 * 8;
                    return Err(self.damage(Damage::Length {
                        at,
                        words: length as u16,
                    }));
                }
                // Padding has event 0 and may be a single word.
                if length >= 2 && (self.copy[index] >> 16) as u16 != 0 {
                    each(&self.copy[index..end]);
                }
                index = end;
            }
            chunk = if index == 0 { MOST } else { CHUNK };
            at += index as u64 * 8;
        }
        Ok(())
    }

    fn damage(&mut self, damage: Damage) -> Damage {
        self.damaged = true;
        self.copy = Vec::new();
        damage
    }

    fn copy_out(&mut self, from: u64, words: usize) {
        // Callers ask for no more than the ring's length.
        if self.copy.len() < words {
            self.copy.resize(words, 0);
        }
        let region = self.region.borrow();
        region.read(self.ring, from, &mut self.copy[..words]);
    }
}

/// Where the oldest record begins that an overwriting ring still has: at a sub-buffer.
fn intact(control: &Control, capacity: u64) -> u64 {
    let sub_buffer = sub_buffer_bytes(capacity as usize) as u64;
    let head = control.head.load(Ordering::Acquire);
    let oldest = control.oldest.load(Ordering::Acquire);
    head.saturating_sub(capacity)
        .max(oldest)
        .checked_next_multiple_of(sub_buffer)
        .unwrap_or(u64::MAX)
}
