//! Child processes: run to their end, or kept running and ended by their pid.
//!
//! A [`Running`] child is ended when it is dropped, on whatever way out. Where this process itself
//! is killed, the kernel ends the child: it asked for that signal before it started.

#![allow(unsafe_code)]

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long a child may take to end in order, before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command to its end, after showing it.
///
/// # Errors
/// It cannot be started, or it does not end with 0.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    show(command);
    let status = command.status().map_err(Error::doing(name(command)))?;
    success(command, status)
}

/// Runs the command to its end and hands each line of its standard output to `line`.
///
/// # Errors
/// It cannot be started or read.
pub(crate) fn run_lines(
    command: &mut Command,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus, Error> {
    show(command);
    let mut child = Running::start(command.stdout(Stdio::piped()))?;
    let mut reader = BufReader::new(child.take_stdout()?);
    let mut bytes = Vec::new();
    // By bytes: a test may print what is not UTF-8.
    while reader
        .read_until(b'\n', &mut bytes)
        .map_err(Error::doing(name(command)))?
        > 0
    {
        line(String::from_utf8_lossy(&bytes).trim_end_matches('\n'));
        bytes.clear();
    }
    child.wait()
}

/// Runs the command quietly and gives its standard output, if it ends with 0.
///
/// # Errors
/// It cannot be started, or it does not end with 0.
pub(crate) fn read(command: &mut Command) -> Result<String, Error> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(Error::doing(name(command)))?;
    success(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the command can be run and ends with 0; it is not heard.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// From now on a Ctrl-C ends the children, as it does by itself, and not this process, which then sees
/// them end, tidies up and ends too.
pub(crate) fn outlive_interrupts() {
    extern "C" fn pass(_: libc::c_int) {}

    // SAFETY: the handler does nothing, so that it may run at any moment; unlike an ignored signal, a
    // handled one is back at its default in a child after exec.
    unsafe { libc::signal(libc::SIGINT, pass as *const () as libc::sighandler_t) };
}

/// Where a program is in PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;

    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

/// Whether this process has the rights of root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing, touches no memory and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A child that is ended when dropped.
pub(crate) struct Running {
    child: Child,
    name: String,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Running, Error> {
        let name = name(command);
        // SAFETY: between fork and exec the closure makes one system call, prctl with numbers only,
        // which is async-signal-safe and allocates nothing.
        unsafe {
            command.pre_exec(
                || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                },
            );
        }
        let child = command.spawn().map_err(Error::doing(name.clone()))?;
        Ok(Running { child, name })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output, once; the command must have asked for a pipe.
    fn take_stdout(&mut self) -> Result<ChildStdout, Error> {
        self.child
            .stdout
            .take()
            .ok_or_else(|| Error::failed(format!("{}: no output", self.name)))
    }

    /// Its first line of output, waiting at most `limit`.
    ///
    /// # Errors
    /// It ends or the time is over before there is a line.
    pub(crate) fn first_line(&mut self, limit: Duration) -> Result<String, Error> {
        let mut reader = BufReader::new(self.take_stdout()?);
        let (sender, receiver) = mpsc::channel();
        // The thread also keeps the pipe open and empty, so that later output hurts nobody.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = reader.read_line(&mut line);
            // Nobody listens any more after the time is over.
            let _ = sender.send(read.map(|_| line));
            let _ = io::copy(&mut reader, &mut io::sink());
        });
        match receiver.recv_timeout(limit) {
            Ok(Ok(line)) if line.ends_with('\n') => Ok(line.trim_end().to_owned()),
            Ok(Ok(_)) => Err(Error::failed(format!("{} ended early", self.name))),
            Ok(Err(error)) => Err(Error::doing(self.name.clone())(error)),
            Err(_) => Err(Error::failed(format!(
                "{} said nothing in {limit:?}",
                self.name
            ))),
        }
    }

    /// The CPU time that it has had; 0 after its end.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        let ticks = stat.ok().and_then(|stat| {
            // utime and stime, counted behind the name, which may hold blanks.
            let (_, words) = stat.rsplit_once(") ")?;
            let mut times = words.split(' ').skip(11);
            let mut next = || times.next()?.parse::<u64>().ok();
            Some(next()? + next()?)
        });
        // USER_HZ is 100 on every architecture that this runs on.
        Duration::from_millis(10 * ticks.unwrap_or(0))
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(crate) fn has_ended(&mut self) -> Result<bool, Error> {
        let ended = self.child.try_wait();
        Ok(ended.map_err(Error::doing(self.name.clone()))?.is_some())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(crate) fn wait(mut self) -> Result<ExitStatus, Error> {
        self.child.wait().map_err(Error::doing(self.name.clone()))
    }

    /// Asks it to end, and kills it if it does not.
    fn end(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // SAFETY: kill takes two numbers. The pid is that of a child that was not waited for,
            // so that it cannot be anybody else's.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        let limit = Instant::now() + PATIENCE;
        while Instant::now() < limit {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!(
                "xtask: {} (pid {}) may still run: {error}",
                self.name,
                self.child.id()
            );
        }
    }
}

fn success(command: &Command, status: ExitStatus) -> Result<(), Error> {
    if status.success() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{} failed ({status})",
        name(command)
    )))
}

/// The program's name without its directory.
fn name(command: &Command) -> String {
    Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned()
}

/// Prints the command as one would type it.
pub(crate) fn show(command: &Command) {
    let program = command.get_program();
    let is_cargo = std::env::var_os("CARGO").is_some_and(|cargo| cargo == program);
    let mut line = match is_cargo {
        true => "$ cargo".to_owned(),
        false => format!("$ {}", program.display()),
    };
    for argument in command.get_args() {
        let text = argument.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            line.extend([" ", &text]);
        } else {
            line.extend([" '", &text.replace('\'', r"'\''"), "'"]);
        }
    }
    println!("{line}");
}
