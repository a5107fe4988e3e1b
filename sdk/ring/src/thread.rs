//! The id of a thread, asked for once and kept in static thread-local storage: reading it neither calls
//! nor allocates, in executables and libraries alike, so that it costs nothing in an append and may be
//! done in a signal handler and while other thread-locals are being destroyed.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod kept {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.tracebraid,\"awT\",@nobits",
        ".balign 4",
        ".hidden tracebraid_thread",
        ".globl tracebraid_thread",
        ".type tracebraid_thread,@object",
        "tracebraid_thread: .zero 4",
        ".size tracebraid_thread, 4",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> u32 {
        let id: u32;
        // SAFETY: loads this thread's variable; its offset from the thread pointer is a constant once we
        // are loaded (initial-exec model).
        unsafe {
            asm!(
                "mov {id:r}, [rip + tracebraid_thread@GOTTPOFF]",
                "mov {id:e}, fs:[{id:r}]",
                id = out(reg) id,
                options(nostack, readonly, preserves_flags)
            );
        }
        id
    }

    pub(super) fn set(id: u32) {
        // SAFETY: stores this thread's variable.
        unsafe {
            asm!(
                "mov {at}, [rip + tracebraid_thread@GOTTPOFF]",
                "mov fs:[{at}], {id:e}",
                at = out(reg) _,
                id = in(reg) id,
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod kept {
    use std::cell::Cell;

    thread_local! {
        static ID: Cell<u32> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(super) fn get() -> u32 {
        ID.with(Cell::get)
    }

    pub(super) fn set(id: u32) {
        ID.with(|kept| kept.set(id));
    }
}

/// This thread's id, where [`id`] has asked for it; else 0.
#[inline(always)]
pub fn known() -> u32 {
    kept::get()
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
    kept::set(id);
    id
}

/// Asks anew: in a child of fork the one thread has another id.
pub fn forget() {
    kept::set(0);
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
