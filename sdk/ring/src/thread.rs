//! The id of a thread, asked for once and kept in static thread-local storage: reading it neither calls
//! nor allocates, in executables and libraries alike, so that it costs nothing in an append and may be
//! done in a signal handler and while other thread-locals are being destroyed.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod kept {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.tracebraid,\"awT\",@nobits",
        ".balign 8",
        ".hidden tracebraid_thread",
        ".globl tracebraid_thread",
        ".type tracebraid_thread,@object",
        "tracebraid_thread: .zero 8",
        ".size tracebraid_thread, 8",
        ".popsection",
    );

    /// Where the id is.
    pub(super) const ID: usize = 0;
    /// Where it says that a child may run as this thread.
    pub(super) const SHARED: usize = 4;

    #[inline(always)]
    pub(super) fn get<const AT: usize>() -> u32 {
        let value: u32;
        // SAFETY: loads this thread's variable, whose offset from the thread pointer is a constant once we
        // are loaded (initial-exec model); `AT` is one of the two places in it.
        unsafe {
            asm!(
                "mov {value:r}, [rip + tracebraid_thread@GOTTPOFF]",
                "mov {value:e}, fs:[{value:r} + {at}]",
                value = out(reg) value,
                at = const AT,
                options(nostack, readonly, preserves_flags)
            );
        }
        value
    }

    pub(super) fn set<const AT: usize>(value: u32) {
        // SAFETY: stores this thread's variable; `AT` is one of the two places in it.
        unsafe {
            asm!(
                "mov {to}, [rip + tracebraid_thread@GOTTPOFF]",
                "mov fs:[{to} + {at}], {value:e}",
                to = out(reg) _,
                value = in(reg) value,
                at = const AT,
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod kept {
    use std::cell::Cell;

    thread_local! {
        static KEPT: [Cell<u32>; 2] = const { [Cell::new(0), Cell::new(0)] };
    }

    /// Which of them is the id.
    pub(super) const ID: usize = 0;
    /// Which of them says that a child may run as this thread.
    pub(super) const SHARED: usize = 1;

    #[inline(always)]
    pub(super) fn get<const AT: usize>() -> u32 {
        KEPT.with(|kept| kept[AT].get())
    }

    pub(super) fn set<const AT: usize>(value: u32) {
        KEPT.with(|kept| kept[AT].set(value));
    }
}

use kept::{ID, SHARED};

/// This thread's id, where [`id`] has asked for it; else 0.
#[inline(always)]
pub fn known() -> u32 {
    kept::get::<ID>()
}

/// This thread's id, as its pid namespace numbers it.
#[inline]
pub fn id() -> u32 {
    match known() {
        0 => ask(),
        id => id,
    }
}

#[cold]
fn ask() -> u32 {
    // SAFETY: no preconditions.
    let id = unsafe { libc::gettid() } as u32;
    if !is_shared() {
        kept::set::<ID>(id);
    }
    id
}

/// Asks anew: in a child of fork the one thread has another id.
pub fn forget() {
    kept::set::<ID>(0);
}

/// Said while a child may run in this thread's place, with its variables: nothing is kept then.
const NOBODY: u32 = 1;

/// Says whether a child may run in this thread's place, in its memory and with its variables, as that of
/// `vfork` does. The thread's id is then never kept, and [`known`] is 0.
pub fn share(shared: bool) {
    forget();
    kept::set::<SHARED>(if shared { NOBODY } else { 0 });
}

/// Whether a child may run in this thread's place.
#[inline]
pub fn is_shared() -> bool {
    kept::get::<SHARED>() != 0
}

/// While shared: whether the thread `id` is another than that of the last call.
pub fn is_new_here(id: u32) -> bool {
    // No thread of a program has the number 1 but the first of a pid namespace, which is new each time.
    let before = kept::get::<SHARED>();
    kept::set::<SHARED>(id);
    before != id || id == NOBODY
}

/// Whether there is such a thread, in this process or another.
pub(crate) fn is_there(thread: u32) -> bool {
    // SAFETY: signal 0 is none; only whether it could be sent is of interest.
    let result = unsafe { libc::kill(thread as libc::pid_t, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_thread_has_its_own_id_and_keeps_it() {
        // SAFETY: no preconditions.
        let truth = || unsafe { libc::gettid() } as u32;
        assert_eq!((super::id(), super::known()), (truth(), truth()));
        let other = std::thread::spawn(move || {
            assert_eq!(super::known(), 0);
            (super::id(), truth())
        });
        let (kept, truth) = other.join().unwrap();
        assert_eq!(kept, truth);
        assert_ne!(kept, super::id());
    }
}
