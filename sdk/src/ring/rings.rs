//! The region of this process and its producers, in a page that a child of fork finds wiped.
//!
//! ```text
//! start   EMPTY ─▶ BEING_MADE ─▶ READY or STRAIGHT      a region of this process's own
//! fork    the kernel wipes the page: the child is EMPTY; its parent's region stays mapped
//! event   in a child that is EMPTY: if the bridge wants children's events, the child appends to rings of
//!         that region which are there for children (the CPU, not the process, owns a ring)
//! init    in a child: a region of its own
//! ```
//! So children that fire nothing cost nothing, however many there are; those that do cost no memory.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use tracebraid_ring::locked::LockedProducer;
#[cfg(target_arch = "x86_64")]
use tracebraid_ring::rseq::{Area, Producer};
use tracebraid_ring::thread;
use tracebraid_ring::{Appended, Clock, Geometry, Mode, Region};
use tracebraid_wire::record::Header;
use tracebraid_wire::region::{self, Group, control};

use super::directory::{self, word};
use super::{clock, service};
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
    /// Of `own`. EMPTY after a fork, since the kernel wipes the page.
    state: AtomicU32,
    /// Of `inherited`.
    joined: AtomicU32,
    own: UnsafeCell<MaybeUninit<Rings>>,
    /// Producers on the rings that the parent's region has for children.
    inherited: UnsafeCell<MaybeUninit<Rings>>,
}

const EMPTY: u32 = 0;
const BEING_MADE: u32 = 1;
const READY: u32 = 2;
/// Ready, and an append is one restartable sequence that reads the counter and refuses when full: the
/// common case, which goes the straight way.
const STRAIGHT: u32 = 3;
const FAILED: u32 = 4;

const _: () = assert!(size_of::<Page>() <= Geometry::PAGE);
const _: () = assert!(size_of::<Region>() <= Geometry::PAGE);

/// The page; null until the first [`start`].
static PAGE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());
/// The newest region, in memory that children have too.
static REGION: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
/// The setup, for children: ring bytes, and the rest packed.
static RING_BYTES: AtomicUsize = AtomicUsize::new(0);
static CHOICES: AtomicU64 = AtomicU64::new(0);
/// The clock, as the region's header numbers it; 0 where it was not chosen yet.
static CLOCK: AtomicU32 = AtomicU32::new(0);
/// How many CPUs have rings; 0 where they were not counted yet.
static CPUS: AtomicU32 = AtomicU32::new(0);

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

/// The rings that are this process's own. `None` before [`start`], after it failed, and while they are
/// being made.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Rings> {
    own(page()?)
}

#[inline(always)]
fn page() -> Option<&'static Page> {
    // SAFETY: the page is never unmapped.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

#[inline(always)]
fn own(page: &'static Page) -> Option<&'static Rings> {
    let ready = matches!(page.state.load(Ordering::Acquire), READY | STRAIGHT);
    // SAFETY: READY says that they are written, and they stay in this process.
    ready.then(|| unsafe { (*page.own.get()).assume_init_ref() })
}

/// Where an event goes: the process's own rings or, in a child that has none, those that its parent's
/// region has for children, where a reader wants the event of them.
#[inline(always)]
pub(super) fn of_event(event: u16) -> Option<&'static Rings> {
    let page = page()?;
    match own(page) {
        None => in_child(page, event),
        own => own,
    }
}

/// The rings of this process, where appends go the straight way.
#[inline(always)]
pub(crate) fn straight() -> Option<&'static Rings> {
    let page = page()?;
    let straight = page.state.load(Ordering::Acquire) == STRAIGHT;
    // SAFETY: STRAIGHT says that the rings are written.
    straight.then(|| unsafe { (*page.own.get()).assume_init_ref() })
}

