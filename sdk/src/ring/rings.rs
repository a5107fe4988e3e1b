//! The region of this process and its producers, in a page that a child of fork finds wiped.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tracebraid_ring::locked::LockedProducer;
#[cfg(target_arch = "x86_64")]
use tracebraid_ring::rseq::{Area, Producer};
use tracebraid_ring::thread;
use tracebraid_ring::{Appended, Clock, Geometry, Mode, Region};
use tracebraid_wire::record::Header;
use tracebraid_wire::region;

use super::{clock, directory};
use crate::options::Appending;

/// How the rings are made. Kept for children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) ring_bytes: usize,
    pub(crate) mode: Mode,
    pub(crate) appending: Appending,
    pub(crate) helper: bool,
}

/// What the page holds.
#[repr(C)]
struct Page {
    /// EMPTY after a fork, since the kernel wipes the page.
    state: AtomicU32,
    rings: UnsafeCell<MaybeUninit<Rings>>,
}

const EMPTY: u32 = 0;
const BEING_MADE: u32 = 1;
const READY: u32 = 2;
/// Ready, and an append is one restartable sequence that reads the counter and refuses when full: the
/// common case, which goes the straight way.
const STRAIGHT: u32 = 3;
const FAILED: u32 = 4;

const _: () = assert!(size_of::<Page>() <= Geometry::PAGE);

/// The page; null until the first [`start`].
static PAGE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());
/// The header area of the newest region, which a child copies the directory from.
static HEADER: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// The setup, for children: ring bytes, and the rest packed.
static RING_BYTES: AtomicUsize = AtomicUsize::new(0);
static CHOICES: AtomicU64 = AtomicU64::new(0);
/// The clock, as the region's header numbers it; 0 where it was not chosen yet.
static CLOCK: AtomicU32 = AtomicU32::new(0);
/// How many CPUs have rings; 0 where they were not counted yet.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// The region and who appends to it.
pub(crate) struct Rings {
    pub(crate) region: Region,
    #[cfg(target_arch = "x86_64")]
    rseq: Option<Producer>,
    locked: MaybeUninit<LockedProducer>,
    clock: Clock,
    cpus: usize,
}

/// The rings of this process. `None` before [`start`], after it failed, and while they are being made.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Rings> {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return None;
    }
    // SAFETY: the page is never unmapped.
    let page = unsafe { &*page };
    if matches!(page.state.load(Ordering::Acquire), READY | STRAIGHT) {
        // SAFETY: READY says that they are written, and they stay as they are in this process.
        return Some(unsafe { (*page.rings.get()).assume_init_ref() });
    }
    child(page)
}

/// The rings of this process, where appends go the straight way.
#[inline(always)]
pub(crate) fn straight() -> Option<&'static Rings> {
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: the page is never unmapped; STRAIGHT says that the rings are written.
    unsafe {
        let page = page.as_ref()?;
        (page.state.load(Ordering::Acquire) == STRAIGHT)
            .then(|| (*page.rings.get()).assume_init_ref())
    }
}

/// The first event of a child of fork: makes it a region of its own.
#[cold]
fn child(page: &'static Page) -> Option<&'static Rings> {
    if page
        .state
        .compare_exchange(EMPTY, BEING_MADE, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        return None;
    }
    // SAFETY: this thread's errno. The program did not ask for system calls here, and may be about to
    // look at its own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    thread::forget();
    let made = setup().and_then(|setup| {
        let setup = Setup {
            helper: false,
            ..setup
        };
        make(page, &setup, HEADER.load(Ordering::Acquire)).ok()
    });
    // SAFETY: as above.
    unsafe { errno.write(before) };
    made
}

/// Makes the rings of this process, if it has none yet.
pub(crate) fn start(setup: &Setup) -> io::Result<&'static Rings> {
    let page = page()?;
    match page
        .state
        .compare_exchange(EMPTY, BEING_MADE, Ordering::Acquire, Ordering::Acquire)
    {
        Ok(_) => {
            remember(setup);
            // In a child of fork the one thread has another id than the parent's, whose it remembers.
            thread::forget();
            // Where this is a child's `init`, ids are still those of its parent's directory.
            make(page, setup, HEADER.load(Ordering::Acquire))
        }
        Err(READY | STRAIGHT) => current().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)),
        Err(_) => Err(io::Error::other("the rings could not be made earlier")),
    }
}

