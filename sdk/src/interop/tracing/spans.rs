//! The spans that are alive and that we follow: from a dispatcher's id to what it is of.
//!
//! ```text
//! segment ─▶ bucket, by a hash of the id ─▶ 8 ids (a cache line) │ 8 times what they are of
//! ```
//! A bucket that is full passes on to the next segment, each eight times as large as the one before. All of
//! it is atomics: no lock that a child of fork could inherit, nothing allocated but segments. An id is in
//! the table before anybody but its maker has it, and is taken out when it is closed, so that whoever looks
//! for it finds it whole.
//!
//! Ids are those of the inner subscriber where that wanted the span too, and else ours, which have a form
//! that no other's have. An inner subscriber may use an id again as soon as a span is closed; a span's
//! *number* is never used again, and it is what events say.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::thread;

/// Spans of a bucket.
const WIDE: usize = 8;
/// Buckets of each segment, as powers of two: up to 299,520 spans.
const SEGMENTS: [u32; 5] = [6, 9, 12, 14, 15];

/// An id that says nothing: its place is being filled.
const TAKEN: u64 = u64::MAX;

/// The upper bits of our ids: as an address it is none of this machine's, as a count nobody's.
const OWN: u64 = 0x007a_b31f << NUMBER_BITS;
const NUMBER_BITS: u32 = 40;

static TABLE: [OnceLock<Box<[Bucket]>>; SEGMENTS.len()] =
    [const { OnceLock::new() }; SEGMENTS.len()];
static LIVE: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    ids: [AtomicU64; WIDE],
    spans: [Place; WIDE],
}

#[derive(Default)]
struct Place {
    number: AtomicU64,
    /// When it began, ns.
    start: AtomicU64,
    callsite: AtomicU32,
    /// Of our ids: how many handles there are.
    handles: AtomicU32,
}

/// A span to be followed.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) callsite: u32,
}

/// A span that was found.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) span: Span,
    id: &'static AtomicU64,
    place: &'static Place,
}

/// A number for a new span.
pub(super) fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The id of a span that is ours alone.
pub(super) fn own_id(number: u64) -> u64 {
    OWN | (number & ((1 << NUMBER_BITS) - 1))
}

/// Whether an id is one of ours: no inner subscriber has to do with it.
#[inline]
pub(super) fn is_own(id: u64) -> bool {
    id >> NUMBER_BITS == OWN >> NUMBER_BITS
}

fn bucket(segment: usize, buckets: &'static [Bucket], id: u64) -> Option<&'static Bucket> {
    let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SEGMENTS[segment]);
    buckets.get(hash as usize)
}

/// Follows a span. Whether there is room: there is none in the middle of an allocation for others.
pub(super) fn insert(id: u64, span: Span) -> bool {
    if id == 0 || id == TAKEN {
        return false;
    }
    for (segment, (slot, power)) in TABLE.iter().zip(SEGMENTS).enumerate() {
        let buckets = match slot.get() {
            Some(buckets) => buckets,
            None => {
                let new = thread::alone(|| (0..1 << power).map(|_| Bucket::default()).collect());
                let Some(new) = new else { return false };
                // Another thread's may be there first.
                let _ = slot.set(new);
                match slot.get() {
                    Some(buckets) => buckets,
                    None => return false,
                }
            }
        };
        if bucket(segment, buckets, id).is_some_and(|bucket| bucket.insert(id, span)) {
            return true;
        }
    }
    false
}

/// The span with this id, if it is followed.
#[inline]
pub(super) fn find(id: u64) -> Option<Found> {
    if LIVE.load(Ordering::Acquire) == 0 {
        return None;
    }
    TABLE
        .iter()
        .enumerate()
        .map_while(|(segment, slot)| Some((segment, slot.get()?)))
        .find_map(|(segment, buckets)| bucket(segment, buckets, id)?.find(id))
}

impl Bucket {
    fn insert(&self, id: u64, span: Span) -> bool {
        let same = self
            .ids
            .iter()
            .position(|known| known.load(Ordering::Relaxed) == id);
        let free = || {
            (0..WIDE).find(|&at| {
                let free =
                    self.ids[at].compare_exchange(0, TAKEN, Ordering::Relaxed, Ordering::Relaxed);
                LIVE.fetch_add(free.is_ok().into(), Ordering::Release);
                free.is_ok()
            })
        };
        // An id that is there already was closed, and whoever did that has not yet taken it out.
        let Some(at) = same.or_else(free) else {
            return false;
        };
        let place = &self.spans[at];
        place.number.store(span.number, Ordering::Relaxed);
        place.start.store(span.start, Ordering::Relaxed);
        place.callsite.store(span.callsite, Ordering::Relaxed);
        place.handles.store(1, Ordering::Relaxed);
        self.ids[at].store(id, Ordering::Release);
        true
    }

    #[inline]
    fn find(&'static self, id: u64) -> Option<Found> {
        let at = (0..WIDE).find(|&at| self.ids[at].load(Ordering::Acquire) == id)?;
        let place = &self.spans[at];
        Some(Found {
            span: Span {
                number: place.number.load(Ordering::Relaxed),
                start: place.start.load(Ordering::Relaxed),
                callsite: place.callsite.load(Ordering::Relaxed),
            },
            id: &self.ids[at],
            place,
        })
    }
}

impl Found {
    /// One handle more, of an id of ours.
    pub(super) fn clone_handle(&self) {
        self.place.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// One handle less. Whether it was the last.
    pub(super) fn drop_handle(&self) -> bool {
        self.place.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// It is closed. Where its id is another span's by now, that one stays.
    pub(super) fn remove(self, id: u64) {
        if self.place.number.load(Ordering::Relaxed) == self.span.number
            && self
                .id
                .compare_exchange(id, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            LIVE.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(number: u64) -> Span {
        Span {
            number,
            start: 0,
            callsite: 3,
        }
    }

    /// The tests share the table.
    #[test]
    fn spans_are_found_until_they_are_closed_however_many_there_are() {
        const MANY: u64 = 20_000;
        for id in 1..=MANY {
            assert!(insert(id, span(id + 7)), "{id}");
        }
        for id in 1..=MANY {
            let found = find(id).map(|found| found.span.number);
            assert_eq!(found, Some(id + 7));
        }
        assert!(find(MANY + 1).is_none());
        // Used again before it was taken out.
        let old = find(5).expect("it is there");
        assert!(insert(5, span(99_999)));
        old.remove(5);
        assert_eq!(find(5).map(|found| found.span.number), Some(99_999));
        for id in 1..=MANY {
            find(id).expect("it is there").remove(id);
            assert!(find(id).is_none());
        }
        let own = own_id(u64::MAX);
        assert!(is_own(own) && !is_own(MANY));
        assert!(insert(own, span(1)));
        let found = find(own).expect("it is there");
        found.clone_handle();
        assert!(!found.drop_handle() && found.drop_handle());
        found.remove(own);
        assert_eq!(LIVE.load(Ordering::Relaxed), 0);
    }
}
