//! Functions of a file, their parameters and types, by its debug information (DWARF).
//!
//! ```text
//! address ─▶ unit (by its ranges) ─▶ DW_TAG_subprogram ─▶ parameters: name, type, where at the entry
//!                                                           location: expression, or list valid there
//!                                                           prologue: unoptimised code stores it first
//! type    ─▶ knowledge::Type, or its name as the language writes it
//! ```
//! Every number in it is somebody else's: offsets that lead nowhere give nothing, chains have an end.
//! What DWARF 5 calls a type unit, and split debug information (`.dwo`), are not read.

mod entry;
mod followed;
mod inlined;
mod location;
mod prologue;
mod types;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{AttributeValue, DebugInfoOffset, LittleEndian, constants as dw};

use super::knowledge::TypeId;
use crate::target::{Binary, DebugSections};

pub use entry::{FunctionType, Listed};
pub use inlined::Instance;

type Reader = gimli::EndianRcSlice<LittleEndian>;
type Dwarf = gimli::Dwarf<Reader>;
type Unit = gimli::Unit<Reader>;
type Entry = gimli::DebuggingInformationEntry<Reader>;

/// References from one entry to another that are followed.
const LONGEST_CHAIN: usize = 32;
/// A [`TypeId`] with this bit is one of the shared file (dwz).
const SHARED: u64 = 1 << 63;

/// The debug information of one file.
pub struct DebugInfo {
    dwarf: Dwarf,
    own: Units,
    shared: Units,
    /// Begin, end and unit of each range of code, in order.
    ranges: OnceCell<Vec<(u64, u64, usize)>>,
}

/// The units of a file: where each begins, and those that were looked at.
#[derive(Default)]
struct Units {
    starts: Vec<usize>,
    read: RefCell<HashMap<usize, Rc<Unit>>>,
}

/// An entry, and the unit that it is in.
#[derive(Clone)]
struct Found {
    is_shared: bool,
    unit: Rc<Unit>,
    entry: Entry,
}

impl std::fmt::Debug for DebugInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugInfo").finish_non_exhaustive()
    }
}

impl DebugInfo {
    /// That of a binary.
    ///
    /// # Errors
    /// Why there is none, as a sentence.
    pub fn of(binary: &Binary) -> Result<DebugInfo, String> {
        let Some(sections) = binary.debug_sections() else {
            return Err(format!(
                "no debug information in {}: build with -g, or name a register",
                binary.path().display()
            ));
        };
        let mut dwarf = load(&sections)?;
        let own = Units::of(&dwarf);
        let mut shared = Units::default();
        if let Some(sections) = sections.shared() {
            let other = load(&sections)?;
            shared = Units::of(&other);
            dwarf.set_sup(other);
        }
        if own.starts.is_empty() {
            return Err(format!(
                "the debug information of {} cannot be read",
                binary.path().display()
            ));
        }
        Ok(DebugInfo {
            dwarf,
            own,
            shared,
            ranges: OnceCell::new(),
        })
    }

    /// Sections that the units of a file use.
    fn dwarf(&self, is_shared: bool) -> &Dwarf {
        match (is_shared, self.dwarf.sup()) {
            (true, Some(shared)) => shared,
            _ => &self.dwarf,
        }
    }

    fn units(&self, is_shared: bool) -> &Units {
        match is_shared {
            true => &self.shared,
            false => &self.own,
        }
    }

    /// The unit that begins there.
    fn unit(&self, is_shared: bool, start: usize) -> Option<Rc<Unit>> {
        let units = self.units(is_shared);
        if let Some(unit) = units.read.borrow().get(&start) {
            return Some(Rc::clone(unit));
        }
        let dwarf = self.dwarf(is_shared);
        let header = dwarf.unit_header(DebugInfoOffset(start)).ok()?;
        let unit = Rc::new(dwarf.unit(header).ok()?);
        units.read.borrow_mut().insert(start, Rc::clone(&unit));
        Some(unit)
    }

    /// The entry of this number.
    fn find(&self, id: TypeId) -> Option<Found> {
        let is_shared = id.0 & SHARED != 0;
        let offset = usize::try_from(id.0 & !SHARED).ok()?;
        let starts = &self.units(is_shared).starts;
        let index = starts.partition_point(|&start| start <= offset);
        let unit = self.unit(is_shared, *starts.get(index.checked_sub(1)?)?)?;
        let within = DebugInfoOffset(offset).to_unit_offset(&unit.header)?;
        let entry = unit.entry(within).ok()?;
        Some(Found {
            is_shared,
            unit,
            entry,
        })
    }

    /// The number of an entry.
    fn id(&self, found: &Found) -> Option<TypeId> {
        let offset = found
            .entry
            .offset()
            .to_debug_info_offset(&found.unit.header)?;
        let shared = if found.is_shared { SHARED } else { 0 };
        Some(TypeId(offset.0 as u64 | shared))
    }

    /// What an attribute of an entry refers to.
    fn reference(&self, from: &Found, attribute: gimli::DwAt) -> Option<TypeId> {
        let own = if from.is_shared { SHARED } else { 0 };
        match from.entry.attr_value(attribute)? {
            AttributeValue::UnitRef(offset) => {
                let offset = offset.to_debug_info_offset(&from.unit.header)?;
                Some(TypeId(offset.0 as u64 | own))
            }
            AttributeValue::DebugInfoRef(offset) => Some(TypeId(offset.0 as u64 | own)),
            AttributeValue::DebugInfoRefSup(offset) => Some(TypeId(offset.0 as u64 | SHARED)),
            _ => None,
        }
    }

