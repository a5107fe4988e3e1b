//! The end of a process, to be waited for: a pidfd.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Error, ErrorKind, Result};

/// The end of a process. Its descriptor becomes readable when all threads have ended, whether or not the
/// parent has noticed.
#[derive(Debug)]
pub struct ProcessEnd(OwnedFd);

impl ProcessEnd {
    /// Of the process with this number, by now.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where there is no such process.
    pub fn of(pid: u32) -> Result<ProcessEnd> {
        let number = libc::pid_t::try_from(pid).unwrap_or(-1);
        // SAFETY: pidfd_open takes two integers and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
        match i32::try_from(fd) {
            // SAFETY: the kernel has just given us this descriptor; nobody else holds it.
            Ok(fd) if fd >= 0 => Ok(ProcessEnd(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => {
                let errno = Errno::last();
                let error = Error::new(ErrorKind::Target, format!("cannot watch process {pid}"));
                Err(match errno {
                    Errno::ESRCH => error
                        .because(errno)
                        .hint("it has ended; look for it with: pgrep -a NAME"),
                    other => error.because(other),
                })
            }
        }
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1))
    }
}

impl AsFd for ProcessEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_is_not_there_is_an_error_of_the_target() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let error = ProcessEnd::of(child.id()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Target);
        assert_eq!(
            ProcessEnd::of(u32::MAX).unwrap_err().kind(),
            ErrorKind::Target
        );
    }

    #[test]
    fn it_has_come_although_the_parent_has_not_noticed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let end = ProcessEnd::of(child.id()).unwrap();
        assert!(!end.has_come());
        child.kill().unwrap();
        while !end.has_come() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
