//! What the headers of an ELF file say: machine, segments, sections, symbols.
//!
//! Three numbers are called "address" and must not be mixed: the **virtual address** that the linker gave
//! (all notes and tables speak of it), the **file offset** (the kernel wants it for probes and
//! semaphores), and the run-time address (virtual address + load bias). The first two are related by the
//! program headers only: with lld they differ by 0x1000 and more, and an address in `.bss` has no offset.
//!
//! Program headers are needed, section headers are not: without them there are no USDT notes to be found
//! and no symbols, and [`Sections`] says why.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef, SectionIndex};

/// More program headers than any linker writes.
const MAX_SEGMENTS: u32 = 4096;
/// More sections than any executable has.
const MAX_SECTIONS: u32 = 1 << 17;
/// The largest symbol or string table that is read, bytes.
const MAX_SYMBOL_BYTES: u64 = 512 << 20;

/// The instruction set of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64: the one that can be attached to.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit Arm.
    Aarch64,
    /// Any other, by its `e_machine`.
    Other(u16),
}

impl Machine {
    fn of(number: u16) -> Machine {
        match elf::Machine(number) {
            elf::EM_X86_64 => Machine::X86_64,
            elf::EM_386 => Machine::X86,
            elf::EM_AARCH64 => Machine::Aarch64,
            elf::Machine(other) => Machine::Other(other),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Machine::X86_64 => f.write_str("x86-64"),
            Machine::X86 => f.write_str("32-bit x86"),
            Machine::Aarch64 => f.write_str("aarch64"),
            Machine::Other(number) => write!(f, "another machine (e_machine {number})"),
        }
    }
}

/// A part of the file that is loaded (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Virtual address of its first byte.
    pub address: u64,
    /// Bytes in memory; those past `file_size` are zeros without a place in the file.
    pub memory_size: u64,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Mapped writable.
    pub writable: bool,
    /// Mapped executable.
    pub executable: bool,
}

/// Where a virtual address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file, at this offset.
    File {
        /// Bytes from the start of the file.
        offset: u64,
        /// Whether the segment is mapped writable.
        writable: bool,
        /// Whether the segment is mapped executable.
        executable: bool,
    },
    /// In memory that is loaded but has no place in the file (`.bss`).
    Bss,
    /// In no segment.
    Nowhere,
}

/// A section header.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: Vec<u8>,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Whether its bytes are in the file, as they are (neither `.bss` nor compressed).
    pub(crate) has_bytes: bool,
}

/// The section headers, or why there are none.
#[derive(Clone, Debug)]
pub(crate) enum Sections {
    /// The file has none: it was stripped of them.
    Absent,
    /// They lie outside the file or contradict themselves.
    Damaged(String),
    /// Here they are.
    Present(Vec<Section>),
}

/// A `PT_NOTE` segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoteSegment {
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) alignment: u64,
}

impl NoteSegment {
    /// The alignments that its notes may have. A linker may put notes of both into one segment, and
    /// then says the larger one (mold).
    pub(crate) fn alignments(&self) -> impl Iterator<Item = usize> + use<> {
        [4, 8]
            .into_iter()
            .take(if self.alignment == 8 { 2 } else { 1 })
    }
}

/// What the headers say, and the file they lead into.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    file: Arc<File>,
    /// Bytes of the file when it was opened; nothing larger is ever allocated for a part of it.
    length: u64,
    pub(crate) machine: Machine,
    pub(crate) wide: bool,
    pub(crate) endianness: Endianness,
    /// Linked to run at one address (`ET_EXEC`).
    pub(crate) fixed_address: bool,
    pub(crate) segments: Vec<Segment>,
    pub(crate) notes: Vec<NoteSegment>,
    pub(crate) sections: Sections,
}

/// Why a file is no binary that could be mapped and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoImage {
    Empty,
    Script,
    NotElf,
    ObjectFile,
    Core,
    Damaged(String),
}

impl std::fmt::Display for NoImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoImage::Empty => f.write_str("the file is empty"),
            NoImage::Script => f.write_str("it is a script, not an ELF file; name its interpreter"),
            NoImage::NotElf => f.write_str("it is not an ELF file"),
            NoImage::ObjectFile => f.write_str("it is an object file that was never linked"),
            NoImage::Core => f.write_str("it is a core dump"),
            NoImage::Damaged(what) => write!(f, "it is a damaged ELF file: {what}"),
        }
    }
}

impl std::error::Error for NoImage {}

