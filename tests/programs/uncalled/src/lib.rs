//! Tracepoints in a library that is linked and never called.

#![forbid(unsafe_code)]
#![deny(warnings)]

#[tracebraid::tracepoint]
#[inline(never)]
pub fn never(id: u64) -> u64 {
    id + 1
}

pub fn event() {
    tracebraid::event!(uncalled, id = 1);
}
