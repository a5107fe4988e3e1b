//! What is measured: loops of events and of spans.

use std::hint::black_box;

/// Sixteen DEBUG events with three fields, which nobody wants.
#[inline(never)]
pub(crate) fn sixteen_off(rounds: u64, items: &[u64], code: i32) {
    macro_rules! events {
        ($($n:literal)*) => { $({
            let _ = $n;
            tracing::debug!(round = black_box(0_u64), length = items.len(), code, "site");
        })* };
    }
    for _ in 0..rounds {
        events!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
}

/// An event with three numbers.
#[inline(never)]
pub(crate) fn event(rounds: u64, items: &[u64], _: i32) {
    for round in 0..rounds {
        tracing::info!(a = round, b = items[0], c = items[1]);
    }
}

/// A span that is made, entered, left and closed.
#[inline(never)]
pub(crate) fn span(rounds: u64, items: &[u64], _: i32) {
    for _ in 0..rounds {
        tracing::info_span!("span", a = items[0]).in_scope(|| ());
    }
}
