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
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tracebraid_ring::thread;
use tracebraid_ring::{Geometry, Mode, Region};
use tracebraid_wire::region::{self, Group, control};

use super::directory::{self, word};
use super::rings::{Rings, mode_word};
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
    /// The process that `own` is of: one that shares its memory is another.
    owner: AtomicU32,
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
/// How many CPUs have rings; 0 where they were not counted yet.
static CPUS: AtomicU32 = AtomicU32::new(0);

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

const fn ready(straight: bool) -> u32 {
    if straight { STRAIGHT } else { READY }
}

/// Whether appends to the process's own rings go the straight way from here on.
pub(super) fn go_straight(straight: bool) {
    if let Some(page) = page() {
        page.state.store(ready(straight), Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn in_child(page: &'static Page, event: u16) -> Option<&'static Rings> {
    // SAFETY: a region is never unmapped, also not in children.
    let region = unsafe { REGION.load(Ordering::Acquire).as_ref()? };
    if page.state.load(Ordering::Acquire) != EMPTY || !is_wanted_of_children(region, event) {
        return None;
    }
    joined(page, region)
}

/// Where an event of a thread goes in whose place a child may run: as [`of_event`], but that a child which
/// shares this memory is found out.
pub(super) fn of_shared(event: u16) -> Option<&'static Rings> {
    let page = page()?;
    let Some(own) = own(page) else {
        return in_child(page, event);
    };
    if page.owner.load(Ordering::Relaxed) == std::process::id() {
        return Some(own);
    }
    is_wanted_of_children(own.region, event)
        .then(|| joined(page, own.region))
        .flatten()
}

/// Producers on the rings that a region has for children.
fn joined(page: &'static Page, region: &'static Region) -> Option<&'static Rings> {
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
    // What failed may go now: there are descriptors again, or room.
    let begun = [EMPTY, FAILED].map(|state| {
        let to = BEING_MADE;
        page.state
            .compare_exchange(state, to, Ordering::Acquire, Ordering::Acquire)
    });
    match begun[0].or(begun[1]) {
        Ok(_) => {
            remember(setup);
            // In a child of fork the one thread has another id than the parent's, whose it remembers.
            thread::forget();
            make(page, setup)
        }
        Err(READY | STRAIGHT) => current().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)),
        Err(_) => Err(io::Error::other("another thread is making the rings")),
    }
}

/// The rings of this process; a child of fork that has none gets some, made as its parent's were.
pub(super) fn current_or_made() -> Option<&'static Rings> {
    // Where they could not be made, `init` may try again, and nobody else: a sandbox may have closed since,
    // which kills who asks.
    let has_failed = page().is_some_and(|page| page.state.load(Ordering::Acquire) == FAILED);
    current().or_else(|| {
        let setup = Setup {
            helper: false,
            ..setup().filter(|_| !has_failed)?
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
            service::be_followed(parent);
        }
    }
    // SAFETY: nobody reads the place before READY, and only this thread is making it.
    let rings = unsafe { (*page.own.get()).write(Rings::new(region, setup, Group::Own)) };
    page.owner.store(std::process::id(), Ordering::Relaxed);
    word(region, control::MODE).store(mode_word(setup.mode), Ordering::Relaxed);
    service::begin_anew();
    REGION.store(ptr::from_ref(region).cast_mut(), Ordering::Release);
    // In a child of fork it already is, and the loader's lock may be held by a thread that is not.
    if !is_child {
        keep_loaded();
    }
    page.state
        .store(ready(rings.is_straight()), Ordering::Release);
    service::note_clocks(region);
    Ok(rings)
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
        clock: clock::number(clock::chosen()),
        mode: mode_word(setup.mode),
        helper: match setup.helper {
            true => region::HELPER_SERVES | region::HELPER_COUNTS,
            false => 0,
        },
    }
    .encode();
    // A reader may see the memfd as soon as there is one: the first word says that the others are there.
    let (first, others) = header.split_at(8);
    // SAFETY: the header area is at least this long and 8-aligned, and nobody writes it yet but this thread.
    // What is wanted is written too, so that the page is there: children only look at it.
    unsafe {
        ptr::copy_nonoverlapping(others.as_ptr(), region.header().add(8), others.len());
        region.header().add(region::WANTED).write_volatile(0);
        let first = u64::from_ne_bytes(first.try_into().unwrap_or_default());
        AtomicU64::from_ptr(region.header().cast()).store(first, Ordering::Release);
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
