//! The spans that are alive and that we follow: from a dispatcher's id to what it is of.
//!
//! ```text
//! segment ─▶ bucket, by a hash of the key ─▶ 8 keys (a cache line) │ 8 times what they are of
//! ```
//! A bucket that is full passes on to the next segment, each eight times as large as the one before. All of
//! it is atomics: no lock that a child of fork could inherit, nothing allocated but segments. A key is in
//! the table before anybody but its maker has it, and is taken out when it is closed, so that whoever looks
//! for it finds it whole.
//!
//! Ids are those of the inner subscriber where that wanted the span too, and else ours, which have a form
//! that no other's have. An inner subscriber may use an id again as soon as a span is closed; a span's
//! *number* is never used again, and it is what events say. Two subscribers in one process may well have
//! spans of the same id: the table has *keys*, which are ids with what tells their dispatchers apart.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tracing_core::span::Id;

use super::thread;
use crate::stamp::Stamp;

/// Spans of a bucket.
const WIDE: usize = 8;
/// Buckets of each segment, as powers of two: up to 299,520 spans.
const SEGMENTS: [u32; 5] = [6, 9, 12, 14, 15];

/// A key that says nothing: its place is being filled.
const TAKEN: u64 = u64::MAX;
/// Odd, and without a pattern: multiplied by it, what is close together is no more.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

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
    keys: [AtomicU64; WIDE],
    spans: [Place; WIDE],
}

#[derive(Default)]
struct Place {
    number: AtomicU64,
    /// The word of the stamp of when it began.
    start: AtomicU64,
    callsite: AtomicU32,
    /// Of our ids: how many handles there are.
    handles: AtomicU32,
}

/// A span to be followed.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) number: u64,
    pub(super) start: Stamp,
    pub(super) callsite: u32,
}

/// A span that was found.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) span: Span,
    key: &'static AtomicU64,
    place: &'static Place,
}

/// What tells the ids of a dispatcher from those of others: see [`Ids::key`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids(u64);

impl Ids {
    /// Those of a new dispatcher. The first one's keys are its ids.
    pub(super) fn new() -> Ids {
        static DISPATCHERS: AtomicU64 = AtomicU64::new(0);
        let number = DISPATCHERS.fetch_add(1, Ordering::Relaxed);
        Ids(number.wrapping_mul(SPREAD))
    }

    /// The key of a span with this id. Ours are nobody else's.
    #[inline]
    pub(super) fn key(self, id: &Id) -> u64 {
        let id = id.into_u64();
        if is_own(id) { id } else { id ^ self.0 }
    }
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

fn bucket(segment: usize, buckets: &'static [Bucket], key: u64) -> Option<&'static Bucket> {
    let hash = key.wrapping_mul(SPREAD) >> (64 - SEGMENTS[segment]);
    buckets.get(hash as usize)
}

/// Follows a span. Whether there is room: there is none in the middle of an allocation for others.
pub(super) fn insert(key: u64, span: Span) -> bool {
    if key == 0 || key == TAKEN {
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
        if bucket(segment, buckets, key).is_some_and(|bucket| bucket.insert(key, span)) {
            return true;
        }
    }
    false
}

/// The span with this key, if it is followed.
#[inline]
pub(super) fn find(key: u64) -> Option<Found> {
    if LIVE.load(Ordering::Acquire) == 0 || key == 0 {
        return None;
    }
    TABLE
        .iter()
        .enumerate()
        .map_while(|(segment, slot)| Some((segment, slot.get()?)))
        .find_map(|(segment, buckets)| bucket(segment, buckets, key)?.find(key))
}

impl Bucket {
    fn insert(&self, key: u64, span: Span) -> bool {
        let same = self
            .keys
            .iter()
            .position(|known| known.load(Ordering::Relaxed) == key);
        let free = || {
            (0..WIDE).find(|&at| {
                let free =
                    self.keys[at].compare_exchange(0, TAKEN, Ordering::Relaxed, Ordering::Relaxed);
                LIVE.fetch_add(free.is_ok().into(), Ordering::Release);
                free.is_ok()
            })
        };
        // A key that is there already was closed, and whoever did that has not yet taken it out.
        let Some(at) = same.or_else(free) else {
            return false;
        };
        let place = &self.spans[at];
        place.number.store(span.number, Ordering::Relaxed);
        place.start.store(span.start.word(), Ordering::Relaxed);
        place.callsite.store(span.callsite, Ordering::Relaxed);
        place.handles.store(1, Ordering::Relaxed);
        self.keys[at].store(key, Ordering::Release);
        true
    }

    #[inline]
    fn find(&'static self, key: u64) -> Option<Found> {
        let at = (0..WIDE).find(|&at| self.keys[at].load(Ordering::Acquire) == key)?;
        let place = &self.spans[at];
        Some(Found {
            span: Span {
                number: place.number.load(Ordering::Relaxed),
                start: Stamp::of_word(place.start.load(Ordering::Relaxed))?,
                callsite: place.callsite.load(Ordering::Relaxed),
            },
            key: &self.keys[at],
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

    /// It is closed. Where its key is another span's by now, that one stays.
    pub(super) fn remove(self, key: u64) {
        if self.place.number.load(Ordering::Relaxed) == self.span.number
            && self
                .key
                .compare_exchange(key, 0, Ordering::AcqRel, Ordering::Relaxed)
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
            start: Stamp::of_word(1).expect("it is not 0"),
            callsite: 3,
        }
    }

    #[test]
    fn two_dispatchers_spans_of_one_id_are_two() {
        let (one, other) = (Ids::new(), Ids::new());
        let id = Id::from_u64(1);
        assert_ne!(one.key(&id), other.key(&id));
        let own = Id::from_u64(own_id(7));
        assert_eq!(one.key(&own), other.key(&own));
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
