//! A running process: whether it can be traced, its threads, and the binaries it maps.
//!
//! The process is held by an open directory `/proc/PID`. When it dies, everything under that directory
//! answers "no such process", also if the number has been given to another by then.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};

use super::binary::{self, Binary, FileId};
use super::mapped_file::MappedFile;
use super::maps::{Mapping, parse_maps};

/// `PF_KTHREAD`, in the flags of `/proc/PID/stat` (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// See the module's page.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    directory: File,
    start: u64,
    comm: OsString,
    namespace_pids: Vec<u32>,
}

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id, as this process's `/proc` numbers it.
    pub tid: u32,
    /// Its name; any bytes, at most 15.
    pub comm: OsString,
    /// Its ids from our pid namespace inwards: the last is what it calls itself.
    pub namespace_tids: Vec<u32>,
}

/// The binaries of a process.
#[derive(Debug, Default)]
pub struct Scan {
    /// Those with tracepoints or probes, each file once, the program first, then by address.
    pub binaries: Vec<Binary>,
    /// The others, and what was found instead: "no USDT notes".
    pub without: Vec<(PathBuf, String)>,
    /// Those that could not be opened or read.
    pub unreadable: Vec<(PathBuf, Error)>,
}

/// What `/proc/PID/stat` says.
struct Stat {
    state: u8,
    flags: u64,
    start: u64,
}

