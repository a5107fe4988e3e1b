//! Tracepoints on every shape of function, for the gate tests. What each hit must say is in
//! `tests/gate_matrix.rs`.

#![forbid(unsafe_code)]
#![deny(warnings)]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tracebraid::{Value, event, tracepoint};

static EVALUATED: AtomicU64 = AtomicU64::new(0);

/// Counts that a field was evaluated, which happens while its tracepoint is on only.
pub fn seen<T>(value: T) -> T {
    EVALUATED.fetch_add(1, Ordering::Relaxed);
    value
}

/// How many fields were evaluated so far.
pub fn evaluated() -> u64 {
    EVALUATED.load(Ordering::Relaxed)
}

#[tracepoint(fields(twice = seen(order_id * 2)))]
#[inline(never)]
pub fn plain(order_id: u64, cents: i64) -> i64 {
    cents + order_id as i64
}

#[tracepoint(ret)]
pub fn generic<T: Value + Copy>(value: T) -> T {
    value
}

#[tracepoint]
#[inline(always)]
pub fn inlined(id: u32) -> u32 {
    id.rotate_left(3)
}

/// Two functions of equal bodies, which a linker that folds identical code makes one.
#[tracepoint]
#[inline(never)]
pub fn twin_a(id: u64) -> u64 {
    id ^ 0x55
}

#[tracepoint]
#[inline(never)]
pub fn twin_b(id: u64) -> u64 {
    id ^ 0x55
}

/// No field, and no argument.
#[tracepoint]
#[inline(never)]
pub fn bare() {}

pub fn closure(base: u16) -> impl Fn(u16) -> u16 {
    move |step| {
        event!(in_closure, base, step = seen(step));
        base.wrapping_add(step)
    }
}

#[tracepoint(ret)]
pub async fn asynchronous(id: u32) -> u32 {
    Yield(false).await;
    id * 3
}

/// Pending once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

pub trait Shape {
    fn area(&self, scale: u32) -> u32;

    #[tracepoint]
    fn twice(&self, scale: u32) -> u32 {
        2 * self.area(scale)
    }
}

pub struct Square(pub u32);

impl Shape for Square {
    #[tracepoint(ret)]
    fn area(&self, scale: u32) -> u32 {
        self.0 * self.0 * scale
    }
}

#[tracepoint(err)]
pub fn fallible(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number: u32 = text.parse()?;
    Ok(number + 1)
}

/// A declared event, shared by its callers.
#[tracepoint(print = "id={id} depth={depth}")]
pub fn queued(id: u64, depth: usize, user: &str);

/// A site that tests its semaphore instead of being patched.
#[inline(never)]
pub fn tested(id: u64) -> u64 {
    event!(gate: "semaphore", tested, id = seen(id));
    id + 1
}

/// More words than registers take, and more than a USDT note describes.
#[inline(never)]
pub fn wide(id: u64) {
    event!(
        wide,
        a = id,
        b = -1_i8,
        c = "three",
        d = 4.5_f64,
        e = Some(5_u16),
        f = i128::MIN,
        g = %id,
        h = "past the twelfth",
    );
}

/// The same event at two places: one tracepoint with two sites.
pub fn two_places(id: u64) {
    event!(two_places, id);
    if id > 1 {
        event!(two_places, id);
    }
}

/// A third crate that inlines the function with assembly of its own.
pub fn labelled(value: f32) -> u64 {
    labels::labelled(value) + labels::labelled(-value)
}
