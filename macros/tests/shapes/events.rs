//! Declared events, and events in place.

use std::fmt::Display;

use tracebraid::{event, tracepoint};

use super::functions::Pair;

/// A declared event.
#[tracepoint(print = "id={id} {{{depth}}}")]
pub(super) fn queued(id: u64, depth: usize, user: &str);

/// Another, with everything that one may have.
#[tracepoint(name = "all.of-it", provider = "other", skip(c), fields(%d, sum = a + 1), gate = "semaphore")]
pub(super) fn declared<T: Display + ?Sized>(
    a: u8,
    _b: &str,
    c: &T,
    d: &T,
    mut_e: impl tracebraid::Value,
);

/// Nothing.
#[tracepoint]
pub(super) fn empty();

pub(super) fn events(x: u32, name: &str, order: &Pair) -> u32 {
    event!(nothing);
    event!(shapes::named, x, order.left, %name, "quoted key" = x + 1, type = 3, y = %name.len(), z = ?order.right,);
    event!(print: "{x} {{}}", gate: "semaphore", formatted, x = x);
    match x {
        0 => event!(arm),
        1 => event!(arm, one = 1),
        _ => event!(arm, x),
    }
    x
}
