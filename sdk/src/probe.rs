//! In-process probes: callbacks on a tracepoint's hits (the kernel's `register_trace_*`).
//!
//! A tracepoint's callbacks are an immutable list; attaching and detaching swap it for another. Hits
//! go through the list without a lock: a thread counts itself in, reads the list, counts itself out.
//! A list that was swapped out is freed when nobody is counted in who could have read it, in two
//! phases as in the kernel's sleepable RCU. So a callback has returned everywhere, and will not be
//! called again, when its [`Attachment`] has been dropped (but see there). Nothing is allocated by a
//! hit, so that a signal handler may hit tracepoints too.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use tracebraid_wire::table::PointRow;

use crate::dso;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::gate::{self, Outcome};
use crate::registry::{self, Description, Tracepoint};
use crate::state::{HotRow, Point, State};

/// The list of a tracepoint. Other copies of the SDK in the process call it through its first field
/// and know no more of it.
#[repr(C)]
pub(crate) struct Callbacks {
    call: unsafe extern "C" fn(*const Callbacks, row: *const u8, slots: *const u64),
    /// Whose list it is: the address of that copy's `COPY`.
    copy: *const u8,
    entries: Vec<Arc<Entry>>,
}

/// Tells this copy of the SDK from others in the process.
static COPY: u8 = 0;

struct Entry {
    id: u64,
    tracepoint: Arc<Description>,
    callback: Box<dyn Fn(&Event<'_>) + Send + Sync>,
}

/// A callback that is attached. Dropping it detaches the callback.
///
/// When the drop has returned, the callback has returned in every thread and is not called again;
/// except that a drop from within a callback does not wait for callbacks that are running.
#[must_use = "the callback is detached when this is dropped"]
pub struct Attachment {
    id: u64,
    tracepoint: Arc<Description>,
}

impl Tracepoint {
    /// Calls `callback` on each hit, from the thread that hits, before the hit's function goes on.
    ///
    /// Several callbacks may be attached, from several threads; they are called in that order. A
    /// callback may hit tracepoints itself; hits of a tracepoint from within its own callbacks skip
    /// the callbacks. A panic in a callback is caught, and counted in [`status`](crate::status()). The
    /// libraries that hold the tracepoint and the caller's copy of this crate are kept loaded from now on.
    ///
    /// # Errors
    /// The object has been unloaded, another library's copy of this crate has callbacks on the
    /// tracepoint, or the process cannot patch its own code (the callback is then not attached).
    pub fn attach(
        &self,
        callback: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<Attachment> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        keep_loaded(&self.0)?;
        dso::keep_this_loaded();
        let entry = Arc::new(Entry {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tracepoint: Arc::clone(&self.0),
            callback: Box::new(callback),
        });
        let attachment = Attachment {
            id: entry.id,
            tracepoint: Arc::clone(&self.0),
        };
        // Where this fails, dropping the attachment takes the callback back.
        change(&self.0, |entries| entries.push(entry))?;
        Ok(attachment)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // What can fail is switching the key off: it stays on for nobody, which is harmless.
        let _ = change(&self.tracepoint, |entries| {
            entries.retain(|entry| entry.id != self.id)
        });
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "Attachment({}:{})",
            self.tracepoint.provider, self.tracepoint.name
        )
    }
}

/// A list that is no longer reachable, but may still be read.
pub(crate) struct Retired {
    row: u64,
    list: *mut Callbacks,
}

// SAFETY: the list is only dropped, and its entries are Send and Sync.
unsafe impl Send for Retired {}

/// A tracepoint that had callbacks: its object stays loaded.
pub(crate) struct Attached {
    row: u64,
    state: &'static State,
}

