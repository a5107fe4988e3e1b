//! A region that lies: every byte wrong in turn, heads and lengths that cannot be, writes and holes while
//! it is read, files of other sizes and without seals.
//!
//! A reader says once that a ring is damaged, and then leaves it alone. It neither panics nor loops, and
//! what it allocates does not follow from what it finds. A writer stays within its ring whatever the
//! reader, who shares the control block, has written there.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracebraid_ring::locked::LockedProducer;
use tracebraid_ring::rseq::{Area, Producer};
use tracebraid_ring::{Appended, Clock, Consumer, Control, Damage, Geometry, Mode, Region};

const RING_BYTES: usize = 16 * 1024;
const HEADER_BYTES: usize = 4096;
/// Numbers that are at the end of something.
const EDGES: [u64; 16] = [
    0,
    1,
    7,
    8,
    16,
    2048,
    RING_BYTES as u64 - 8,
    RING_BYTES as u64,
    RING_BYTES as u64 + 8,
    1 << 32,
    1 << 63,
    u64::MAX - RING_BYTES as u64,
    u64::MAX - 2048,
    u64::MAX - 15,
    u64::MAX - 7,
    u64::MAX,
];

/// Notes the largest allocation.
struct Noting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

/// One test at a time, so that the largest allocation is of the one that looks.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    LARGEST.store(0, Ordering::Relaxed);
    guard
}

fn geometry() -> Geometry {
    Geometry::new(HEADER_BYTES, 2, RING_BYTES).unwrap()
}

fn region() -> &'static Region {
    Box::leak(Box::new(Region::create(c"ring-test", geometry()).unwrap()))
}

/// The words of the file, through a mapping of the test's own.
struct Words {
    start: *const AtomicU64,
    count: usize,
}

impl Words {
    fn of(region: &Region) -> Words {
        let length = region.geometry().file_bytes();
        // SAFETY: a new mapping of the whole file, which is never unmapped.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                region.file().as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Words {
            start: start.cast(),
            count: length / 8,
        }
    }

    /// The word at a place in the file, bytes.
    fn at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset / 8 < self.count);
        // SAFETY: within the mapping and aligned; everybody uses these words as atomics.
        unsafe { &*self.start.add(offset / 8) }
    }
}

// SAFETY: atomics in a mapping that stays.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

/// Puts records into ring 0 under its lock; how many are there.
fn fill(region: &'static Region, mode: Mode, records: u64) {
    let producer = LockedProducer::new(region, 0, 1, mode);
    for index in 0..records {
        let words = 2 + index % 9;
        let mut record = vec![words | 1 << 16 | 5 << 32, 0];
        record.resize(words as usize, index);
        assert_eq!(producer.append(&record, 1, || index), Appended::Yes(index));
    }
}

/// Reads ring 0 as a reader does that has no reason for trust. How often it said that there is damage.
fn read(region: &Region, mode: Mode) -> usize {
    let mut consumer = Consumer::new(region, 0);
    let (mut damages, mut words) = (0, 0);
    for _ in 0..3 {
        let mut each = |record: &[u64]| {
            assert!(record.len() >= 2 && record.len() == usize::from(record[0] as u16));
            words += record.len();
        };
        let result = match mode {
            Mode::Discard => consumer.drain(consumer.head(), &mut each),
            Mode::Overwrite => consumer.snapshot(&mut each),
        };
        damages += usize::from(result.is_err());
        assert_eq!(consumer.is_damaged(), damages == 1);
    }
    assert!(damages <= 1, "damage is said once");
    assert!(words * 8 <= 3 * RING_BYTES, "more than a ring holds");
    damages
}

fn assert_small_allocations() {
    // A record of the greatest length, a chunk, and what the test itself has.
    let limit = (8 * 1024 + 65_536) * 8;
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= limit, "{largest} bytes were allocated at once");
}

#[test]
fn a_ring_with_any_byte_wrong_is_damaged_once_or_reads_on() {
    let _alone = alone();
    for (mode, records) in [(Mode::Discard, 60), (Mode::Overwrite, 1_000)] {
        let region = region();
        let words = Words::of(region);
        fill(region, mode, records);
        let control = HEADER_BYTES..HEADER_BYTES + size_of::<Control>();
        let data = geometry().data_offset(0);
        // At least records of each length, and the first sub-buffer of an overwriting ring.
        let soak = std::env::var_os("TRACEBRAID_SOAK").is_some();
        let data = data..data + if soak { RING_BYTES } else { 1024 };
        let mut damages = 0;
        for place in control.chain(data) {
            let word = words.at(place);
            let shift = place % 8 * 8;
            let before: Vec<u64> = (HEADER_BYTES..HEADER_BYTES + size_of::<Control>())
                .step_by(8)
                .map(|at| words.at(at).load(Ordering::Relaxed))
                .collect();
            let good = word.load(Ordering::Relaxed);
            for value in [0, 1, 2, 3, 7, 8, 0x40, 0x7f, 0x80, 0xfe, 0xff] {
                let bad = good & !(0xff << shift) | value << shift;
                word.store(bad, Ordering::Relaxed);
                damages += read(region, mode);
                word.store(good, Ordering::Relaxed);
                // The reader has taken records; here they are again.
                for (at, &good) in before.iter().enumerate() {
                    words
                        .at(HEADER_BYTES + 8 * at)
                        .store(good, Ordering::Relaxed);
                }
            }
        }
        assert!(damages > 100, "{mode:?}: {damages}");
        assert_eq!(read(region, mode), 0, "what was put right reads well");
    }
    assert_small_allocations();
}

