//! What was resolved.

use std::sync::Arc;

use tracebraid_bpf::spec::{ProbeId, Spec};

use super::asking::Asked;
use crate::filter::Filters;
use crate::source::decode::{Decoder, Decoders};
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
    /// Which hits of the others are wanted.
    pub filters: Filters,
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

    /// Whether there is anything to attach.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