fn page() -> io::Result<&'static Page> {
    let known = PAGE.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: the page is never unmapped.
        return Ok(unsafe { &*known });
    }
    // SAFETY: a new private page of zeros, for which all of `Page` is valid (EMPTY).
    let page = unsafe {
        let page = libc::mmap(
            ptr::null_mut(),
            Geometry::PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED
            || libc::madvise(page, Geometry::PAGE, libc::MADV_WIPEONFORK) != 0
        {
            return Err(io::Error::last_os_error());
        }
        page.cast::<Page>()
    };
    match PAGE.compare_exchange(ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it stays mapped.
        Ok(_) => Ok(unsafe { &*page }),
        Err(other) => {
            // SAFETY: nobody has seen ours.
            unsafe { libc::munmap(page.cast(), Geometry::PAGE) };
            // SAFETY: as above.
            Ok(unsafe { &*other })
        }
    }
}

/// Fills the page, which is BEING_MADE by this thread. Allocates nothing from the heap: a child may get
/// here in a signal handler.
fn make(page: &'static Page, setup: &Setup, parent: *const u8) -> io::Result<&'static Rings> {
    match region_of(setup) {
        Ok((region, clock, cpus)) => {
            if !parent.is_null() {
                directory::inherit(&region, parent);
            }
            // SAFETY: nobody reads the place before READY, and only this thread is making it.
            let rings = unsafe {
                (*page.rings.get()).write(Rings {
                    region,
                    #[cfg(target_arch = "x86_64")]
                    rseq: None,
                    locked: MaybeUninit::uninit(),
                    clock,
                    cpus,
                })
            };
            let region: *const Region = &raw const rings.region;
            // SAFETY: the page is never unmapped, and wiped only in children, where the state says so.
            let region: &'static Region = unsafe { &*region };
            #[cfg(target_arch = "x86_64")]
            {
                let area = match setup.appending {
                    Appending::Auto => Area::of_c_library().or_else(Area::own),
                    Appending::OwnRseq => Area::own(),
                    Appending::Locked => None,
                };
                rings.rseq = area.map(|area| Producer::new(region, cpus, setup.mode, clock, area));
            }
            rings
                .locked
                .write(LockedProducer::new(region, cpus, cpus, setup.mode));
            HEADER.store(region.header(), Ordering::Release);
            // In a child of fork it already is, and the loader's lock may be held by a thread that is not.
            if parent.is_null() {
                keep_loaded();
            }
            page.state.store(rings.state(setup.mode), Ordering::Release);
            Ok(rings)
        }
        Err(error) => {
            page.state.store(FAILED, Ordering::Release);
            Err(error)
        }
    }
}

/// Keeps the object that this code is in from being unloaded: a thread may be in the middle of an append,
/// and the kernel looks at the description of that sequence when it next preempts it.
fn keep_loaded() {
    #[cfg(not(target_feature = "crt-static"))]
    // SAFETY: `dladdr` fills plain memory; RTLD_NOLOAD loads nothing, and the name is the loader's own.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((&raw const PAGE).cast(), &raw mut info) != 0 && !info.dli_fname.is_null() {
            libc::dlopen(
                info.dli_fname,
                libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            );
        }
    }
}

/// Which clock records carry; children keep their parent's, for finding out allocates.
fn clock() -> Clock {
    match CLOCK.load(Ordering::Relaxed) {
        region::CLOCK_TSC => Clock::Tsc,
        region::CLOCK_MONOTONIC => Clock::Given,
        _ => {
            let clock = clock::choose();
            CLOCK.store(number(clock), Ordering::Relaxed);
            clock
        }
    }
}

/// As the region's header numbers them.
fn number(clock: Clock) -> u32 {
    match clock {
        Clock::Tsc => region::CLOCK_TSC,
        Clock::Given => region::CLOCK_MONOTONIC,
    }
}

/// How many CPUs there are, as ids go. The C library is not enough: musl counts those that this thread may
/// run on now. Children keep their parent's, for reading a file allocates.
fn cpus() -> usize {
    match CPUS.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: no preconditions.
            let counted = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
            // A list such as `0-3,5`.
            let present = std::fs::read_to_string("/sys/devices/system/cpu/present");
            let last = present.ok().and_then(|list| {
                let last = list.trim().rsplit([',', '-']).next()?;
                last.parse::<usize>().ok()
            });
            let cpus = last.map_or(counted, |last| counted.max(last.saturating_add(1)));
            let cpus = cpus.min(Geometry::MAX_RINGS / 2);
            CPUS.store(cpus as u32, Ordering::Relaxed);
            cpus
        }
        known => known as usize,
    }
}