impl Process {
    /// Takes hold of a process.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where there is no such process, where it is a thread of another one, a
    /// kernel thread, a zombie, or runs a program that cannot be traced here; [`ErrorKind::Rights`] where
    /// it may not be looked at.
    pub fn open(pid: u32) -> Result<Process> {
        let directory = File::open(format!("/proc/{pid}")).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::new(ErrorKind::Target, format!("there is no process {pid}"))
            }
            _ => Error::new(ErrorKind::Rights, format!("cannot look at process {pid}"))
                .because(error),
        })?;
        let mut process = Process {
            pid,
            directory,
            start: 0,
            comm: OsString::new(),
            namespace_pids: Vec::new(),
        };
        let refuse = |why: String| Err(Error::new(ErrorKind::Target, why));
        let stat = process.stat()?;
        process.start = stat.start;
        if stat.flags & KERNEL_THREAD != 0 {
            return refuse(format!("{pid} is a thread of the kernel, not a program"));
        }
        if matches!(stat.state, b'Z' | b'X') {
            if process.threads().is_ok_and(|threads| threads.len() > 1) {
                return refuse(format!(
                    "the main thread of process {pid} has ended; others go on, but through it a process is looked at"
                ));
            }
            return refuse(format!(
                "process {pid} has ended and waits for its parent to notice"
            ));
        }
        let status = process.read("status")?;
        match status_numbers(&status, "Tgid:").first() {
            Some(&group) if group != pid => {
                return Err(Error::new(
                    ErrorKind::Target,
                    format!("{pid} is a thread of process {group}"),
                )
                .hint(format!("use --pid {group} --tid {pid}")));
            }
            _ => {}
        }
        process.namespace_pids = status_numbers(&status, "NSpid:");
        process.comm = comm_of(process.read("comm")?);
        process.check_program()?;
        Ok(process)
    }

    /// Refuses a process whose program is not for this machine.
    fn check_program(&self) -> Result<()> {
        let link = self.at("exe");
        let file = match binary::open_file(&link) {
            Ok(file) => file,
            Err(error) => return Err(self.failed("look at the program of", error)),
        };
        let shown = self.program();
        match Binary::unfit_of(file, &shown)? {
            None => Ok(()),
            Some(unfit) => Err(Error::new(
                ErrorKind::Target,
                format!("process {} runs {}, {unfit}", self.pid, shown.display()),
            )),
        }
    }

    /// Its number, as this process's `/proc` has it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, in clock ticks since boot: with the pid it names the process for ever.
    pub fn start_time(&self) -> u64 {
        self.start
    }

    /// The name of its first thread when it was opened; any bytes.
    pub fn comm(&self) -> &OsStr {
        &self.comm
    }

    /// Its numbers from our pid namespace inwards: the last is what it calls itself.
    pub fn namespace_pids(&self) -> &[u32] {
        &self.namespace_pids
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        let has_others = || self.threads().is_ok_and(|threads| threads.len() > 1);
        // The first thread may end before the others.
        self.stat()
            .is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X') || has_others())
    }

    /// The path of its program as the kernel shows it; empty where that cannot be read.
    pub fn program(&self) -> PathBuf {
        std::fs::read_link(self.at("exe")).unwrap_or_default()
    }

    /// Whether seccomp lets the process make some system calls only.
    ///
    /// # Errors
    /// Those of looking at the process.
    pub fn has_seccomp(&self) -> Result<bool> {
        let modes = status_numbers(&self.read("status")?, "Seccomp:");
        Ok(modes.first().is_some_and(|mode| *mode != 0))
    }

    /// Its threads at this moment, by number.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where it has ended.
    pub fn threads(&self) -> Result<Vec<Thread>> {
        let entries = std::fs::read_dir(self.at("task"))
            .map_err(|error| self.failed("list the threads of", error))?;
        let mut threads = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.failed("list the threads of", error))?;
            let Some(tid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // A thread that ended meanwhile is none.
            let Ok(comm) = std::fs::read(self.at(&format!("task/{tid}/comm"))) else {
                continue;
            };
            let Ok(status) = std::fs::read(self.at(&format!("task/{tid}/status"))) else {
                continue;
            };
            let namespace_tids = status_numbers(&status, "NSpid:");
            threads.push(Thread {
                tid,
                comm: comm_of(comm),
                namespace_tids,
            });
        }
        threads.sort_by_key(|thread| thread.tid);
        if threads.is_empty() {
            return Err(self.ended());
        }
        Ok(threads)
    }

    /// Its mappings of files.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where it has ended, [`ErrorKind::Rights`] where they may not be read.
    pub fn mappings(&self) -> Result<Vec<Mapping>> {
        let text = self.read("maps")?;
        let mappings = parse_maps(&text);
        // The file of a process that has just ended is there and empty.
        if mappings.is_empty() && !self.is_alive() {
            return Err(self.ended());
        }
        Ok(mappings)
    }

    /// All its mappings that are executable, those without a file too.
    ///
    /// # Errors
    /// As for [`Process::mappings`].
    pub(crate) fn code(&self) -> Result<Vec<Mapping>> {
        let mut mappings = super::maps::parse_all_maps(&self.read("maps")?);
        mappings.retain(|mapping| mapping.executable);
        Ok(mappings)
    }

    /// Opens the file of one of its mappings, and says what it is called.
    pub(crate) fn file_of(&self, mapping: &Mapping) -> (PathBuf, Option<File>) {
        let (name, opened) = MappedFile::of(self, mapping).open();
        (name.path, opened.ok())
    }

    /// What the file of one of its mappings is called. Where another file, or none, is there under that name by
    /// now: a path that leads to the one that is mapped, as long as the process maps it.
    pub fn name_of(&self, mapping: &Mapping) -> (PathBuf, Option<PathBuf>) {
        let file = MappedFile::of(self, mapping);
        let (name, _) = file.open();
        let place = name.deleted.then(|| {
            let range = &mapping.range;
            let directory = format!("/proc/{}", self.pid);
            // Whoever may not follow links to mappings may follow this one.
            let program = PathBuf::from(format!("{directory}/exe"));
            let is_program = std::fs::metadata(&program).is_ok_and(|it| it.ino() == mapping.inode);
            match is_program {
                true => program,
                false => format!("{directory}/map_files/{:x}-{:x}", range.start, range.end).into(),
            }
        });
        (name.path, place)
    }

    /// The files that it maps executable, each opened and read once.
    ///
    /// # Errors
    /// Those of [`Process::mappings`]. A file that cannot be used is no error of the whole: it stands in
    /// [`Scan::unreadable`].
    pub fn binaries(&self) -> Result<Scan> {
        let mut scan = Scan {
            binaries: Vec::new(),
            without: Vec::new(),
            unreadable: Vec::new(),
        };
        let mut seen = HashSet::new();
        for mapping in self.mappings()?.iter().filter(|mapping| mapping.executable) {
            if !seen.insert((mapping.device, mapping.inode)) {
                continue;
            }
            let (name, opened) = MappedFile::of(self, mapping).open();
            let binary = opened.and_then(|file| Binary::of_file(file, &name.path, name.deleted));
            match binary {
                Ok(binary) if binary.has_probes() || binary.sdk().remark().is_some() => {
                    scan.binaries.push(binary);
                }
                Ok(binary) => scan.without.push((name.path, binary.usdt().to_string())),
                Err(error) => scan.unreadable.push((name.path, error)),
            }
        }
        if let Ok(program) = std::fs::metadata(self.at("exe")) {
            let id = FileId {
                device: program.dev(),
                inode: program.ino(),
            };
            scan.binaries.sort_by_key(|binary| binary.id() != id);
        }
        if !self.is_alive() {
            return Err(self.ended());
        }
        Ok(scan)
    }

    /// The file of one of its mappings.
    ///
    /// # Errors
    /// It cannot be opened, or is no binary.
    pub(crate) fn binary_of(&self, mapping: &Mapping) -> Result<Binary> {
        let (name, opened) = MappedFile::of(self, mapping).open();
        Binary::of_file(opened?, &name.path, name.deleted)
    }

    /// What is to be added to a virtual address of the binary for its address in the process; `None`
    /// where the process does not map it.
    ///
    /// # Errors
    /// Those of [`Process::mappings`].
    pub fn load_bias(&self, binary: &Binary) -> Result<Option<u64>> {
        let mappings = self.mappings()?;
        let own = mappings
            .iter()
            .filter(|mapping| MappedFile::of(self, mapping).is(binary.id()));
        Ok(own.filter_map(|mapping| binary.load_bias(mapping)).next())
    }

    /// Its memory, to be read and written by address. It stays that of the program that runs by now:
    /// after exec nothing can be read there any more.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where it has ended, [`ErrorKind::Rights`] where it may not be touched.
    pub(crate) fn memory(&self) -> Result<File> {
        File::options()
            .read(true)
            .write(true)
            .open(self.at("mem"))
            .map_err(|error| self.failed("open the memory of", error))
    }

    /// The process that traces it by ptrace, if one does.
    pub(crate) fn tracer(&self) -> Option<u32> {
        let status = self.read("status").ok()?;
        let tracer = status_numbers(&status, "TracerPid:").first().copied();
        tracer.filter(|&tracer| tracer != 0)
    }

    /// A file of the process's directory.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        PathBuf::from(format!(
            "/proc/self/fd/{}/{name}",
            self.directory.as_raw_fd()
        ))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        std::fs::read(self.at(name)).map_err(|error| self.failed(&format!("read {name} of"), error))
    }

    fn stat(&self) -> Result<Stat> {
        let text = self.read("stat")?;
        parse_stat(&text).ok_or_else(|| {
            let message = format!("/proc/{}/stat is not as expected", self.pid);
            Error::new(ErrorKind::Target, message)
        })
    }

    fn ended(&self) -> Error {
        Error::new(ErrorKind::Target, format!("process {} has ended", self.pid))
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => self.ended(),
            Some(libc::EACCES | libc::EPERM) => Error::new(
                ErrorKind::Rights,
                format!("may not {what} process {}", self.pid),
            )
            .because(error)
            .hint("run as its user, as root, or with CAP_SYS_PTRACE"),
            _ => Error::new(
                ErrorKind::Target,
                format!("cannot {what} process {}", self.pid),
            )
            .because(error),
        }
    }
}

