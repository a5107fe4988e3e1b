//! A bridge's filters: which hits of a tracepoint go to the rings.
//!
//! A filter is read once, by the helper thread, against the tracepoint's schema, and hangs in the
//! tracepoint's state as a pointer that hits follow without a lock:
//!
//! ```text
//! hit:    count in ──▶ pointer ──▶ evaluate over the slots ──▶ count out ──▶ count what was refused
//! helper: swap the pointer ──▶ retire the old one ──▶ free it when each counter was seen to be 0
//! ```
//! The counters are shared by all tracepoints and spread over cache lines by thread. Nobody waits for
//! them: what is still in use is looked at again the next time the helper wakes up.

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam_utils::CachePadded;
use tracebraid_filter::{Error, Filter, Value, Values};
use tracebraid_ring::thread;
use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::schema::Schema;

use super::page;
use crate::state::State;

/// What `State::ring` says: nobody wants the tracepoint.
pub(crate) const OFF: u32 = 0;
/// Every hit goes to the rings.
pub(crate) const ALL: u32 = 1;
/// Those go there that pass the filter in `State::filter`.
pub(crate) const FILTERED: u32 = 2;
/// None goes there: hits are counted.
pub(crate) const COUNTED: u32 = 3;

/// A filter, with what it takes to find fields among a hit's slots.
pub(crate) struct PointFilter {
    filter: Filter,
    fields: Box<[Place]>,
    /// The text it was read from.
    text: Box<str>,
}

/// Where a field begins among the slots, and what it is.
struct Place {
    slot: usize,
    field: FieldKind,
}

impl PointFilter {
    /// Reads a filter for the tracepoint of this schema.
    pub(super) fn parse(text: &str, schema: &Schema<'_>) -> Result<PointFilter, Error> {
        let mut slot = 0;
        let places = schema.fields().map(|(_, field)| {
            let place = Place { slot, field };
            slot += field.slot_count();
            place
        });
        Ok(PointFilter {
            filter: Filter::parse(text, schema)?,
            fields: places.collect(),
            text: text.into(),
        })
    }

    /// # Safety
    /// `slots` are those of a hit of the filter's tracepoint, with all text made.
    unsafe fn passes(&self, slots: *const u64, thread: u32) -> bool {
        self.filter.matches(&Hit {
            fields: &self.fields,
            slots,
            thread,
        })
    }
}

/// A hit as filters see it.
struct Hit<'a> {
    fields: &'a [Place],
    slots: *const u64,
    thread: u32,
}

impl Values for Hit<'_> {
    #[inline]
    fn value(&self, index: u16) -> Value<'_> {
        let Some(place) = self.fields.get(usize::from(index)) else {
            return Value::Missing;
        };
        // SAFETY: a hit has the slots that its schema says, which the places were made from.
        let slot = |index: usize| unsafe { self.slots.add(place.slot + index).read() };
        let first = usize::from(place.field.has_presence_slot());
        if first == 1 && slot(0) == 0 {
            return Value::Missing;
        }
        let at = place.slot + first;
        match place.field.kind {
            Kind::Any => FieldKind::of_any(slot(0) as u8)
                .map_or(Value::Missing, |of| of_any(self.value_at(of.kind, at + 1))),
            kind => self.value_at(kind, at),
        }
    }

    fn thread(&self) -> Option<i32> {
        i32::try_from(self.thread).ok()
    }

    fn cpu(&self) -> Option<u32> {
        // SAFETY: no preconditions. Where it cannot say it answers -1.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    fn comm(&self) -> Option<[u8; 16]> {
        let mut comm = [0_u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes. A system call, made only where a filter names
        // `comm`: a thread's name can change at any time.
        let result = unsafe { libc::prctl(libc::PR_GET_NAME, comm.as_mut_ptr()) };
        (result == 0).then_some(comm)
    }
}

