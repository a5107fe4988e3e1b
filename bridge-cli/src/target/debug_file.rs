//! The file that a stripped binary's symbols went to.
//!
//! It is named by the build id (`/usr/lib/debug/.build-id/ab/cdef.debug`) or by the section
//! `.gnu_debuglink` (a file name and the CRC-32 of that file; gdb's manual, "Debugging Information in
//! Separate Files", gives the places to look). A file found there counts only if its build id, or its
//! checksum, is the one asked for: a debug file of another build would give wrong addresses.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use std::ffi::OsStr;

use super::binary;
use super::image::Image;
use super::note::{number, walk};

/// Where distributions keep debug files.
const ROOT: &str = "/usr/lib/debug";
/// The largest segment or section that is read for an identification, bytes.
const MAX_SMALL: u64 = 64 << 10;

/// The linker's identification of a build (note `GNU`, type 3).
pub(crate) fn build_id(image: &Image) -> Option<Vec<u8>> {
    let in_segments = image.notes.iter().find_map(|segment| {
        let bytes = image.read(segment.offset, segment.size, MAX_SMALL)?;
        segment
            .alignments()
            .find_map(|alignment| build_id_in(image, &bytes, alignment))
    });
    // In a file that keeps only debugging information, segments lead to bytes that were taken out.
    in_segments.or_else(|| {
        image
            .sections_named(".note.gnu.build-id")
            .filter(|section| section.has_bytes)
            .find_map(|section| {
                let bytes = image.read(section.offset, section.size, MAX_SMALL)?;
                build_id_in(image, &bytes, 4)
            })
    })
}

fn build_id_in(image: &Image, bytes: &[u8], alignment: usize) -> Option<Vec<u8>> {
    walk(bytes, image.endianness, alignment)
        .map_while(Result::ok)
        .find(|note| note.owner == b"GNU" && note.kind == 3)
        .map(|note| note.description.to_vec())
}

/// The debug file of a binary that is called `path`, opened, if it is to be found.
pub(crate) fn find(image: &Image, path: &Path) -> Option<Image> {
    find_named(image, path).map(|(found, _)| found)
}

/// The same, and where it was found.
pub(super) fn find_named(image: &Image, path: &Path) -> Option<(Image, PathBuf)> {
    let id = build_id(image);
    if let Some([first, rest @ ..]) = id.as_deref() {
        let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = PathBuf::from(format!("{ROOT}/.build-id/{first:02x}/{hex}.debug"));
        if let Some(found) = open(&path).filter(|found| build_id(found) == id) {
            return Some((found, path));
        }
    }
    let link = debug_link(image)?;
    let directory = path.parent()?;
    let below_root = directory.strip_prefix("/").unwrap_or(directory);
    let places = [
        directory.join(&link.name),
        directory.join(".debug").join(&link.name),
        Path::new(ROOT).join(below_root).join(&link.name),
    ];
    places.into_iter().find_map(|place| {
        let found = open(&place)?;
        let is_it = match (&id, build_id(&found)) {
            (Some(id), Some(other)) => *id == other,
            _ => checksum(found.file()) == Some(link.checksum),
        };
        is_it.then_some((found, place))
    })
}

fn open(path: &Path) -> Option<Image> {
    let file = binary::open_file(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    Image::open(Arc::new(file)).ok()
}

struct DebugLink {
    name: PathBuf,
    checksum: u32,
}

fn debug_link(image: &Image) -> Option<DebugLink> {
    let section = image
        .sections_named(".gnu_debuglink")
        .find(|section| section.has_bytes)?;
    let bytes = image.read(section.offset, section.size, MAX_SMALL)?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let name = &bytes[..end];
    // The name stays in its directory.
    if name.is_empty() || name.contains(&b'/') || name == b".." {
        return None;
    }
    let checksum = number(&bytes, (end + 1).next_multiple_of(4), 4, image.endianness)?;
    Some(DebugLink {
        name: PathBuf::from(OsStr::from_bytes(name)),
        checksum: checksum as u32,
    })
}

/// CRC-32 as zlib has it (polynomial 0xEDB88320, reflected).
fn checksum(file: &File) -> Option<u32> {
    let mut crc = u32::MAX;
    let mut offset = 0;
    let mut block = vec![0; 1 << 16];
    loop {
        let count = file.read_at(&mut block, offset).ok()?;
        if count == 0 {
            return Some(!crc);
        }
        for &byte in &block[..count] {
            crc = crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ byte)];
        }
        offset += count as u64;
    }
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 1 { 0xEDB8_8320 } else { 0 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};