/// The fields of `stat` after the name, which may hold blanks and parentheses (proc_pid_stat(5)).
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(name_end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first of these is field 3, the state.
    let field = |number: usize| fields.get(number - 3);
    Some(Stat {
        state: *field(3)?.as_bytes().first()?,
        flags: field(9)?.parse().ok()?,
        start: field(22)?.parse().ok()?,
    })
}

/// The numbers behind a key of `status`.
fn status_numbers(status: &[u8], key: &str) -> Vec<u32> {
    status
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(key.as_bytes()))
        .and_then(|line| std::str::from_utf8(line).ok())
        .map_or(Vec::new(), |line| {
            line.split_ascii_whitespace()
                .map_while(|word| word.parse().ok())
                .collect()
        })
}

fn comm_of(mut bytes: Vec<u8>) -> OsString {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields_of_stat() {
        let text = b"77 (a ) S 1 (b) R 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 9876 1 2\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!(
            (stat.state, stat.flags, stat.start),
            (b'R', 4_194_560, 9876)
        );
        for end in 0..text.len() - 10 {
            parse_stat(&text[..end]);
        }
    }

    #[test]
    fn numbers_of_status_are_those_behind_the_key() {
        let status = b"Name:\tNSpid:\nTgid:\t77\nNSpid:\t77\t2\t1\nSeccomp:\t2\n";
        assert_eq!(status_numbers(status, "NSpid:"), [77, 2, 1]);
        assert_eq!(status_numbers(status, "Seccomp:"), [2]);
        assert!(status_numbers(status, "Nothing:").is_empty());
    }
}
