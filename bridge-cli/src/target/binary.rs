//! A file that can be mapped and run, and the tracepoints in it.
//!
//! It is opened once and stays open: what a session attaches to is this very file, by way of
//! [`Binary::open_path`], whatever happens to its name or to the process it was found in.

use std::collections::HashSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::debug_file;
use super::debug_sections::DebugSections;
use super::functions::{self, Function};
use super::image::{Image, Machine, Place, Segment};
use super::maps::Mapping;
use super::nop5;
use super::sdk::{self, SdkTables, Tracepoint};
use super::usdt::{self, UsdtNotes, UsdtProbe};

/// The most code that is read at once, bytes.
const MAX_CODE: u64 = 1 << 20;

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device, as `stat` says it.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// Why a binary cannot be attached to on this machine. It can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its addresses have 32 bits.
    Bits32,
    /// It is for other processors.
    Machine(Machine),
}

impl Unfit {
    fn of(image: &Image) -> Option<Unfit> {
        match image.machine {
            Machine::X86_64 if image.wide => None,
            Machine::X86_64 | Machine::X86 => Some(Unfit::Bits32),
            machine => Some(Unfit::Machine(machine)),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Bits32 => f.write_str("a 32-bit program, which cannot be traced"),
            Unfit::Machine(machine) => {
                write!(
                    f,
                    "for {machine}, and cannot be attached to on this machine"
                )
            }
        }
    }
}

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Binary {
    path: PathBuf,
    deleted: bool,
    id: FileId,
    image: Image,
    tables: SdkTables,
    notes: UsdtNotes,
}

impl Binary {
    /// Opens a file by its name.
    ///
    /// # Errors
    /// [`ErrorKind::Binary`] where it is missing, no ordinary file, not ELF or damaged;
    /// [`ErrorKind::Rights`] where it may not be read.
    pub fn open(path: &Path) -> Result<Binary> {
        let file = open_file(path).map_err(|error| cannot_open(path, error))?;
        Binary::of_file(file, path, false)
    }

    /// Opens the file at `place`, which its user calls `path`.
    ///
    /// # Errors
    /// Those of [`Binary::open`].
    pub fn open_as(place: &Path, path: &Path) -> Result<Binary> {
        let file = open_file(place).map_err(|error| cannot_open(path, error))?;
        Binary::of_file(file, path, false)
    }

    /// Reads an open file that is shown as `path`.
    pub(crate) fn of_file(file: File, path: &Path, deleted: bool) -> Result<Binary> {
        let metadata = file.metadata().map_err(|error| cannot_open(path, error))?;
        let image = image_of(file, path)?;
        let tables = sdk::read(&image);
        let own: HashSet<u64> = tables
            .tracepoints()
            .iter()
            .flat_map(|point| point.locations.iter().map(|location| location.address))
            .collect();
        let notes = usdt::read(&image, &|| debug_file::find(&image, path), &own);
        let id = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        Ok(Binary {
            path: path.to_owned(),
            deleted,
            id,
            image,
            tables,
            notes,
        })
    }