fn region_of(setup: &Setup) -> io::Result<(Region, Clock, usize)> {
    let cpus = cpus();
    let clock = clock();
    let header_bytes = region::header_bytes(2 * cpus).next_multiple_of(Geometry::PAGE);
    let geometry = Geometry::new(header_bytes, 2 * cpus, setup.ring_bytes)
        .map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, format!("{bad:?}")))?;
    let region = Region::create(c"tracebraid", geometry)?;
    let header = region::Header {
        rings: 2 * cpus as u32,
        cpu_rings: cpus as u32,
        ring_bytes: setup.ring_bytes as u64,
        pid: std::process::id(),
        clock: number(clock),
        mode: match setup.mode {
            Mode::Discard => region::MODE_DISCARD,
            Mode::Overwrite => region::MODE_OVERWRITE,
        },
        helper: setup.helper.into(),
    }
    .encode();
    // SAFETY: the header area is at least this long, and nobody else knows the region yet.
    unsafe { ptr::copy_nonoverlapping(header.as_ptr(), region.header(), header.len()) };
    Ok((region, clock, cpus))
}

fn remember(setup: &Setup) {
    RING_BYTES.store(setup.ring_bytes, Ordering::Relaxed);
    let choices = u64::from(setup.mode == Mode::Overwrite) | (setup.appending as u64) << 8;
    CHOICES.store(choices, Ordering::Release);
}

fn setup() -> Option<Setup> {
    let choices = CHOICES.load(Ordering::Acquire);
    let ring_bytes = RING_BYTES.load(Ordering::Relaxed);
    Some(Setup {
        ring_bytes: (ring_bytes != 0).then_some(ring_bytes)?,
        mode: if choices & 1 == 1 {
            Mode::Overwrite
        } else {
            Mode::Discard
        },
        appending: match choices >> 8 {
            1 => Appending::OwnRseq,
            2 => Appending::Locked,
            _ => Appending::Auto,
        },
        helper: false,
    })
}

impl Rings {
    /// Whether appends are restartable sequences.
    fn has_sequences(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.rseq.is_some();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// READY or STRAIGHT.
    fn state(&self, mode: Mode) -> u32 {
        let sequence = self.has_sequences();
        if sequence && mode == Mode::Discard && self.clock == Clock::Tsc {
            STRAIGHT
        } else {
            READY
        }
    }

    /// Appends a record, or counts it as lost. Its header says which event and thread.
    ///
    /// # Safety
    /// The rings are STRAIGHT; the record has `words` words, 2 to 256.
    #[inline(always)]
    pub(crate) unsafe fn append_straight(&self, record: *const u64, words: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if let Some(producer) = &self.rseq
                && producer.append_discard_tsc(record, words) == Appended::Yes
            {
                return;
            }
            self.append_otherwise(std::slice::from_raw_parts(record, words));
        }
    }

    /// Appends a record, or counts it as lost. Its header says which event and thread.
    ///
    /// # Safety
    /// It has 2 to 256 words.
    #[inline(always)]
    pub(crate) unsafe fn append(&self, record: &[u64]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(producer) = &self.rseq {
            // SAFETY: the caller's promise.
            if unsafe { producer.append_short(record, crate::clock::now) } == Appended::Yes {
                return;
            }
        }
        self.append_otherwise(record);
    }

    /// What to do when the straight way did not go.
    #[cold]
    #[inline(never)]
    fn append_otherwise(&self, record: &[u64]) {
        let Some(header) = Header::parse(record[0], 0) else {
            return;
        };
        #[cfg(target_arch = "x86_64")]
        if let Some(producer) = &self.rseq {
            let append = || producer.append(record, crate::clock::now());
            let again = match append() {
                Appended::Elsewhere if producer.prepare_thread() => append(),
                first => first,
            };
            match again {
                Appended::Yes => return,
                Appended::Full => return self.lose(header.event),
                Appended::Elsewhere => {}
            }
        }
        // SAFETY: written before READY.
        let locked = unsafe { self.locked.assume_init_ref() };
        let now = || match self.clock {
            Clock::Tsc => clock::ticks(),
            Clock::Given => crate::clock::now(),
        };
        if locked.append(record, header.tid, now) != Appended::Yes {
            self.lose(header.event);
        }
    }

    #[cold]
    fn lose(&self, event: u16) {
        // SAFETY: no preconditions.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize % self.cpus;
        let at = region::loss_offset(cpu, event);
        // SAFETY: within the header area, 4-aligned; used as an atomic by everybody.
        unsafe { &*self.region.header().add(at).cast::<AtomicU32>() }
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Events lost so far, over all CPUs.
    pub(crate) fn lost(&self, event: u16) -> u64 {
        let on = |cpu| {
            // SAFETY: as in `lose`.
            unsafe {
                &*self
                    .region
                    .header()
                    .add(region::loss_offset(cpu, event))
                    .cast::<AtomicU32>()
            }
            .load(Ordering::Relaxed)
        };
        (0..self.cpus).map(|cpu| u64::from(on(cpu))).sum()
    }

    /// The clock of the records.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }
}
