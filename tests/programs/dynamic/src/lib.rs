//! A Rust `dylib`: its generic functions, and the SDK that is in it, are used by another object.

#![forbid(unsafe_code)]
#![deny(warnings)]

use tracebraid::{Value, event, tracepoint};

#[tracepoint(ret)]
#[inline(never)]
pub fn inside(n: u64, text: &str) -> u64 {
    n + text.len() as u64
}

/// Five words: all that registers between the site and the SDK hold of scratch, and one more.
pub fn generic<T: Value>(value: T, text: &str) {
    event!(generic, value, text, n = 4_u64, m = 5_u64);
}