    /// Its name as its user or its process sees it. It may lead to nothing or to another file here.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the name is gone: the file was removed or replaced after the process mapped it.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// A path that leads this process, and no other, to the very file, for as long as this value lives.
    pub fn open_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.image.file().as_raw_fd()))
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Its instruction set.
    pub fn machine(&self) -> Machine {
        self.image.machine
    }

    /// Why it cannot be attached to, if it cannot.
    pub fn unfit(&self) -> Option<Unfit> {
        Unfit::of(&self.image)
    }

    /// The same for an open file of which nothing else is wanted.
    pub(crate) fn unfit_of(file: File, path: &Path) -> Result<Option<Unfit>> {
        Ok(Unfit::of(&image_of(file, path)?))
    }

    /// The parts that are loaded.
    pub fn segments(&self) -> &[Segment] {
        &self.image.segments
    }

    /// What is to be added to a virtual address for its address in a process that maps a part of this file
    /// so; `None` where no segment is mapped there.
    pub(crate) fn load_bias(&self, mapping: &Mapping) -> Option<u64> {
        // The kernel maps whole pages: the mapping may start before the segment does.
        let length = mapping.range.end - mapping.range.start;
        let segment = self.segments().iter().find(|segment| {
            segment.executable == mapping.executable
                && segment.offset < mapping.offset.saturating_add(length)
                && mapping.offset < segment.offset.saturating_add(segment.file_size)
        })?;
        let start = segment
            .address
            .wrapping_sub(segment.offset)
            .wrapping_add(mapping.offset);
        Some(mapping.range.start.wrapping_sub(start))
    }

    /// Where a virtual address lies in the file.
    pub fn place(&self, address: u64) -> Place {
        self.image.place(address)
    }

    /// The virtual address that a file offset is loaded at.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.image.address_of(offset)
    }

    /// The tracepoints of the SDK.
    pub fn tracepoints(&self) -> &[Tracepoint] {
        self.tables.tracepoints()
    }

    /// The SDK's tables, or why there are none.
    pub fn sdk(&self) -> &SdkTables {
        &self.tables
    }

    /// The USDT probes that are no tracepoints of the SDK.
    pub fn usdt_probes(&self) -> &[UsdtProbe] {
        self.notes.probes()
    }

    /// The USDT notes, or why there are none.
    pub fn usdt(&self) -> &UsdtNotes {
        &self.notes
    }

    /// Whether it has any tracepoint or probe.
    pub fn has_probes(&self) -> bool {
        !self.tracepoints().is_empty() || !self.usdt_probes().is_empty()
    }

    /// Its functions, in order of their place in the file. Read anew at each call.
    pub fn functions(&self) -> Vec<Function> {
        let debug_file = debug_file::find(&self.image, &self.path);
        functions::read(&self.image, debug_file.as_ref())
    }

    /// Where the code is of a symbol that only chooses an implementation, and how many bytes: it runs once, not at
    /// each call. `None` for any other symbol.
    pub fn chooser(&self, symbol: &str) -> Option<(u64, u64)> {
        functions::chooser(&self.image, symbol)
    }

    /// Whether it is a program written in Go, whose stacks move.
    pub fn is_of_go(&self) -> bool {
        [".gopclntab", ".note.go.buildid"]
            .into_iter()
            .any(|name| self.image.sections_named(name).next().is_some())
    }

    /// The libraries that it is linked with, as it calls them.
    pub fn needed(&self) -> Vec<String> {
        functions::needed(&self.image).unwrap_or_default()
    }

    /// Its debugging sections, or those of its separate debug file.
    pub fn debug_sections(&self) -> Option<DebugSections> {
        DebugSections::of(&self.image, &self.path)
    }

    /// Up to so many bytes of code at a virtual address; fewer where the file has no more.
    pub fn code(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        self.image.read_up_to(address, length.min(MAX_CODE))
    }

    /// Whether a probe at this virtual address would damage the program on the running kernel.
    pub fn is_harmful_to_probe(&self, address: u64) -> bool {
        nop5::stands_at(&self.image, address) && nop5::is_harmful()
    }

    /// Whether its functions can be left by a panic or an exception that goes through them: it has tables
    /// that say what to clean up then.
    pub fn has_unwind_tables(&self) -> bool {
        self.image
            .sections_named(".gcc_except_table")
            .next()
            .is_some()
    }

    /// The linker's identification of this build.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        debug_file::build_id(&self.image)
    }
}

fn image_of(file: File, path: &Path) -> Result<Image> {
    let metadata = file.metadata().map_err(|error| cannot_open(path, error))?;
    if !metadata.is_file() {
        let message = format!("{}: not an ordinary file", path.display());
        return Err(Error::new(ErrorKind::Binary, message));
    }
    Image::open(Arc::new(file)).map_err(|why| {
        let message = format!("{}: not a binary that can be traced", path.display());
        Error::new(ErrorKind::Binary, message).because(why)
    })
}

/// Opens a file for reading. A FIFO does not block and a terminal does not become ours.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(path)
}

fn cannot_open(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Rights,
        _ => ErrorKind::Binary,
    };
    Error::new(kind, format!("cannot open {}", path.display())).because(error)
}