#[test]
fn heads_tails_and_lengths_at_the_edges_of_numbers_do_not_mislead_a_reader() {
    let _alone = alone();
    let region = region();
    fill(region, Mode::Discard, 60);
    let control = region.control(0);
    for head in EDGES {
        for other in EDGES {
            for mode in [Mode::Discard, Mode::Overwrite] {
                control.head.store(head, Ordering::Relaxed);
                control.tail.store(other, Ordering::Relaxed);
                control.oldest.store(other, Ordering::Relaxed);
                read(region, mode);
            }
        }
    }
    // A head that jumps between two looks.
    for first in EDGES {
        for second in EDGES {
            control.tail.store(0, Ordering::Relaxed);
            let mut consumer = Consumer::new(region, 0);
            let errors = [first, second, first]
                .into_iter()
                .filter(|&head| consumer.drain(head, |_| {}).is_err())
                .count();
            assert!(errors <= 1);
        }
    }
    assert_small_allocations();
}

#[test]
fn an_impossible_length_is_said_with_its_place_and_the_other_rings_read_on() {
    let _alone = alone();
    let region = region();
    let other = LockedProducer::new(region, 1, 1, Mode::Discard);
    assert_eq!(
        other.append(&[3 | 1 << 16, 0, 9], 1, || 4),
        Appended::Yes(4)
    );
    for length in [0, 1, 12, 0xffff_u64] {
        let words = Words::of(region);
        let control = region.control(0);
        control.head.store(80, Ordering::Relaxed);
        control.tail.store(0, Ordering::Relaxed);
        let data = geometry().data_offset(0);
        words.at(data).store(2 | 1 << 16, Ordering::Relaxed);
        words
            .at(data + 16)
            .store(length | 1 << 16, Ordering::Relaxed);
        let mut consumer = Consumer::new(region, 0);
        let mut read = 0;
        let damage = Damage::Length {
            at: 16,
            words: length as u16,
        };
        assert_eq!(consumer.drain(80, |_| read += 1), Err(damage));
        assert_eq!((read, consumer.drain(80, |_| read += 1)), (1, Ok(())));
        assert_eq!(read, 1);
    }
    let mut seen = Vec::new();
    let mut consumer = Consumer::new(region, 1);
    let head = consumer.head();
    consumer
        .drain(head, |record| seen = record.to_vec())
        .unwrap();
    assert_eq!(seen, [3 | 1 << 16, 4, 9]);
}

#[test]
fn a_region_that_is_written_while_it_is_read_misleads_no_reader() {
    let _alone = alone();
    let region = region();
    let words = Words::of(region);
    let soak = std::env::var_os("TRACEBRAID_SOAK").is_some();
    let end = Instant::now() + Duration::from_secs(if soak { 60 } else { 1 });
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = 0x1234_5678_9abc_def1_u64;
            let mut throw = move || {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice
            };
            let data = geometry().data_offset(0);
            while !done.load(Ordering::Relaxed) {
                let value = match throw() % 4 {
                    0 => EDGES[throw() as usize % EDGES.len()],
                    1 => (throw() % (2 * RING_BYTES as u64)) & !7,
                    // The header of a record of a likely length.
                    2 => (throw() % 20) | 1 << 16,
                    _ => throw(),
                };
                let place = match throw() % 4 {
                    0 => HEADER_BYTES + (throw() as usize % size_of::<Control>()),
                    _ => data + throw() as usize % RING_BYTES,
                };
                words.at(place).store(value, Ordering::Relaxed);
            }
        });
        let (mut damages, mut reads) = (0, 0);
        while Instant::now() < end {
            for mode in [Mode::Discard, Mode::Overwrite] {
                damages += read(region, mode);
                reads += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
        println!("{damages} damages in {reads} readings");
        assert!(damages > 0);
    });
    assert_small_allocations();
}

