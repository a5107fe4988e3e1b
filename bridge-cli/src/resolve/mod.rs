//! From what `-e` asks for to what is probed: a [`Spec`], and the decoders of its probes.
//!
//! ```text
//! selectors ─┬─ binaries of the target, files named ─▶ user probes
//!            └─ tracefs, system calls, sched events ─▶ kernel probes
//! ```
//! A [`Resolver`] lives as long as the session: when the target maps further files it resolves the same
//! selectors among them, and gives out only what it has not given out before. What is named twice is
//! probed once.

mod asking;
mod choose;
mod kernel;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracebraid_bpf::spec::{Location, ProbeId, Spec, UserProbe};
use tracebraid_wire::kind::FieldKind;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filters;
use crate::selector::{Scope, Selector};
use crate::source::decode::{Decoder, Decoders};
use crate::source::sdk_ring::{Listed, Wanted};
use crate::target::{Binary, FileId, Mapping, Process, Tracepoint};
use crate::tracefs::symbols::Symbols;

use asking::{Asked, Asking};
use choose::{Candidate, FileOf, choose};
use kernel::Kernel;

/// See the module's page.
#[derive(Debug)]
pub struct Resolver {
    selectors: Vec<Selector>,
    /// By selector: the file that it names.
    files: Vec<Option<FileId>>,
    /// By selector: it means the kernel's tracepoints and nothing in files that come later.
    of_kernel: Vec<bool>,
    has_target: bool,
    /// The target's own tracepoints come through its rings or not at all.
    rings_only: bool,
    given_out: HashSet<Point>,
    /// What comes through rings.
    recorded: HashSet<Shape>,
    /// What comes through USDT probes.
    probed: HashSet<Point>,
    next: u32,
}

/// A tracepoint of a file, whatever the selectors call it.
type Point = (FileId, String, String);

/// A tracepoint of the SDK by what it is called and what its fields are.
type Shape = (String, String, Vec<(String, FieldKind)>);

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
    asked: Vec<Asked>,
    /// The kernel's functions, where they are known.
    symbols: Option<Arc<Symbols>>,
    /// The files that the probes name; they must stay open until the probes are attached.
    pub binaries: Vec<Binary>,
}

impl Resolver {
    /// For these selectors; none at all means every tracepoint of the target, and scheduling and system
    /// calls.
    pub fn new(selectors: &[Selector], has_target: bool) -> Result<Resolver> {
        let selectors = match selectors {
            [] => default_selectors(has_target)?,
            given => given.to_vec(),
        };
        Ok(Resolver {
            files: vec![None; selectors.len()],
            of_kernel: vec![false; selectors.len()],
            selectors,
            has_target,
            rings_only: false,
            given_out: HashSet::new(),
            recorded: HashSet::new(),
            probed: HashSet::new(),
            next: 0,
        })
    }

    /// Whether the target's own tracepoints are to come through its rings, whether it has any yet or not.
    pub fn use_rings_only(&mut self, only: bool) {
        self.rings_only = only;
    }

    /// The target makes no rings that are of any use: what was to come through them is given out anew.
    pub fn fall_back_to_probes(&mut self) {
        self.rings_only = false;
        let recorded = std::mem::take(&mut self.recorded);
        self.given_out.retain(|(_, group, name)| {
            !recorded
                .iter()
                .any(|(other, same, _)| other == group && same == name)
        });
    }

    /// Resolves every selector.
    ///
    /// # Errors
    /// All that is wrong, in one [`Error::several`]: names that match nothing, files that are not usable,
    /// kernel tracepoints that cannot be looked up, filters that cannot be read.
    ///
    /// `listed` is what the directories of the target's regions list: these tracepoints come through the
    /// rings, all others through their USDT probes.
    pub fn resolve(&mut self, target: Option<&Process>, listed: &[Listed]) -> Result<Resolved> {
        let mut resolved = Resolved::default();
        let mut errors = Vec::new();
        let mut binaries = match target {
            Some(process) => self.binaries_of(process, &mut resolved)?,
            None => Vec::new(),
        };
        let mut broken = Vec::new();
        for index in 0..self.selectors.len() {
            let Scope::File(path) = &self.selectors[index].scope else {
                continue;
            };
            match file_of(path, target, &mut binaries) {
                Ok(file) => self.files[index] = Some(file),
                Err(error) => {
                    errors.push(error);
                    broken.push(index);
                }
            }
        }
        let candidates = candidates(&binaries);
        let files = self.files_of(&binaries);
        let mut kernel = None;
        let choice = choose(
            &self.selectors,
            &candidates,
            &files,
            &broken,
            self.has_target,
            || Ok(kernel.insert(Kernel::open(&self.selectors)?).names()),
        );
        errors.extend(choice.errors);
        for index in choice.of_kernel {
            self.of_kernel[index] = true;
        }
        for index in choice.waiting {
            if self.is_default() {
                continue;
            }
            let selector = &self.selectors[index];
            resolved.warnings.push(format!(
                "-e {selector}: nothing the target has loaded so far has it; waiting for a library that does"
            ));
        }
        let chosen: Vec<&Candidate> = choice
            .points
            .iter()
            .map(|&index| &candidates[index])
            .collect();
        let recorded = Recorded::of(target, listed)?;
        self.add_points(&chosen, &binaries, &files, &recorded, &mut resolved);
        let asking = Asking {
            selectors: &self.selectors,
            of_kernel: &self.of_kernel,
        };
        if let Some(kernel) = &kernel {
            kernel.add(&choice.kernel, asking, &mut self.next, &mut resolved);
        }
        errors.extend(resolved.read_filters(asking));
        if let Some(error) = Error::several(errors) {
            return Err(error);
        }
        resolved.binaries = binaries;
        self.check(&resolved)?;
        Ok(resolved)
    }

