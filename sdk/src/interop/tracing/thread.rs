//! What a thread is in: spans, decisions between a question and its event, hits within hits.
//!
//! Plain cells without a destructor, so that they are there from a thread's first moment to its last, and
//! nothing is allocated.

use std::cell::Cell;

/// Spans that a thread is in and whose numbers are remembered; deeper ones are only counted.
const SPANS: usize = 32;
/// Callsites that were refused and whose event has not come yet.
const REFUSALS: usize = 8;
/// Hits within hits: a field whose `Debug` traces, a callback that does.
const DEPTH: u32 = 4;

/// A span that the thread is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entered {
    /// The key of its id.
    pub(super) key: u64,
    /// Ours.
    pub(super) number: u64,
    /// The index of its callsite.
    pub(super) callsite: u32,
}

const NONE: Entered = Entered {
    key: 0,
    number: 0,
    callsite: 0,
};

struct Thread {
    entered: [Cell<Entered>; SPANS],
    depth: Cell<usize>,
    refused: [Cell<u64>; REFUSALS],
    refusals: Cell<usize>,
    hits: Cell<u32>,
    busy: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            entered: [const { Cell::new(NONE) }; SPANS],
            depth: Cell::new(0),
            refused: [const { Cell::new(0) }; REFUSALS],
            refusals: Cell::new(0),
            hits: Cell::new(0),
            busy: Cell::new(false),
        }
    };
}

/// The thread enters a span.
#[inline]
pub(super) fn enter(span: Entered) {
    THREAD.with(|thread| {
        let depth = thread.depth.get();
        if let Some(place) = thread.entered.get(depth) {
            place.set(span);
        }
        thread.depth.set(depth + 1);
    });
}

/// The thread leaves the span that it entered last, if that has this key.
#[inline]
pub(super) fn exit_innermost(key: u64) -> Option<Entered> {
    THREAD.with(|thread| {
        let innermost = thread.depth.get().checked_sub(1)?;
        let span = thread.entered.get(innermost)?.get();
        (span.key == key).then(|| {
            thread.depth.set(innermost);
            span
        })
    })
}

/// The thread leaves a span, which may be any that it is in.
pub(super) fn exit(key: u64) {
    THREAD.with(|thread| {
        let depth = thread.depth.get();
        let known = &thread.entered[..depth.min(SPANS)];
        if depth > SPANS {
            // One of those that are only counted, for all that is known.
            thread.depth.set(depth - 1);
        } else if let Some(at) = known.iter().rposition(|span| span.get().key == key) {
            for later in at + 1..known.len() {
                known[later - 1].set(known[later].get());
            }
            thread.depth.set(depth - 1);
        }
    });
}

/// The innermost span that the thread is in.
#[inline]
pub(super) fn innermost() -> Option<Entered> {
    THREAD.with(|thread| {
        let depth = thread.depth.get().min(SPANS);
        Some(thread.entered[depth.checked_sub(1)?].get())
    })
}

/// The inner subscriber has refused a callsite that is on all the same: its next hit is not for it.
pub(super) fn refuse(callsite: u64) {
    THREAD.with(|thread| {
        let count = thread.refusals.get();
        if count == REFUSALS {
            // Whoever asks so often and never comes has panicked in between.
            thread
                .refused
                .iter()
                .zip(&thread.refused[1..])
                .for_each(|(to, from)| to.set(from.get()));
            thread.refused[REFUSALS - 1].set(callsite);
        } else {
            thread.refused[count].set(callsite);
            thread.refusals.set(count + 1);
        }
    });
}

/// Whether a callsite's hit was refused. It is asked once.
#[inline]
pub(super) fn was_refused(callsite: u64) -> bool {
    THREAD.with(|thread| {
        let count = thread.refusals.get();
        count != 0 && {
            let refused = &thread.refused[..count];
            let found = refused.iter().rposition(|it| it.get() == callsite);
            if let Some(at) = found {
                for later in at + 1..count {
                    refused[later - 1].set(refused[later].get());
                }
                thread.refusals.set(count - 1);
            }
            found.is_some()
        }
    })
}

/// Runs `then`, which takes a hit. `None` where it comes from too deep within others.
#[inline]
pub(super) fn within_hit<T>(then: impl FnOnce() -> T) -> Option<T> {
    /// Counts out also where a panic passes.
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            THREAD.with(|thread| thread.hits.set(thread.hits.get() - 1));
        }
    }
    let hits = THREAD.with(|thread| thread.hits.get());
    if hits >= DEPTH {
        return None;
    }
    THREAD.with(|thread| thread.hits.set(hits + 1));
    let _out = Out;
    Some(then())
}

/// Runs `then`, which allocates, and what that hits must not come here again. `None` where it has.
pub(super) fn alone<T>(then: impl FnOnce() -> T) -> Option<T> {
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            THREAD.with(|thread| thread.busy.set(false));
        }
    }
    if is_busy() {
        return None;
    }
    THREAD.with(|thread| thread.busy.set(true));
    let _out = Out;
    Some(then())
}

/// Whether the thread is in [`alone`], or has a lock of the SDK.
pub(super) fn is_busy() -> bool {
    THREAD.with(|thread| thread.busy.get()) || crate::lock::is_held_here()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(key: u64) -> Entered {
        Entered {
            key,
            number: 10 * key,
            callsite: 0,
        }
    }

    #[test]
    fn spans_may_be_left_in_any_order_and_be_deeper_than_is_remembered() {
        for id in 1..=4 {
            enter(span(id));
        }
        exit(2);
        assert!(innermost() == Some(span(4)));
        exit(4);
        exit(9);
        assert!(innermost() == Some(span(3)));
        exit(3);
        exit(1);
        assert!(innermost().is_none());
        for id in 1..=100 {
            enter(span(id));
        }
        for id in (1..=100).rev() {
            // Of those that are only counted it is not known which they are.
            assert_eq!(exit_innermost(id).is_some(), id <= 32);
            if id > 32 {
                exit(id);
            }
        }
        assert!(innermost().is_none() && exit_innermost(1).is_none());
    }

    #[test]
    fn a_refusal_is_of_one_hit_and_nested_ones_do_not_mix() {
        refuse(1);
        refuse(2);
        assert!(was_refused(2));
        assert!(!was_refused(2));
        assert!(was_refused(1));
        (0..20).for_each(refuse);
        assert!(!was_refused(3) && was_refused(19));
        assert!((0..20).filter(|&callsite| was_refused(callsite)).count() < 20);
        assert!(!was_refused(18));
    }

    #[test]
    fn hits_within_hits_come_to_an_end() {
        fn go(depth: u32) -> u32 {
            within_hit(|| go(depth + 1)).unwrap_or(depth)
        }
        assert_eq!(go(0), DEPTH);
        assert_eq!(go(0), DEPTH);
    }
}
