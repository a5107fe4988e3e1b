//! Files that the target maps after it was attached: a library loaded by `dlopen`, a program after exec.
//!
//! The list of mappings is read every quarter of a second. Only where a file is executable in it that was
//! not there before are files opened and selectors resolved again. A file that is attached already needs
//! nothing: the kernel places its probes, and raises its semaphores, whenever it is mapped anew.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::resolve::{Resolved, Resolver};
use crate::source::sdk_ring::Listed;
use crate::target::Process;

/// How often the mappings are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// A mapped file by device and inode.
type File = ((u32, u32), u64);

/// See the module's page.
#[derive(Debug)]
pub(super) struct Follow {
    process: Process,
    /// Further processes that are followed likewise.
    others: Arc<[Process]>,
    resolver: Resolver,
    mapped: HashSet<File>,
    next: Instant,
}

impl Follow {
    /// Follows a process, and others, that are about to be resolved by `resolver`.
    ///
    /// # Errors
    /// Those of looking at the process.
    pub(super) fn new(
        process: Process,
        others: Arc<[Process]>,
        resolver: Resolver,
    ) -> Result<Follow> {
        // Before files are resolved: what is mapped in between is looked at again, never overlooked.
        let mapped = mapped(&process, &others)?;
        Ok(Follow {
            process,
            others,
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
        self.resolver.resolve(Some(&self.process), listed)
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
        self.resolver.resolve_later(&self.process, &[])
    }

    /// Resolves the selectors among what regions list.
    pub(super) fn listed(&mut self, listed: &[Listed]) -> Resolved {
        self.resolver.resolve_listed(listed)
    }

    /// The process.
    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// Whether the process still runs, or one of the others.
    pub(super) fn is_alive(&self) -> bool {
        self.process.is_alive() || self.others.iter().any(Process::is_alive)
    }

    /// The others that still run.
    pub(super) fn living_others(&self) -> impl Iterator<Item = u32> {
        let living = self.others.iter().filter(|process| process.is_alive());
        living.map(Process::pid)
    }

    /// What is new, when it is time to look; `None` where there is nothing or it is too early.
    ///
    /// # Errors
    /// Those of looking at the process. That it has ended is none.
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
        let mapped = mapped(&self.process, &self.others)?;
        if mapped.is_subset(&self.mapped) {
            return Ok(None);
        }
        let resolved = self.resolver.resolve_later(&self.process, &listed())?;
        self.mapped.extend(mapped);
        Ok(if resolved.is_empty() && resolved.warnings.is_empty() {
            None
        } else {
            Some(resolved)
        })
    }
}

fn mapped(process: &Process, others: &[Process]) -> Result<HashSet<File>> {
    let mut mappings = match process.mappings() {
        Err(_) if !process.is_alive() && !others.is_empty() => Vec::new(),
        mappings => mappings?,
    };
    for other in others {
        // One that has ended has nothing any more.
        mappings.extend(other.mappings().unwrap_or_default());
    }
    Ok(mappings
        .into_iter()
        .filter(|mapping| mapping.executable)
        .map(|mapping| (mapping.device, mapping.inode))
        .collect())
}
