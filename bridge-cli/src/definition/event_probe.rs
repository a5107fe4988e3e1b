//! `e`: fields of an existing event, and what they lead to.
//!
//! ```text
//! e[:[GRP/]EVENT] GROUP.EVENT [FETCHARGS] [if FILTER]
//! ```

use std::ops::Range;

use tracebraid_filter::{Field, Fields, Filter, Function, Type};

use super::knowledge::{EventField, Kernel};
use super::parse::Parse;
use super::rejection::{Code, Errno};
use super::{Definition, Kind, Place, arguments, expand, kernel_probe, name, set};
use crate::nearest;

/// Reads a definition.
pub(super) fn read(
    parse: &mut Parse<'_>,
    words: &[String],
    set: &set::Set,
) -> Result<Definition, Errno> {
    let command = &words[0];
    let given = match command.find(':') {
        Some(at) => name::read(parse, &command[at + 1..], at + 1)?,
        None => name::Given::default(),
    };
    parse.index = 1;
    let attached = name::read(parse, &words[1], 0);
    let (
        Ok(name::Given {
            event: Some(event), ..
        }),
        Ok(group),
    ) = (&attached, group_of(&attached))
    else {
        return parse.fail(0, Code::NoEventInfo, Errno::Einval);
    };
    let (event, group) = (event.clone(), group);
    let Some(fields) = parse.kernel.event(&group, &event) else {
        let near = parse.kernel.similar_events(&group, &event);
        if let Some(suggestion) = nearest::suggestion(&near) {
            parse.remark(suggestion);
        }
        return parse.fail(0, Code::BadAttachEvent, Errno::Enodev);
    };
    let end = words.iter().skip(2).position(|word| word == "if");
    let end = end.map_or(words.len(), |at| at + 2);
    let filter = match words.get(end + 1..) {
        Some([]) => {
            parse.index = end + 1;
            return parse.fail(0, Code::NoEpFilter, Errno::Einval);
        }
        Some(filter) => {
            let filter = filter.join(" ");
            check_filter(parse, &filter, &fields)?;
            Some(filter)
        }
        None => None,
    };
    parse.surroundings.event = Some(fields);
    let given_arguments = &words[2..end];
    expand::check_count(parse, given_arguments)?;
    let arguments = arguments(parse, given_arguments)?;
    let definition = Definition {
        kind: Kind::Event,
        group: given.group.unwrap_or_else(|| "eprobes".to_owned()),
        event: given.event.unwrap_or_else(|| event.clone()),
        is_return: false,
        place: Place::Event {
            group,
            name: event,
            filter,
        },
        arguments,
        warnings: Vec::new(),
        obstacle: None,
        line: 0,
        text: words.join(" "),
        source: 0,
    };
    // The kernel logs nothing for a symbol that there is not.
    kernel_probe::resolve_symbols(parse.kernel, &definition)?;
    set.check_new(parse, &definition)?;
    Ok(definition)
}

fn group_of(attached: &Result<name::Given, Errno>) -> Result<String, Errno> {
    match attached {
        Ok(name::Given {
            group: Some(group), ..
        }) => Ok(group.clone()),
        _ => Err(Errno::Einval),
    }
}

/// The kernel answers EINVAL to a bad filter and logs nothing; so there is no complaint, but a remark.
fn check_filter(parse: &mut Parse<'_>, filter: &str, fields: &[EventField]) -> Result<(), Errno> {
    let read = |pointers_are_text| {
        let kernel = parse.kernel;
        let of = FieldsOf {
            fields,
            kernel,
            pointers_are_text,
        };
        Filter::parse(filter, &of)
    };
    match read(false).or_else(|why| read(true).map_err(|_| why)) {
        Ok(_) => Ok(()),
        Err(why) => {
            parse.remark(format!("the filter is not valid: {why}"));
            Err(Errno::Einval)
        }
    }
}

/// The fields of a kernel event as filters see them. An address of text is compared as a number or as the text
/// there, but not as both in one filter.
struct FieldsOf<'a> {
    fields: &'a [EventField],
    kernel: &'a dyn Kernel,
    pointers_are_text: bool,
}

impl Fields for FieldsOf<'_> {
    fn field(&self, name: &str) -> Option<Field> {
        let index = self.fields.iter().position(|field| field.name == name)?;
        let field = &self.fields[index];
        let is_text = match field.points_to_text() {
            true => self.pointers_are_text,
            false => field.type_name.contains("char") && field.type_name.contains('['),
        };
        let bytes = u16::try_from(field.size).ok()?;
        let kind = match (is_text, field.signed) {
            (true, _) => Type::Text,
            (false, true) => Type::Signed { bytes },
            (false, false) => Type::Unsigned { bytes },
        };
        Some(Field {
            index: u16::try_from(index).ok()?,
            kind,
        })
    }

    fn function(&self, wanted: Function<'_>) -> Option<Range<u64>> {
        let found = match wanted {
            Function::Name(name) => {
                let (module, name) = match name.split_once(':') {
                    Some((module, name)) => (Some(module), name),
                    None => (None, name),
                };
                self.kernel.symbols(module, name).into_iter().next()?
            }
            Function::At(address) => self.kernel.symbol_at(address)?.0,
        };
        Some(found.address..found.address + found.size?)
    }
}
