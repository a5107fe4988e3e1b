//! A site, and functions beside it on the same page.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::Ordering;

use tracebraid::event;

use super::HITS;

const PAGE: u64 = 4096;

/// A function that can be probed: all of them compute the same.
pub(crate) type Neighbour = extern "C" fn(u64, u64) -> u64;

/// What they compute.
pub(crate) fn expected(n: u64, other: u64) -> u64 {
    n.wrapping_mul(5) ^ other
}

#[inline(never)]
#[unsafe(link_section = ".text.storm")]
extern "C" fn before(n: u64, other: u64) -> u64 {
    expected(black_box(n), other)
}

/// Hits `storm`, between values that must survive it.
#[inline(never)]
#[unsafe(link_section = ".text.storm")]
pub(crate) extern "C" fn site(n: u64, other: u64) -> u64 {
    let product = n.wrapping_mul(5);
    event!(storm, n, hits = HITS.fetch_add(1, Ordering::Relaxed), other);
    product ^ other
}

#[inline(never)]
#[unsafe(link_section = ".text.storm")]
extern "C" fn after(n: u64, other: u64) -> u64 {
    expected(black_box(n), other)
}

/// A function whose first byte is on the page of the site's eight. Where both neighbours are on another
/// page, it is the site's own function, whose first bytes are not the site.
pub(crate) fn neighbour() -> (Neighbour, u64) {
    let points = tracebraid::tracepoints();
    let storm = points
        .iter()
        .find(|point| point.name() == "storm")
        .expect("the tracepoint");
    let key = storm.sites()[0].address as u64;
    let functions: [Neighbour; 3] = [before, after, site];
    functions
        .into_iter()
        .map(|function| (function, (function as *const ()).addr() as u64))
        .find(|&(_, address)| address / PAGE == key / PAGE && address != key)
        .expect("one of three functions begins on the site's page")
}
