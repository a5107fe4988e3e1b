//! Writing the program's own text, one key at a time.
//!
//! Through `/proc/self/mem` where that works: no mapping becomes writable and executable, the mapping
//! stays file-backed so that uprobes on the page keep working, and `MemoryDenyWriteExecute` does not
//! mind. Some kernels refuse it (`CONFIG_PROC_MEM_FORCE_PTRACE`: EIO at the write, not at the open);
//! then the page is made writable for the one store. Where both fail the text stays as it is.
//!
//! While the page is writable, which takes about a microsecond, the kernel sets no uprobe there: a tool
//! that attaches at that very moment begins to count when it is over.
//!
//! A handle of `/proc/self/mem` belongs to the process that opened it: after fork it would write the
//! parent. It is kept for as long as the pid is the same, since after setuid it could not be opened. A
//! daemon may have closed it with all descriptors that it does not know, and its number may be another
//! file by now: so it is looked at before each write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::dso::Dso;
use crate::error::{Error, ErrorKind};
use crate::options::Patching;

use super::key::Switch;

/// Writes text.
pub(crate) struct Writer {
    patching: Patching,
    memory: Option<Handle>,
}

/// `/proc/self/mem`, open.
struct Handle {
    owner: u32,
    file: File,
    /// Device and inode.
    identity: (u64, u64),
}

impl Handle {
    fn open(owner: u32) -> io::Result<Handle> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open("/proc/self/mem")?;
        let identity = identity(&file)?;
        Ok(Handle {
            owner,
            file,
            identity,
        })
    }

    /// Whether the descriptor is still what was opened.
    fn is_ours(&self) -> bool {
        identity(&self.file).is_ok_and(|identity| identity == self.identity)
    }

    /// Closes it, unless its number has become somebody else's.
    fn close(self) {
        if !self.is_ours() {
            let _ = self.file.into_raw_fd();
        }
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Writer {
    pub(crate) const fn new() -> Writer {
        Writer {
            patching: Patching::Auto,
            memory: None,
        }
    }

    pub(crate) fn set_patching(&mut self, patching: Patching) {
        self.patching = patching;
    }

    /// Opens the handle of this process now, while the rights to do so are there.
    pub(crate) fn open(&mut self) -> io::Result<&File> {
        let pid = std::process::id();
        let is_current = |handle: &Handle| handle.owner == pid && handle.is_ours();
        if !self.memory.as_ref().is_some_and(is_current) {
            // The parent's handle goes first: it must never be written by a child.
            if let Some(handle) = self.memory.take() {
                handle.close();
            }
            self.memory = Some(Handle::open(pid)?);
        }
        match &self.memory {
            Some(handle) => Ok(&handle.file),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    /// Switches a key of an object.
    pub(super) fn write(&mut self, dso: &Dso<'_>, switch: &Switch) -> Result<(), Error> {
        let through_file = match self.patching {
            Patching::Mprotect => None,
            Patching::Auto | Patching::ProcMem => {
                match self
                    .open()
                    .and_then(|file| file.write_all_at(&switch.bytes, switch.address as u64))
                {
                    Ok(()) => return Ok(()),
                    Err(refused) => Some(refused),
                }
            }
        };
        let refused = match (self.patching, through_file) {
            (Patching::ProcMem, Some(refused)) => {
                return Err(
                    Error::new(ErrorKind::Text, "/proc/self/mem cannot be written here")
                        .because(refused),
                );
            }
            (_, through_file) => match store_under_mprotect(dso, switch) {
                Ok(()) => return Ok(()),
                Err(refused) => (through_file, refused),
            },
        };
        let message = match refused.0 {
            Some(file) => {
                format!("this process cannot patch its own code: /proc/self/mem: {file}; mprotect")
            }
            None => "this process cannot patch its own code: mprotect".to_owned(),
        };
        Err(Error::new(ErrorKind::Text, message).because(refused.1))
    }
}

const EXECUTABLE: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;

fn store_under_mprotect(dso: &Dso<'_>, switch: &Switch) -> io::Result<()> {
    // SAFETY: sysconf has no preconditions.
    #[allow(unsafe_code)]
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // A page that was writable once is a mapping of its own from then on, since the kernel accounts for
    // it otherwise; and uprobes that it skipped in a mapping it sets only when the mapping is cut or
    // joined. So all of the text is made like that once. Then each switch cuts the page out and
    // joins it again.
    dso.even_text(|start, end| {
        let start = start & !(size - 1);
        // Where this is refused, so is what follows, which says so.
        let _ = protect(start, end - start, EXECUTABLE | libc::PROT_WRITE);
        let _ = protect(start, end - start, EXECUTABLE);
    });
    let page = switch.address & !(size - 1);
    protect(page, size, EXECUTABLE | libc::PROT_WRITE)?;
    // SAFETY: the page was just made writable; a key does not straddle pages where it has more than
    // one byte to write, since it is aligned then.
    #[allow(unsafe_code)]
    unsafe {
        switch.store();
    }
    protect(page, size, EXECUTABLE)
}

/// Sets the protection of a part of this program's text.
#[allow(unsafe_code)]
fn protect(start: usize, length: usize, protection: libc::c_int) -> io::Result<()> {
    // SAFETY: the pages are part of this program's mapped text and stay readable and executable
    // throughout, so no thread that runs in them notices.
    match unsafe { libc::mprotect(start as *mut _, length, protection) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes all threads see text that was just written: their cores refetch what they had prefetched.
/// Without `membarrier` they do so at their next interrupt at the latest.
#[allow(unsafe_code)]
pub(crate) fn publish() {
    const SYNC_CORE: libc::c_int = 1 << 5;
    const REGISTER_SYNC_CORE: libc::c_int = 1 << 6;
    // SAFETY: membarrier takes numbers only. A refusal (an old kernel, a seccomp filter) is no error.
    unsafe {
        if libc::syscall(libc::SYS_membarrier, SYNC_CORE, 0, 0) != 0
            && libc::syscall(libc::SYS_membarrier, REGISTER_SYNC_CORE, 0, 0) == 0
        {
            libc::syscall(libc::SYS_membarrier, SYNC_CORE, 0, 0);
        }
    }
}