impl Image {
    /// Reads the headers of an ordinary file.
    pub(crate) fn open(file: Arc<File>) -> Result<Image, NoImage> {
        let mut magic = [0; 5];
        let mut have = 0;
        while have < magic.len() {
            match file.read_at(&mut magic[have..], have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(NoImage::Damaged(format!("cannot be read: {error}"))),
            }
        }
        match &magic[..have] {
            [] => return Err(NoImage::Empty),
            [b'#', b'!', ..] => return Err(NoImage::Script),
            [0x7f, b'E', b'L', b'F', ..] => {}
            _ => return Err(NoImage::NotElf),
        }
        if magic[4..] == [elf::ELFCLASS32.0] {
            Image::read_headers::<FileHeader32<Endianness>>(file)
        } else {
            Image::read_headers::<FileHeader64<Endianness>>(file)
        }
    }

    /// The open file.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Bytes of the file at an offset; `None` where they reach past its end, are more than `limit`, or
    /// cannot be read.
    pub(crate) fn read(&self, offset: u64, size: u64, limit: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(size)?;
        if size > limit || end > self.length {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// Bytes at a virtual address, as the file holds them.
    pub(crate) fn read_at(&self, address: u64, size: u64, limit: u64) -> Option<Vec<u8>> {
        let (offset, available) = self.file_range_from(address)?;
        if size > available {
            return None;
        }
        self.read(offset, size, limit)
    }

    /// Up to `limit` bytes at a virtual address: fewer where the segment or the file ends before.
    pub(crate) fn read_up_to(&self, address: u64, limit: u64) -> Option<Vec<u8>> {
        let (offset, available) = self.file_range_from(address)?;
        self.read(
            offset,
            available.min(limit).min(self.length.checked_sub(offset)?),
            limit,
        )
    }

    fn read_headers<Elf>(file: Arc<File>) -> Result<Image, NoImage>
    where
        Elf: FileHeader<Endian = Endianness>,
    {
        let cache = ReadCache::new(&*file);
        let data = &cache;
        let length = data
            .len()
            .map_err(|()| NoImage::Damaged("it has no length".to_owned()))?;
        let header = Elf::parse(data).map_err(damaged)?;
        let endian = header.endian().map_err(damaged)?;
        match header.e_type(endian) {
            elf::ET_EXEC | elf::ET_DYN => {}
            elf::ET_REL => return Err(NoImage::ObjectFile),
            elf::ET_CORE => return Err(NoImage::Core),
            elf::FileType(other) => {
                return Err(NoImage::Damaged(format!("its type is {other}")));
            }
        }
        if header.phnum(endian, data).map_err(damaged)? > MAX_SEGMENTS {
            return Err(NoImage::Damaged(format!(
                "it claims more than {MAX_SEGMENTS} segments"
            )));
        }
        let mut segments = Vec::new();
        let mut notes = Vec::new();
        for program in header.program_headers(endian, data).map_err(damaged)? {
            let (address, offset) = (
                program.p_vaddr(endian).into(),
                program.p_offset(endian).into(),
            );
            let file_size: u64 = program.p_filesz(endian).into();
            let memory_size: u64 = program.p_memsz(endian).into();
            // A range that wraps around would defeat every later comparison.
            if address.checked_add(memory_size).is_none() || offset.checked_add(file_size).is_none()
            {
                continue;
            }
            match program.p_type(endian) {
                elf::PT_LOAD => segments.push(Segment {
                    address,
                    memory_size,
                    offset,
                    file_size: file_size.min(memory_size),
                    writable: program.p_flags(endian).0 & elf::PF_W.0 != 0,
                    executable: program.p_flags(endian).0 & elf::PF_X.0 != 0,
                }),
                elf::PT_NOTE => notes.push(NoteSegment {
                    address,
                    offset,
                    size: file_size,
                    alignment: program.p_align(endian).into(),
                }),
                _ => {}
            }
        }
        let sections = read_sections(header, endian, data);
        Ok(Image {
            length,
            machine: Machine::of(header.e_machine(endian).0),
            wide: header.is_type_64(),
            endianness: endian,
            fixed_address: header.e_type(endian) == elf::ET_EXEC,
            segments,
            notes,
            sections,
            file: Arc::clone(&file),
        })
    }

    /// Where a virtual address lies.
    pub(crate) fn place(&self, address: u64) -> Place {
        for segment in &self.segments {
            let Some(within) = address.checked_sub(segment.address) else {
                continue;
            };
            if within < segment.file_size {
                return Place::File {
                    offset: segment.offset + within,
                    writable: segment.writable,
                    executable: segment.executable,
                };
            }
            if within < segment.memory_size {
                return Place::Bss;
            }
        }
        Place::Nowhere
    }

    /// The virtual address that a file offset is loaded at.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = offset.checked_sub(segment.offset)?;
            (within < segment.file_size).then(|| segment.address.wrapping_add(within))
        })
    }

    /// Bytes from `address` on that the file holds in the same segment: (file offset, how many).
    pub(crate) fn file_range_from(&self, address: u64) -> Option<(u64, u64)> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.file_size)
                .then(|| (segment.offset + within, segment.file_size - within))
        })
    }

    /// The sections of this name.
    pub(crate) fn sections_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Section> {
        let sections = match &self.sections {
            Sections::Present(sections) => sections.as_slice(),
            Sections::Absent | Sections::Damaged(_) => &[],
        };
        sections
            .iter()
            .filter(move |section| section.name == name.as_bytes())
    }

    /// The addresses that the file's symbol tables give to each of `names`; a name that is missing from
    /// the answer is not defined. Thread-local, absolute-section and indirect-function symbols do not
    /// count as defined: their value is no address of data.
    pub(crate) fn symbols(&self, names: &HashSet<&str>) -> HashMap<String, HashSet<u64>> {
        let mut found = HashMap::new();
        let data = ReadCache::new(&*self.file);
        // A table that cannot be read defines nothing; what it would have defined is "not found".
        let _ = if self.wide {
            read_symbols::<FileHeader64<Endianness>, _>(&data, names, &mut found)
        } else {
            read_symbols::<FileHeader32<Endianness>, _>(&data, names, &mut found)
        };
        found
    }
}

