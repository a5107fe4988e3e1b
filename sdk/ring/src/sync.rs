//! What rings are synchronised with, in one place: `tests/interleavings` compiles the same sources with
//! the atomics of a model checker here.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;
