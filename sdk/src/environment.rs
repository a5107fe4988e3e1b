//! What the environment says, where it may say anything.

#![allow(unsafe_code)]

/// The value of a variable. A program that runs with more rights than who started it (set-user-ID, file
/// capabilities) does not ask the environment, which is that user's.
pub(crate) fn variable(name: &str) -> Option<String> {
    // SAFETY: no preconditions; an entry that the kernel has not given is 0.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    std::env::var(name).ok()
}
