//! Appending under a lock, where there is no rseq.
//!
//! Locked rings are other rings than those of restartable sequences, since a sequence takes no notice of
//! locks. A thread that finds the lock held by itself is in a signal handler that interrupted its own
//! append: it cannot wait, so its record is lost, and counted by the caller.

use crate::geometry::{Control, MODE_DISCARD, MODE_OVERWRITE, sub_buffer_bytes};
use crate::region::Region;
use crate::sync::{AtomicU32, Ordering, fence, spin_loop, yield_now};
use crate::thread::is_there;
use crate::{Appended, Mode};

/// How often a held lock is looked at before the record is given up: its holder may be stopped for ever.
const TRIES: u32 = if cfg!(loom) { 2 } else { 10_000 };

/// Appends to some rings of a region, under their locks.
pub struct LockedProducer {
    region: &'static Region,
    first: usize,
    rings: usize,
    mode: Mode,
}

impl LockedProducer {
    /// A producer on `rings` rings from `first` on. None of them may be used with rseq.
    ///
    /// # Panics
    /// There are no such rings in the region.
    pub fn new(region: &'static Region, first: usize, rings: usize, mode: Mode) -> LockedProducer {
        assert!(rings > 0 && first + rings <= region.geometry().rings());
        LockedProducer {
            region,
            first,
            rings,
            mode,
        }
    }

    /// The region it appends to.
    pub fn region(&self) -> &'static Region {
        self.region
    }

    /// Appends a record on one of the rings. `thread` is this thread's id, not 0; `now` reads the clock
    /// (called under the lock, so that a ring's time does not go backwards).
    pub fn append(&self, record: &[u64], thread: u32, now: impl FnOnce() -> u64) -> Appended {
        let ring = self.first + thread as usize % self.rings;
        let control = self.region.control(ring);
        if !lock(&control.lock, thread) {
            return Appended::Full;
        }
        let appended = self.append_locked(ring, control, record, now);
        control.lock.store(0, Ordering::Release);
        appended
    }

    /// Changes what full rings do, and begins them anew. A ring whose lock cannot be had goes on as it was;
    /// `false` where there is one. `thread` is this thread's id.
    pub fn set_mode(&self, mode: Mode, thread: u32) -> bool {
        let mut all = true;
        for ring in self.first..self.first + self.rings {
            let control = self.region.control(ring);
            if !lock(&control.lock, thread) {
                all = false;
                continue;
            }
            let word = match mode {
                Mode::Discard => MODE_DISCARD,
                Mode::Overwrite => MODE_OVERWRITE,
            };
            control.mode.store(word, Ordering::Relaxed);
            control.begin_anew();
            control.lock.store(0, Ordering::Release);
        }
        all
    }

    fn mode(&self, control: &Control) -> Mode {
        match control.mode.load(Ordering::Relaxed) {
            MODE_DISCARD => Mode::Discard,
            MODE_OVERWRITE => Mode::Overwrite,
            _ => self.mode,
        }
    }

    fn append_locked(
        &self,
        ring: usize,
        control: &Control,
        record: &[u64],
        now: impl FnOnce() -> u64,
    ) -> Appended {
        let capacity = self.region.geometry().ring_bytes() as u64;
        let bytes = record.len() as u64 * 8;
        // Others can write the control block: whatever it says, records stay within the ring.
        let mut head = control.head.load(Ordering::Relaxed) & !7;
        let mode = self.mode(control);
        let fits = match mode {
            Mode::Discard => {
                let room = capacity
                    .saturating_sub(head.wrapping_sub(control.tail.load(Ordering::Acquire)));
                bytes <= room
            }
            Mode::Overwrite => bytes <= sub_buffer_bytes(capacity as usize) as u64,
        };
        if record.len() < 2 || !fits {
            return Appended::Full;
        }
        if mode == Mode::Overwrite {
            head = self.make_room(ring, control, head, bytes);
        }
        let time = now().max(control.time.load(Ordering::Relaxed));
        control.time.store(time, Ordering::Relaxed);
        // The reader does not look at them before the head says so, and we hold the lock.
        self.region.write(ring, head, record);
        self.region.write(ring, head.wrapping_add(8), &[time]);
        control
            .head
            .store(head.wrapping_add(bytes), Ordering::Release);
        Appended::Yes(time)
    }
}

impl LockedProducer {
    /// Gives up what is about to be overwritten, and pads up to the next sub-buffer where the record does
    /// not fit this one. Where the record goes.
    fn make_room(&self, ring: usize, control: &Control, head: u64, bytes: u64) -> u64 {
        let capacity = self.region.geometry().ring_bytes() as u64;
        let sub_buffer = sub_buffer_bytes(capacity as usize) as u64;
        let left = sub_buffer - head % sub_buffer;
        let padding = if bytes > left { left } else { 0 };
        let oldest = head.wrapping_add(padding + bytes).saturating_sub(capacity);
        control.oldest.store(oldest, Ordering::Relaxed);
        fence(Ordering::Release);
        if padding > 0 {
            // A header of event 0 with its length in words.
            self.region.write(ring, head, &[padding / 8]);
        }
        head.wrapping_add(padding)
    }
}

fn lock(lock: &AtomicU32, thread: u32) -> bool {
    for attempt in 0..TRIES {
        match lock.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(holder) if holder == thread => return false,
            // Of a process that was killed in the middle: nothing of it was committed.
            Err(holder) if attempt == TRIES - 1 && !is_there(holder) => {
                let stolen =
                    lock.compare_exchange(holder, thread, Ordering::Acquire, Ordering::Relaxed);
                return stolen.is_ok();
            }
            Err(_) if attempt % 64 == 63 => yield_now(),
            Err(_) => spin_loop(),
        }
    }
    false
}
