//! What the attach loop waits for: its tick, a signal to end, the end of a target.
//!
//! Signals are taken by a signalfd, so nothing runs in a handler. They are blocked for the thread that
//! made the [`Waker`] and for those it starts; the mask is put back when the waker is dropped.
#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::error::{Error, ErrorKind, Result};
use crate::target::ProcessEnd;

/// Signals that ask the bridge to end in order.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Why [`Waker::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The time is over.
    Tick,
    /// Somebody asks the bridge to end.
    Signal {
        /// With which signal.
        signal: Signal,
        /// Whether the terminal sent it, and so to the whole foreground group.
        by_terminal: bool,
    },
    /// One of the watched processes has ended.
    TargetGone {
        /// It was the last.
        last: bool,
    },
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Waker {
    signals: SignalFd,
    mask_before: SigSet,
    targets: Vec<ProcessEnd>,
}

impl Waker {
    /// Blocks the ending signals and takes them from here on; also wakes when one of `targets` ends.
    pub(super) fn new(targets: Vec<ProcessEnd>) -> Result<Waker> {
        let failed =
            |errno: Errno| Error::new(ErrorKind::Other, "cannot wait for signals").because(errno);
        let wanted = |signal: &Signal| *signal != Signal::SIGHUP || !hangups_are_ignored();
        let mask: SigSet = ENDING.into_iter().filter(wanted).collect();
        let mask_before = SigSet::thread_get_mask().map_err(failed)?;
        mask.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&mask, flags).map_err(failed)?;
        Ok(Waker {
            signals,
            mask_before,
            targets,
        })
    }

    /// Waits for `time` at most. A signal goes before the end of a target, and both before the tick.
    pub(super) fn wait(&mut self, time: Duration) -> Result<Wake> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            fds.extend(
                self.targets
                    .iter()
                    .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)),
            );
            // Rounded up: a poll of 0 ms just before the deadline would spin.
            let millis = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
            match poll(&mut fds, PollTimeout::from(millis)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(
                        Error::new(ErrorKind::Other, "cannot wait for events").because(errno)
                    );
                }
            }
            let gone = fds[1..].iter().position(|fd| fd.any().unwrap_or(false));
            if let Some(wake) = self.signal()? {
                return Ok(wake);
            }
            if let Some(index) = gone {
                self.targets.swap_remove(index);
                let last = self.targets.is_empty();
                return Ok(Wake::TargetGone { last });
            }
            if Instant::now() >= deadline {
                return Ok(Wake::Tick);
            }
        }
    }

    fn signal(&mut self) -> Result<Option<Wake>> {
        let info = self
            .signals
            .read_signal()
            .map_err(|errno| Error::new(ErrorKind::Other, "cannot read signals").because(errno))?;
        Ok(info.and_then(|info| {
            let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
            Some(Wake::Signal {
                signal,
                by_terminal: info.ssi_code == libc::SI_KERNEL,
            })
        }))
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // Fails for a wrong argument only, and this mask came from the kernel.
        let _ = self.mask_before.thread_set_mask();
    }
}

/// Whether the bridge runs under `nohup`. A signal that is blocked is kept although it is ignored, so a
/// signalfd would take it.
fn hangups_are_ignored() -> bool {
    // SAFETY: all zeros is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one to `action`.
    let result = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tick_comes_when_the_time_is_over_and_not_before() {
        let mut waker = Waker::new(Vec::new()).unwrap();
        let start = Instant::now();
        assert_eq!(waker.wait(Duration::from_millis(30)).unwrap(), Wake::Tick);
        assert!(start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn the_end_of_each_watched_process_wakes_once() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let ends = [child.id(), other.id()].map(|pid| ProcessEnd::of(pid).unwrap());
        let mut waker = Waker::new(ends.into()).unwrap();
        assert_eq!(waker.wait(Duration::from_millis(20)).unwrap(), Wake::Tick);
        child.kill().unwrap();
        assert_eq!(
            waker.wait(Duration::from_secs(10)).unwrap(),
            Wake::TargetGone { last: false }
        );
        assert_eq!(waker.wait(Duration::from_millis(5)).unwrap(), Wake::Tick);
        other.kill().unwrap();
        assert_eq!(
            waker.wait(Duration::from_secs(10)).unwrap(),
            Wake::TargetGone { last: true }
        );
        assert_eq!(waker.wait(Duration::from_millis(5)).unwrap(), Wake::Tick);
        child.wait().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_signal_is_taken_and_the_mask_put_back() {
        std::thread::spawn(|| {
            let before = SigSet::thread_get_mask().unwrap();
            let mut waker = Waker::new(Vec::new()).unwrap();
            nix::sys::pthread::pthread_kill(nix::sys::pthread::pthread_self(), Signal::SIGINT)
                .unwrap();
            let wake = waker.wait(Duration::from_secs(10)).unwrap();
            assert_eq!(
                wake,
                Wake::Signal {
                    signal: Signal::SIGINT,
                    by_terminal: false
                }
            );
            drop(waker);
            assert_eq!(SigSet::thread_get_mask().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