/// In a child of fork: the threads that were going through callbacks are not there, and nobody would
/// count them out. Where this very thread is within callbacks of a tracepoint its counts stay.
pub(crate) fn forget_readers(attached: &[Attached]) {
    for Attached { row, state } in attached {
        if !is_within(*row) {
            for count in &state.reading {
                count.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Swaps the list of a tracepoint for one that `edit` makes of it.
fn change(tracepoint: &Arc<Description>, edit: impl FnOnce(&mut Vec<Arc<Entry>>)) -> Result<()> {
    let mut outcome = Outcome::default();
    let mut old = ptr::null_mut();
    let mut edit = Some(edit);
    let mut foreign = false;
    let mut locked = gate::lock();
    with_row(tracepoint, |dso, row| {
        let Some(edit) = edit.take() else { return };
        dso.locked(|| {
            // SAFETY: `keep_loaded` holds the object from the first attachment on.
            let state: &'static State = unsafe { Point::of(row) }.state;
            if locked.attached.iter().all(|known| known.row != row.address) {
                locked.attached.push(Attached {
                    row: row.address,
                    state,
                });
            }
            let before = state.callbacks.load(Ordering::Relaxed);
            // SAFETY: the list is freed under this lock only. Of another copy's only the part that all
            // copies share is looked at.
            let mut entries = match unsafe { before.as_ref() } {
                Some(list) if !ptr::eq(list.copy, &raw const COPY) => {
                    foreign = true;
                    return;
                }
                Some(list) => list.entries.clone(),
                None => Vec::new(),
            };
            edit(&mut entries);
            let after = match entries.is_empty() {
                true => ptr::null_mut(),
                false => Box::into_raw(Box::new(Callbacks {
                    call: call_all,
                    copy: &raw const COPY,
                    entries,
                })),
            };
            old = state.callbacks.swap(after, Ordering::AcqRel);
            gate::reconcile(dso, &mut locked.writer, &mut outcome);
        });
    });
    drop(locked);
    if edit.is_some() {
        return Err(unloaded(tracepoint));
    }
    if foreign {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "another library's copy of tracebraid has callbacks on {}:{}",
                tracepoint.provider, tracepoint.name
            ),
        ));
    }
    let finished = registry::finish(outcome);
    retire(tracepoint, old);
    finished
}

fn unloaded(tracepoint: &Description) -> Error {
    Error::new(
        ErrorKind::Unloaded,
        format!(
            "the library that held {}:{} is no longer loaded",
            tracepoint.provider, tracepoint.name
        ),
    )
}

/// Frees a list when nobody reads it any more.
fn retire(tracepoint: &Arc<Description>, old: *mut Callbacks) {
    if old.is_null() {
        return;
    }
    let old = Retired {
        row: tracepoint.row,
        list: old,
    };
    let mut locked = gate::lock();
    if !ACTIVE.with(Cell::get).is_null() {
        locked.retired.push(old);
        return;
    }
    // What others retire from now on may be in use when the wait ends.
    let mut free: Vec<Retired> = locked
        .retired
        .extract_if(.., |retired| retired.row == tracepoint.row)
        .collect();
    drop(locked);
    free.push(old);
    wait_for_readers(tracepoint);
    for retired in free {
        // SAFETY: it came from `Box::into_raw`, was swapped out before the wait, and its readers are
        // gone.
        drop(unsafe { Box::from_raw(retired.list) });
    }
}

/// Waits until every thread that could have read a list swapped out before has counted itself out.
fn wait_for_readers(tracepoint: &Arc<Description>) {
    let mut state: Option<&State> = None;
    with_row(tracepoint, |_, row| {
        // SAFETY: `keep_loaded` holds the object from the first attachment on.
        state = Some(unsafe { Point::of(row) }.state);
    });
    let Some(state) = state else { return };
    // Each counter is seen to be 0 once after the swap: whoever reads the old list has counted itself
    // in before. Newcomers are sent to the other counter meanwhile, so that the wait ends. Several
    // waits at once may send them back; a wait that only flips the phase twice could then look at one
    // counter twice.
    for waited in 0..2 {
        state.phase.store(1 - waited, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while state.reading[waited as usize].load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

fn with_row(tracepoint: &Description, mut then: impl FnMut(&dso::Dso<'_>, &PointRow)) {
    dso::for_each(|dso| {
        if dso.id() != tracepoint.dso {
            return true;
        }
        if let Some(row) = dso.points().find(|row| row.address == tracepoint.row) {
            then(dso, &row);
        }
        false
    });
}

/// Keeps the tracepoint's object from being unloaded, since lists in it lead here.
fn keep_loaded(tracepoint: &Description) -> Result<()> {
    if tracepoint.object.is_empty() {
        return Ok(());
    }
    #[cfg(not(target_feature = "crt-static"))]
    {
        // SAFETY: RTLD_NOLOAD loads nothing; the name is the loader's own.
        let handle = unsafe {
            libc::dlopen(
                tracepoint.object.as_ptr(),
                libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            )
        };
        if handle.is_null() {
            return Err(unloaded(tracepoint));
        }
    }
    Ok(())
}

/// The tracepoints whose callbacks this thread is in, innermost first.
struct Frame {
    row: u64,
    outer: *const Frame,
}

thread_local! {
    static ACTIVE: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Whether this thread is within callbacks of the tracepoint whose row is at the address.
fn is_within(row: u64) -> bool {
    let mut frame = ACTIVE.with(Cell::get);
    // SAFETY: frames are on this thread's stack, below us, and popped before they go.
    while let Some(entered) = unsafe { frame.as_ref() } {
        if entered.row == row {
            return true;
        }
        frame = entered.outer;
    }
    false
}

/// Calls the callbacks of the point, if it has any.
///
/// # Safety
/// `row` is that of a loaded object, `slots` begins with what its schema says.
pub(crate) unsafe fn call(row: HotRow, slots: *const u64) {
    // SAFETY: the row leads to the object's state.
    let state = unsafe { &*row.state() };
    if state.callbacks.load(Ordering::Relaxed).is_null() {
        return;
    }
    let phase = (state.phase.load(Ordering::SeqCst) & 1) as usize;
    state.reading[phase].fetch_add(1, Ordering::SeqCst);
    let list = state.callbacks.load(Ordering::SeqCst);
    if !list.is_null() {
        // SAFETY: the list is not freed while we are counted in; its first field calls it.
        unsafe { ((*list).call)(list, row.address() as usize as *const u8, slots) };
    }
    state.reading[phase].fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn call_all(list: *const Callbacks, row: *const u8, slots: *const u64) {
    // SAFETY: `call` passes the list that it was read from and the row it came for.
    let (list, row) = unsafe { (&*list, HotRow::at(row)) };
    // SAFETY: as above.
    let state = unsafe { &*row.state() };
    ACTIVE.with(|active| {
        if is_within(row.address()) {
            state.nested.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let outer = active.get();
        let here = Frame {
            row: row.address(),
            outer,
        };
        active.set(&raw const here);
        for entry in &list.entries {
            // SAFETY: the slots are those of this hit, laid out by the entry's own fields.
            let event = unsafe { Event::new(&entry.tracepoint, slots) };
            if catch_unwind(AssertUnwindSafe(|| (entry.callback)(&event))).is_err() {
                state.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
        active.set(outer);
    });
}
