//! Threads of a model: those from [`DEAD`] on are of a process that was killed.

pub(crate) const DEAD: u32 = 1000;

pub(crate) fn is_there(thread: u32) -> bool {
    thread < DEAD
}
