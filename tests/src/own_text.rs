//! Whether a process may write its own text through `/proc/self/mem`.
//!
//! Kernels can be built to refuse it but to a tracer (`CONFIG_PROC_MEM_FORCE_PTRACE`): opening succeeds
//! there, writing does not.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Why this kernel refuses it; `None` where it does not.
#[must_use]
pub fn refusal() -> Option<String> {
    #[inline(never)]
    extern "C" fn written() {}

    let attempt = || {
        let address = (written as extern "C" fn() as *const ()).addr() as u64;
        let memory = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")?;
        let mut byte = [0];
        memory.read_exact_at(&mut byte, address)?;
        // What is there already.
        memory.write_all_at(&byte, address)
    };
    attempt()
        .err()
        .map(|error: io::Error| format!("/proc/self/mem does not write text here: {error}"))
}