#[test]
fn a_writer_stays_within_its_ring_whatever_the_reader_has_written() {
    let _alone = alone();
    let area = Area::of_c_library().or_else(Area::own).expect("an area");
    let record = [250 | 1 << 16, 0]
        .into_iter()
        .chain(2..250)
        .collect::<Vec<u64>>();
    for mode in [Mode::Discard, Mode::Overwrite] {
        let region = region();
        let producers = (
            LockedProducer::new(region, 0, 1, mode),
            Producer::new(region, 2, mode, Clock::Tsc, area),
        );
        let witness = Words::of(region);
        for head in EDGES {
            for other in EDGES {
                for ring in 0..2 {
                    let control = region.control(ring);
                    control.head.store(head, Ordering::Relaxed);
                    control.tail.store(other, Ordering::Relaxed);
                    control.oldest.store(other, Ordering::Relaxed);
                    control.lock.store(0, Ordering::Relaxed);
                }
                producers.0.append(&record, 1, || 5);
                for _ in 0..3 {
                    if producers.1.append(&record, 0) == Appended::Elsewhere {
                        assert!(producers.1.prepare_thread());
                    }
                }
            }
        }
        // Nothing but control blocks and data was written.
        for at in (0..HEADER_BYTES).step_by(8) {
            assert_eq!(witness.at(at).load(Ordering::Relaxed), 0);
        }
    }
    // A lock that somebody else holds for ever costs the record, not the thread.
    let region = region();
    region.control(0).lock.store(77, Ordering::Relaxed);
    let producer = LockedProducer::new(region, 0, 1, Mode::Discard);
    assert_eq!(producer.append(&record, 1, || 5), Appended::Full);
}

#[test]
fn a_region_cannot_be_resized_and_one_that_could_be_is_not_opened() {
    let _alone = alone();
    let region = region();
    let size = geometry().file_bytes() as libc::off_t;
    for other in [0, size - 4096, size + 4096] {
        // SAFETY: a descriptor of ours.
        let result = unsafe { libc::ftruncate(region.file().as_raw_fd(), other) };
        assert_eq!(result, -1, "{other}");
    }
    let open = |file: OwnedFd| {
        Region::open(file, geometry())
            .map(drop)
            .map_err(|error| error.kind())
    };
    let invalid = Err(std::io::ErrorKind::InvalidData);
    assert_eq!(open(region.file().try_clone_to_owned().unwrap()), Ok(()));
    let other = Geometry::new(HEADER_BYTES, 3, RING_BYTES).unwrap();
    let wrong_size = Region::open(region.file().try_clone_to_owned().unwrap(), other);
    assert!(wrong_size.is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidData));
    for seals in [
        None,
        Some(libc::F_SEAL_GROW),
        Some(libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE),
    ] {
        // SAFETY: a terminated name; the descriptor is nobody else's.
        let file = unsafe {
            let flags = libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC;
            let file = libc::memfd_create(c"ring-test".as_ptr(), flags);
            assert!(file >= 0 && libc::ftruncate(file, size) == 0);
            if let Some(seals) = seals {
                assert_eq!(libc::fcntl(file, libc::F_ADD_SEALS, seals), 0);
            }
            OwnedFd::from_raw_fd(file)
        };
        match seals {
            Some(seals) if seals & libc::F_SEAL_WRITE != 0 => assert!(open(file).is_err()),
            _ => assert_eq!(open(file), invalid, "{seals:?}"),
        }
    }
    // No memfd at all.
    assert!(open(File::open("/proc/self/exe").unwrap().into()).is_err());
    assert!(open(File::open("/dev/null").unwrap().into()).is_err());
}

#[test]
fn a_hole_that_is_punched_under_a_reader_is_damage() {
    let _alone = alone();
    let region = region();
    fill(region, Mode::Discard, 60);
    // SAFETY: a descriptor of ours; seals do not forbid holes.
    let punched = unsafe {
        libc::fallocate(
            region.file().as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            geometry().data_offset(0) as libc::off_t,
            RING_BYTES as libc::off_t,
        )
    };
    assert_eq!(punched, 0);
    let mut consumer = Consumer::new(region, 0);
    let damage = Damage::Length { at: 0, words: 0 };
    assert_eq!(consumer.drain(consumer.head(), |_| {}), Err(damage));
    assert_eq!(consumer.drain(consumer.head(), |_| {}), Ok(()));
}

#[test]
fn sizes_that_cannot_be_are_refused_and_none_that_can_be_overflows() {
    for header in EDGES {
        for rings in EDGES {
            for bytes in EDGES {
                let [header, rings, bytes] = [header, rings, bytes].map(|number| number as usize);
                if let Ok(geometry) = Geometry::new(header, rings, bytes) {
                    assert!(geometry.file_bytes() < 1 << 46);
                    assert!(geometry.data_offset(rings - 1) + bytes == geometry.file_bytes());
                }
            }
        }
    }
    let largest = Geometry::new(
        Geometry::MAX_HEADER,
        Geometry::MAX_RINGS,
        Geometry::MAX_RING,
    );
    assert!(largest.is_ok_and(|largest| largest.file_bytes() < 1 << 46));
}
