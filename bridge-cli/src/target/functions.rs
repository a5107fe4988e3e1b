//! The functions of a binary, by its symbol tables and those of its separate debug file.
//!
//! A function is known by its symbol and, where that is a mangled name of Rust or C++, by its readable one as well:
//! `orders::charge`. Code that was inlined everywhere has no symbol.
//!
//! A library may have several functions of one symbol, each of a version: `vfn@V1`, and `vfn@@V2` that programs
//! are linked with today. Without a version the latter is meant. Code in assembly that says nothing of its
//! symbols has functions too: whatever other files can call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;

use cpp_demangle::DemangleOptions;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym, SymbolTable, VersionTable};

use super::image::{Image, Place};
use crate::glob::Glob;

/// The largest symbol or string table that is read, bytes.
const MAX_BYTES: u64 = 512 << 20;

/// A function of a binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol, without a version.
    pub symbol: String,
    /// The version of its symbol, where it has one.
    pub version: Option<Version>,
    /// Its name as it is written in the source, where the symbol is mangled.
    pub name: Option<String>,
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// Its virtual address.
    pub address: u64,
    /// Bytes; 0 where the table does not say.
    pub size: u64,
}

impl Function {
    /// What a reader calls it.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.symbol)
    }

    /// What is asked for where it is meant and no other version of it.
    pub fn asked(&self) -> Cow<'_, str> {
        match &self.version {
            Some(version) if !version.is_default => {
                Cow::Owned(format!("{}@{}", self.symbol, version.name))
            }
            _ => Cow::Borrowed(self.shown()),
        }
    }

    /// Whether a pattern matches one of its names.
    pub fn is_matched_by(&self, pattern: &Glob) -> bool {
        let name = self.name.as_deref();
        let of_version =
            |version: &Version| pattern.matches(&format!("{}@{}", self.symbol, version.name));
        pattern.matches(&self.symbol)
            || name.is_some_and(|name| pattern.matches(name))
            || self.version.as_ref().is_some_and(of_version)
    }

    /// Whether it is called so: by its symbol, with or without a version, or by its name in the source.
    pub fn is_called(&self, name: &str) -> bool {
        if self.symbol == name || self.name.as_deref() == Some(name) {
            return true;
        }
        let of_version = || {
            let (symbol, written) = name.split_once('@')?;
            let version = self.version.as_ref().filter(|_| symbol == self.symbol)?;
            Some(match written.strip_prefix('@') {
                Some(written) => version.is_default && written == version.name,
                None => written == version.name,
            })
        };
        of_version().unwrap_or(false)
    }

    /// Whether nothing is linked with it any more that does not ask for its version.
    pub fn is_old(&self) -> bool {
        self.version
            .as_ref()
            .is_some_and(|version| !version.is_default)
    }
}

/// A version of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// What it is called, such as `GLIBC_2.34`.
    pub name: String,
    /// Whether programs that name the symbol alone are linked with it.
    pub is_default: bool,
}

/// What a symbol table says of a function.
struct Entry {
    symbol: String,
    version: Option<Version>,
    address: u64,
    size: u64,
}

/// Reads the functions of a binary, in order of their place; each symbol once.
pub(crate) fn read(image: &Image, debug_file: Option<&Image>) -> Vec<Function> {
    let mut found = Vec::new();
    for tables in [Some(image), debug_file].into_iter().flatten() {
        // A table that cannot be read defines nothing.
        let _ = read_tables(tables, is_function, &mut found);
    }
    let mut functions: Vec<Function> = found
        .into_iter()
        .filter_map(|entry| {
            let Place::File {
                offset,
                executable: true,
                ..
            } = image.place(entry.address)
            else {
                return None;
            };
            Some(Function {
                name: readable(&entry.symbol),
                symbol: entry.symbol,
                version: entry.version,
                offset,
                address: entry.address,
                size: entry.size,
            })
        })
        .collect();
    // Of the tables some have versions and some sizes.
    let key = |function: &Function| {
        let version = function.version.as_ref().map(|it| it.name.clone());
        let (offset, size) = (function.offset, std::cmp::Reverse(function.size));
        (
            offset,
            function.symbol.clone(),
            version.is_none(),
            version,
            size,
        )
    };
    functions.sort_by_cached_key(key);
    functions.dedup_by(|next, kept| {
        let same = next.offset == kept.offset && next.symbol == kept.symbol;
        let same = same && (next.version.is_none() || next.version == kept.version);
        if same && kept.size == 0 {
            kept.size = next.size;
        }
        same
    });
    functions
}

