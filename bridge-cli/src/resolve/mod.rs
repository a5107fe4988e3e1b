//! From what `-e` asks for to what is probed: a [`Spec`](tracebraid_bpf::spec::Spec), and the decoders of its probes.
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
pub mod definitions;
mod event_filter;
mod files;
mod kernel;
mod points;
mod recorded;
mod resolved;

use std::collections::HashSet;

use tracebraid_wire::kind::FieldKind;

use crate::error::{Error, ErrorKind, Result};
use crate::selector::{Scope, Selector};
use crate::source::sdk_ring::Listed;
use crate::target::{Binary, FileId, Targets, Tracepoint};

pub use resolved::Resolved;

use asking::Asking;
use choose::{Candidate, FileOf, Target, choose};
use definitions::Written;
use files::{candidates, file_of, made};
use kernel::Kernel;
use recorded::Recorded;

/// See the module's page.
#[derive(Debug)]
pub struct Resolver {
    selectors: Vec<Selector>,
    written: Vec<Written>,
    /// By selector: the file that it names.
    files: Vec<Option<FileId>>,
    /// By selector: it means the kernel's tracepoints and nothing in files that come later.
    of_kernel: Vec<bool>,
    has_target: bool,
    /// The target's own tracepoints come through its rings or not at all.
    rings_only: bool,
    /// Tracepoints that the target makes at run time can be had.
    may_make: bool,
    /// The target makes some, and they can be had.
    target_makes: bool,
    /// Each system call has a probe of its own, however many are asked for.
    separates_calls: bool,
    given_out: HashSet<Point>,
    /// What comes through rings.
    recorded: HashSet<Shape>,
    /// What comes through USDT probes.
    probed: HashSet<Point>,
    next: u32,
    /// The bridge evaluates the filters of what BPF attaches.
    filters_here: bool,
}

/// A tracepoint of a file, whatever the selectors call it.
type Point = (FileId, String, String);

/// A tracepoint of the SDK by what it is called and what its fields are.
type Shape = (String, String, Vec<(String, FieldKind)>);

impl Resolver {
    /// For these selectors and definitions; none at all means every tracepoint of the target, and scheduling and system
    /// calls.
    pub fn new(selectors: &[Selector], written: &[Written], has_target: bool) -> Result<Resolver> {
        let selectors = match selectors {
            [] if written.is_empty() => default_selectors(has_target)?,
            given => given.to_vec(),
        };
        Ok(Resolver {
            files: vec![None; selectors.len()],
            of_kernel: vec![false; selectors.len()],
            selectors,
            written: written.to_vec(),
            has_target,
            rings_only: false,
            may_make: false,
            target_makes: false,
            separates_calls: false,
            given_out: HashSet::new(),
            recorded: HashSet::new(),
            probed: HashSet::new(),
            filters_here: false,
            next: 0,
        })
    }

    /// Whether the target's own tracepoints are to come through its rings, whether it has any yet or not.
    pub fn use_rings_only(&mut self, only: bool) {
        self.rings_only = only;
    }

    /// Whether each system call is to have a probe of its own, however many are asked for.
    pub fn separate_calls(&mut self, separate: bool) {
        self.separates_calls = separate;
    }

    /// Whether the bridge is to evaluate the filters of what BPF attaches, and not the kernel.
    pub fn filter_here(&mut self, here: bool) {
        self.filters_here = here;
    }

