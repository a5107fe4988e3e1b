//! Reading and writing the memory of another process, without stopping it.
//!
//! A write to `/proc/PID/mem` reaches text that is mapped for reading only. Some kernels let nobody but a
//! tracer do that (`CONFIG_PROC_MEM_FORCE_PTRACE`: EIO at the write, not at the open). There a thread of
//! ours takes the process by `PTRACE_SEIZE`, which does not stop it, writes, and ends: with the thread the
//! kernel ends the tracing. (A tracer that goes on living could let go only of a process that stands.) A
//! signal that comes in between waits for that moment, some microseconds, and is then delivered.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::error::Result;
use crate::target::Process;

/// How memory is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By anybody who may look at the process.
    Plain,
    /// As its tracer.
    Traced,
}

/// How often it is tried to become its tracer: the thread that was it last may not have ended yet.
const TRIES: u32 = 50;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// Of the program that a process runs by now.
    pub(super) fn of(process: &Process) -> Result<Memory> {
        process.memory().map(Memory)
    }

    /// Reads all of `to`.
    pub(super) fn read(&self, address: u64, to: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(to, address)
    }

    /// Writes single bytes. Which way it went.
    pub(super) fn write(
        &self,
        process: &Process,
        way: Way,
        bytes: &[(u64, u8)],
    ) -> io::Result<Way> {
        if way == Way::Plain {
            match self.write_all(bytes) {
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
                other => return other.map(|()| Way::Plain),
            }
        }
        let written = thread::scope(|scope| {
            let tracer = thread::Builder::new().name("bridge-writer".into());
            let writing = tracer.spawn_scoped(scope, || {
                seize(process.pid())?;
                // The number may have been given to another meanwhile; this memory has not.
                self.write_all(bytes)
            })?;
            writing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        written.map(|()| Way::Traced)
    }

    fn write_all(&self, bytes: &[(u64, u8)]) -> io::Result<()> {
        bytes
            .iter()
            .try_for_each(|(address, byte)| self.0.write_all_at(&[*byte], *address))
    }
}

/// Which way this kernel lets memory be written that is mapped for reading only. It is asked with a byte of
/// our own, which stays what it is.
///
/// # Errors
/// It lets nobody.
pub(crate) fn way_of_this_kernel() -> io::Result<Way> {
    let memory = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem")?;
    let address = way_of_this_kernel as *const () as u64;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, address)?;
    match memory.write_all_at(&byte, address) {
        Ok(()) => Ok(Way::Plain),
        // Nobody traces itself; whoever traces another may write it.
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(Way::Traced),
        Err(error) => Err(error),
    }
}

/// Makes this thread the tracer of a process, which goes on.
fn seize(pid: u32) -> io::Result<()> {
    let pid = Pid::from_raw(pid as i32);
    let mut result = Ok(());
    for _ in 0..TRIES {
        result = ptrace::seize(pid, ptrace::Options::empty());
        if result != Err(Errno::EPERM) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    result.map_err(io::Error::from)
}
