//! The process that undoes what was written when the bridge is killed.
//!
//! ```text
//! bridge ──▶ janitor: "PID" for each process whose keys it writes, before the first; "done" at an orderly end
//! bridge ends, by whatever ──▶ keys that nobody wants any more go off ──▶ the janitor ends
//! all these processes end  ──▶ the janitor ends
//! ```
//! It is the bridge's own executable, started again in a session of its own, so that what ends the bridge
//! does not end it as well. It holds both sides by pidfd, has no file anywhere, and sleeps until there is
//! something to do. The bridge's probes go with the bridge, and the kernel lowers their semaphores: what the
//! janitor writes follows from these, as everything that writes keys does.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getppid, setsid};

use super::{Files, Keys, Rule};
use crate::error::{Error, ErrorKind, Result};
use crate::target::{ProcessEnd, descendants};

/// What it is called on its command line and in lists of processes.
const NAME: &str = "janitor";
/// What it says when it is there.
const READY: &[u8] = b"ready\n";
/// What the bridge says at an orderly end.
const DONE: &str = "done";
/// How long the bridge waits for its beginning and for its end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it goes on looking whether the kernel has lowered the semaphores.
const LINGER: Duration = Duration::from_secs(5);
/// How long it waits between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// The bridge's side. Dropped without [`dismiss`](Janitor::dismiss), it undoes all when this process ends.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
    input: ChildStdin,
}