    /// Whether tracepoints that the target makes at run time can be had, since its rings are used. Where it
    /// makes some, what names nothing yet may name one of them later.
    pub fn await_made(&mut self, may_make: bool) {
        self.may_make = may_make;
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

    fn nothing_yet(&self) -> Resolved {
        Resolved {
            filters_here: self.filters_here,
            ..Resolved::default()
        }
    }

    /// Resolves every selector.
    ///
    /// # Errors
    /// All that is wrong, in one [`Error::several`]: names that match nothing, files that are not usable,
    /// kernel tracepoints that cannot be looked up, filters that cannot be read.
    ///
    /// `listed` is what the directories of the targets' regions list: these tracepoints come through the
    /// rings, all others through their USDT probes.
    pub fn resolve(&mut self, targets: &Targets, listed: &[Listed]) -> Result<Resolved> {
        let mut resolved = self.nothing_yet();
        let mut errors = Vec::new();
        let mut binaries = self.binaries_of(targets, &mut resolved)?;
        let mut broken = Vec::new();
        for index in 0..self.selectors.len() {
            let Scope::File(path) = &self.selectors[index].scope else {
                continue;
            };
            match file_of(path, targets, &mut binaries) {
                Ok(file) => self.files[index] = Some(file),
                Err(error) => {
                    errors.push(error);
                    broken.push(index);
                }
            }
        }
        let mut candidates = candidates(&binaries);
        let in_files = candidates.len();
        let makes = |binary: &Binary| binary.tracepoints().iter().any(Tracepoint::tells_of_others);
        self.target_makes = self.may_make && binaries.iter().any(makes);
        candidates.extend(made(listed, binaries.len()));
        let files = self.files_of(&binaries);
        let mut kernel = None;
        let choice = choose(
            &self.selectors,
            &candidates,
            &files,
            &broken,
            Target {
                is_there: self.has_target,
                makes: self.target_makes,
            },
            || Ok(kernel.insert(Kernel::open(&self.selectors)?).names()),
        );
        errors.extend(choice.errors);
        let (definitions, wrong) = self.read_definitions(targets);
        errors.extend(wrong);
        for index in choice.of_kernel {
            self.of_kernel[index] = true;
        }
        for index in choice.waiting {
            if self.is_default() {
                continue;
            }
            let selector = &self.selectors[index];
            let what = match self.target_makes {
                true => {
                    "the target has it neither in a file nor has it come across it so far; waiting until it does"
                }
                false => {
                    "nothing the target has loaded so far has it; waiting for a library that does"
                }
            };
            resolved.warnings.push(format!("-e {selector}: {what}"));
        }
        let (chosen, chosen_made): (Vec<usize>, Vec<usize>) =
            choice.points.iter().partition(|&&index| index < in_files);
        let chosen: Vec<&Candidate> = chosen
            .into_iter()
            .map(|index| &candidates[index])
            .filter(|it| !self.leaves_out(&it.group, &it.name))
            .collect();
        let recorded = Recorded::of(targets, listed)?;
        self.add_points(&chosen, &binaries, &files, &recorded, &mut resolved);
        for one in listed.iter().filter(|one| one.is_made) {
            let is_it = |it: &Candidate| it.group == one.provider && it.name == one.name;
            if chosen_made.iter().any(|&index| is_it(&candidates[index])) {
                let by = self.asking().for_listed(one);
                self.add_listed(one, by, Vec::new(), &mut resolved);
            }
        }
        let asking = Asking {
            selectors: &self.selectors,
            of_kernel: &self.of_kernel,
        };
        if let Some(kernel) = &kernel {
            let separate = self.separates_calls;
            kernel.add(
                &choice.kernel,
                separate,
                asking,
                &mut self.next,
                &mut resolved,
            );
        }
        errors.extend(resolved.read_filters(asking));
        if let Some(error) = Error::several(errors) {
            return Err(error);
        }
        resolved.binaries = binaries;
        self.add_definitions(definitions, targets, &mut resolved)?;
        self.check(&resolved)?;
        Ok(resolved)
    }

    /// Resolves the selectors among what the targets map by now; gives out what is new.
    ///
    /// # Errors
    /// Those of looking at the targets.
    pub fn resolve_later(&mut self, targets: &Targets, listed: &[Listed]) -> Result<Resolved> {
        let mut resolved = self.nothing_yet();
        let binaries = self.binaries_of(targets, &mut resolved)?;
        // What was said of a file at the beginning is not said again.
        resolved.warnings.clear();
        let candidates = candidates(&binaries);
        let files = self.files_of(&binaries);
        let wanted =
            |candidate: &&Candidate| !self.asking().for_point(candidate, &files).is_empty();
        let chosen: Vec<&Candidate> = candidates.iter().filter(wanted).collect();
        let recorded = Recorded::of(targets, listed)?;
        self.add_points(&chosen, &binaries, &files, &recorded, &mut resolved);
        resolved.read_filters_later(self.asking());
        resolved.binaries = binaries;
        Ok(resolved)
    }

    /// Resolves the selectors among tracepoints that regions list: of the target's children, or of a program
    /// that it has started meanwhile. Gives out what is new. What USDT probes give already is not wanted of
    /// rings.
    pub fn resolve_listed(&mut self, listed: &[Listed]) -> Resolved {
        let mut resolved = self.nothing_yet();
        for one in listed {
            let by = self.asking().for_listed(one);
            if by.is_empty() || self.leaves_out(&one.provider, &one.name) {
                continue;
            }
            let probed = self.probed.iter();
            let probed_in = probed
                .filter(|(_, group, name)| *group == one.provider && *name == one.name)
                .map(|(file, ..)| file.inode)
                .collect();
            self.add_listed(one, by, probed_in, &mut resolved);
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

    /// What is wanted of tracepoints that the target makes later: patterns `PROVIDER:NAME`.
    pub fn patterns(&self) -> Vec<String> {
        let later = |(selector, kernel): &(&Selector, &bool)| {
            !**kernel && matches!(selector.scope, Scope::Anywhere | Scope::Target)
        };
        self.selectors
            .iter()
            .zip(&self.of_kernel)
            .filter(later)
            .map(|(selector, _)| format!("{}:{}", selector.group.as_str(), selector.name.as_str()))
            .collect()
    }

    /// Whether a tracepoint is left out where nobody has named anything: those of `tracing` come one by one
    /// from a target that makes them, and not once more through those that stand for all.
    fn leaves_out(&self, group: &str, name: &str) -> bool {
        self.target_makes
            && self.is_default()
            && group == "tracing"
            && matches!(name, "event" | "span")
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

    fn binaries_of(&self, targets: &Targets, resolved: &mut Resolved) -> Result<Vec<Binary>> {
        let needed = self
            .selectors
            .iter()
            .any(|selector| selector.scope != Scope::Kernel);
        if !needed {
            return Ok(Vec::new());
        }
        let scan = targets.binaries()?;
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

    /// Refuses a request of which nothing is left to attach and nothing to wait for.
    fn check(&self, resolved: &Resolved) -> Result<()> {
        let waits = self.has_target
            && self
                .selectors
                .iter()
                .zip(&self.of_kernel)
                .any(|(selector, kernel)| !kernel && (selector.waits() || self.target_makes));
        if !resolved.names.is_empty() || waits {
            return Ok(());
        }
        if resolved.warnings.is_empty() {
            let message =
                "there is nothing to attach: no -e, and the files of --probes define nothing";
            return Err(Error::new(ErrorKind::NoMatch, message)
                .hint("a definition is one line, such as: p:NAME PATH:SYMBOL ARGUMENTS"));
        }
        let reasons = resolved.warnings.join("; ");
        Err(Error::new(
            ErrorKind::NoMatch,
            format!("nothing of what is asked for can be attached: {reasons}"),
        ))
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
