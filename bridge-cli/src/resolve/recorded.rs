//! Which tracepoints of files come through the rings of the targets' SDK.

use crate::error::Result;
use crate::source::sdk_ring::Listed;
use crate::target::{Binary, Mapping, Targets, Tracepoint};

/// What the rings of the targets' SDK give.
pub(super) struct Recorded<'a> {
    listed: &'a [Listed],
    /// Where each target has mapped files: a row's address leads to the object that it is in.
    mappings: Vec<(u32, Vec<Mapping>)>,
}

impl<'a> Recorded<'a> {
    pub(super) fn of(targets: &Targets, listed: &'a [Listed]) -> Result<Recorded<'a>> {
        let lists = |pid: u32| listed.iter().any(|one| one.pid == pid);
        let mut mappings = Vec::new();
        for process in targets.living().filter(|process| lists(process.pid())) {
            mappings.push((process.pid(), process.mappings()?));
        }
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
                && self.is_in(one, binary)
        })
    }

    /// Whether the row is in its process's mapping of a file. The library that brings a copy of the SDK of
    /// its own may have a tracepoint of the same name, which does not go to these rings.
    fn is_in(&self, listed: &Listed, binary: &Binary) -> bool {
        let own = |(pid, _): &&(u32, Vec<Mapping>)| *pid == listed.pid;
        self.mappings
            .iter()
            .filter(own)
            .flat_map(|(_, mappings)| mappings)
            .find(|mapping| mapping.range.contains(&listed.row))
            // File systems tell other devices in `stat` than in `maps`.
            .is_some_and(|mapping| mapping.inode == binary.id().inode)
    }
}
