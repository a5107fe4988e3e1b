//! Starting the target: `-- CMD` runs it up to its entry point and holds it there.
//!
//! At the entry point the loader has mapped every library that the program is linked with, and not one
//! instruction of the program itself has run. So the ordinary way of attaching to a process sees all it
//! will ever need, and the first event is not missed. Scripts work too: what is held is the interpreter.
//!
//! The program is held by ptrace, with a breakpoint at the address that the kernel's auxiliary vector
//! names as the entry. The breakpoint is gone and ptrace is released before the program goes on. If the
//! bridge dies while it holds the program, the program, which has done nothing yet, dies too; afterwards
//! nothing ties one to the other but being parent and child.
#![allow(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::{Error, ErrorKind, Result};

/// A program that stands at its entry point. Dropped without [`release`](Held::release), it is killed:
/// it has not done anything yet.
#[derive(Debug)]
pub struct Held {
    child: Option<Child>,
}

/// A program that runs, started by us and no longer held.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

/// Starts `command` (program and arguments), with these variables added to its environment, and holds it at
/// its entry point.
///
/// Must be called on the thread that will call [`Held::release`]: ptrace belongs to a thread.
///
/// # Errors
/// [`ErrorKind::Target`] where it cannot be started or ends before its entry point,
/// [`ErrorKind::Binary`] where it is no program for this machine's 64-bit mode.
pub fn start(command: &[OsString], environment: &[(&str, String)]) -> Result<Held> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Error::new(ErrorKind::Usage, "there is no command behind --"))?;
    let mut builder = Command::new(program);
    builder.args(arguments).envs(environment.iter().cloned());
    // SAFETY: between fork and exec the closure makes two system calls, sigprocmask and ptrace, on data
    // of its own stack: both are async-signal-safe and neither allocates.
    unsafe {
        builder.pre_exec(|| {
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
            ptrace::traceme()?;
            Ok(())
        });
    }
    let child = builder
        .spawn()
        .map_err(|error| start_error(program, error))?;
    let held = Held { child: Some(child) };
    held.run_to_entry(program)?;
    Ok(held)
}

fn start_error(program: &OsStr, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the name, or give a path with a / in it",
        io::ErrorKind::PermissionDenied => {
            "the file must be executable, and ptrace of a child allowed"
        }
        _ => "run the command without bridge-cli to see whether it starts",
    };
    Error::new(ErrorKind::Target, format!("cannot start {program:?}"))
        .because(error)
        .hint(hint)
}

impl Held {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    fn nix_pid(&self) -> Pid {
        Pid::from_raw(self.pid() as i32)
    }