/// `orders::charge` of `_ZN6orders6charge17h…E`, and `shop::Cart::add` of `_ZN4shop4Cart3addEi`: C++ without
/// parameters, which would be several words.
fn readable(symbol: &str) -> Option<String> {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return Some(format!("{name:#}"));
    }
    if !symbol.starts_with("_Z") {
        return None;
    }
    let name = cpp_demangle::Symbol::new(symbol).ok()?;
    name.demangle_with_options(&DemangleOptions::new().no_params().no_return_type())
        .ok()
}

/// Where the code is of a function which chooses, when the program starts, among several implementations
/// (`STT_GNU_IFUNC`), and how many bytes; `None` where the symbol is none of such a function.
pub(crate) fn chooser(image: &Image, name: &str) -> Option<(u64, u64)> {
    let mut found = Vec::new();
    let is_chooser = |symbol: &Symbol, _: &Sections<'_>| symbol.st_type() == elf::STT_GNU_IFUNC;
    let _ = read_tables(image, is_chooser, &mut found);
    let entry = found.into_iter().find(|entry| entry.symbol == name)?;
    Some((entry.address, entry.size))
}

type Symbol = elf::Sym64<Endianness>;
type Sections<'a> = SectionTable<'a, FileHeader64<Endianness>, &'a ReadCache<&'a File>>;

/// Whether it is one of a function: it says so, or it says nothing, others can see it and code is there.
fn is_function(symbol: &Symbol, sections: &Sections<'_>) -> bool {
    match symbol.st_type() {
        elf::STT_FUNC => true,
        elf::STT_NOTYPE if symbol.st_bind() != elf::STB_LOCAL => {
            let endian = Endianness::Little;
            let section = usize::from(symbol.st_shndx(endian).0);
            let section = sections.section(object::SectionIndex(section));
            section.is_ok_and(|section| {
                // What a linker puts behind the last byte is none: `_etext`.
                let within = symbol.st_value(endian).checked_sub(section.sh_addr(endian));
                section.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0
                    && within.is_some_and(|within| within < section.sh_size(endian))
            })
        }
        _ => false,
    }
}

fn read_tables(
    image: &Image,
    is_wanted: impl Fn(&Symbol, &Sections<'_>) -> bool,
    found: &mut Vec<Entry>,
) -> object::read::Result<()> {
    if !image.wide {
        return Ok(());
    }
    let data = &ReadCache::new(&**image.file());
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    // What says which versions are there may be damaged; the names are there all the same.
    let versions = sections.versions(endian, data).ok().flatten();
    // Of a program with a full table the dynamic one says nothing more but versions.
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let wanted = sections.iter().enumerate().filter(|(_, section)| {
            section.sh_type(endian) == kind && section.sh_size(endian) <= MAX_BYTES
        });
        for (index, section) in wanted {
            let strings = sections.section(section.link(endian))?;
            if strings.sh_size(endian) > MAX_BYTES {
                continue;
            }
            let table = SymbolTable::parse(
                endian,
                data,
                &sections,
                object::SectionIndex(index),
                section,
            )?;
            for (number, symbol) in table.enumerate() {
                if symbol.st_shndx(endian) == elf::SHN_UNDEF || !is_wanted(symbol, &sections) {
                    continue;
                }
                let Ok(name) = table.symbol_name(endian, symbol) else {
                    continue;
                };
                let name = String::from_utf8_lossy(name);
                let (symbol_name, mut version) = versioned(&name);
                if let Some(versions) = versions.as_ref().filter(|_| kind == elf::SHT_DYNSYM) {
                    version = version_of(versions, endian, number);
                }
                found.push(Entry {
                    symbol: symbol_name.to_owned(),
                    version,
                    address: symbol.st_value(endian),
                    size: symbol.st_size(endian),
                });
            }
        }
    }
    Ok(())
}

