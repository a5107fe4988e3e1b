//! The functions of a binary, by its symbol tables and those of its separate debug file.
//!
//! A function is known by its symbol and, where that is a mangled Rust name, by its readable one as well:
//! `orders::charge`. Code that was inlined everywhere has no symbol.

use std::collections::{BTreeMap, HashSet};

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, SectionHeader, Sym};

use super::image::{Image, Place};
use crate::glob::Glob;

/// The largest symbol or string table that is read, bytes.
const MAX_BYTES: u64 = 512 << 20;

/// A function of a binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub symbol: String,
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

    /// Whether a pattern matches one of its names.
    pub fn is_matched_by(&self, pattern: &Glob) -> bool {
        let name = self.name.as_deref();
        pattern.matches(&self.symbol) || name.is_some_and(|name| pattern.matches(name))
    }

    /// Whether it is called so.
    pub fn is_called(&self, name: &str) -> bool {
        self.symbol == name || self.name.as_deref() == Some(name)
    }
}

/// Reads the functions of a binary, in order of their place; each symbol once.
pub(crate) fn read(image: &Image, debug_file: Option<&Image>) -> Vec<Function> {
    let mut found = Vec::new();
    for tables in [Some(image), debug_file].into_iter().flatten() {
        // A table that cannot be read defines nothing.
        let _ = read_tables(tables, elf::STT_FUNC, &mut found);
    }
    let mut seen = HashSet::new();
    let mut functions: Vec<Function> = found
        .into_iter()
        .filter(|(symbol, address, _)| seen.insert((symbol.clone(), *address)))
        .filter_map(|(symbol, address, size)| {
            let Place::File {
                offset,
                executable: true,
                ..
            } = image.place(address)
            else {
                return None;
            };
            Some(Function {
                name: readable(&symbol),
                symbol,
                offset,
                address,
                size,
            })
        })
        .collect();
    functions.sort_by(|a, b| (a.offset, &a.symbol).cmp(&(b.offset, &b.symbol)));
    functions
}

/// `orders::charge` of `_ZN6orders6charge17h…E`.
fn readable(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    Some(format!("{name:#}"))
}

/// Whether a symbol is that of a function which chooses, when the program starts, among several
/// implementations (`STT_GNU_IFUNC`).
pub(crate) fn is_indirect(image: &Image, name: &str) -> bool {
    let mut found = Vec::new();
    let _ = read_tables(image, elf::STT_GNU_IFUNC, &mut found);
    found.iter().any(|(symbol, ..)| symbol == name)
}

fn read_tables(
    image: &Image,
    wanted_type: elf::SymbolType,
    found: &mut Vec<(String, u64, u64)>,
) -> object::read::Result<()> {
    if !image.wide {
        return Ok(());
    }
    let data = ReadCache::new(&**image.file());
    let header = FileHeader64::<Endianness>::parse(&data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, &data)?;
    // Of a program with a full table the dynamic one says nothing more.
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let wanted = sections.iter().enumerate().filter(|(_, section)| {
            section.sh_type(endian) == kind && section.sh_size(endian) <= MAX_BYTES
        });
        for (index, section) in wanted {
            let strings = sections.section(section.link(endian))?;
            if strings.sh_size(endian) > MAX_BYTES {
                continue;
            }
            let table = object::read::elf::SymbolTable::parse(
                endian,
                &data,
                &sections,
                object::SectionIndex(index),
                section,
            )?;
            for symbol in table.iter() {
                let is_function =
                    symbol.st_type() == wanted_type && symbol.st_shndx(endian) != elf::SHN_UNDEF;
                if !is_function {
                    continue;
                }
                let Ok(name) = table.symbol_name(endian, symbol) else {
                    continue;
                };
                let name = String::from_utf8_lossy(name).into_owned();
                // `malloc@@GLIBC_2.2.5` in full tables.
                let name = name.split('@').next().unwrap_or(&name).to_owned();
                found.push((name, symbol.st_value(endian), symbol.st_size(endian)));
            }
        }
    }
    Ok(())
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
    }
}