    /// An attribute of an entry, or of the one that it is an instance of, by way of `ask`.
    fn inherited<T>(&self, entry: &Found, ask: impl Fn(&Found) -> Option<T>) -> Option<T> {
        let mut current = entry.clone();
        for _ in 0..LONGEST_CHAIN {
            if let Some(answer) = ask(&current) {
                return Some(answer);
            }
            let next = self
                .reference(&current, dw::DW_AT_abstract_origin)
                .or_else(|| self.reference(&current, dw::DW_AT_specification))?;
            current = self.find(next)?;
        }
        None
    }

    fn own_name(&self, of: &Found) -> Option<String> {
        let value = of.entry.attr_value(dw::DW_AT_name)?;
        let text = self.dwarf(of.is_shared).attr_string(&of.unit, value).ok()?;
        Some(crate::target::text_of(text.bytes()))
    }

    fn name(&self, of: &Found) -> Option<String> {
        self.inherited(of, |entry| self.own_name(entry))
    }

    fn type_of(&self, of: &Found) -> Option<TypeId> {
        self.inherited(of, |entry| self.reference(entry, dw::DW_AT_type))
    }

    /// The unit whose code holds an address.
    fn unit_around(&self, address: u64) -> Option<Rc<Unit>> {
        let ranges = self.ranges.get_or_init(|| {
            let mut ranges = Vec::new();
            for &start in &self.own.starts {
                // Most units are not looked at again.
                let Ok(header) = self.dwarf.unit_header(DebugInfoOffset(start)) else {
                    continue;
                };
                let Ok(unit) = self.dwarf.unit(header) else {
                    continue;
                };
                let own = self.ranges_of_unit(&unit).into_iter();
                let own = own.filter(|range| range.begin < range.end);
                ranges.extend(own.map(|range| (range.begin, range.end, start)));
            }
            ranges.sort_unstable();
            ranges
        });
        let after = ranges.partition_point(|&(begin, ..)| begin <= address);
        let (_, end, start) = *ranges.get(after.checked_sub(1)?)?;
        match address < end {
            true => self.unit(false, start),
            false => None,
        }
    }

    /// Where the code of a unit is. (That of gimli adds a hostile length without a check.)
    fn ranges_of_unit(&self, unit: &Unit) -> Vec<gimli::Range> {
        let mut entries = unit.entries();
        let Ok(Some(root)) = entries.next_dfs() else {
            return Vec::new();
        };
        if let Some(value) = root.attr_value(dw::DW_AT_ranges) {
            let Ok(Some(mut list)) = self.dwarf.attr_ranges(unit, value) else {
                return Vec::new();
            };
            return std::iter::from_fn(|| list.next().ok().flatten()).collect();
        }
        let address = |value| self.dwarf.attr_address(unit, value).ok().flatten();
        let begin = root.attr_value(dw::DW_AT_low_pc).and_then(address);
        let end = match root.attr_value(dw::DW_AT_high_pc) {
            Some(AttributeValue::Udata(size)) => begin.and_then(|begin| begin.checked_add(size)),
            Some(value) => address(value),
            None => None,
        };
        let range = begin
            .zip(end)
            .map(|(begin, end)| gimli::Range { begin, end });
        range.into_iter().collect()
    }

    /// Every entry of a unit, until `each` has enough.
    fn walk(&self, unit: &Rc<Unit>, mut each: impl FnMut(&Entry) -> bool) {
        let Ok(mut entries) = unit.entries_raw(None) else {
            return;
        };
        let mut entry = Entry::null();
        while !entries.is_empty() {
            match entries.read_entry(&mut entry) {
                Ok(true) if each(&entry) => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// The entries below one, with how deep they are: 1 for its children.
    fn below(&self, parent: &Found, mut each: impl FnMut(isize, Found)) {
        let Ok(mut entries) = parent.unit.entries_raw(Some(parent.entry.offset())) else {
            return;
        };
        let mut entry = Entry::null();
        let mut is_first = true;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            match entries.read_entry(&mut entry) {
                Ok(true) => {}
                Ok(false) if depth <= 1 => return,
                Ok(false) => continue,
                Err(_) => return,
            }
            if std::mem::take(&mut is_first) {
                if !entry.has_children() {
                    return;
                }
                continue;
            }
            if depth <= 0 {
                return;
            }
            let found = Found {
                is_shared: parent.is_shared,
                unit: Rc::clone(&parent.unit),
                entry: entry.clone(),
            };
            each(depth, found);
        }
    }

    /// Where the code of an entry begins.
    fn low_pc(&self, unit: &Unit, entry: &Entry) -> Option<u64> {
        if let Some(value) = entry.attr_value(dw::DW_AT_low_pc) {
            return self.dwarf.attr_address(unit, value).ok()?;
        }
        let value = entry.attr_value(dw::DW_AT_ranges)?;
        let mut ranges = self.dwarf.attr_ranges(unit, value).ok()??;
        ranges.next().ok()?.map(|range| range.begin)
    }
}

fn load(sections: &DebugSections) -> Result<Dwarf, String> {
    let section = |id: gimli::SectionId| -> Result<Reader, String> {
        let bytes = match id {
            gimli::SectionId::DebugMacro => Vec::new(),
            id => sections.section(id.name()).unwrap_or_default(),
        };
        Ok(Reader::new(Rc::from(bytes), LittleEndian))
    };
    gimli::Dwarf::load(section)
}

impl Units {
    fn of(dwarf: &Dwarf) -> Units {
        let mut starts = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Some(offset) = header.debug_info_offset() {
                starts.push(offset.0);
            }
        }
        Units {
            starts,
            read: RefCell::default(),
        }
    }
}