impl Hit<'_> {
    /// The value of this kind whose slots begin at `at`.
    #[inline]
    fn value_at(&self, kind: Kind, at: usize) -> Value<'_> {
        // SAFETY: as in `value`, which knows that there are such slots.
        let slot = |index: usize| unsafe { self.slots.add(at + index).read() };
        let low = slot(0);
        let both = || u128::from(low) | u128::from(slot(1)) << 64;
        match kind {
            Kind::U8 | Kind::Bool => Value::Unsigned((low as u8).into()),
            Kind::U16 => Value::Unsigned((low as u16).into()),
            Kind::U32 | Kind::Char => Value::Unsigned((low as u32).into()),
            Kind::U64 | Kind::Pointer | Kind::Elapsed => Value::Unsigned(low),
            Kind::I8 => Value::Signed((low as i8).into()),
            Kind::I16 => Value::Signed((low as i16).into()),
            Kind::I32 => Value::Signed((low as i32).into()),
            Kind::I64 => Value::Signed(low as i64),
            Kind::U128 => Value::UnsignedWide(both()),
            Kind::I128 => Value::SignedWide(both() as i128),
            Kind::F32 => Value::Float(f32::from_bits(low as u32).into()),
            Kind::F64 => Value::Float(f64::from_bits(low)),
            Kind::Duration => {
                let nanoseconds = u128::from(slot(1) as u32);
                Value::UnsignedWide(u128::from(low) * 1_000_000_000 + nanoseconds)
            }
            Kind::Str | Kind::Bytes | Kind::Formatted => {
                let start = ptr::with_exposed_provenance::<u8>(low as usize);
                if start.is_null() {
                    return Value::Missing;
                }
                // SAFETY: the slots hold the address and length of bytes that live while the hit is
                // delivered.
                Value::Text(unsafe { slice::from_raw_parts(start, slot(1) as usize) })
            }
            Kind::Any => Value::Missing,
        }
    }
}

/// A value as a field of any type has it.
fn of_any(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Signed(value) => Value::SignedWide(value.into()),
        Value::Unsigned(value) => Value::SignedWide(value.into()),
        Value::UnsignedWide(value) => match i128::try_from(value) {
            Ok(value) => Value::SignedWide(value),
            Err(_) => Value::UnsignedWide(value),
        },
        other => other,
    }
}

/// How many threads are going through filters, by the phase they began in.
type Readers = CachePadded<[AtomicU32; 2]>;

/// So many threads do not disturb one another.
const STRIPES: usize = 16;
static READERS: [Readers; STRIPES] =
    [const { CachePadded::new([const { AtomicU32::new(0) }; 2]) }; STRIPES];
/// Which of the two counters newcomers use.
static PHASE: AtomicU32 = AtomicU32::new(0);
/// Whether there is something retired.
static RETIRED: AtomicBool = AtomicBool::new(false);

/// Whether a hit goes to the rings: nobody asks that of every hit, or it passes the filter.
///
/// # Safety
/// `slots` are those of a hit of the tracepoint whose state this is, with all text made.
pub(crate) unsafe fn passes(state: &State, slots: *const u64) -> bool {
    match state.ring.load(Ordering::Relaxed) {
        OFF => return false,
        ALL => return true,
        COUNTED => {
            count(state);
            return false;
        }
        _ => {}
    }
    let thread = thread::id();
    let phase = (PHASE.load(Ordering::SeqCst) & 1) as usize;
    let readers = &READERS[thread as usize % STRIPES][phase];
    readers.fetch_add(1, Ordering::SeqCst);
    let filter = state.filter.load(Ordering::SeqCst);
    // SAFETY: a filter is not freed while we are counted in. Where there is none any more, what is
    // wanted is just changing: what a filter might have refused is not let through.
    let passes = unsafe { filter.as_ref() }
        // SAFETY: the caller's promise.
        .map(|filter| unsafe { filter.passes(slots, thread) });
    readers.fetch_sub(1, Ordering::SeqCst);
    if passes == Some(false) {
        count(state);
    }
    passes == Some(true)
}

/// Counts a hit that does not go to the rings: every one is there or in a count.
#[inline(never)]
pub(crate) fn count(state: &State) {
    let event = state.event.load(Ordering::Relaxed) as u16;
    if let Some(rings) = page::of_event(event) {
        rings.count(event);
    }
}

/// A filter that a state leads to or led to. Dropping this does not free it.
#[derive(Clone, Copy)]
pub(super) struct Handle(NonNull<PointFilter>);

// SAFETY: whoever has a handle may free the filter, which is Send and Sync.
unsafe impl Send for Handle {}