    /// Resolves the selectors among what the target maps by now; gives out what is new.
    ///
    /// # Errors
    /// Those of looking at the target.
    pub fn resolve_later(&mut self, process: &Process, listed: &[Listed]) -> Result<Resolved> {
        let mut resolved = Resolved::default();
        let binaries = self.binaries_of(process, &mut resolved)?;
        // What was said of a file at the beginning is not said again.
        resolved.warnings.clear();
        let candidates = candidates(&binaries);
        let files = self.files_of(&binaries);
        let wanted =
            |candidate: &&Candidate| !self.asking().for_point(candidate, &files).is_empty();
        let chosen: Vec<&Candidate> = candidates.iter().filter(wanted).collect();
        let recorded = Recorded::of(Some(process), listed)?;
        self.add_points(&chosen, &binaries, &files, &recorded, &mut resolved);
        resolved.read_filters_later(self.asking());
        resolved.binaries = binaries;
        Ok(resolved)
    }

    /// Resolves the selectors among tracepoints that regions list: of the target's children, or of a program
    /// that it has started meanwhile. Gives out what is new. What USDT probes give already is not wanted of
    /// rings.
    pub fn resolve_listed(&mut self, listed: &[Listed]) -> Resolved {
        let mut resolved = Resolved::default();
        for one in listed {
            let by = self.asking().for_listed(one);
            if by.is_empty() {
                continue;
            }
            let probed = self.probed.iter();
            let probed_in = probed
                .filter(|(_, group, name)| *group == one.provider && *name == one.name)
                .map(|(file, ..)| file.inode)
                .collect();
            let kinds = one.fields.iter().map(|(_, kind)| *kind).collect();
            self.add_recorded(
                one.fields.clone(),
                kinds,
                one.decoder(),
                by,
                probed_in,
                &mut resolved,
            );
        }
        resolved.read_filters_later(self.asking());
        resolved
    }

    fn asking(&self) -> Asking<'_> {
        Asking {
            selectors: &self.selectors,
            of_kernel: &self.of_kernel,
        }
    }

    /// Whether files that are mapped later can matter.
    pub fn wants_files(&self) -> bool {
        let of_files =
            |(selector, kernel): (&Selector, &bool)| !kernel && selector.scope != Scope::Kernel;
        self.selectors.iter().zip(&self.of_kernel).any(of_files)
    }

    fn is_default(&self) -> bool {
        self.selectors
            .iter()
            .any(|selector| selector.to_string() == EVERYTHING)
    }

    fn binaries_of(&self, process: &Process, resolved: &mut Resolved) -> Result<Vec<Binary>> {
        let needed = self
            .selectors
            .iter()
            .any(|selector| selector.scope != Scope::Kernel);
        if !needed {
            return Ok(Vec::new());
        }
        let scan = process.binaries()?;
        for (path, error) in &scan.unreadable {
            resolved
                .warnings
                .push(format!("{}: not looked at: {error}", path.display()));
        }
        for binary in &scan.binaries {
            let remarks = [
                binary.sdk().remark(),
                binary.unfit().map(|unfit| unfit.to_string()),
            ];
            for remark in remarks.into_iter().flatten() {
                resolved
                    .warnings
                    .push(format!("{}: {remark}", binary.path().display()));
            }
        }
        Ok(scan
            .binaries
            .into_iter()
            .filter(|binary| binary.unfit().is_none())
            .collect())
    }

    fn files_of(&self, binaries: &[Binary]) -> Vec<FileOf> {
        let mut files = Vec::new();
        for (selector, wanted) in self.files.iter().enumerate() {
            let Some(wanted) = wanted else { continue };
            let own = binaries
                .iter()
                .enumerate()
                .filter(|(_, binary)| binary.id() == *wanted);
            files.extend(own.map(|(file, _)| FileOf { selector, file }));
        }
        files
    }

    fn add_points(
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

    /// Refuses a request of which nothing is left to attach and nothing to wait for.
    fn check(&self, resolved: &Resolved) -> Result<()> {
        let waits = self.has_target
            && self
                .selectors
                .iter()
                .zip(&self.of_kernel)
                .any(|(selector, kernel)| !kernel && selector.waits());
        if !resolved.names.is_empty() || waits {
            return Ok(());
        }
        let reasons = resolved.warnings.join("; ");
        Err(Error::new(
            ErrorKind::NoMatch,
            format!("nothing of what is asked for can be attached: {reasons}"),
        ))
    }
}

