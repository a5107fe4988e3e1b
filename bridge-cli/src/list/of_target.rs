//! The rows of a process or a binary, and what is wrong with them.

use std::collections::BTreeMap;

use tracebraid_bpf::spec;

use crate::error::{Error, Result};
use crate::event::Origin;
use crate::source::sdk_ring::{Listed, made_in};
use crate::source::slots::type_name;
use crate::target::{
    Argument, Binary, Place, Process, Semaphore, Tracepoint, UsdtLocation, UsdtNotes, UsdtProbe,
};

use super::Row;

/// All that a target has.
#[derive(Default)]
pub(super) struct Candidates {
    pub(super) rows: Vec<Row>,
    pub(super) remarks: Vec<String>,
    pub(super) details: bool,
}

impl Candidates {
    pub(super) fn process(&mut self, process: &Process) -> Result<()> {
        let scan = process.binaries()?;
        for binary in &scan.binaries {
            self.binary(binary);
        }
        for (path, error) in &scan.unreadable {
            self.remarks.push(format!(
                "{} cannot be read: {}",
                path.display(),
                chain(error)
            ));
        }
        if scan.binaries.is_empty()
            && let Some((path, what)) = scan.without.first()
        {
            self.remarks.push(format!("{}: {what}", path.display()));
        }
        let makes = |binary: &Binary| binary.tracepoints().iter().any(Tracepoint::tells_of_others);
        if scan.binaries.iter().any(makes) {
            for point in made_in(process.pid()) {
                self.made(point);
            }
        }
        Ok(())
    }

    /// A tracepoint that the process has made at run time. What is the same in everything but its event id
    /// is one row.
    fn made(&mut self, point: Listed) {
        let mut details = Vec::new();
        if self.details {
            let fields = point.fields.iter();
            details.extend(
                fields.map(|(name, kind)| ("field", format!("{name}: {}", type_name(*kind)))),
            );
            details.extend(point.place.map(|place| ("site", place)));
            details.push(("made", "by the program, as it ran".to_owned()));
        }
        let row = Row {
            origin: Origin::Application,
            group: point.provider,
            name: point.name,
            details,
        };
        if !self.rows.contains(&row) {
            self.rows.push(row);
        }
    }

    pub(super) fn binary(&mut self, binary: &Binary) {
        let path = binary.path().display();
        let mut say = |what: String| self.remarks.push(format!("{path}: {what}"));
        if let Some(unfit) = binary.unfit() {
            say(unfit.to_string());
        }
        if let Some(remark) = binary.sdk().remark() {
            say(remark);
        }
        // The rows themselves tell of notes that are there.
        let silent = match binary.usdt() {
            UsdtNotes::Found { malformed, .. } => *malformed == 0,
            UsdtNotes::None | UsdtNotes::NoSectionHeaders | UsdtNotes::DamagedSectionHeaders(_) => {
                !binary.tracepoints().is_empty()
            }
        };
        if !silent {
            say(binary.usdt().to_string());
        }
        for (offset, probes) in binary.usdt().shared_addresses() {
            let names: Vec<String> = probes
                .iter()
                .map(|&index| binary.usdt_probes()[index].full_name())
                .collect();
            let names = names.join(", ");
            say(format!(
                "{names} share one address (offset {offset:#x}): a hit of one is a hit of all"
            ));
        }
        for remark in same_name_other_fields(binary.tracepoints()) {
            say(remark);
        }
        for point in binary.tracepoints() {
            let warnings = point.attachable().warnings;
            self.remarks
                .extend(warnings.iter().map(|warning| format!("{path}: {warning}")));
            let details = if self.details {
                tracepoint_details(binary, point)
            } else {
                Vec::new()
            };
            self.rows.push(Row {
                origin: Origin::Application,
                group: point.provider.clone(),
                name: point.name.clone(),
                details,
            });
        }
        for probe in binary.usdt_probes() {
            let warnings = probe.attachable().warnings;
            self.remarks
                .extend(warnings.iter().map(|warning| format!("{path}: {warning}")));
            let details = if self.details {
                probe_details(binary, probe)
            } else {
                Vec::new()
            };
            self.rows.push(Row {
                origin: Origin::Usdt,
                group: probe.provider.clone(),
                name: probe.name.clone(),
                details,
            });
        }
    }
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// Two tracepoints of one name with different fields are two; their users should know.
fn same_name_other_fields(tracepoints: &[Tracepoint]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for point in tracepoints {
        let place = point
            .sites
            .first()
            .map_or("an unknown place".to_owned(), |site| {
                format!("{}:{}", site.file, site.line)
            });
        places.entry(point.full_name()).or_default().push(place);
    }
    places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| {
            format!(
                "{name} is declared with different fields at {}",
                places.join(" and ")
            )
        })
        .collect()
}

fn shown_path(binary: &Binary) -> String {
    let path = binary.path().display();
    match binary.is_deleted() {
        true => format!("{path} (removed or replaced since it was mapped)"),
        false => path.to_string(),
    }
}

fn tracepoint_details(binary: &Binary, point: &Tracepoint) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for field in &point.fields {
        let remark = match field.described {
            true => "",
            false => " (not captured by USDT)",
        };
        lines.push((
            "field",
            format!("{}: {}{remark}", field.name, field.type_name()),
        ));
    }
    if !point.print.is_empty() {
        lines.push(("print", point.print.clone()));
    }
    for site in &point.sites {
        lines.push((
            "site",
            format!("{}:{} at {:#x}", site.file, site.line, site.address),
        ));
    }
    for location in &point.locations {
        lines.push(("probe", at(location.address, location.place)));
        lines.extend(semaphore(location.semaphore));
    }
    lines.push(("binary", shown_path(binary)));
    lines
}

fn probe_details(binary: &Binary, probe: &UsdtProbe) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for (index, kind) in probe.argument_types().into_iter().enumerate() {
        lines.push(("field", format!("arg{index}: {}", kind.name())));
    }
    for location in &probe.locations {
        lines.push(("probe", location_text(location)));
        lines.extend(semaphore(location.semaphore));
    }
    lines.push(("binary", shown_path(binary)));
    lines
}

fn location_text(location: &UsdtLocation) -> String {
    let mut text = at(location.address, location.place);
    for Argument {
        text: argument,
        place,
        ..
    } in &location.arguments
    {
        text.push(' ');
        text.push_str(argument);
        if let spec::Place::Unsupported(why) = place {
            text.push_str(&format!(" (unreadable: {why})"));
        }
    }
    text
}

fn at(address: u64, place: Place) -> String {
    match place {
        Place::File { offset, .. } => format!("{address:#x} (offset {offset:#x})"),
        Place::Bss | Place::Nowhere => {
            format!("{address:#x} (not in the file)")
        }
    }
}

fn semaphore(semaphore: Semaphore) -> Option<(&'static str, String)> {
    let text = match semaphore {
        Semaphore::None => return None,
        Semaphore::InFile { address, offset } => format!("{address:#x} (offset {offset:#x})"),
        Semaphore::InBss { address } => format!("{address:#x} (in .bss, cannot be set)"),
        Semaphore::Unusable { address } => format!("{address:#x} (not writable, cannot be set)"),
    };
    Some(("semaphore", text))
}
