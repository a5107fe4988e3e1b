//! The pid namespace that this process sees others in: whose numbers filters name and records hold.
//!
//! Programs number tasks as the initial namespace does, which is the cheapest. For a bridge in an inner one, as
//! in a container, they look up the number that a task has there (`bpf/task.bpf.h`).

use std::os::unix::fs::MetadataExt as _;

/// PROC_PID_INIT_INO (include/linux/proc_ns.h).
const INITIAL: u64 = 0xEFFF_FFFC;

/// The inode of this process's pid namespace; `None` where it is the initial one, or cannot be known.
pub(crate) fn inner() -> Option<u32> {
    let own = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    (own != INITIAL)
        .then_some(own)
        .and_then(|own| own.try_into().ok())
}

/// What the programs' constant says of it.
pub(crate) fn constant() -> (&'static str, Vec<u8>) {
    let inner = inner().unwrap_or(0);
    (".rodata.namespace", inner.to_ne_bytes().to_vec())
}
