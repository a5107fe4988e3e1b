//! Files that a target maps after it was attached: a library loaded by `dlopen`, a program after exec.
//!
//! The list of mappings is read every quarter of a second. Only where a file is executable in it that was
//! not there before are files opened and selectors resolved again. A file that is attached already needs
//! nothing: the kernel places its probes, and raises its semaphores, whenever it is mapped anew.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::resolve::{Resolved, Resolver};
use crate::source::sdk_ring::Listed;
use crate::target::Targets;

/// How often the mappings are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// A mapped file by device and inode.
type File = ((u32, u32), u64);

/// See the module's page.
#[derive(Debug)]
pub(super) struct Follow {
    targets: Targets,
    resolver: Resolver,
    mapped: HashSet<(u32, File)>,
    next: Instant,
}

impl Follow {
    /// Follows processes that are about to be resolved by `resolver`.
    ///
    /// # Errors
    /// Those of looking at them.
    pub(super) fn new(targets: Targets, resolver: Resolver) -> Result<Follow> {
        // Before files are resolved: what is mapped in between is looked at again, never overlooked.
        let mapped = mapped(&targets)?;
        Ok(Follow {
            targets,
            resolver,
            mapped,
            next: Instant::now() + EVERY,
        })
    }

    /// Resolves the selectors for the first time.
    ///
    /// # Errors
    /// Those of [`Resolver::resolve`].
    pub(super) fn first(&mut self, listed: &[Listed]) -> Result<Resolved> {
        self.resolver.resolve(&self.targets, listed)
    }

    /// What is wanted of tracepoints that the target makes later.
    pub(super) fn patterns(&self) -> Vec<String> {
        self.resolver.patterns()
    }

    /// What was to come through rings comes through USDT probes.
    ///
    /// # Errors
    /// Those of [`Resolver::resolve_later`].
    pub(super) fn fall_back(&mut self) -> Result<Resolved> {
        self.resolver.fall_back_to_probes();
        self.resolver.resolve_later(&self.targets, &[])
    }

    /// Resolves the selectors among what regions list.
    pub(super) fn listed(&mut self, listed: &[Listed]) -> Resolved {
        self.resolver.resolve_listed(listed)
    }

    /// The processes.
    pub(super) fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Whether one of them still runs.
    pub(super) fn is_alive(&self) -> bool {
        self.targets.living().next().is_some()
    }

    /// What is new, when it is time to look; `None` where there is nothing or it is too early.
    ///
    /// # Errors
    /// Those of looking at the processes. That one has ended is none.
    pub(super) fn look(
        &mut self,
        listed: impl FnOnce() -> Vec<Listed>,
    ) -> Result<Option<Resolved>> {
        if Instant::now() < self.next || !self.resolver.wants_files() {
            return Ok(None);
        }
        let result = self.changed(listed);
        // Counted from the end of the look: however long it takes, it takes a part of the time only.
        self.next = Instant::now() + EVERY;
        match result {
            Err(_) if !self.is_alive() => Ok(None),
            other => other,
        }
    }

    fn changed(&mut self, listed: impl FnOnce() -> Vec<Listed>) -> Result<Option<Resolved>> {
        let mapped = mapped(&self.targets)?;
        if mapped.is_subset(&self.mapped) {
            return Ok(None);
        }
        let resolved = self.resolver.resolve_later(&self.targets, &listed())?;
        self.mapped.extend(mapped);
        Ok(if resolved.is_empty() && resolved.warnings.is_empty() {
            None
        } else {
            Some(resolved)
        })
    }
}

/// What each of them maps. One that has ended while others live maps nothing.
fn mapped(targets: &Targets) -> Result<HashSet<(u32, File)>> {
    let mut all = HashSet::new();
    for process in targets.iter() {
        let mappings = match process.mappings() {
            Ok(mappings) => mappings,
            Err(_) if !process.is_alive() && targets.living().next().is_some() => continue,
            Err(error) => return Err(error),
        };
        let code = mappings.iter().filter(|mapping| mapping.executable);
        let pid = process.pid();
        all.extend(code.map(|mapping| (pid, (mapping.device, mapping.inode))));
    }
    Ok(all)
}