#[cold]
#[inline(never)]
fn in_child(page: &'static Page, event: u16) -> Option<&'static Rings> {
    // SAFETY: a region is never unmapped, also not in children.
    let region = unsafe { REGION.load(Ordering::Acquire).as_ref()? };
    if page.state.load(Ordering::Acquire) != EMPTY || !is_wanted_of_children(region, event) {
        return None;
    }
    match page
        .joined
        .compare_exchange(EMPTY, BEING_MADE, Ordering::Acquire, Ordering::Acquire)
    {
        Ok(_) => {
            // SAFETY: this thread's errno. The program did not ask for system calls here, and may be about to
            // look at its own.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: as above.
            let before = unsafe { errno.read() };
            thread::forget();
            // Whoever finds it still 0 at a moment knows: what children append is of a later time.
            word(region, control::CHILDREN).fetch_add(1, Ordering::SeqCst);
            let setup = setup()?;
            // SAFETY: nobody reads the place before READY, and only this thread is making it.
            unsafe { (*page.inherited.get()).write(Rings::new(region, &setup, Group::Children)) };
            page.joined.store(READY, Ordering::Release);
            // SAFETY: as above.
            unsafe { errno.write(before) };
        }
        Err(READY) => {}
        Err(_) => return None,
    }
    // SAFETY: READY says that they are written, and they stay as they are in this process.
    Some(unsafe { (*page.inherited.get()).assume_init_ref() })
}

fn is_wanted_of_children(region: &Region, event: u16) -> bool {
    // SAFETY: within the header area, for an id is at most MAX_EVENTS; a bridge writes these bytes.
    let wanted = unsafe {
        AtomicU8::from_ptr(region.header().add(region::WANTED + usize::from(event)))
            .load(Ordering::Relaxed)
    };
    wanted & region::WANTED_OF_CHILDREN != 0
}

/// Makes the rings of this process, if it has none of its own yet.
pub(crate) fn start(setup: &Setup) -> io::Result<&'static Rings> {
    let page = make_page()?;
    match page
        .state
        .compare_exchange(EMPTY, BEING_MADE, Ordering::Acquire, Ordering::Acquire)
    {
        Ok(_) => {
            remember(setup);
            // In a child of fork the one thread has another id than the parent's, whose it remembers.
            thread::forget();
            make(page, setup)
        }
        Err(READY | STRAIGHT) => current().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)),
        Err(_) => Err(io::Error::other("the rings could not be made earlier")),
    }
}

/// The rings of this process; a child of fork that has none gets some, made as its parent's were.
pub(super) fn current_or_made() -> Option<&'static Rings> {
    current().or_else(|| {
        let setup = Setup {
            helper: false,
            ..setup()?
        };
        start(&setup).ok()
    })
}

fn make_page() -> io::Result<&'static Page> {
    if let Some(known) = page() {
        return Ok(known);
    }
    let new = anonymous_page()?;
    // SAFETY: a page of ours.
    if unsafe { libc::madvise(new.cast(), Geometry::PAGE, libc::MADV_WIPEONFORK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let new = new.cast::<Page>();
    match PAGE.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it stays mapped; zeros are valid for all of `Page` (EMPTY).
        Ok(_) => Ok(unsafe { &*new }),
        Err(other) => {
            // SAFETY: nobody has seen ours.
            unsafe { libc::munmap(new.cast(), Geometry::PAGE) };
            // SAFETY: as above.
            Ok(unsafe { &*other })
        }
    }
}

/// A page of zeros that is never given back.
fn anonymous_page() -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            Geometry::PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(page.cast())
}

/// Fills the page, which is BEING_MADE by this thread.
fn make(page: &'static Page, setup: &Setup) -> io::Result<&'static Rings> {
    let made = region_of(setup).and_then(|region| {
        let place = anonymous_page()?.cast::<Region>();
        // SAFETY: a page of ours, large enough and aligned, that stays.
        unsafe {
            place.write(region);
            Ok(&*place)
        }
    });
    let region = match made {
        Ok(region) => region,
        Err(error) => {
            page.state.store(FAILED, Ordering::Release);
            return Err(error);
        }
    };
    // SAFETY: a region is never unmapped. Where there is one, this is a child: its ids are those of its
    // parent's directory.
    let parent = unsafe { REGION.load(Ordering::Acquire).as_ref() };
    let is_child = parent.is_some();
    if let Some(parent) = parent {
        directory::inherit(region, parent);
        if is_wanted_of_children(parent, 0) {
            // The reader is told before this process goes its own way.
            let inherited = Rings::new(parent, setup, Group::Children);
            super::introduce(&inherited, true);
            thread::forget();
        }
    }
    // SAFETY: nobody reads the place before READY, and only this thread is making it.
    let rings = unsafe { (*page.own.get()).write(Rings::new(region, setup, Group::Own)) };
    word(region, control::MODE).store(mode_word(setup.mode), Ordering::Relaxed);
    REGION.store(ptr::from_ref(region).cast_mut(), Ordering::Release);
    // In a child of fork it already is, and the loader's lock may be held by a thread that is not.
    if !is_child {
        keep_loaded();
    }
    page.state.store(rings.state(), Ordering::Release);
    service::note_clocks(region);
    Ok(rings)
}

const fn mode_word(mode: Mode) -> u32 {
    match mode {
        Mode::Discard => region::MODE_DISCARD,
        Mode::Overwrite => region::MODE_OVERWRITE,
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
            let cpus = cpus.min(Geometry::MAX_RINGS / Group::ALL.len());
            CPUS.store(cpus as u32, Ordering::Relaxed);
            cpus
        }
        known => known as usize,
    }
}

