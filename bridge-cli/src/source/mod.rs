//! Where events come from. Each source yields the events of one CPU, oldest first as far as it can
//! know; putting them in order is the merge's work, of which no source knows.

pub mod bpf_ring;
pub mod decode;
pub mod slots;
pub mod syscall;
