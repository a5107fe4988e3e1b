//! Which tracepoints of files come through the rings of the target's SDK.

use crate::error::Result;
use crate::source::sdk_ring::Listed;
use crate::target::{Binary, Mapping, Process, Tracepoint};

/// What the rings of the target's SDK give.
pub(super) struct Recorded<'a> {
    listed: &'a [Listed],
    /// Where the target has mapped files: a row's address leads to the object that it is in.
    mappings: Vec<Mapping>,
}

impl<'a> Recorded<'a> {
    pub(super) fn of(target: Option<&Process>, listed: &'a [Listed]) -> Result<Recorded<'a>> {
        let mappings = match target {
            Some(process) if !listed.is_empty() => process.mappings()?,
            _ => Vec::new(),
        };
        Ok(Recorded { listed, mappings })
    }

    /// Whether they give the events of a binary's tracepoint.
    pub(super) fn gives(&self, binary: &Binary, tracepoint: &Tracepoint) -> bool {
        self.listed.iter().any(|one| {
            one.provider == tracepoint.provider
                && one.name == tracepoint.name
                && one.fields.len() == tracepoint.fields.len()
                && one
                    .fields
                    .iter()
                    .zip(&tracepoint.fields)
                    .all(|(own, field)| own.0 == field.name && own.1 == field.kind)
                && self.is_in(one.row, binary)
        })
    }

    /// Whether an address of the target is in its mapping of a file. The library that brings a copy of the
    /// SDK of its own may have a tracepoint of the same name, which does not go to these rings.
    fn is_in(&self, address: u64, binary: &Binary) -> bool {
        self.mappings
            .iter()
            .find(|mapping| mapping.range.contains(&address))
            // File systems tell other devices in `stat` than in `maps`.
            .is_some_and(|mapping| mapping.inode == binary.id().inode)
    }
}
