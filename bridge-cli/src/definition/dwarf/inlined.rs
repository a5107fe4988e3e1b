//! Functions that have no code of their own: inlined into their callers.

use gimli::{AttributeValue, constants as dw};

use super::{DebugInfo, Found};
use crate::definition::knowledge::TypeId;

/// Callers that are named.
const NAMED: usize = 5;

impl DebugInfo {
    /// The functions that a function of this name was inlined into, by the names of their code; empty where
    /// there is none of this name, or it has code.
    pub fn inlined_into(&self, name: &str) -> Vec<String> {
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
        let mut callers: Vec<String> = Vec::new();
        // The function that the entries belong to which follow it.
        let mut around: Option<Found> = None;
        self.each(|found| match found.entry.tag() {
            dw::DW_TAG_subprogram => around = Some(found.clone()),
            dw::DW_TAG_inlined_subroutine => {
                let of = self.reference(found, dw::DW_AT_abstract_origin);
                let is_it = of.is_some_and(|of| wanted.contains(&of));
                if is_it
                    && callers.len() < NAMED
                    && let Some(caller) = &around
                    && caller.entry.attr(dw::DW_AT_low_pc).is_some()
                    && let Some(name) = self.linkage_name(caller).or_else(|| self.name(caller))
                    && !callers.contains(&name)
                {
                    callers.push(name);
                }
            }
            _ => {}
        });
        callers
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
