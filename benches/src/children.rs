//! Processes that a bench starts and that do not outlive it.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long a process may take to end when it was asked to.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the command; the kernel ends the process where this one ends first.
///
/// # Errors
/// It cannot be started.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec the closure makes one system call, prctl with numbers only, which is
    // async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            },
        );
    }
    command.spawn()
}

/// Asks a child to end, as Ctrl-C would.
///
/// # Errors
/// It has ended.
pub fn interrupt(child: &Child) -> io::Result<()> {
    signal(child, libc::SIGINT)
}

/// Ends a child: by asking, and where that is not heard by force.
///
/// # Errors
/// It cannot be waited for.
pub fn end(child: &mut Child, signal: libc::c_int) -> io::Result<()> {
    if child.try_wait()?.is_none() {
        // Where it has ended meanwhile, waiting for it is all that is left.
        let _ = self::signal(child, signal);
    }
    let limit = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > limit {
            child.kill()?;
            child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn signal(child: &Child, signal: libc::c_int) -> io::Result<()> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: kill takes two numbers. The child was not waited for, so its pid is nobody else's.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