/// `malloc@@GLIBC_2.2.5`, as full tables have it.
fn versioned(name: &str) -> (&str, Option<Version>) {
    let Some((symbol, version)) = name.split_once('@') else {
        return (name, None);
    };
    let version = Version {
        name: version.trim_start_matches('@').to_owned(),
        is_default: version.starts_with('@'),
    };
    (symbol, Some(version))
}

/// The version of a symbol of the dynamic table.
fn version_of(
    versions: &VersionTable<'_, FileHeader64<Endianness>>,
    endian: Endianness,
    number: object::SymbolIndex,
) -> Option<Version> {
    let index = versions.version_index(endian, number);
    let version = versions.version(index.index()).ok().flatten()?;
    Some(Version {
        name: String::from_utf8_lossy(version.name()).into_owned(),
        is_default: !index.is_hidden(),
    })
}

/// The libraries that a binary is linked with (`DT_NEEDED`).
pub(crate) fn needed(image: &Image) -> object::read::Result<Vec<String>> {
    if !image.wide {
        return Ok(Vec::new());
    }
    let data = &ReadCache::new(&**image.file());
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let table = sections.dynamic_table(endian, data)?;
    let names = table.iter().filter(|entry| entry.tag == elf::DT_NEEDED);
    names
        .map(|entry| Ok(String::from_utf8_lossy(table.string(entry)?).into_owned()))
        .collect()
}

/// Functions by where they begin, for finding the one around an offset.
#[derive(Debug, Default)]
pub struct Around(BTreeMap<u64, (usize, u64)>);

impl Around {
    /// Of functions in order of their place.
    pub fn new(functions: &[Function]) -> Around {
        let mut all = BTreeMap::new();
        for (index, function) in functions.iter().enumerate() {
            let row = all.entry(function.offset).or_insert((index, function.size));
            // Of aliases the one that says its size.
            if row.1 == 0 {
                *row = (index, function.size);
            }
        }
        Around(all)
    }

    /// The function that an offset of the file lies in, by its index.
    pub fn find(&self, offset: u64) -> Option<usize> {
        let (&start, &(index, size)) = self.0.range(..=offset).next_back()?;
        (offset == start || offset - start < size).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(offset: u64, size: u64, symbol: &str) -> Function {
        Function {
            symbol: symbol.to_owned(),
            version: None,
            name: readable(symbol),
            offset,
            address: offset,
            size,
        }
    }

    #[test]
    fn an_offset_is_in_the_function_that_begins_before_it_and_ends_behind() {
        let all = [
            function(0x10, 0, "alias"),
            function(0x10, 0x20, "first"),
            function(0x40, 8, "second"),
        ];
        let around = Around::new(&all);
        let found = |offset| around.find(offset).map(|index| &*all[index].symbol);
        assert_eq!(found(0x10), Some("first"));
        assert_eq!(found(0x2f), Some("first"));
        assert_eq!(found(0x30), None);
        assert_eq!(found(0x47), Some("second"));
        assert_eq!(found(0), None);
    }

    #[test]
    fn a_mangled_name_is_known_by_its_readable_form_too() {
        let charge = function(0, 1, "_ZN6orders6charge17h0123456789abcdefE");
        assert_eq!(charge.shown(), "orders::charge");
        assert!(charge.is_called("orders::charge"));
        assert!(charge.is_called("_ZN6orders6charge17h0123456789abcdefE"));
        assert_eq!(function(0, 1, "main").name, None);
        let add = function(0, 1, "_ZN4shop4Cart3addEi");
        assert!(add.is_called("shop::Cart::add") && add.is_called("_ZN4shop4Cart3addEi"));
    }

    #[test]
    fn a_version_is_written_behind_the_symbol() {
        let of = |version: &str| Function {
            version: versioned(&format!("f{version}")).1,
            ..function(0, 1, "f")
        };
        let (old, new, plain) = (of("@V1"), of("@@V2"), of(""));
        let called = |name: &str| [&old, &new, &plain].map(|function| function.is_called(name));
        assert_eq!(called("f"), [true, true, true]);
        assert_eq!(called("f@V1"), [true, false, false]);
        assert_eq!(called("f@V2"), [false, true, false]);
        assert_eq!(called("f@@V2"), [false, true, false]);
        assert_eq!(called("f@@V1"), [false, false, false]);
        assert_eq!(
            [&old, &new, &plain].map(Function::is_old),
            [true, false, false]
        );
    }
}