fn region_of(setup: &Setup) -> io::Result<Region> {
    let cpus = cpus();
    let rings = Group::ALL.len() * cpus;
    let header_bytes = region::header_bytes(rings).next_multiple_of(Geometry::PAGE);
    let geometry = Geometry::new(header_bytes, rings, setup.ring_bytes)
        .map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, format!("{bad:?}")))?;
    let region = Region::create(c"tracebraid", geometry)?;
    let header = region::Header {
        rings: rings as u32,
        cpu_rings: cpus as u32,
        ring_bytes: setup.ring_bytes as u64,
        pid: std::process::id(),
        clock: number(clock()),
        mode: mode_word(setup.mode),
        helper: setup.helper.into(),
    }
    .encode();
    // SAFETY: the header area is at least this long, and nobody else knows the region yet. What is wanted is
    // written too, so that the page is there: children only look at it.
    unsafe {
        ptr::copy_nonoverlapping(header.as_ptr(), region.header(), header.len());
        region.header().add(region::WANTED).write_volatile(0);
    }
    Ok(region)
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
    /// Producers on the rings of a group, and of the one with locks behind it.
    fn new(region: &'static Region, setup: &Setup, group: Group) -> Rings {
        let cpus = region.geometry().rings() / Group::ALL.len();
        let clock = clock();
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

    /// READY or STRAIGHT.
    fn state(&self) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if self.rseq.is_some() && !self.overwrites() && self.clock == Clock::Tsc {
            return STRAIGHT;
        }
        READY
    }

    /// Changes what full rings do, for this process's own rings, which begin anew. `exclude` ends every
    /// sequence that is under way in any thread, or says that it cannot.
    ///
    /// Called by one thread at a time. Appends go on meanwhile, in the locked rings.
    pub(crate) fn set_mode(&self, mode: Mode, exclude: impl FnOnce() -> bool) -> bool {
        let Some(page) = page() else { return false };
        if !self.are_own() || self.overwrites() == (mode == Mode::Overwrite) {
            return self.are_own();
        }
        #[cfg(target_arch = "x86_64")]
        if let (Some(before), Some(after)) = match mode {
            Mode::Overwrite => (&self.rseq, &self.overwriting),
            Mode::Discard => (&self.overwriting, &self.rseq),
        } {
            page.state.store(READY, Ordering::Release);
            before.close();
            if !exclude() {
                before.open();
                page.state.store(self.state(), Ordering::Release);
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
        page.state.store(self.state(), Ordering::Release);
        true
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
        if let Some(producer) = self.sequences() {
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
        if let Some(producer) = self.sequences() {
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
        let now = || match self.clock {
            Clock::Tsc => clock::ticks(),
            Clock::Given => crate::clock::now(),
        };
        if self.locked.append(record, header.tid, now) != Appended::Yes {
            self.lose(header.event);
        }
    }

    #[cold]
    fn lose(&self, event: u16) {
        if usize::from(event) > region::MAX_EVENTS {
            return;
        }
        // SAFETY: no preconditions.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize % self.cpus;
        self.losses(cpu, event).fetch_add(1, Ordering::Relaxed);
    }

    fn losses(&self, cpu: usize, event: u16) -> &AtomicU32 {
        let at = region::loss_offset(self.group.first(self.cpus) + cpu, event);
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
