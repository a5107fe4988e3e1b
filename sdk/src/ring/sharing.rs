//! Children that run in their parent's memory and with its thread's variables, until they call exec: those of
//! `vfork` and of `clone` with `CLONE_VM`.
//!
//! The kernel knows no restartable sequence of such a child, and the child takes its parent's for its own: what
//! it appends so is not protected from others on its CPU. Nothing tells it from its parent but system calls,
//! which are too dear for each event. So its parent says before that there will be one, and from then on
//! events of this thread, whoever runs in its place, ask who they are of, and go to rings with locks: the
//! parent's to its own, the child's to those for children.

use std::marker::PhantomData;
use std::slice;
use std::sync::atomic::Ordering;

use tracebraid_ring::thread;
use tracebraid_wire::record::Header;

use super::encode::Encoder;
use super::{introduction, page};
use crate::stamp::Stamp;
use crate::state::{HotRow, State};

/// See [`before_vfork`].
#[derive(Debug)]
#[must_use = "tracepoints are safe in the child for as long as this is held"]
pub struct BeforeVfork(PhantomData<*const ()>);

/// Makes tracepoints safe in a child that this thread is about to make by `vfork`, or by `clone` with
/// `CLONE_VM` and without thread-locals of its own, for as long as what it returns is held. `posix_spawn` and
/// [`std::process::Command`] need nothing of the kind: no code of the program runs in their children.
///
/// Events of this thread take two system calls more meanwhile. The child's come with a bridge that follows
/// children, and are left out otherwise. To be dropped by the parent, when the child has called exec or
/// ended.
pub fn before_vfork() -> BeforeVfork {
    thread::share(true);
    BeforeVfork(PhantomData)
}

impl Drop for BeforeVfork {
    fn drop(&mut self) {
        thread::share(false);
    }
}

/// Appends an event of a thread in whose place a child may run.
///
/// # Safety
/// As for [`append`](super::append).
#[cold]
#[inline(never)]
pub(super) unsafe fn append(row: HotRow, state: &State, slots: *const u64) -> Option<Stamp> {
    let event = state.event.load(Ordering::Relaxed) as u16;
    let rings = page::of_shared(event)?;
    let thread = thread::id();
    let put = |record: &[u64]| rings.append_locked(record, &Header::parse(record[0], 0)?);
    if thread::is_new_here(thread) {
        put(&introduction(thread, false));
    }
    let mut record = Encoder::new();
    // SAFETY: the caller's promise, as in `append`.
    unsafe {
        let kinds = slice::from_raw_parts(row.schema().add(8), row.fields());
        let (record, words) = record.cut(kinds, slots)?;
        record.write(Header::word(words as u16, event, thread));
        // The time is written by the append.
        record.add(1).write(0);
        put(slice::from_raw_parts(record, words))
    }
}
