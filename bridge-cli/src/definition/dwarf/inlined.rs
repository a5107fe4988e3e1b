//! Functions that have no code of their own: where they were inlined into their callers.

use gimli::{AttributeValue, constants as dw};

use super::{DebugInfo, Found};
use crate::definition::knowledge::TypeId;

/// A place where a function's code stands inside another function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The other function, by the name of its code.
    pub caller: String,
    /// File and line of the call that there is in the source.
    pub called_at: Option<(String, u64)>,
    /// The address of the first instruction, as the file's tables count.
    pub address: Option<u64>,
}

impl DebugInfo {
    /// Where a function of this name was inlined, in the order of the debug information; empty where there is none
    /// of this name, or it was inlined nowhere.
    pub fn inlined(&self, name: &str) -> Vec<Instance> {
        // The last part of a path, which is how Rust and C++ name an entry.
        let last = name.rsplit("::").next().unwrap_or(name);
        let mut wanted: Vec<TypeId> = Vec::new();
        self.each(|found| {
            let is_inlined = found.entry.tag() == dw::DW_TAG_subprogram
                && matches!(
                    found.entry.attr_value(dw::DW_AT_inline),
                    Some(AttributeValue::Inline(
                        dw::DW_INL_inlined | dw::DW_INL_declared_inlined
                    ))
                );
            if is_inlined && self.name(found).as_deref() == Some(last) {
                wanted.extend(self.id(found));
            }
        });
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut instances: Vec<Instance> = Vec::new();
        // The function that the entries belong to which follow it.
        let mut around: Option<Found> = None;
        self.each(|found| match found.entry.tag() {
            dw::DW_TAG_subprogram => around = Some(found.clone()),
            dw::DW_TAG_inlined_subroutine => {
                let of = self.reference(found, dw::DW_AT_abstract_origin);
                let is_it = of.is_some_and(|of| wanted.contains(&of));
                let has_code = |caller: &Found| {
                    [dw::DW_AT_low_pc, dw::DW_AT_ranges]
                        .iter()
                        .any(|&code| caller.entry.attr(code).is_some())
                };
                if is_it
                    && let Some(caller) = around.as_ref().filter(|caller| has_code(caller))
                    && let Some(name) = self.linkage_name(caller).or_else(|| self.name(caller))
                {
                    instances.push(Instance {
                        caller: name,
                        called_at: self.called_at(found),
                        address: self.first_address(found),
                    });
                }
            }
            _ => {}
        });
        instances
    }

    /// The call that an inlined function's code stands for.
    fn called_at(&self, of: &Found) -> Option<(String, u64)> {
        let number = |name| match of.entry.attr_value(name)? {
            AttributeValue::FileIndex(number) => Some(number),
            value => value.udata_value(),
        };
        let line = number(dw::DW_AT_call_line)?;
        let header = of.unit.line_program.as_ref()?.header();
        let file = header.file(number(dw::DW_AT_call_file)?)?;
        let dwarf = self.dwarf(of.is_shared);
        let path = dwarf.attr_string(&of.unit, file.path_name()).ok()?;
        Some((crate::target::text_of(path.bytes()), line))
    }

    fn first_address(&self, of: &Found) -> Option<u64> {
        let dwarf = self.dwarf(of.is_shared);
        let entry = of.entry.attr_value(dw::DW_AT_entry_pc);
        if let Some(address) = entry.and_then(|value| dwarf.attr_address(&of.unit, value).ok()?) {
            return Some(address);
        }
        let mut ranges = dwarf.die_ranges(&of.unit, &of.entry).ok()?;
        let mut first: Option<u64> = None;
        while let Ok(Some(range)) = ranges.next() {
            first = Some(first.map_or(range.begin, |first| first.min(range.begin)));
        }
        first
    }

    /// The name of a function's symbol, readable where it is mangled.
    fn linkage_name(&self, of: &Found) -> Option<String> {
        let symbol = self.inherited(of, |entry| {
            let value = entry.entry.attr_value(dw::DW_AT_linkage_name)?;
            let dwarf = self.dwarf(entry.is_shared);
            let text = dwarf.attr_string(&entry.unit, value).ok()?;
            Some(crate::target::text_of(text.bytes()))
        })?;
        match rustc_demangle::try_demangle(&symbol) {
            Ok(name) => Some(format!("{name:#}")),
            Err(_) => Some(symbol),
        }
    }

    fn each(&self, mut look: impl FnMut(&Found)) {
        for &start in &self.own.starts {
            let Some(unit) = self.unit(false, start) else {
                continue;
            };
            self.walk(&unit, |entry| {
                // Types and variables are most of it.
                if matches!(
                    entry.tag(),
                    dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine
                ) {
                    look(&Found {
                        is_shared: false,
                        unit: unit.clone(),
                        entry: entry.clone(),
                    });
                }
                false
            });
        }
    }
}
