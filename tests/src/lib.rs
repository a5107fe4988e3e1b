//! What the whole-product tests share.
//!
//! ```text
//! requirement   what a test needs of the machine; ignored with the reason where it is not there
//! scenario      a test that runs in a process of its own: the test binary, started again
//! programs      the programs of `programs/`, and the bridge
//! variant       some of them, built in one of many ways
//! stapsdt       the USDT notes of a file, as readelf tells them
//! mdwe          a process that denies itself writable code
//! own_text      whether a process may write its own text
//! uprobe        a uprobe of the kernel's own perf interface, as any other tool sets it
//! guides        the examples of the documentation, as doc tests
//! ```
//! The tests themselves are in `tests/tests/`, one file a subject.

#[cfg(doctest)]
mod guides;
pub mod mdwe;
pub mod own_text;
pub mod programs;
pub mod requirement;
pub mod scenario;
pub mod stapsdt;
pub mod uprobe;
pub mod variant;
