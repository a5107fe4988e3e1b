//! Small functions with and without a site of three captured values, whose instructions are counted.
//!
//! Counted is what runs while the site is off. `…_plain` is the same function without the site.

use std::hint::black_box;

use tracebraid::event;

/// A function that calls nothing.
#[inline(never)]
pub fn leaf(id: u64, length: usize, code: i32) -> u64 {
    event!(leaf, id = id, length = length, code = code);
    id.wrapping_mul(3).wrapping_add(length as u64) ^ 0x55
}

/// [`leaf`] without a site.
#[inline(never)]
pub fn leaf_plain(id: u64, length: usize, code: i32) -> u64 {
    let _ = code;
    id.wrapping_mul(3).wrapping_add(length as u64) ^ 0x55
}

/// A function that calls nothing unless an index is out of bounds: the call is there, in a cold place.
#[inline(never)]
pub fn indexing(id: u64, items: &[u64], code: i32) -> u64 {
    event!(indexing, id = id, length = items.len(), code = code);
    id.wrapping_mul(3).wrapping_add(items[0])
}

/// [`indexing`] without a site.
#[inline(never)]
pub fn indexing_plain(id: u64, items: &[u64], code: i32) -> u64 {
    let _ = code;
    id.wrapping_mul(3).wrapping_add(items[0])
}

/// A site passed four times, in a loop whose sum it captures.
#[inline(never)]
pub fn looping(id: u64, items: &[u64; 4], code: i32) -> u64 {
    let mut sum = 0_u64;
    for item in items {
        event!(looping, id = id, sum = sum, code = code);
        sum = sum.wrapping_mul(id).wrapping_add(*item).rotate_left(5);
    }
    sum
}

/// [`looping`] without a site.
#[inline(never)]
pub fn looping_plain(id: u64, items: &[u64; 4], code: i32) -> u64 {
    let _ = code;
    let mut sum = 0_u64;
    for item in items {
        sum = sum.wrapping_mul(id).wrapping_add(*item).rotate_left(5);
    }
    sum
}

/// A function that ends by jumping to another.
#[inline(never)]
pub fn tail(id: u64, items: &[u64], code: i32) -> u64 {
    event!(tail, id = id, length = items.len(), code = code);
    tail_target(id + 1, code)
}

/// [`tail`] without a site.
#[inline(never)]
pub fn tail_plain(id: u64, items: &[u64], code: i32) -> u64 {
    let _ = items;
    tail_target(id + 1, code)
}

/// What is jumped to.
#[inline(never)]
fn tail_target(id: u64, code: i32) -> u64 {
    black_box(id) ^ u64::from(code.unsigned_abs())
}

/// Calls each function so many times.
pub fn call_all(calls: u64) {
    let items = black_box([5, 6, 7, 8]);
    for id in 0..calls {
        let code = black_box(-7);
        black_box(leaf(id, items.len(), code));
        black_box(leaf_plain(id, items.len(), code));
        black_box(indexing(id, &items, code));
        black_box(indexing_plain(id, &items, code));
        black_box(looping(id, &items, code));
        black_box(looping_plain(id, &items, code));
        black_box(tail(id, &items, code));
        black_box(tail_plain(id, &items, code));
    }
}