fn damaged(error: object::read::Error) -> NoImage {
    NoImage::Damaged(error.to_string())
}

fn read_sections<'a, Elf, R>(header: &Elf, endian: Endianness, data: R) -> Sections
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let count = match header.shnum(endian, data) {
        Ok(0) => return Sections::Absent,
        Ok(count) => count,
        Err(error) => return Sections::Damaged(error.to_string()),
    };
    if count > MAX_SECTIONS {
        return Sections::Damaged(format!("it claims {count} sections"));
    }
    let table = match header.sections(endian, data) {
        Ok(table) => table,
        Err(error) => return Sections::Damaged(error.to_string()),
    };
    let sections = table
        .iter()
        .map(|section| Section {
            name: table
                .section_name(endian, section)
                .unwrap_or_default()
                .to_vec(),
            address: section.sh_addr(endian).into(),
            offset: section.sh_offset(endian).into(),
            size: section.sh_size(endian).into(),
            has_bytes: section.sh_type(endian) != elf::SHT_NOBITS
                && section.sh_flags(endian).0 & elf::SHF_COMPRESSED.0 == 0,
        })
        .collect();
    Sections::Present(sections)
}

fn read_symbols<'a, Elf, R>(
    data: R,
    names: &HashSet<&str>,
    found: &mut HashMap<String, HashSet<u64>>,
) -> object::read::Result<()>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    if header.shnum(endian, data)? > MAX_SECTIONS {
        return Ok(());
    }
    let sections = header.sections(endian, data)?;
    for (index, section) in sections.iter().enumerate() {
        if !matches!(section.sh_type(endian), elf::SHT_SYMTAB | elf::SHT_DYNSYM)
            || section.sh_size(endian).into() > MAX_SYMBOL_BYTES
        {
            continue;
        }
        let Ok(strings) = sections.section(section.link(endian)) else {
            continue;
        };
        if strings.sh_size(endian).into() > MAX_SYMBOL_BYTES {
            continue;
        }
        let Ok(Some(symbols)) = section.symbols(endian, data, &sections, SectionIndex(index))
        else {
            continue;
        };
        // One read of the whole string table instead of one a name.
        let Ok(strings) = strings.data(endian, data) else {
            continue;
        };
        for symbol in symbols.iter() {
            let kind = symbol.st_type();
            let is_data = matches!(kind, elf::STT_NOTYPE | elf::STT_OBJECT | elf::STT_FUNC);
            if !is_data || symbol.is_undefined(endian) || symbol.is_absolute(endian) {
                continue;
            }
            let Some(rest) = strings.get(symbol.st_name(endian) as usize..) else {
                continue;
            };
            let end = rest
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(rest.len());
            let Ok(name) = std::str::from_utf8(&rest[..end]) else {
                continue;
            };
            if names.contains(name) {
                found
                    .entry(name.to_owned())
                    .or_default()
                    .insert(symbol.st_value(endian).into());
            }
        }
    }
    Ok(())
}