impl Resolved {
    /// Takes in the decoder of a probe that these `-e` ask for, and gives the probe its number.
    fn add(&mut self, next: &mut u32, decoder: Decoder, by: Vec<usize>) -> ProbeId {
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

/// What is traced without `-e`, in the words of `-e`.
const EVERYTHING: &str = "usdt:*:*:*";

fn default_selectors(has_target: bool) -> Result<Vec<Selector>> {
    let kernel = kernel::default_names();
    let target = has_target.then(|| EVERYTHING.to_owned());
    target
        .into_iter()
        .chain(kernel)
        .map(|text| Selector::parse(&text))
        .collect()
}

/// What the rings of the target's SDK give.
struct Recorded<'a> {
    listed: &'a [Listed],
    /// Where the target has mapped files: a row's address leads to the object that it is in.
    mappings: Vec<Mapping>,
}

impl<'a> Recorded<'a> {
    fn of(target: Option<&Process>, listed: &'a [Listed]) -> Result<Recorded<'a>> {
        let mappings = match target {
            Some(process) if !listed.is_empty() => process.mappings()?,
            _ => Vec::new(),
        };
        Ok(Recorded { listed, mappings })
    }

    /// Whether they give the events of a binary's tracepoint.
    fn gives(&self, binary: &Binary, tracepoint: &Tracepoint) -> bool {
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

/// Tracepoints of different names at one address are one place in code: hits come under each name.
fn shared_addresses(chosen: &[&Candidate], binaries: &[Binary], resolved: &mut Resolved) {
    for (file, binary) in binaries.iter().enumerate() {
        for (offset, probes) in binary.usdt().shared_addresses() {
            let names: Vec<String> = probes
                .iter()
                .filter_map(|&index| binary.usdt_probes().get(index))
                .filter(|probe| {
                    chosen.iter().any(|it| {
                        it.file == file && it.group == probe.provider && it.name == probe.name
                    })
                })
                .map(|probe| probe.full_name())
                .collect();
            if names.len() > 1 {
                resolved.warnings.push(format!(
                    "{} share one address ({:#x} of {}); every hit comes under each name",
                    names.join(", "),
                    offset,
                    binary.path().display()
                ));
            }
        }
    }
}

fn candidates(binaries: &[Binary]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (file, binary) in binaries.iter().enumerate() {
        let own = binary
            .tracepoints()
            .iter()
            .map(|it| (&it.provider, &it.name));
        let foreign = binary
            .usdt_probes()
            .iter()
            .map(|it| (&it.provider, &it.name));
        for (group, name) in own.chain(foreign) {
            let candidate = Candidate {
                group: group.clone(),
                name: name.clone(),
                file,
            };
            if candidates.last() != Some(&candidate) {
                candidates.push(candidate);
            }
        }
    }
    candidates
}

/// Which file a path means: one that the target has mapped under that name, else the one it leads us to.
fn file_of(path: &Path, target: Option<&Process>, binaries: &mut Vec<Binary>) -> Result<FileId> {
    if let Some(mapped) = binaries
        .iter()
        .find(|binary| target.is_some() && binary.path() == path)
    {
        return Ok(mapped.id());
    }
    let mut failed = None;
    for candidate in [
        Some(path.to_owned()),
        target.and_then(|process| in_root_of(process, path)),
    ] {
        let Some(candidate) = candidate else { continue };
        match Binary::open(&candidate) {
            Ok(binary) => {
                if let Some(unfit) = binary.unfit() {
                    return Err(Error::new(
                        ErrorKind::Binary,
                        format!("{}: {unfit}", path.display()),
                    ));
                }
                let id = binary.id();
                if !binaries.iter().any(|own| own.id() == id) {
                    if !binary.has_probes() {
                        return Err(Error::new(
                            ErrorKind::NoMatch,
                            format!("{}: {}", path.display(), binary.usdt()),
                        ));
                    }
                    binaries.push(binary);
                }
                return Ok(id);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.unwrap_or_else(|| {
        Error::new(ErrorKind::Binary, format!("cannot open {}", path.display()))
    }))
}

/// The path as the target would understand it.
fn in_root_of(process: &Process, path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix("/").ok()?;
    Some(PathBuf::from(format!("/proc/{}/root", process.pid())).join(below))
}
