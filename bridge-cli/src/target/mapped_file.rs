//! The file behind a mapping of a process: opened, and called what the process calls it.
//!
//! A file is found through the process, never by its name in our own file system: it may live in another
//! mount namespace, and it may have been removed or replaced. In order of trust:
//!
//! 1. `map_files`, which leads to the mapped file itself (following it needs CAP_CHECKPOINT_RESTORE or
//!    CAP_SYS_ADMIN);
//! 2. `exe` for the program, then the name under the process's root, each accepted only if device and
//!    inode are the mapping's.
//!
//! The name is for showing. The kernel adds ` (deleted)` to one that has no file any more, and so may a
//! user: it is a part of the name exactly if the file is there under the whole of it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

use super::binary::{self, FileId};
use super::maps::{DELETED, Mapping, with_newlines};
use super::process::Process;

/// See the module's page.
pub(super) struct MappedFile<'a> {
    process: &'a Process,
    mapping: &'a Mapping,
}

/// What a mapped file is called.
pub(super) struct Name {
    pub(super) path: PathBuf,
    /// The file is not there under its name any more.
    pub(super) deleted: bool,
}

impl<'a> MappedFile<'a> {
    pub(super) fn of(process: &'a Process, mapping: &'a Mapping) -> MappedFile<'a> {
        MappedFile { process, mapping }
    }

    /// Whether it is this file.
    pub(super) fn is(&self, id: FileId) -> bool {
        self.mapping.inode == id.inode
            && match std::fs::metadata(self.link()) {
                Ok(file) => id_of(&file) == id,
                Err(_) => self.may_be_on(id.device),
            }
    }

    /// Opens it, and finds out what it is called.
    pub(super) fn open(&self) -> (Name, Result<File>) {
        // The link's text is the name without escapes. It is missing for names beyond PATH_MAX.
        let raw = match std::fs::read_link(self.link()) {
            Ok(name) => name.into_os_string().into_vec(),
            Err(_) => with_newlines(&self.mapping.name),
        };
        let opened = match open_ordinary(&self.link()) {
            Ok(file) => Ok(file),
            Err(refused) => self.open_by_name(&raw).ok_or(refused),
        };
        let name = self.name(raw, opened.as_ref().ok());
        let opened = opened.map_err(|error| cannot_open(&name.path, error));
        (name, opened)
    }

    /// What it is called, given the name that the kernel shows.
    fn name(&self, raw: Vec<u8>, file: Option<&File>) -> Name {
        let Some(stem) = raw.strip_suffix(DELETED) else {
            return Name {
                path: PathBuf::from(OsString::from_vec(raw)),
                deleted: false,
            };
        };
        let at_root = self.under_root(&raw);
        let is_there = match file.and_then(|file| file.metadata().ok()) {
            Some(own) => std::fs::metadata(at_root).is_ok_and(|there| id_of(&there) == id_of(&own)),
            None => std::fs::symlink_metadata(at_root).is_ok(),
        };
        let path = if is_there { raw.as_slice() } else { stem };
        Name {
            path: PathBuf::from(OsStr::from_bytes(path)),
            deleted: !is_there,
        }
    }

    /// The way round `map_files` for those who may not follow it.
    fn open_by_name(&self, raw: &[u8]) -> Option<File> {
        let candidates = [
            self.process.at("exe"),
            self.under_root(raw),
            self.under_root(&self.mapping.name),
            PathBuf::from(OsStr::from_bytes(raw)),
        ];
        candidates.iter().find_map(|path| {
            let file = open_ordinary(path).ok()?;
            let found = file.metadata().ok()?;
            let is_it = found.ino() == self.mapping.inode && self.may_be_on(found.dev());
            is_it.then_some(file)
        })
    }

    /// Whether a file on this `stat` device can be the mapping's. Device 0:n is one of a file system that
    /// makes its numbers up; there, `stat` may give another than the mapping shows, and the inode decides.
    fn may_be_on(&self, device: u64) -> bool {
        let found = (libc::major(device), libc::minor(device));
        found == self.mapping.device || (found.0 == 0 && self.mapping.device.0 == 0)
    }

    /// A path as the process sees it, as a path of ours.
    fn under_root(&self, path: &[u8]) -> PathBuf {
        let mut full = self.process.at("root").into_os_string();
        if !path.starts_with(b"/") {
            full.push("/");
        }
        full.push(OsStr::from_bytes(path));
        PathBuf::from(full)
    }

    fn link(&self) -> PathBuf {
        let range = &self.mapping.range;
        self.process
            .at(&format!("map_files/{:x}-{:x}", range.start, range.end))
    }
}

fn id_of(file: &Metadata) -> FileId {
    FileId {
        device: file.dev(),
        inode: file.ino(),
    }
}

/// Opens nothing but an ordinary file: opening a device may act on it.
fn open_ordinary(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    binary::open_file(path)
}

fn cannot_open(path: &Path, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::new(
            ErrorKind::Rights,
            format!("may not open {}", path.display()),
        )
        .because(error)
        .hint(
            "a file that was removed, or that lies in another mount namespace, needs \
                     CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN",
        ),
        _ => {
            Error::new(ErrorKind::Binary, format!("cannot open {}", path.display())).because(error)
        }
    }
}
