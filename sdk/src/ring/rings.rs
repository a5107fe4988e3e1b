//! Who appends to a region, for this process: in sequences, else under locks, else a loss is counted.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[cfg(target_arch = "x86_64")]
use tracebraid_ring::Appended;
use tracebraid_ring::locked::LockedProducer;
#[cfg(target_arch = "x86_64")]
use tracebraid_ring::rseq::{Area, Producer};
use tracebraid_ring::thread;
use tracebraid_ring::{Clock, Mode, Region};
use tracebraid_wire::record::Header;
use tracebraid_wire::region::{self, Group, control};

use super::clock;
use super::directory::word;
use super::page::{self, Setup};
#[cfg(target_arch = "x86_64")]
use crate::options::Appending;
use crate::stamp::Stamp;

/// The region and who appends to it.
pub(crate) struct Rings {
    pub(crate) region: &'static Region,
    /// Refuses when full; the one that is used while `overwrites` is not set.
    #[cfg(target_arch = "x86_64")]
    rseq: Option<Producer>,
    #[cfg(target_arch = "x86_64")]
    overwriting: Option<Producer>,
    overwrites: AtomicBool,
    locked: LockedProducer,
    clock: Clock,
    cpus: usize,
    /// Where this process's rings begin.
    group: Group,
}

/// As the region's header numbers them.
pub(super) const fn mode_word(mode: Mode) -> u32 {
    match mode {
        Mode::Discard => region::MODE_DISCARD,
        Mode::Overwrite => region::MODE_OVERWRITE,
    }
}

impl Rings {
    /// Producers on the rings of a group, and of the one with locks behind it.
    pub(super) fn new(region: &'static Region, setup: &Setup, group: Group) -> Rings {
        let cpus = region.geometry().rings() / Group::ALL.len();
        let clock = clock::chosen();
        let locked = LockedProducer::new(region, group.first(cpus) + cpus, cpus, setup.mode);
        #[cfg(target_arch = "x86_64")]
        let [rseq, overwriting] = {
            let area = match setup.appending {
                Appending::Auto => Area::of_c_library().or_else(Area::own),
                Appending::OwnRseq => Area::own(),
                Appending::Locked => None,
            };
            let rings = group.first(cpus)..group.first(cpus) + cpus;
            [Mode::Discard, Mode::Overwrite].map(|mode| {
                // Children's rings are shared with processes that nobody could tell of a change.
                let offered = setup.mode == mode || group == Group::Own;
                let area = area.filter(|_| offered)?;
                let producer = Producer::on(region, rings.clone(), mode, clock, area);
                if mode != setup.mode {
                    producer.close();
                }
                Some(producer)
            })
        };
        Rings {
            region,
            #[cfg(target_arch = "x86_64")]
            rseq,
            #[cfg(target_arch = "x86_64")]
            overwriting,
            overwrites: AtomicBool::new(setup.mode == Mode::Overwrite),
            locked,
            clock,
            cpus,
            group,
        }
    }

    /// Takes the memory of the rings that events go to, now.
    pub(super) fn take_memory(&self) -> io::Result<()> {
        let first = self.group.first(self.cpus);
        #[cfg(target_arch = "x86_64")]
        let locked = self.sequences().is_none();
        #[cfg(not(target_arch = "x86_64"))]
        let locked = true;
        let first = if locked { first + self.cpus } else { first };
        self.region.take_memory(first..first + self.cpus)
    }

    /// Whether they are those of this process alone.
    pub(crate) fn are_own(&self) -> bool {
        self.group == Group::Own
    }

    /// Whether full rings overwrite.
    pub(crate) fn overwrites(&self) -> bool {
        self.overwrites.load(Ordering::Relaxed)
    }

