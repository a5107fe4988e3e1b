//! Which `-e` ask for a probe, and what the filters behind them say of it.

use std::sync::Arc;

use tracebraid_bpf::spec::ProbeId;

use super::Resolved;
use super::choose::{Candidate, FileOf, means};
use crate::error::{Error, ErrorKind};
use crate::event::Probe;
use crate::filter::{self, Hits, Machine, ProbeFilter, Refusal, Refusals};
use crate::selector::{Scope, Selector};
use crate::source::sdk_ring::Listed;

/// A probe, and the numbers of the `-e` that ask for it.
#[derive(Debug)]
pub(super) struct Asked {
    id: ProbeId,
    what: Arc<Probe>,
    by: Vec<usize>,
}

impl Asked {
    pub(super) fn new(id: ProbeId, what: &Arc<Probe>, by: Vec<usize>) -> Asked {
        let what = Arc::clone(what);
        Asked { id, what, by }
    }
}

/// All `-e`, and which of them mean the kernel's tracepoints.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) selectors: &'a [Selector],
    pub(super) of_kernel: &'a [bool],
}

impl Asking<'_> {
    /// Who asks for a kernel tracepoint.
    pub(super) fn for_kernel(self, group: &str, name: &str) -> Vec<usize> {
        self.those(|index, selector| self.of_kernel[index] && selector.matches(group, name))
    }

    /// Who asks for a tracepoint of a file.
    pub(super) fn for_point(self, candidate: &Candidate, files: &[FileOf]) -> Vec<usize> {
        self.those(|index, selector| {
            !self.of_kernel[index] && means(index, selector, candidate, files)
        })
    }

    /// Who asks for a tracepoint of a region.
    pub(super) fn for_listed(self, listed: &Listed) -> Vec<usize> {
        self.those(|index, selector| {
            let anywhere = matches!(selector.scope, Scope::Anywhere | Scope::Target);
            let matches = || selector.matches(&listed.provider, &listed.name);
            !self.of_kernel[index] && anywhere && matches()
        })
    }

    /// Whether any of them filters the kernel's tracepoints.
    pub(super) fn filters_kernel(self) -> bool {
        let filters = |(selector, kernel): (&Selector, &bool)| *kernel && selector.is_filtered();
        self.selectors.iter().zip(self.of_kernel).any(filters)
    }

    fn those(self, means: impl Fn(usize, &Selector) -> bool) -> Vec<usize> {
        let all = self.selectors.iter().enumerate();
        all.filter(|(index, selector)| means(*index, selector))
            .map(|(index, _)| index)
            .collect()
    }

    fn errors(self, refusals: Refusals) -> Vec<Error> {
        refusals.into_errors(|refusal| self.subject(refusal))
    }

    fn subject(self, refusal: &Refusal) -> String {
        match self.selectors.get(refusal.of) {
            Some(selector) => format!("-e {selector}"),
            None => "--filter".to_owned(),
        }
    }
}

impl Resolved {
    /// Reads the filters of everything that was resolved. All that is wrong with them; what no filter can be
    /// used for is left out.
    pub(super) fn read_filters(&mut self, asking: Asking<'_>) -> Vec<Error> {
        let mut refusals = Refusals::default();
        let (nothing, undecided) = self.read_for_each(asking, &mut refusals);
        for id in nothing {
            self.leave_out(id);
        }
        for (index, selector) in asking.selectors.iter().enumerate() {
            // Those that mean nothing, or nothing yet.
            if refusals.have_seen(index) {
                continue;
            }
            for text in &selector.filters {
                filter::check(index, text, &mut refusals);
            }
        }
        let awaited = refusals.take_awaited(|refusal| asking.subject(refusal));
        self.warnings.extend(awaited);
        let mut errors = asking.errors(refusals);
        errors.extend(undecided);
        errors
    }

    /// The same for what came later: a tracepoint whose filters cannot be read is left out, and that said.
    pub(super) fn read_filters_later(&mut self, asking: Asking<'_>) {
        let mut refusals = Refusals::default();
        let (nothing, undecided) = self.read_for_each(asking, &mut refusals);
        for id in nothing {
            self.leave_out(id);
        }
        for error in asking.errors(refusals).into_iter().chain(undecided) {
            let there = error.hint_text().and_then(|hint| hint.lines().last());
            let why = there.map_or(String::new(), |there| format!(" ({there})"));
            self.warnings
                .push(format!("{}; it is left out{why}", error.with_causes()));
        }
    }

    /// Sets the filter of each probe; those of which no hit is wanted, and filters that the kernel cannot
    /// decide.
    fn read_for_each(
        &mut self,
        asking: Asking<'_>,
        refusals: &mut Refusals,
    ) -> (Vec<ProbeId>, Vec<Error>) {
        let mut nothing = Vec::new();
        let mut undecided: Vec<Error> = Vec::new();
        if !asking.selectors.iter().any(Selector::is_filtered) {
            return (nothing, undecided);
        }
        let machine = Machine::this(self.symbols.clone());
        for asked in std::mem::take(&mut self.asked) {
            let filters = |index: &usize| (*index, asking.selectors[*index].filters.as_slice());
            let by = asked.by.iter().map(filters);
            match ProbeFilter::read(by, &asked.what, &machine, refusals) {
                Hits::All => {}
                Hits::None => nothing.push(asked.id),
                Hits::Some(filter) => {
                    let is_it =
                        |wanted: &&mut crate::source::sdk_ring::Wanted| wanted.probe == asked.id;
                    if let Some(wanted) = self.recorded.iter_mut().find(is_it) {
                        wanted.filter = Some(filter);
                    } else if let Err(why) = self.filter(asked.id, &asked.what, filter) {
                        let mut by = asked.by.iter().map(|&index| &asking.selectors[index]);
                        let whose = by.find(|selector| selector.is_filtered());
                        undecided.extend(whose.map(|it| not_in_kernel(it, &asked.what, &why)));
                        nothing.push(asked.id);
                    }
                }
            }
        }
        (nothing, undecided)
    }

    fn leave_out(&mut self, id: ProbeId) {
        self.names.retain(|(own, _)| *own != id);
        self.recorded.retain(|wanted| wanted.probe != id);
        self.spec.user.retain(|probe| probe.id != id);
    }
}

/// The kernel cannot decide the filter behind an `-e`.
pub(super) fn not_in_kernel(whose: &dyn std::fmt::Display, what: &Probe, why: &str) -> Error {
    let message = format!(
        "-e {whose}: the kernel cannot decide the filter for {}:{}: {why}",
        what.group, what.name
    );
    Error::new(ErrorKind::Usage, message)
        .hint("with --user-filter the bridge decides it, after each hit has been recorded")
}
