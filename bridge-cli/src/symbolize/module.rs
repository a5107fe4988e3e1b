//! Files that code is mapped from. Each is opened when it is first seen and stays open: what is read of it
//! later is what was mapped, whatever has become of its name and of the process meanwhile.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::target::{Image, text_of};

use super::tables::Tables;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Module {
    /// Its number.
    pub(super) id: u32,
    /// What its process calls it.
    pub(super) name: Arc<str>,
    file: Option<Arc<File>>,
    contents: OnceLock<Option<Contents>>,
}

/// What is read of a file when it is first needed.
#[derive(Debug)]
pub(super) struct Contents {
    image: Image,
    pub(super) tables: Option<Tables>,
}

impl Module {
    fn new(id: u32, name: &[u8], file: Option<File>) -> Module {
        Module {
            id,
            name: text_of(name).into(),
            file: file.map(Arc::new),
            contents: OnceLock::new(),
        }
    }

    /// A path that leads to this very file, while it is open.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        Some(format!("/proc/self/fd/{}", file.as_raw_fd()).into())
    }

    /// `None` where it is not readable or no binary.
    pub(super) fn contents(&self) -> Option<&Contents> {
        let read = || {
            let image = Image::open(Arc::clone(self.file.as_ref()?)).ok()?;
            let tables = Tables::of(&image);
            Some(Contents { image, tables })
        };
        self.contents.get_or_init(read).as_ref()
    }
}

impl Contents {
    /// The virtual address of an offset in the file that is mapped executable. A mapping begins with a page,
    /// of which the segment may take only the end.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        self.image.segments.iter().find_map(|segment| {
            let start = segment.offset & !(PAGE - 1);
            let end = segment.offset.checked_add(segment.file_size)?;
            let is_in = segment.executable && (start..end).contains(&offset);
            is_in.then(|| {
                segment
                    .address
                    .wrapping_add(offset)
                    .wrapping_sub(segment.offset)
            })
        })
    }
}

/// Bytes of a page: what mappings begin at. Where pages are larger they begin at some of these.
const PAGE: u64 = 4096;

/// The modules that are known, each file once.
#[derive(Debug, Default)]
pub(super) struct Modules {
    files: HashMap<((u32, u32), u64), Arc<Module>>,
    vdso: Option<Arc<Module>>,
    next: u32,
}

impl Modules {
    /// The module of a file by device and inode, opened by `open` where it is new; with the name that the
    /// process gives it.
    pub(super) fn file(
        &mut self,
        device: (u32, u32),
        inode: u64,
        open: impl FnOnce() -> (Vec<u8>, Option<File>),
    ) -> Arc<Module> {
        if let Some(known) = self.files.get(&(device, inode)) {
            return Arc::clone(known);
        }
        let (name, file) = open();
        let is_open = file.is_some();
        let module = Arc::new(Module::new(self.number(), &name, file));
        // While it is open its inode is not given to another file.
        if is_open {
            self.files.insert((device, inode), Arc::clone(&module));
        }
        module
    }

    /// The code that the kernel maps into every process, read from this one.
    pub(super) fn vdso(&mut self) -> Arc<Module> {
        if let Some(known) = &self.vdso {
            return Arc::clone(known);
        }
        let module = Arc::new(Module::new(self.number(), b"[vdso]", own_vdso()));
        self.vdso = Some(Arc::clone(&module));
        module
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

/// A copy of this process's vdso in a file without a name.
fn own_vdso() -> Option<File> {
    let text = std::fs::read("/proc/self/maps").ok()?;
    let all = crate::target::parse_all_maps(&text);
    let mapping = all.iter().find(|mapping| mapping.name == b"[vdso]")?;
    let size = usize::try_from(mapping.range.end - mapping.range.start).ok()?;
    let mut bytes = vec![0; size.min(1 << 20)];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, mapping.range.start).ok()?;
    let name = nix::sys::memfd::memfd_create("bridge-vdso", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut file = File::from(name.ok()?);
    file.write_all(&bytes).ok()?;
    Some(file)
}
