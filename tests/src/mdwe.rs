//! `MemoryDenyWriteExecute` of systemd, without systemd.

#![allow(unsafe_code)]

use std::io;

const PR_SET_MDWE: libc::c_int = 65;
const PR_GET_MDWE: libc::c_int = 66;
const REFUSE_EXEC_GAIN: libc::c_ulong = 1;

/// Forbids this process, for good, to make memory executable that is or was writable.
///
/// # Panics
/// The kernel refuses.
pub fn deny_write_execute() {
    // SAFETY: this prctl takes numbers only.
    let result = unsafe { libc::prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Why this kernel cannot forbid it; `None` where it can.
#[must_use]
pub fn refusal() -> Option<String> {
    // SAFETY: this prctl takes numbers only.
    match unsafe { libc::prctl(PR_GET_MDWE, 0, 0, 0, 0) } {
        -1 => Some(format!(
            "this kernel has no PR_SET_MDWE: {}",
            io::Error::last_os_error()
        )),
        _ => None,
    }
}