impl Janitor {
    /// Starts it: `program` is this bridge's executable.
    ///
    /// # Errors
    /// [`ErrorKind::Other`] where it does not start.
    pub fn start(program: &Path) -> Result<Janitor> {
        let failed = |error: io::Error| {
            let message = "cannot start the process that undoes all if the bridge is killed";
            Error::new(ErrorKind::Other, message).because(error)
        };
        let mut command = Command::new(program);
        command
            .args([NAME, &std::process::id().to_string()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec the closure makes one system call, which allocates nothing.
        unsafe { command.pre_exec(|| setsid().map(drop).map_err(io::Error::from)) };
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        let janitor = match (input, output) {
            (Some(input), Some(mut output)) => {
                let mut answer = [0; READY.len()];
                let answered =
                    wait_for(&output, PATIENCE) && output.read_exact(&mut answer).is_ok();
                (answered && answer == READY).then_some(input)
            }
            _ => None,
        };
        match janitor {
            Some(input) => Ok(Janitor { child, input }),
            None => {
                // Both fail only where it has gone already.
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(io::Error::other("it does not answer")))
            }
        }
    }

    /// Tells it of a process whose keys will be written.
    ///
    /// # Errors
    /// [`ErrorKind::Other`] where it is gone.
    pub fn tell(&mut self, pid: u32) -> Result<()> {
        writeln!(self.input, "{pid}").map_err(|error| {
            Error::new(ErrorKind::Other, "the janitor process has ended").because(error)
        })
    }

    /// Ends it: all is undone.
    pub fn dismiss(mut self) {
        // Where it is gone there is nothing to say.
        let _ = writeln!(self.input, "{DONE}");
        drop(self.input);
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether something can be read within the time.
fn wait_for(from: &impl AsFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
    let millis = u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
    matches!(poll(&mut fds, PollTimeout::from(millis)), Ok(1..))
}

/// The janitor's own life, until there is nothing left to do for the bridge `bridge`.
///
/// # Errors
/// [`ErrorKind::Usage`] where nobody is its bridge.
pub(crate) fn serve(bridge: u32) -> Result<()> {
    let not_ours = || Error::new(ErrorKind::Usage, "bridge-cli starts this for itself");
    let end = ProcessEnd::of(bridge).map_err(|error| not_ours().because(error))?;
    if getppid().as_raw() != bridge as i32 {
        return Err(not_ours());
    }
    // It is listed as what it is, not as `exe`.
    let _ = nix::sys::prctl::set_name(c"bridge-janitor");
    let input = io::stdin().as_fd().try_clone_to_owned();
    let mut input = File::from(input.map_err(|error| not_ours().because(error))?);
    let mut output = io::stdout();
    output
        .write_all(READY)
        .and_then(|()| output.flush())
        .map_err(|error| not_ours().because(error))?;
    let mut care = Care::default();
    loop {
        match care.wait(&input, &end)? {
            Wake::Bridge => break,
            Wake::Targets => return Ok(()),
            Wake::Nothing => {}
            Wake::Word => {
                let mut bytes = [0; 4096];
                let length = input.read(&mut bytes).unwrap_or(0);
                if length == 0 {
                    break;
                }
                if care.hear(&bytes[..length]) {
                    return Ok(());
                }
            }
        }
    }
    // Its end is said when all its probes are gone, which its input's end is not.
    wait_for(&end, PATIENCE);
    care.undo();
    Ok(())
}

enum Wake {
    /// The bridge says something, or is about to end.
    Word,
    Bridge,
    /// Nobody is left.
    Targets,
    /// Somebody ended, and others are left.
    Nothing,
}

/// What is to be undone.
#[derive(Default)]
struct Care {
    processes: Vec<(Keys, ProcessEnd)>,
    /// What was heard of a line that is not whole yet.
    heard: Vec<u8>,
}

impl Care {
    fn wait(&mut self, input: &impl AsFd, bridge: &ProcessEnd) -> Result<Wake> {
        let mut fds = vec![
            PollFd::new(input.as_fd(), PollFlags::POLLIN),
            PollFd::new(bridge.as_fd(), PollFlags::POLLIN),
        ];
        let ends = self.processes.iter().map(|(_, end)| end);
        fds.extend(ends.map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => {
                return Err(Error::new(ErrorKind::Other, "cannot wait").because(errno));
            }
        }
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        let (word, bridge) = (ready(&fds[0]), ready(&fds[1]));
        let before = self.processes.len();
        self.processes.retain(|(_, end)| !end.has_come());
        Ok(match () {
            () if word => Wake::Word,
            () if bridge => Wake::Bridge,
            () if before > 0 && self.processes.is_empty() => Wake::Targets,
            () => Wake::Nothing,
        })
    }

    /// Takes in what the bridge says. Whether it says that all is done.
    fn hear(&mut self, bytes: &[u8]) -> bool {
        self.heard.extend(bytes);
        while let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            match line.trim() {
                DONE => return true,
                pid => {
                    // One that has ended has nothing to be undone.
                    let pid = pid.parse().unwrap_or(0);
                    if let (Ok(keys), Ok(end)) = (Keys::of(pid), ProcessEnd::of(pid)) {
                        self.processes.push((keys, end));
                    }
                }
            }
        }
        false
    }

    /// Switches off what nobody wants, until the kernel has taken back what the bridge wanted.
    fn undo(&mut self) {
        let mut files = Files::new();
        let start = Instant::now();
        loop {
            let mut readers = 0;
            for (keys, _) in &mut self.processes {
                readers += undo(keys, &mut files);
            }
            // What was forked meanwhile has what its parent had.
            let known: Vec<u32> = self.processes.iter().map(|(keys, _)| keys.pid()).collect();
            for pid in descendants(&known) {
                if let Ok(mut keys) = Keys::of(pid) {
                    readers += undo(&mut keys, &mut files);
                }
            }
            if readers == 0 || start.elapsed() > LINGER {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Switches off what nobody wants. How many keys are on for readers outside of the program.
fn undo(keys: &mut Keys, files: &mut Files) -> usize {
    let Ok(found) = keys.look(files, Rule::OnlyOff) else {
        return 0;
    };
    let readers = found.on_for_readers;
    if !found.is_empty() {
        // There is nobody left to be told.
        let _ = keys.write(found);
    }
    readers
}
