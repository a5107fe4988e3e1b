//! A function's parameters at its entry.

use std::rc::Rc;

use gimli::{AttributeValue, constants as dw};

use super::location::{Frame, Located, When};
use super::prologue::Prologue;
use super::{DebugInfo, Found, Unit};
use crate::definition::knowledge::{TypeId, UserParameter, UserPlace};

/// What a listing shows of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionType {
    /// Names and types of its parameters, and why one cannot be had at the entry.
    pub parameters: Vec<Listed>,
    /// What it returns; `None`: nothing.
    pub returns: Option<String>,
}

/// A parameter in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// Why it cannot be fetched at the entry.
    pub missing: Option<String>,
}

impl DebugInfo {
    /// The parameters of the function whose code begins at this virtual address with `code`; `None` where
    /// the debug information does not hold it.
    pub fn parameters(&self, address: u64, code: &[u8]) -> Option<Vec<UserParameter>> {
        let function = self.function_at(address)?;
        let prologue = Prologue::of(code, address);
        let mut parameters = Vec::new();
        self.below(&function, |depth, child| {
            if depth != 1 || child.entry.tag() != dw::DW_TAG_formal_parameter {
                return;
            }
            let (Some(name), Some(type_id)) = (self.name(&child), self.type_of(&child)) else {
                return;
            };
            let place = self.place(&function, &child, type_id, address, &prologue);
            parameters.push(UserParameter {
                name,
                type_id,
                place,
            });
        });
        Some(parameters)
    }

    /// The same, written for a reader.
    pub fn function_type(&self, address: u64, code: &[u8]) -> Option<FunctionType> {
        let function = self.function_at(address)?;
        let parameters = self.parameters(address, code)?.into_iter();
        let parameters = parameters.map(|parameter| Listed {
            type_name: self.type_name(parameter.type_id),
            name: parameter.name,
            missing: parameter.place.err(),
        });
        let returns = self.type_of(&function);
        Some(FunctionType {
            parameters: parameters.collect(),
            returns: returns.map(|id| self.type_name(id)),
        })
    }

    fn function_at(&self, address: u64) -> Option<Found> {
        let unit = self.unit_around(address)?;
        let mut found = None;
        self.walk(&unit, |entry| {
            let is_it =
                entry.tag() == dw::DW_TAG_subprogram && self.low_pc(&unit, entry) == Some(address);
            if is_it {
                found = Some(entry.clone());
            }
            is_it
        });
        Some(Found {
            is_shared: false,
            entry: found?,
            unit,
        })
    }

    /// Where a parameter is when the function is entered, or why it is nowhere.
    fn place(
        &self,
        function: &Found,
        parameter: &Found,
        type_id: TypeId,
        address: u64,
        prologue: &Prologue,
    ) -> Result<UserPlace, String> {
        let size = self.size_of(type_id).unwrap_or(8);
        let unit: &Rc<Unit> = &function.unit;
        let Some(value) = parameter.entry.attr_value(dw::DW_AT_location) else {
            let constant = self.inherited(parameter, |entry| {
                entry.entry.attr_value(dw::DW_AT_const_value)
            });
            return match constant.and_then(|value| {
                value
                    .udata_value()
                    .or_else(|| value.sdata_value().map(|value| value as u64))
            }) {
                Some(value) => Ok(UserPlace::Constant(value)),
                None => Err("the compiler has optimised it out".to_owned()),
            };
        };
        let (expression, listed) = match value {
            AttributeValue::Exprloc(expression) => (expression, None),
            value => {
                let (expression, from) = self.listed(unit, value, address)?;
                (expression, Some(from))
            }
        };
        let frame = match function.entry.attr_value(dw::DW_AT_frame_base) {
            Some(AttributeValue::Exprloc(expression)) => {
                Frame::read(expression, unit.encoding()).unwrap_or(Frame::Unknown)
            }
            _ => Frame::Unknown,
        };
        let located = Located::read(expression, unit.encoding(), frame)?;
        let when = When {
            listed,
            is_entry: listed.is_none_or(|from| from <= address),
            prologue,
        };
        located.place(size, when)
    }

    /// The expression of a location list that holds at an address, or else the first one behind it; and the
    /// address from which on it holds.
    fn listed(
        &self,
        unit: &Unit,
        value: AttributeValue<super::Reader>,
        address: u64,
    ) -> Result<(gimli::Expression<super::Reader>, u64), String> {
        let unreadable = || "its place cannot be read".to_owned();
        let locations = self.dwarf.attr_locations(unit, value);
        let mut locations = locations.ok().flatten().ok_or_else(unreadable)?;
        let mut first: Option<gimli::LocationListEntry<super::Reader>> = None;
        while let Some(entry) = locations.next().map_err(|_| unreadable())? {
            let (begin, end) = (entry.range.begin, entry.range.end);
            if (begin..end).contains(&address) {
                return Ok((entry.data, begin));
            }
            if begin > address && first.as_ref().is_none_or(|first| begin < first.range.begin) {
                first = Some(entry);
            }
        }
        match first {
            Some(entry) => Ok((entry.data, entry.range.begin)),
            None => Err("the compiler has optimised it out at the function's entry".into()),
        }
    }
}
