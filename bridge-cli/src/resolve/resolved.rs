//! What was resolved.

use std::sync::Arc;

use tracebraid_bpf::spec::{ProbeId, Spec};

use super::asking::Asked;
use crate::event::Probe;
use crate::filter::{Filters, ProbeFilter};
use crate::source::decode::{Decoder, Decoders};
use crate::source::kernel_value::Fetched;
use crate::source::sdk_ring::Wanted;
use crate::target::Binary;
use crate::tracefs::symbols::Symbols;

/// What was resolved.
#[derive(Debug, Default)]
pub struct Resolved {
    /// What to probe; its filter is the caller's to set.
    pub spec: Spec,
    /// How its records are read.
    pub decoders: Decoders,
    /// `group:name` of every probe.
    pub names: Vec<(ProbeId, String)>,
    /// Things the user should know; none of them stops anything.
    pub warnings: Vec<String>,
    /// Tracepoints that rings give.
    pub recorded: Vec<Wanted>,
    /// Tracepoints of the SDK are among what is probed, with keys that somebody has to switch.
    pub has_keys: bool,
    /// Which hits of the others are wanted, where the bridge decides it and not the kernel.
    pub filters: Filters,
    /// The bridge is to decide it.
    pub(super) filters_here: bool,
    /// Who asks for what, until the filters have been read.
    pub(super) asked: Vec<Asked>,
    /// The kernel's functions, where they are known.
    pub(super) symbols: Option<Arc<Symbols>>,
    /// The files that the probes name; they must stay open until the probes are attached.
    pub binaries: Vec<Binary>,
}

impl Resolved {
    /// Takes in the decoder of a probe that these `-e` ask for, and gives the probe its number.
    pub(super) fn add(&mut self, next: &mut u32, decoder: Decoder, by: Vec<usize>) -> ProbeId {
        let id = ProbeId(*next);
        *next += 1;
        let probe = decoder.probe();
        if !by.is_empty() {
            self.asked.push(Asked::new(id, probe, by));
        }
        self.names
            .push((id, format!("{}:{}", probe.group, probe.name)));
        self.decoders.insert(id, decoder);
        id
    }

    /// Sets which hits of a probe that BPF attaches are wanted.
    ///
    /// # Errors
    /// What the kernel cannot decide, as a sentence.
    pub(super) fn filter(
        &mut self,
        id: ProbeId,
        what: &Arc<Probe>,
        filter: ProbeFilter,
    ) -> Result<(), String> {
        if self.filters_here {
            self.filters.insert(Arc::clone(what), filter);
            return Ok(());
        }
        let Some(decoder) = self.decoders.get(id) else {
            return Ok(());
        };
        let in_kernel = |fetched: Fetched<'_>| {
            let find = |index| decoder.in_kernel(index, fetched);
            filter.in_kernel(what, &find)
        };
        let mut hits = Vec::new();
        if let Some(probe) = self.spec.user.iter().find(|probe| probe.id == id) {
            for (location, own) in probe.locations.iter().enumerate() {
                let fetch = &own.fetch;
                let own = in_kernel(Fetched::User { location, fetch })?;
                hits.push((location as u32, own));
            }
        } else if let Some(probe) = self.spec.tracepoints.iter().find(|it| it.id == id) {
            hits.push((0, in_kernel(Fetched::Record(probe.size))?));
        } else if let Some(call) = decoder.call_of(what) {
            hits.push((call, in_kernel(Fetched::Call(call))?));
        } else {
            hits.push((0, in_kernel(Fetched::Itself)?));
        }
        let hits = hits.into_iter().map(|(part, own)| ((id, part), own));
        self.spec.hits.extend(hits);
        Ok(())
    }

    /// Whether there is anything to attach.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
