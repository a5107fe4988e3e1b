//! The bytes of debugging sections, as they are in the file or decompressed, from a binary or from the
//! separate file that they went to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

use super::binary::open_file;
use super::debug_file;
use super::image::Image;

/// The largest section that is read, bytes after decompression.
const MAX_BYTES: u64 = 2 << 30;

/// A file with debugging sections.
#[derive(Clone, Debug)]
pub struct DebugSections {
    image: Image,
    path: PathBuf,
}

impl DebugSections {
    /// Those of a binary that is called `path`; `None` where it has none and no file is found that has.
    pub(super) fn of(image: &Image, path: &Path) -> Option<DebugSections> {
        let own = DebugSections {
            image: image.clone(),
            path: path.to_owned(),
        };
        if own.has(".debug_info") {
            return Some(own);
        }
        let (image, path) = debug_file::find_named(image, path)?;
        let separate = DebugSections { image, path };
        separate.has(".debug_info").then_some(separate)
    }

    /// The file that `.gnu_debugaltlink` names, which several debug files share (dwz).
    pub fn shared(&self) -> Option<DebugSections> {
        let link = self.section(".gnu_debugaltlink")?;
        let end = link.iter().position(|&byte| byte == 0)?;
        let name = std::str::from_utf8(&link[..end]).ok()?;
        let path = self.path.parent()?.join(name);
        let image = Image::open(Arc::new(open_file(&path).ok()?)).ok()?;
        let is_it = debug_file::build_id(&image).as_deref() == Some(&link[end + 1..]);
        is_it.then_some(DebugSections { image, path })
    }

    fn has(&self, name: &str) -> bool {
        let compressed = format!(".z{}", &name[1..]);
        let mut sections = self.image.sections_named(name);
        sections.next().is_some() || self.image.sections_named(&compressed).next().is_some()
    }

    /// A section by its name (`.debug_info`), decompressed; `None` where there is none that can be read.
    pub fn section(&self, name: &str) -> Option<Vec<u8>> {
        let plain = self.image.sections_named(name).find(|it| it.has_bytes);
        if let Some(section) = plain {
            return self.image.read(section.offset, section.size, MAX_BYTES);
        }
        if !self.has(name) || !self.image.wide {
            return None;
        }
        let cache = ReadCache::new(&**self.image.file());
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let section = file.section_by_name(name)?;
        let data = section.compressed_data().ok()?;
        if data.uncompressed_size > MAX_BYTES {
            return None;
        }
        data.decompress().ok().map(|bytes| bytes.into_owned())
    }
}
