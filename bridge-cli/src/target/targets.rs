//! The processes that are attached to: one, several, or none.

use super::{Binary, Process, Scan};
use crate::error::{Error, Result};

/// See the module's page. They stay where they are when they end: what is known of them is kept.
#[derive(Debug, Default)]
pub struct Targets(Vec<Process>);

impl Targets {
    /// Takes hold of processes, each once.
    ///
    /// # Errors
    /// Those of [`Process::open`], of all of them.
    pub fn open(pids: &[u32]) -> Result<Targets> {
        let mut targets = Targets::default();
        let mut errors = Vec::new();
        for &pid in pids {
            if targets.pids().contains(&pid) {
                continue;
            }
            match Process::open(pid) {
                Ok(process) => targets.0.push(process),
                Err(error) => errors.push(error),
            }
        }
        match Error::several(errors) {
            Some(error) => Err(error),
            None => Ok(targets),
        }
    }

    /// Whether nobody is attached to.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Process> {
        self.0.iter()
    }

    /// Their numbers, as this process's `/proc` has them.
    pub fn pids(&self) -> Vec<u32> {
        self.iter().map(Process::pid).collect()
    }

    /// Those that still run.
    pub fn living(&self) -> impl Iterator<Item = &Process> {
        self.iter().filter(|process| process.is_alive())
    }

    /// What they map executable, each file once.
    ///
    /// # Errors
    /// Those of [`Process::binaries`]; of one that has ended only where no other lives.
    pub fn binaries(&self) -> Result<Scan> {
        let mut all = Scan::default();
        for process in self.iter() {
            let scan = match process.binaries() {
                Ok(scan) => scan,
                Err(_) if !process.is_alive() && self.living().next().is_some() => continue,
                Err(error) => return Err(error),
            };
            let is_new = |binary: &Binary| all.binaries.iter().all(|it| it.id() != binary.id());
            let new: Vec<Binary> = scan.binaries.into_iter().filter(is_new).collect();
            all.binaries.extend(new);
            all.without.extend(scan.without);
            for (path, error) in scan.unreadable {
                if all.unreadable.iter().all(|(known, _)| *known != path) {
                    all.unreadable.push((path, error));
                }
            }
        }
        Ok(all)
    }
}

impl From<Process> for Targets {
    fn from(process: Process) -> Targets {
        Targets(vec![process])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_is_named_twice_is_one_and_all_that_are_not_there_are_named() {
        let own = std::process::id();
        let targets = Targets::open(&[own, own]).unwrap();
        assert_eq!(targets.pids(), [own]);
        assert_eq!(targets.living().count(), 1);
        // Above the largest number that a process can have.
        let error = Targets::open(&[own, 4_194_305, 4_194_306]).unwrap_err();
        assert!(error.to_string().contains("4194305"), "{error}");
        let others: Vec<String> = error.others().iter().map(Error::to_string).collect();
        assert!(others[0].contains("4194306"), "{others:?}");
    }

    #[test]
    fn files_that_several_map_are_there_once_and_one_that_has_ended_is_passed_over() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        let alone = Targets::open(&[own]).unwrap().binaries().unwrap();
        let both = Targets::open(&[child.id(), own]).unwrap();
        let scan = both.binaries().unwrap();
        let mut ids: Vec<_> = scan.binaries.iter().map(Binary::id).collect();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
        assert!(
            alone
                .binaries
                .iter()
                .all(|binary| ids.contains(&binary.id()))
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(both.living().count(), 1);
        assert_eq!(
            both.binaries().unwrap().binaries.len(),
            alone.binaries.len()
        );
    }
}
