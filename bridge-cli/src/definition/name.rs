//! Names of events and their groups, given and generated.

use super::parse::Parse;
use super::rejection::{Code, Errno};
use super::text;

/// The longest name, bytes.
pub(super) const LONGEST: usize = 63;

/// A given name: `EVENT`, `GROUP/EVENT`, `GROUP.EVENT` or `GROUP/`.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) group: Option<String>,
    pub(super) event: Option<String>,
}

/// Reads a name that begins so many bytes into the current word.
pub(super) fn read(parse: &mut Parse<'_>, text: &str, at: usize) -> Result<Given, Errno> {
    let mut fail = |at, code| parse.fail(at, code, Errno::Einval);
    let (group, event) = match text.split_once('/').or_else(|| text.split_once('.')) {
        Some((group, event)) => (Some(group), event),
        None => (None, text),
    };
    let mut behind = at;
    if let Some(group) = group {
        if group.is_empty() {
            return fail(at, Code::NoGroupName);
        }
        if group.len() > LONGEST {
            return fail(at, Code::GroupTooLong);
        }
        if !text::is_identifier(group, true) {
            return fail(at, Code::BadGroupName);
        }
        behind += group.len() + 1;
    }
    if event.is_empty() && group.is_none() {
        return fail(behind, Code::NoEventName);
    }
    if event.len() > LONGEST {
        return fail(behind, Code::EventTooLong);
    }
    if !event.is_empty() && !text::is_identifier(event, false) {
        return fail(behind, Code::BadEventName);
    }
    Ok(Given {
        group: group.map(str::to_owned),
        event: (!event.is_empty()).then(|| event.to_owned()),
    })
}

/// A generated name, cut and without characters that the kernel replaces.
pub(super) fn generated(text: &str) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = text[..end].to_owned();
    // The first character is left as it is.
    let rest = name.split_off(name.chars().next().map_or(0, char::len_utf8));
    name + &rest.replace([':', '.', '*'], "_")
}