    /// The producer of sequences that is open.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn sequences(&self) -> Option<&Producer> {
        if self.overwrites() {
            self.overwriting.as_ref()
        } else {
            self.rseq.as_ref()
        }
    }

    /// Whether an append is one restartable sequence that reads the counter and refuses when full: the
    /// common case, which goes the straight way.
    pub(super) fn is_straight(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.rseq.is_some() && !self.overwrites() && self.clock == Clock::Tsc;
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Changes what full rings do, for this process's own rings, which begin anew. `exclude` ends every
    /// sequence that is under way in any thread, or says that it cannot.
    ///
    /// Called by one thread at a time. Appends go on meanwhile, in the locked rings.
    pub(crate) fn set_mode(&self, mode: Mode, exclude: impl FnOnce() -> bool) -> bool {
        if !self.are_own() || self.overwrites() == (mode == Mode::Overwrite) {
            return self.are_own();
        }
        // Under locks alone there is nothing to exclude.
        #[cfg(not(target_arch = "x86_64"))]
        drop(exclude);
        #[cfg(target_arch = "x86_64")]
        if let (Some(before), Some(after)) = match mode {
            Mode::Overwrite => (&self.rseq, &self.overwriting),
            Mode::Discard => (&self.overwriting, &self.rseq),
        } {
            page::go_straight(false);
            before.close();
            if !exclude() {
                before.open();
                page::go_straight(self.is_straight());
                return false;
            }
            for ring in 0..self.cpus {
                self.region.control(ring).begin_anew();
            }
            after.open();
        }
        // A ring whose lock cannot be had belongs to a thread that is stopped: it goes on as it was.
        self.locked.set_mode(mode, thread::id());
        self.overwrites
            .store(mode == Mode::Overwrite, Ordering::Release);
        word(self.region, control::MODE).store(mode_word(mode), Ordering::Release);
        page::go_straight(self.is_straight());
        true
    }

    /// Appends a record, or counts it as lost. Its header says which event and thread; its time need not be
    /// written. Its stamp.
    ///
    /// # Safety
    /// The rings are STRAIGHT; the record has `words` words, 2 to 256.
    #[inline(always)]
    pub(crate) unsafe fn append_straight(&self, record: *mut u64, words: usize) -> Option<Stamp> {
        // SAFETY: the caller's promise. Straight are rings that have this producer.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if let Appended::Yes(time) = self
                .rseq
                .as_ref()
                .unwrap_unchecked()
                .append_discard_tsc(record, words)
            {
                return Stamp::of(Clock::Tsc, time);
            }
            self.append_straight_otherwise(record, words)
        }
    }

    /// Appends a record, or counts it as lost. Its header says which event and thread. Its stamp.
    ///
    /// # Safety
    /// It has 2 to 256 words.
    #[inline(always)]
    pub(crate) unsafe fn append(&self, record: &[u64]) -> Option<Stamp> {
        #[cfg(target_arch = "x86_64")]
        if let Some(producer) = self.sequences()
            // SAFETY: the caller's promise.
            && let Appended::Yes(time) = unsafe { producer.append_short(record, crate::clock::now) }
        {
            return Stamp::of(self.clock, time);
        }
        self.append_otherwise(record)
    }

    /// # Safety
    /// As for [`append_straight`](Self::append_straight).
    #[cold]
    #[inline(never)]
    unsafe fn append_straight_otherwise(&self, record: *mut u64, words: usize) -> Option<Stamp> {
        // SAFETY: the caller's promise.
        unsafe {
            record.add(1).write(0);
            self.append_otherwise(std::slice::from_raw_parts(record, words))
        }
    }

    /// What to do when the straight way did not go.
    #[cold]
    #[inline(never)]
    fn append_otherwise(&self, record: &[u64]) -> Option<Stamp> {
        let header = Header::parse(*record.first()?, 0)?;
        #[cfg(target_arch = "x86_64")]
        if let Some(producer) = self.sequences() {
            let append = || producer.append(record, crate::clock::now());
            let again = match append() {
                Appended::Elsewhere if producer.prepare_thread() => append(),
                first => first,
            };
            match again {
                Appended::Yes(time) => return Stamp::of(self.clock, time),
                Appended::Full => {
                    self.lose(header.event);
                    return None;
                }
                Appended::Elsewhere => {}
            }
        }
        self.append_locked(record, &header)
    }

    /// Appends a record of this header under a lock, or counts it as lost: for threads that are in nobody's
    /// restartable sequences. Its stamp.
    pub(super) fn append_locked(&self, record: &[u64], header: &Header) -> Option<Stamp> {
        let now = || match self.clock {
            Clock::Tsc => clock::ticks(),
            Clock::Given => crate::clock::now(),
        };
        let Some(time) = self.locked.append(record, header.tid, now).time() else {
            self.lose(header.event);
            return None;
        };
        Stamp::of(self.clock, time)
    }

    #[cold]
    fn lose(&self, event: u16) {
        if usize::from(event) <= region::MAX_EVENTS {
            self.losses(self.cpu(), event)
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a hit that is not appended, since its event's filter refused it or nobody wants more than its count.
    pub(crate) fn count(&self, event: u16) {
        if usize::from(event) <= region::MAX_EVENTS {
            let of_children = self.group.is_of_children();
            let at = region::filtered_offset(of_children, self.cpus, self.cpu(), event);
            self.counter(at).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn cpu(&self) -> usize {
        // SAFETY: no preconditions.
        unsafe { libc::sched_getcpu() }.max(0) as usize % self.cpus
    }

    fn losses(&self, cpu: usize, event: u16) -> &AtomicU32 {
        self.counter(region::loss_offset(
            self.group.first(self.cpus) + cpu,
            event,
        ))
    }

    fn counter(&self, at: usize) -> &AtomicU32 {
        // SAFETY: within the header area, 4-aligned; used as an atomic by everybody.
        unsafe { &*self.region.header().add(at).cast::<AtomicU32>() }
    }

    /// Events lost so far, over all CPUs.
    pub(crate) fn lost(&self, event: u16) -> u64 {
        let on = |cpu| u64::from(self.losses(cpu, event).load(Ordering::Relaxed));
        (0..self.cpus).map(on).sum()
    }

    /// The clock of the records.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }
}
