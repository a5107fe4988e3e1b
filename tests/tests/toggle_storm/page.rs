//! A site, and functions beside it on the same page.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::Ordering;

use tracebraid::event;

use super::HITS;

const PAGE: u64 = 4096;

/// A function that can be probed.
pub(crate) type Neighbour = extern "C" fn(u64) -> u64;

#[inline(never)]
#[unsafe(link_section = ".text.storm")]
extern "C" fn before(n: u64) -> u64 {
    black_box(n) + 7
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
extern "C" fn after(n: u64) -> u64 {
    black_box(n) + 7
}

/// A function whose first byte is on the page of the site's eight.
pub(crate) fn neighbour() -> (Neighbour, u64) {
    let sites = tracebraid::tracepoints();
    let storm = sites
        .iter()
        .find(|point| point.name() == "storm")
        .expect("the tracepoint");
    let page = storm.sites()[0].address as u64 / PAGE;
    let functions: [Neighbour; 2] = [before, after];
    functions
        .into_iter()
        .map(|function| (function, (function as *const ()).addr() as u64))
        .find(|(_, address)| address / PAGE == page)
        .expect("one of two neighbours is on the site's page")
}
