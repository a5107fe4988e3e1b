//! The executable and libraries of this process that have tracepoints.
//!
//! Each carries an ELF note `tracebraid` (`wire::note`), found through `dl_iterate_phdr`; nothing is
//! registered when a program starts, and a library that is loaded later counts like any other. The
//! tracepoints that this copy of the SDK makes at run time count as those of one more object.
//! The loader's lock is held while an object is looked at, so that `dlclose` cannot pull it away.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::Elf64_Phdr as ProgramHeader;

use crate::lock;
use crate::state::Point;
use tracebraid_wire::note::{self, Tables};
use tracebraid_wire::table::{POINT_ROW, PointRow, SITE_ROW, SiteRow, parse_point, parse_site};

/// An object that has tracepoints, while the loader's lock is held.
pub(crate) struct Dso<'a> {
    tables: Tables,
    /// Where the object lies: what its headers' addresses are relative to.
    base: u64,
    headers: &'a [ProgramHeader],
    name: &'a CStr,
    /// Of tracepoints made at run time: where their rows are.
    made: Option<&'a [u64]>,
}

/// Names one loading of one object. An object that is closed and opened again is another, also where
/// it comes to lie at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DsoId {
    control: u64,
    epoch: u64,
}

/// The control block (`wire::note::CONTROL_SIZE` bytes) that all copies of the SDK in a process share.
#[repr(C, align(64))]
struct Control {
    /// 1 while somebody reads or changes the object's wanted state or text.
    lock: AtomicU32,
    /// 1 once the object's text was made writable as a whole (`Dso::even_text`).
    evened: AtomicU32,
    /// Not 0 once an SDK has seen this loading of the object.
    epoch: AtomicU64,
    /// The address of `__private::OWNER` in the copy of the SDK that the object's tracepoints call.
    owner: usize,
    reserved: [u64; 5],
}

const _: () = assert!(size_of::<Control>() == note::CONTROL_SIZE);

static EPOCH: AtomicU64 = AtomicU64::new(1);

/// The control block of tracepoints made at run time.
static MADE: Control = Control {
    lock: AtomicU32::new(0),
    evened: AtomicU32::new(0),
    epoch: AtomicU64::new(0),
    owner: 0,
    reserved: [0; 5],
};

impl<'a> Dso<'a> {
    /// The tracepoints made at run time whose rows are at these addresses.
    fn of_made(rows: &'a [u64]) -> Dso<'a> {
        Dso {
            tables: Tables {
                sites_start: 0,
                sites_stop: 0,
                points_start: 0,
                points_stop: 0,
                control: (&raw const MADE).addr() as u64,
            },
            base: 0,
            headers: &[],
            name: c"",
            made: Some(rows),
        }
    }
}

impl Dso<'_> {
    fn control(&self) -> &Control {
        // SAFETY: the note leads to a zeroed, 64-aligned writable block of this size in the object,
        // which stays mapped while the loader's lock is held. All its fields are atomics or unused.
        unsafe { &*(self.tables.control as usize as *const Control) }
    }

    /// Who this is. Never equal for two loadings.
    pub(crate) fn id(&self) -> DsoId {
        let epoch = &self.control().epoch;
        let known = epoch.load(Ordering::Relaxed);
        DsoId {
            control: self.tables.control,
            epoch: if known == 0 {
                Self::claim(epoch)
            } else {
                known
            },
        }
    }