    fn run_to_entry(&self, program: &OsStr) -> Result<()> {
        let pid = self.nix_pid();
        let failed = |what: &str, errno: Errno| {
            Error::new(
                ErrorKind::Target,
                format!("cannot hold {program:?} at its entry point: {what}"),
            )
            .because(errno)
        };
        // The stop that exec itself makes under ptrace.
        match waitpid(pid, None).map_err(|errno| failed("waiting for exec", errno))? {
            WaitStatus::Stopped(..) => {}
            ended => return Err(ended_early(program, ended)),
        }
        ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL)
            .map_err(|errno| failed("ptrace options", errno))?;
        let entry = entry_point(self.pid(), program)?;
        let registers = ptrace::getregs(pid).map_err(|errno| failed("reading registers", errno))?;
        if registers.rip == entry {
            return Ok(());
        }
        let address = entry as ptrace::AddressType;
        let word = ptrace::read(pid, address).map_err(|errno| failed("reading its code", errno))?;
        const BREAKPOINT: i64 = 0xcc;
        ptrace::write(pid, address, (word & !0xff) | BREAKPOINT)
            .map_err(|errno| failed("setting a breakpoint", errno))?;
        let mut deliver = None;
        loop {
            ptrace::cont(pid, deliver).map_err(|errno| failed("letting it run", errno))?;
            deliver = match waitpid(pid, None).map_err(|errno| failed("waiting for it", errno))? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                    let mut registers =
                        ptrace::getregs(pid).map_err(|errno| failed("reading registers", errno))?;
                    if registers.rip == entry + 1 {
                        ptrace::write(pid, address, word)
                            .map_err(|errno| failed("removing the breakpoint", errno))?;
                        registers.rip = entry;
                        ptrace::setregs(pid, registers)
                            .map_err(|errno| failed("setting registers", errno))?;
                        return Ok(());
                    }
                    Some(Signal::SIGTRAP)
                }
                WaitStatus::Stopped(_, signal) => Some(signal),
                ended @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
                    return Err(ended_early(program, ended));
                }
                _ => None,
            };
        }
    }

    /// Lets it go on, no longer held by anything.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where it has been killed meanwhile.
    pub fn release(mut self) -> Result<Running> {
        let pid = self.nix_pid();
        ptrace::detach(pid, None).map_err(|errno| {
            Error::new(
                ErrorKind::Target,
                "the command ended while it was being attached",
            )
            .because(errno)
        })?;
        match self.child.take() {
            Some(child) => Ok(Running { child }),
            None => Err(Error::new(
                ErrorKind::Other,
                "the command was released twice",
            )),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only where it has gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, unless it has ended and been waited for.
    pub fn signal(&self, signal: Signal) {
        // It is our child and not waited for, so the number still belongs to it; an error means a zombie.
        let _ = nix::sys::signal::kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// Whether it has ended and can be waited for, or will be in a moment.
    pub fn has_ended(&self) -> bool {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The state stands behind the name, which may hold anything, parentheses included.
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// Those of waitpid.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

/// The shell's number for how a command ended: its status, or 128 and the signal.
pub fn shell_status(status: ExitStatus) -> u8 {
    let number = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(number & 0xff).unwrap_or(1)
}

fn ended_early(program: &OsStr, how: WaitStatus) -> Error {
    let how = match how {
        WaitStatus::Exited(_, status) => format!("it exited with status {status}"),
        WaitStatus::Signaled(_, signal, _) => format!("it was killed by {signal}"),
        other => format!("{other:?}"),
    };
    Error::new(
        ErrorKind::Target,
        format!("{program:?} ended before its entry point: {how}"),
    )
    .hint("run it without bridge-cli: a library may be missing")
}

/// The address of the first instruction of the program itself, from its auxiliary vector.
fn entry_point(pid: u32, program: &OsStr) -> Result<u64> {
    const AT_NULL: u64 = 0;
    const AT_ENTRY: u64 = 9;
    let wrong = |why: &str| {
        Error::new(
            ErrorKind::Binary,
            format!("{program:?} cannot be held at its entry point: {why}"),
        )
    };
    let mut header = [0u8; 5];
    fs::File::open(format!("/proc/{pid}/exe"))
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut header))
        .map_err(|error| wrong("its file cannot be read").because(error))?;
    if header != *b"\x7fELF\x02" {
        return Err(wrong("it is not a 64-bit program"));
    }
    let auxv = fs::read(format!("/proc/{pid}/auxv"))
        .map_err(|error| wrong("its auxiliary vector cannot be read").because(error))?;
    auxv.chunks_exact(16)
        .map(|pair| {
            let word = |at: usize| {
                pair[at..at + 8]
                    .iter()
                    .rev()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte))
            };
            (word(0), word(8))
        })
        .take_while(|(kind, _)| *kind != AT_NULL)
        .find(|(kind, _)| *kind == AT_ENTRY)
        .map(|(_, address)| address)
        .ok_or_else(|| wrong("its auxiliary vector names none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn finish(mut running: Running) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = running.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the command did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_held_command_has_its_libraries_and_has_not_run() {
        let mark = std::env::temp_dir().join(format!("bridge-launch-{}", std::process::id()));
        let line = format!("echo > {}; exit 7", mark.display());
        let held = start(&command(&["/bin/sh", "-c", &line]), &[]).unwrap();
        let maps = fs::read_to_string(format!("/proc/{}/maps", held.pid())).unwrap();
        assert!(maps.contains("libc.so.6"), "{maps}");
        assert!(!mark.exists());
        let status = finish(held.release().unwrap());
        assert!(mark.exists());
        fs::remove_file(&mark).unwrap();
        assert_eq!(shell_status(status), 7);
    }

    #[test]
    fn a_command_that_is_never_released_never_runs() {
        let mark = std::env::temp_dir().join(format!("bridge-launch-drop-{}", std::process::id()));
        let held = start(&command(&["touch", mark.to_str().unwrap()]), &[]).unwrap();
        let pid = held.pid();
        drop(held);
        assert!(!mark.exists());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_signal_mask_of_the_command_is_empty() {
        let status = std::thread::spawn(|| {
            SigSet::all().thread_block().unwrap();
            let line = "grep -q '^SigBlk:\\s0000000000000000$' /proc/self/status";
            finish(
                start(&command(&["/bin/sh", "-c", line]), &[])
                    .unwrap()
                    .release()
                    .unwrap(),
            )
        });
        assert_eq!(status.join().unwrap().code(), Some(0));
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = start(&command(&["/no/such/program"]), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Target);
        assert!(error.to_string().contains("/no/such/program"));
    }

    #[test]
    fn death_by_a_signal_is_128_and_its_number() {
        let held = start(&command(&["/bin/sh", "-c", "kill -KILL $$"]), &[]).unwrap();
        assert_eq!(shell_status(finish(held.release().unwrap())), 137);
    }
}
