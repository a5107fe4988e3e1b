//! Tracepoints of the target and of files: through rings where those give them, else as user probes.

use std::sync::Arc;

use tracebraid_bpf::spec::{Location, UserProbe};
use tracebraid_wire::kind::FieldKind;

use super::choose::{Candidate, FileOf};
use super::files::shared_addresses;
use super::recorded::Recorded;
use super::{Resolved, Resolver};
use crate::source::decode::Decoder;
use crate::source::sdk_ring::{Listed, Wanted};
use crate::target::Binary;

impl Resolver {
    pub(super) fn add_listed(
        &mut self,
        one: &Listed,
        by: Vec<usize>,
        probed_in: Vec<u64>,
        resolved: &mut Resolved,
    ) {
        let kinds = one.fields.iter().map(|(_, kind)| *kind).collect();
        self.add_recorded(
            one.fields.clone(),
            kinds,
            one.decoder(),
            by,
            probed_in,
            resolved,
        );
    }

    pub(super) fn add_points(
        &mut self,
        chosen: &[&Candidate],
        binaries: &[Binary],
        files: &[FileOf],
        recorded: &Recorded<'_>,
        resolved: &mut Resolved,
    ) {
        for candidate in chosen {
            let binary = &binaries[candidate.file];
            let point = (binary.id(), candidate.group.clone(), candidate.name.clone());
            if !self.given_out.insert(point) {
                continue;
            }
            let by = self.asking().for_point(candidate, files);
            let called =
                |group: &str, name: &str| group == candidate.group && name == candidate.name;
            for tracepoint in binary
                .tracepoints()
                .iter()
                .filter(|it| called(&it.provider, &it.name))
            {
                let fields = tracepoint
                    .fields
                    .iter()
                    .map(|field| (field.name.as_str(), field.kind));
                let decoder = Decoder::application(
                    &tracepoint.provider,
                    &tracepoint.name,
                    &tracepoint.print,
                    fields,
                )
                .of_return(tracepoint.is_return);
                if self.rings_only || recorded.gives(binary, tracepoint) {
                    let fields = tracepoint.fields.iter();
                    let kinds = fields.clone().map(|field| field.kind).collect();
                    let fields = fields
                        .map(|field| (field.name.clone(), field.kind))
                        .collect();
                    self.add_recorded(fields, kinds, decoder, by.clone(), Vec::new(), resolved);
                    continue;
                }
                self.probed
                    .insert((binary.id(), candidate.group.clone(), candidate.name.clone()));
                let mut sites = tracepoint.sites.iter();
                resolved.has_keys |= sites.any(|site| !site.tests_semaphore);
                let ready = tracepoint.attachable();
                resolved
                    .warnings
                    .extend(ready.warnings.iter().map(ToString::to_string));
                self.add_user(binary, ready.locations, decoder, by.clone(), resolved);
            }
            for probe in binary
                .usdt_probes()
                .iter()
                .filter(|it| called(&it.provider, &it.name))
            {
                let ready = probe.attachable();
                resolved
                    .warnings
                    .extend(ready.warnings.iter().map(ToString::to_string));
                let decoder = Decoder::usdt(&probe.provider, &probe.name, &ready.locations);
                self.add_user(binary, ready.locations, decoder, by.clone(), resolved);
            }
        }
        shared_addresses(chosen, binaries, resolved);
    }

    fn add_recorded(
        &mut self,
        fields: Vec<(String, FieldKind)>,
        kinds: Vec<FieldKind>,
        decoder: Decoder,
        by: Vec<usize>,
        probed_in: Vec<u64>,
        resolved: &mut Resolved,
    ) {
        let what = Arc::clone(decoder.probe());
        let shape = (what.group.clone(), what.name.clone(), fields);
        if !self.recorded.insert(shape) {
            return;
        }
        let probe = resolved.add(&mut self.next, decoder, by);
        resolved.recorded.push(Wanted {
            probe,
            what,
            kinds,
            probed_in,
            filter: None,
        });
    }

    fn add_user(
        &mut self,
        binary: &Binary,
        locations: Vec<Location>,
        decoder: Decoder,
        by: Vec<usize>,
        resolved: &mut Resolved,
    ) {
        if locations.is_empty() {
            return;
        }
        let id = resolved.add(&mut self.next, decoder, by);
        resolved.spec.user.push(UserProbe {
            id,
            binary: binary.open_path(),
            locations,
        });
    }
}