    /// Gives an epoch to a loading that has none.
    #[cold]
    fn claim(epoch: &AtomicU64) -> u64 {
        let fresh = (u64::from(std::process::id()) << 32) | EPOCH.fetch_add(1, Ordering::Relaxed);
        match epoch.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(theirs) => theirs,
        }
    }

    /// The path it was loaded from; empty for the executable.
    pub(crate) fn name(&self) -> CString {
        self.name.to_owned()
    }

    /// Whether it stands for tracepoints made at run time: no file, and no sites.
    pub(crate) fn is_made(&self) -> bool {
        self.made.is_some()
    }

    /// Whether its tracepoints call this copy of the SDK, and so append to its rings. (A library may
    /// bring a copy of its own.)
    pub(crate) fn is_ours(&self) -> bool {
        self.is_made() || self.control().owner == (&raw const crate::__private::OWNER).addr()
    }

    /// Runs `change` while nobody else, in this or another copy of the SDK, changes the object.
    pub(crate) fn locked<T>(&self, change: impl FnOnce() -> T) -> T {
        let lock = &self.control().lock;
        while lock
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
        let result = change();
        lock.store(0, Ordering::Release);
        result
    }

    /// Calls `even` with the bounds of each executable segment, the first time for this loading.
    pub(crate) fn even_text(&self, mut even: impl FnMut(usize, usize)) {
        if self.control().evened.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        for header in self.headers {
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
                let start = self.base.wrapping_add(header.p_vaddr);
                even(start as usize, (start + header.p_filesz) as usize);
            }
        }
    }

    /// Its points.
    pub(crate) fn points(&self) -> impl Iterator<Item = PointRow> + use<'_> {
        let made = self.made.unwrap_or_default().iter().map(|&address| {
            let row: *const [u8; POINT_ROW] = std::ptr::with_exposed_provenance(address as usize);
            // SAFETY: rows of tracepoints made at run time stay where they are, and are not written.
            (address, unsafe { &*row })
        });
        rows::<POINT_ROW>(self.tables.points_start, self.tables.points_stop)
            .chain(made)
            .filter_map(|(address, row)| parse_point(row, address))
    }

    /// What is wanted of the point whose row is at `address`.
    ///
    /// # Safety
    /// The address comes from a site row of this object.
    pub(crate) unsafe fn point_at(&self, address: u64) -> Point<'_> {
        // SAFETY: the caller's promise; the row is parsed from the object's own read-only table.
        unsafe {
            let row = &*(address as usize as *const [u8; POINT_ROW]);
            match parse_point(row, address) {
                Some(row) => Point::of(&row),
                None => unreachable!("a whole row parses"),
            }
        }
    }

    /// Its sites. Rows of one place in code stand next to one another.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteRow> + use<'_> {
        rows::<SITE_ROW>(self.tables.sites_start, self.tables.sites_stop)
            .filter_map(|(address, row)| parse_site(row, address))
    }
}

fn rows<'a, const SIZE: usize>(
    start: u64,
    stop: u64,
) -> impl Iterator<Item = (u64, &'a [u8; SIZE])> {
    let count = stop.saturating_sub(start) / SIZE as u64;
    (0..count).map(move |index| {
        let address = start + index * SIZE as u64;
        // SAFETY: the linker lays whole rows between the two bounds of the object's read-only table,
        // which is mapped while the loader's lock is held (the caller iterates under it).
        (address, unsafe {
            &*(address as usize as *const [u8; SIZE])
        })
    })
}

/// Text of an object: the bytes at `address` up to a NUL.
///
/// # Safety
/// `address` comes from a row of an object that is loaded and stays so for `'a`.
pub(crate) unsafe fn text<'a>(address: u64) -> &'a CStr {
    // SAFETY: the caller's promise; the macros terminate every text.
    unsafe { CStr::from_ptr(address as usize as *const _) }
}

