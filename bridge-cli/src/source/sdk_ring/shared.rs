//! A region of another process, seen from here: found, checked, taken, asked.
//!
//! Everything in it was written by the target and is copied before it is looked at. What we write are
//! requests: bytes of wanted events and counters, answered by the target's helper thread.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracebraid_ring::Region;
use tracebraid_ring::requests::{Words, has_come_to};
use tracebraid_wire::region::{self, Header, control};

use super::clock::Pair;
use super::find;
use super::header::{self, cannot};
use crate::error::Result;
use crate::target::ProcessEnd;

/// Bytes of a snapshot's reason at most.
const REASON: usize = 60;

/// How long the helper may take to let go of what an earlier bridge wanted.
const CLEAR: Duration = Duration::from_millis(500);

/// How often a wait looks whether the target is still there.
const LOOK: Duration = Duration::from_millis(20);

/// How long a helper is waited for that would answer if only it got a CPU.
const STARVED: Duration = Duration::from_secs(20);

/// A region of another process.
pub(super) struct Shared {
    region: Arc<Region>,
    header: Header,
    /// Its process, as we number it; 0 where it is no more.
    pid: u32,
    /// Of its process: whoever has ended answers nothing. `None` where that cannot be watched.
    end: Option<ProcessEnd>,
    /// Holds the exclusive lock of its open file description, where the region was taken.
    file: File,
    is_ours: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The helper would find out by itself; told, it is quicker. What cannot be unlocked goes with us.
        if self.is_ours && lock(&self.file, libc::F_UNLCK).is_ok() {
            self.ask(Duration::ZERO);
        }
    }
}

impl Shared {
    /// Opens a region and takes it: it is this bridge's until it is dropped.
    ///
    /// # Errors
    /// It is no region of a version we know, or another bridge has it.
    pub(super) fn take(path: &Path, pid: u32) -> Result<Shared> {
        let mut shared = Shared::open(path, pid)?;
        let locked = lock(&shared.file, libc::F_WRLCK)
            .map_err(|error| cannot(pid, "cannot be locked").because(error))?;
        if locked {
            shared.is_ours = true;
            shared.clear();
            return Ok(shared);
        }
        Err(
            cannot(pid, "are taken by another bridge, or by the program itself")
                .hint("end the other bridge, or use --via usdt"),
        )
    }

    /// Takes back what an earlier bridge wanted, where it died and the helper has not noticed, or is just
    /// doing the same.
    fn clear(&self) {
        if self.words().may_be_erased() {
            // One that does not answer erases nothing, or late: nobody can wait for that.
            self.ask(CLEAR);
        }
        for event in 0..=region::MAX_EVENTS {
            self.want(event as u16, 0);
        }
        for left in [control::FILTERS_USED, control::MODE_ASKED] {
            self.word(left).store(0, Ordering::Release);
        }
    }

