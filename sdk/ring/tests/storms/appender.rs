//! Who appends in a storm, and records that show whether they are whole.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;

use tracebraid_ring::locked::LockedProducer;
use tracebraid_ring::rseq::{Area, Producer};
use tracebraid_ring::{Appended, Clock, Geometry, Mode, Region};

/// Words of the longest record.
pub(crate) const LONGEST: usize = 252;
/// Who signal handlers are, as writers go.
pub(crate) const HANDLER: u32 = 0xffff;

/// Appends in one of the ways there are.
pub(crate) enum Appender {
    Sequence(Producer),
    Locked(LockedProducer),
}

pub(crate) fn cpus() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) as usize }
}

/// Nanoseconds of CLOCK_MONOTONIC. May be called in a signal handler.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This thread's id, without which a locked ring cannot tell a handler from another thread.
fn thread_id() -> u32 {
    tracebraid_ring::thread::id()
}

/// A new region that stays for good.
pub(crate) fn region(ring_bytes: usize) -> &'static Region {
    let geometry = Geometry::new(4096, cpus(), ring_bytes).unwrap();
    Box::leak(Box::new(Region::create(c"ring-test", geometry).unwrap()))
}

impl Appender {
    pub(crate) fn sequence(area: Area, mode: Mode, clock: Clock, ring_bytes: usize) -> Appender {
        let region = region(ring_bytes);
        Appender::Sequence(Producer::new(region, cpus(), mode, clock, area))
    }

    pub(crate) fn locked(mode: Mode, ring_bytes: usize) -> Appender {
        Appender::Locked(LockedProducer::new(region(ring_bytes), 0, cpus(), mode))
    }

    pub(crate) fn region(&self) -> &'static Region {
        match self {
            Appender::Sequence(producer) => producer.region(),
            Appender::Locked(producer) => producer.region(),
        }
    }

    /// Appends record `index` of `writer`; whether it is in a ring.
    pub(crate) fn append(&self, writer: u32, index: u64) -> bool {
        let mut record = [0; LONGEST];
        let words = make(&mut record, writer, index);
        let record = &record[..words];
        let appended = match self {
            Appender::Sequence(producer) => match producer.append(record, now()) {
                Appended::Elsewhere => {
                    producer.prepare_thread() && producer.append(record, now()).time().is_some()
                }
                appended => appended.time().is_some(),
            },
            Appender::Locked(producer) => {
                producer.append(record, thread_id(), now).time().is_some()
            }
        };
        if !appended {
            thread::yield_now();
        }
        appended
    }
}

/// Most records are short; some nearly fill a sub-buffer of the smallest ring.
fn length(index: u64) -> usize {
    match index % 13 {
        7 => LONGEST - (index % 40) as usize,
        rest => 4 + rest as usize,
    }
}

/// Words 4 and on.
fn filling(writer: u32, index: u64, word: usize) -> u64 {
    (index ^ u64::from(writer) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word as u64
}

fn make(record: &mut [u64; LONGEST], writer: u32, index: u64) -> usize {
    let words = length(index);
    record[0] = words as u64 | 1 << 16 | u64::from(writer) << 32;
    record[2] = index;
    for (word, place) in record[..words].iter_mut().enumerate().skip(3) {
        *place = filling(writer, index, word);
    }
    words
}

/// Record `index` of `writer`, to be appended otherwise.
#[allow(dead_code)]
pub(crate) fn record(writer: u32, index: u64) -> Vec<u64> {
    let mut record = [0; LONGEST];
    let words = make(&mut record, writer, index);
    record[..words].to_vec()
}

/// Checks that a record is whole. Its writer and index.
pub(crate) fn check(record: &[u64]) -> (u32, u64) {
    let (writer, index) = ((record[0] >> 32) as u32, record[2]);
    assert_eq!(record.len(), length(index), "a length that was not written");
    for (word, &value) in record.iter().enumerate().skip(3) {
        assert_eq!(value, filling(writer, index, word), "torn in word {word}");
    }
    (writer, index)
}

/// Who the signal handler appends to; null: nobody.
static HANDLED: AtomicPtr<Appender> = AtomicPtr::new(std::ptr::null_mut());
static HANDLER_INDEX: AtomicU64 = AtomicU64::new(0);
static HANDLER_LOST: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: libc::c_int) {
    // SAFETY: storms outlive the signals that they send.
    let Some(appender) = (unsafe { HANDLED.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let index = HANDLER_INDEX.fetch_add(1, Ordering::Relaxed);
    if !appender.append(HANDLER, index) {
        HANDLER_LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lets signals (SIGUSR1) append as well, until [`handled`].
pub(crate) fn handle_signals(appender: &'static Appender) {
    HANDLER_INDEX.store(0, Ordering::Relaxed);
    HANDLER_LOST.store(0, Ordering::Relaxed);
    HANDLED.store(std::ptr::from_ref(appender).cast_mut(), Ordering::Release);
    // SAFETY: a filled action; the handler only appends and counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
            0
        );
    }
}

/// How many records handlers wrote, and how many of them were lost.
pub(crate) fn handled() -> (u64, u64) {
    HANDLED.store(std::ptr::null_mut(), Ordering::Release);
    (
        HANDLER_INDEX.load(Ordering::Relaxed),
        HANDLER_LOST.load(Ordering::Relaxed),
    )
}
