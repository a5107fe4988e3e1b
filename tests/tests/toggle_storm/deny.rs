//! `MemoryDenyWriteExecute` of systemd, without systemd.

#![allow(unsafe_code)]

/// Forbids this process to make memory executable that is or was writable.
pub(crate) fn write_execute() {
    const PR_SET_MDWE: libc::c_int = 65;
    const REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: this prctl takes numbers only.
    let result = unsafe { libc::prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