    /// Opens a region to look at it.
    ///
    /// # Errors
    /// It is no region of a version we know.
    pub(super) fn open(path: &Path, pid: u32) -> Result<Shared> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| cannot(pid, "cannot be opened").because(error))?;
        let (header, geometry) = header::read(&file, pid)?;
        let mapped = OwnedFd::from(
            file.try_clone()
                .map_err(|error| cannot(pid, "cannot be mapped").because(error))?,
        );
        let region = Region::open(mapped, geometry)
            .map_err(|error| cannot(pid, "cannot be mapped").because(error))?;
        Ok(Shared {
            region: Arc::new(region),
            header,
            pid,
            end: ProcessEnd::of(pid).ok(),
            file,
            is_ours: false,
        })
    }

    /// A region that nobody else has: what is left of a process.
    ///
    /// # Errors
    /// Its file cannot be kept.
    pub(super) fn of_copy(region: Region, header: Header) -> io::Result<Shared> {
        let file = File::from(region.file().try_clone_to_owned()?);
        Ok(Shared {
            region: Arc::new(region),
            header,
            pid: 0,
            end: None,
            file,
            is_ours: false,
        })
    }

    /// The rings.
    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// What the target said when it made them.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// A copy of what the directory holds by now behind its first `known` bytes.
    pub(super) fn directory(&self, known: usize) -> Vec<u8> {
        let used = self.word(control::DIRECTORY_USED).load(Ordering::Acquire) as usize;
        let used = used.min(region::DIRECTORY_BYTES) & !7;
        let known = known & !7;
        self.copy(region::DIRECTORY + known, used.saturating_sub(known))
    }

    /// Rings of one group.
    pub(super) fn cpus(&self) -> usize {
        self.header.cpu_rings as usize
    }

    /// How many children have appended something.
    pub(super) fn children(&self) -> u32 {
        self.word(control::CHILDREN).load(Ordering::SeqCst)
    }

    /// Whether no bridge has ever asked for anything.
    pub(super) fn is_untouched(&self) -> bool {
        self.word(control::ASKED).load(Ordering::Acquire) == 0
    }

    /// What the process's own full rings do.
    pub(super) fn mode(&self) -> u32 {
        self.word(control::MODE).load(Ordering::Acquire)
    }

    /// Sets what they are to do. Takes effect with [`ask`](Self::ask); rings begin anew then.
    pub(super) fn want_mode(&self, mode: u32) {
        self.word(control::MODE_ASKED)
            .store(mode, Ordering::Release);
    }

    /// How many snapshots the program has asked for.
    pub(super) fn snapshots(&self) -> u32 {
        self.word(control::SNAPSHOT).load(Ordering::Acquire)
    }

    /// Why it asked for the last one.
    pub(super) fn reason(&self) -> String {
        let at = region::CONTROL + control::SNAPSHOT_REASON;
        let length = self.atomic(at).load(Ordering::Relaxed) as usize;
        let bytes = self.copy(at + 4, length.min(REASON));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The moments in both clocks that the program has noted, in order.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let written = self.word(control::PAIRS).load(Ordering::Acquire) as usize;
        let word = |at: usize| {
            // SAFETY: within the header area, 8-aligned; both sides use it as an atomic.
            unsafe { &*self.region.header().add(at).cast::<AtomicU64>() }.load(Ordering::Relaxed)
        };
        let pair = |place: usize| Pair {
            ticks: word(region::PAIRS + 16 * place),
            nanoseconds: word(region::PAIRS + 16 * place + 8),
        };
        let mut pairs: Vec<Pair> = (0..written.min(region::PAIRS_ROOM)).map(pair).collect();
        pairs.sort_by_key(|pair| pair.ticks);
        pairs
    }

    /// Events lost so far on a CPU's ring.
    pub(super) fn losses(&self, ring: usize, event: u16) -> u32 {
        self.atomic(region::loss_offset(ring, event))
            .load(Ordering::Relaxed)
    }

    /// Sets what is wanted of an event. Takes effect with [`ask`](Self::ask).
    pub(super) fn want(&self, event: u16, wanted: u8) {
        // SAFETY: within the header area; the target reads it as a volatile byte.
        unsafe {
            self.region
                .header()
                .add(region::WANTED + usize::from(event))
                .write_volatile(wanted)
        };
    }

    /// Gives an event a filter, which is read when a request says [`WANTED_FILTERED`](region::WANTED_FILTERED)
    /// of it. Whether there was room.
    pub(super) fn add_filter(&self, event: u16, text: &str) -> bool {
        let used = self.word(control::FILTERS_USED);
        // It is we who count it up; nobody else's number is believed.
        let at = used.load(Ordering::Relaxed) as usize & !7;
        let mut entry = vec![0; (region::ENTRY_HEAD + text.len()).next_multiple_of(8)];
        let written = region::write_filter(&mut entry, event, text);
        if written.is_none() || at.saturating_add(entry.len()) > region::FILTERS_BYTES {
            return false;
        }
        for (index, byte) in entry.iter().enumerate() {
            // SAFETY: within the area of filters; the target reads it as volatile bytes.
            unsafe {
                let place = self.region.header().add(region::FILTERS + at + index);
                place.write_volatile(*byte);
            }
        }
        used.store((at + entry.len()) as u32, Ordering::Release);
        true
    }

    /// Takes all filters back.
    pub(super) fn forget_filters(&self) {
        self.word(control::FILTERS_USED).store(0, Ordering::Release);
    }

    /// How many events of the last request stay off because of their filter.
    pub(super) fn filters_refused(&self) -> u32 {
        self.word(control::FILTERS_REFUSED).load(Ordering::Acquire)
    }

    /// Hits of an event that the program has counted and not recorded, since its filter refused them or no more is
    /// wanted, on each CPU: its own, then those of children.
    pub(super) fn counted_hits(&self, event: u16) -> Vec<u32> {
        let cpus = self.cpus();
        let of = |of_children: bool| {
            (0..cpus).map(move |cpu| region::filtered_offset(of_children, cpus, cpu, event))
        };
        let counts = of(false).chain(of(true));
        counts
            .map(|at| self.atomic(at).load(Ordering::Relaxed))
            .collect()
    }

    /// The number of the last request.
    pub(super) fn asked(&self) -> u32 {
        self.word(control::ASKED).load(Ordering::Acquire)
    }

    /// Whether a request after this one has been answered.
    pub(super) fn has_answered_beyond(&self, number: u32) -> bool {
        let answered = self.word(control::ANSWERED).load(Ordering::Acquire);
        let beyond = answered.wrapping_sub(number);
        self.has_helper() && beyond != 0 && beyond < u32::MAX / 2
    }

    /// Sets what is wanted of tracepoints that the target makes later, as far as there is room for it. Takes
    /// effect with [`ask`](Self::ask).
    pub(super) fn want_later(&self, patterns: &[String]) {
        let mut bytes = Vec::new();
        for pattern in patterns {
            if bytes.len() + pattern.len() < region::PATTERNS_BYTES {
                bytes.extend_from_slice(pattern.as_bytes());
                bytes.push(0);
            }
        }
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: within the header area; the target reads it as a volatile byte.
            unsafe {
                let place = self.region.header().add(region::PATTERNS + at);
                place.write_volatile(*byte);
            }
        }
        self.word(control::PATTERNS_USED)
            .store(bytes.len() as u32, Ordering::Release);
    }

    /// Whether the target has a helper thread that serves whoever has the lock. It may say no later than at
    /// the beginning, but never yes.
    pub(super) fn has_helper(&self) -> bool {
        self.atomic(region::HELPER).load(Ordering::Relaxed) != 0
    }

    /// Whether the helper counts hits that are wanted so.
    pub(super) fn counts(&self) -> bool {
        self.atomic(region::HELPER).load(Ordering::Relaxed) & region::HELPER_COUNTS != 0
    }

    /// Asks the helper to look at what is wanted, and at libraries that were loaded. Whether it answered in
    /// time. One that waits for a CPU is given more time: what the program hits until it has answered is missed.
    pub(super) fn ask(&self, limit: Duration) -> bool {
        let words = self.words();
        let number = words.ask();
        wake(words.bell);
        let end = Instant::now() + STARVED;
        let mut answered = self.has_helper() && self.wait_for(words.answered, number, limit);
        while !answered && !limit.is_zero() && Instant::now() < end && self.helper_starves() {
            answered = self.wait_for(words.answered, number, limit);
        }
        answered
    }

    /// Whether the helper could run and does not get a CPU.
    fn helper_starves(&self) -> bool {
        let of = |thread: u32, file: &str| {
            let path = format!("/proc/{}/task/{thread}/{file}", self.pid);
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let threads = find::threads(self.pid);
        let is_named = |thread: u32| of(thread, "comm").trim_end() == region::HELPER_NAME;
        // It names itself: one that has never run is called as whoever started it.
        let any_is_named = threads.iter().any(|&thread| is_named(thread));
        let mut helpers = threads.into_iter().filter(|&thread| match any_is_named {
            true => is_named(thread),
            false => thread != self.pid,
        });
        self.has_helper()
            && helpers.any(|thread| {
                let stat = of(thread, "stat");
                let state = stat.rsplit_once(") ").map(|it| it.1);
                state.is_some_and(|state| state.starts_with('R'))
            })
    }

    /// How often sites could not be switched.
    pub(super) fn stuck(&self) -> u32 {
        self.word(control::SITES_STUCK).load(Ordering::Acquire)
    }

    /// Has the helper look round now, with nothing being asked for.
    pub(super) fn wake_helper(&self) {
        let bell = self.words().bell;
        bell.fetch_add(1, Ordering::AcqRel);
        wake(bell);
    }

    /// Asks for a flush. Its number; `None` where nobody flushes.
    pub(super) fn ask_flush(&self) -> Option<u32> {
        if !self.has_helper() {
            return None;
        }
        let words = self.words();
        let number = words.ask_flush();
        wake(words.bell);
        Some(number)
    }

    /// Waits for a flush. After it, every append that began before it was asked for is visible. Whether
    /// that was in time.
    pub(super) fn flushed(&self, number: u32, limit: Duration) -> bool {
        self.wait_for(self.words().flushed, number, limit)
    }

    /// Waits until a word that the target counts up has reached `number`.
    fn wait_for(&self, word: &AtomicU32, number: u32, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let now = word.load(Ordering::Acquire);
            if has_come_to(now, number) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.has_ended() {
                return false;
            }
            // Nothing wakes us when the target ends.
            let slice = left.min(LOOK);
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: libc::c_long::from(slice.subsec_nanos() as i32),
            };
            // SAFETY: a mapped, aligned word shared with the target; every outcome means: look again.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT,
                    now,
                    &raw const time,
                )
            };
        }
    }

    /// Whether its process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.as_ref().is_some_and(ProcessEnd::has_come)
    }

    /// The words by which we ask.
    fn words(&self) -> Words<'_> {
        Words {
            asked: self.word(control::ASKED),
            answered: self.word(control::ANSWERED),
            flush_asked: self.word(control::FLUSH_ASKED),
            flushed: self.word(control::FLUSHED),
            bell: self.word(control::BELL),
            serving: self.word(control::SERVING),
        }
    }

    fn word(&self, which: usize) -> &AtomicU32 {
        self.atomic(region::CONTROL + which)
    }

    fn atomic(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= self.region.geometry().header_bytes());
        // SAFETY: within the header area, 4-aligned; both sides use it as an atomic.
        unsafe { &*self.region.header().add(at).cast() }
    }

    fn copy(&self, from: usize, length: usize) -> Vec<u8> {
        let words = length.div_ceil(4);
        let word = |index: usize| {
            self.atomic(from + index * 4)
                .load(Ordering::Relaxed)
                .to_le_bytes()
        };
        let mut bytes: Vec<u8> = (0..words).flat_map(word).collect();
        bytes.truncate(length);
        bytes
    }
}

/// Locks or unlocks. Whether it could be had.
fn lock(file: &File, kind: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeros is a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: a descriptor of ours and a filled lock.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) {
        Ok(false)
    } else {
        Err(error)
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: a mapped, aligned word shared with the target.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
