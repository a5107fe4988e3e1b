//! The directory: which event id is which tracepoint, for whoever reads the rings.
//!
//! Entries are only ever appended, and `DIRECTORY_USED` is raised after an entry is whole, so that a
//! reader sees whole entries only. An id stands for one tracepoint of one loading of an object.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use tracebraid_ring::Region;
use tracebraid_wire::region::{self, ENTRY_HEAD, ENTRY_ROW, MAX_EVENTS, control};

/// A control word of the region.
pub(crate) fn word(region: &Region, which: usize) -> &AtomicU32 {
    // SAFETY: within the header area, 4-aligned; everybody uses it as an atomic.
    unsafe { &*region.header().add(region::CONTROL + which).cast() }
}

/// Appends the tracepoint whose row is at `row`. Its event id; `None` where there is no room, which is counted.
///
/// Called under the process's lock.
pub(crate) fn append(region: &Region, next: &mut u16, row: u64, schema: &[u8]) -> Option<u16> {
    let used = word(region, control::DIRECTORY_USED).load(Ordering::Relaxed) as usize;
    let length = (ENTRY_HEAD + ENTRY_ROW + schema.len()).next_multiple_of(8);
    let event = *next;
    if used + length > region::DIRECTORY_BYTES || usize::from(event) > MAX_EVENTS {
        word(region, control::UNLISTED).fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let head = (length as u64) | u64::from(event) << 32;
    // SAFETY: within the directory, past what readers look at yet; the file was zeros.
    unsafe {
        let entry = region.header().add(region::DIRECTORY + used);
        entry.cast::<u64>().write(head);
        entry.add(ENTRY_HEAD).cast::<u64>().write(row);
        let place = entry.add(ENTRY_HEAD + ENTRY_ROW);
        ptr::copy_nonoverlapping(schema.as_ptr(), place, schema.len());
    }
    word(region, control::DIRECTORY_USED).store((used + length) as u32, Ordering::Release);
    *next += 1;
    Some(event)
}

/// Copies a parent's directory into a child's region.
pub(super) fn inherit(child: &Region, parent: &Region) {
    let used = word(parent, control::DIRECTORY_USED).load(Ordering::Acquire);
    let length = (used as usize).min(region::DIRECTORY_BYTES);
    // SAFETY: both header areas are mapped and have a directory of that size; what is used is not written
    // any more, and nobody knows of the child's yet.
    unsafe {
        ptr::copy_nonoverlapping(
            parent.header().add(region::DIRECTORY),
            child.header().add(region::DIRECTORY),
            length,
        );
    }
    word(child, control::DIRECTORY_USED).store(length as u32, Ordering::Release);
}