impl Handle {
    /// Hangs a filter in the state of the tracepoint it was read for. What hung there must be in another
    /// handle.
    pub(super) fn install(filter: PointFilter, state: &State) -> Handle {
        let filter = NonNull::from(Box::leak(Box::new(filter)));
        state.filter.store(filter.as_ptr(), Ordering::SeqCst);
        Handle(filter)
    }

    /// The text it was read from. Only before the handle is retired.
    pub(super) fn text(&self) -> &str {
        // SAFETY: only `Retired::tidy` frees filters.
        unsafe { &self.0.as_ref().text }
    }
}

/// Filters that no state leads to any more.
pub(super) struct Retired(Vec<Unreachable>);

struct Unreachable {
    filter: Handle,
    /// The counters that have not been 0 since it became unreachable, a bit each.
    in_use: u32,
}

const _: () = assert!(2 * STRIPES == u32::BITS as usize);

impl Retired {
    pub(super) const fn new() -> Retired {
        Retired(Vec::new())
    }

    /// Takes a filter that no state leads to any more. Its handle has no copies that are still used.
    pub(super) fn push(&mut self, filter: Handle) {
        self.0.push(Unreachable {
            filter,
            in_use: u32::MAX,
        });
        RETIRED.store(true, Ordering::Relaxed);
    }

    /// Frees what nobody can be reading any more.
    pub(super) fn tidy(&mut self) {
        let mut zero = 0;
        for (index, counter) in READERS
            .iter()
            .flat_map(|readers| readers.iter())
            .enumerate()
        {
            zero |= u32::from(counter.load(Ordering::SeqCst) == 0) << index;
        }
        // Newcomers go to the other counter, so that a busy one comes to 0 before the next look.
        PHASE.fetch_xor(1, Ordering::SeqCst);
        self.0.retain_mut(|unreachable| {
            unreachable.in_use &= !zero;
            if unreachable.in_use == 0 {
                // SAFETY: it came from a box. Whoever read it out of a state had counted itself in
                // before it was taken out, and each counter has been 0 since.
                drop(unsafe { Box::from_raw(unreachable.filter.0.as_ptr()) });
            }
            unreachable.in_use != 0
        });
        RETIRED.store(!self.0.is_empty(), Ordering::Relaxed);
    }
}

/// Whether there is something for [`Retired::tidy`] to do.
pub(super) fn any_retired() -> bool {
    RETIRED.load(Ordering::Relaxed)
}

/// In a child of fork: the threads that were going through filters are not there, and nobody would
/// count them out.
pub(crate) fn forget_readers() {
    for counter in READERS.iter().flat_map(|readers| readers.iter()) {
        counter.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema of one field, `u64 number`.
    const SCHEMA: &[u8] = b"\x15\0\0\0\x01\0\0\x01\x04p\0n\0\0number\0";

    fn filter(text: &str) -> PointFilter {
        let schema = Schema::parse(SCHEMA).expect("a schema");
        PointFilter::parse(text, &schema).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_filter_is_freed_when_nobody_can_be_reading_it() {
        // SAFETY: the state is made of atomics, for which zeros are valid.
        let state: State = unsafe { std::mem::zeroed() };
        let mut retired = Retired::new();
        let slots = [17_u64];
        let passes = || {
            // SAFETY: the slots are those of the schema.
            unsafe { passes(&state, slots.as_ptr()) }
        };
        state.ring.store(FILTERED, Ordering::Relaxed);
        assert!(!passes(), "there is none");
        let first = Handle::install(filter("number == 17"), &state);
        assert!(passes());
        assert_eq!(first.text(), "number == 17");

        // A reader of the first one, in either phase.
        let reader = &READERS[3][(PHASE.load(Ordering::SeqCst) & 1) as usize];
        reader.fetch_add(1, Ordering::SeqCst);
        let second = Handle::install(filter("number == 18"), &state);
        retired.push(first);
        assert!(!passes());
        for _ in 0..4 {
            retired.tidy();
            assert!(any_retired() && retired.0.len() == 1);
        }
        reader.fetch_sub(1, Ordering::SeqCst);
        retired.tidy();
        assert!(!any_retired() && retired.0.is_empty());

        state.filter.store(ptr::null_mut(), Ordering::SeqCst);
        retired.push(second);
        retired.tidy();
        assert!(retired.0.is_empty());
    }
}