/// Shows every object with tracepoints to `visit`, until it returns `false`. `visit` must not call this
/// again, nor run code of users.
pub(crate) fn for_each(mut visit: impl FnMut(&Dso<'_>) -> bool) {
    let mut visit: &mut dyn FnMut(&Dso<'_>) -> bool = &mut visit;
    let loader = lock::loader();
    // SAFETY: `callback` takes the pointer for what it is, and only during the call.
    let ended = unsafe { libc::dl_iterate_phdr(Some(callback), (&raw mut visit).cast()) };
    if ended == 0 && !loader.is_empty() {
        visit(&Dso::of_made(&loader));
    }
}

/// Takes in a tracepoint made at run time, and shows it.
#[cfg(feature = "tracing")]
pub(crate) fn add_made(row: u64, visit: impl FnOnce(&Dso<'_>)) {
    let mut loader = lock::loader();
    loader.push(row);
    visit(&Dso::of_made(&[row]));
}

/// Keeps the object that this copy of the SDK is in from being unloaded: callbacks lead into it.
pub(crate) fn keep_this_loaded() {
    #[cfg(not(target_feature = "crt-static"))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // SAFETY: all zeros is a `Dl_info`, which `dladdr` fills for an address of ours; the name is
            // the loader's own, and RTLD_NOLOAD loads nothing. The executable is kept anyway.
            unsafe {
                let mut info: libc::Dl_info = std::mem::zeroed();
                let here = keep_this_loaded as fn() as *const c_void;
                if libc::dladdr(here, &raw mut info) != 0 && !info.dli_fname.is_null() {
                    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
                    libc::dlopen(info.dli_fname, flags);
                }
            }
        });
    }
}

/// How many objects were loaded and unloaded so far: when it changes, look again.
pub(crate) fn generation() -> (u64, u64) {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader gives a valid `info`, and `data` is the pair below.
        unsafe { *data.cast() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counts = (0u64, 0u64);
    let _loader = lock::loader();
    // SAFETY: `first` writes the pair and ends the walk.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut counts).cast()) };
    counts
}

unsafe extern "C" fn callback(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `data` is the `&mut &mut dyn FnMut` of `for_each`, alive during the walk.
    let visit = unsafe { &mut *data.cast::<&mut dyn FnMut(&Dso<'_>) -> bool>() };
    // SAFETY: the loader gives a valid `info` whose headers and segments stay mapped during the call.
    let dso = unsafe { find_note(&*info) };
    c_int::from(dso.is_some_and(|dso| !visit(&dso)))
}

/// # Safety
/// `info` comes from `dl_iterate_phdr`, during its callback.
unsafe fn find_note(info: &libc::dl_phdr_info) -> Option<Dso<'_>> {
    if info.dlpi_phdr.is_null() {
        return None;
    }
    // SAFETY: the loader's own table and its length.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
    {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        // SAFETY: a PT_NOTE segment of a loaded object is mapped and readable for its file size.
        let bytes = unsafe {
            std::slice::from_raw_parts(start as usize as *const u8, header.p_filesz as usize)
        };
        // A linker may put notes of both alignments into one segment, and then says the larger one (mold).
        let tables = [4, 8]
            .into_iter()
            .find_map(|align| tables_in(bytes, start, align));
        if let Some(tables) = tables {
            let name = if info.dlpi_name.is_null() {
                c""
            } else {
                // SAFETY: the loader's name, NUL-terminated.
                unsafe { CStr::from_ptr(info.dlpi_name) }
            };
            return Some(Dso {
                tables,
                base: info.dlpi_addr,
                headers,
                name,
                made: None,
            });
        }
    }
    None
}

fn tables_in(mut notes: &[u8], mut address: u64, align: usize) -> Option<Tables> {
    while notes.len() >= 12 {
        let word = |at: usize| {
            u32::from_le_bytes([notes[at], notes[at + 1], notes[at + 2], notes[at + 3]]) as usize
        };
        let (name_size, desc_size, kind) = (word(0), word(4), word(8));
        let desc_at = (12 + name_size).next_multiple_of(align);
        let end = desc_at.checked_add(desc_size)?.next_multiple_of(align);
        let owner = notes.get(12..12 + name_size)?;
        let desc = notes.get(desc_at..desc_at + desc_size)?;
        if owner.strip_suffix(b"\0") == Some(note::OWNER.as_bytes()) && kind == note::TYPE as usize
        {
            return note::parse(desc, address + desc_at as u64).ok();
        }
        notes = notes.get(end..)?;
        address += end as u64;
    }
    None
}
