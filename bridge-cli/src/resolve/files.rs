//! Files and the tracepoints in them: what may be chosen, and which file a path means.

use std::path::{Path, PathBuf};

use super::Resolved;
use super::choose::Candidate;
use crate::error::{Error, ErrorKind, Result};
use crate::source::sdk_ring::Listed;
use crate::target::{Binary, FileId, Process, Targets};

/// Tracepoints of different names at one address are one place in code: hits come under each name.
pub(super) fn shared_addresses(
    chosen: &[&Candidate],
    binaries: &[Binary],
    resolved: &mut Resolved,
) {
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

/// Those that the target has made at run time: they are in no file, and have a number behind all files.
pub(super) fn made(listed: &[Listed], file: usize) -> impl Iterator<Item = Candidate> {
    let made = listed.iter().filter(|one| one.is_made);
    made.map(move |one| Candidate {
        group: one.provider.clone(),
        name: one.name.clone(),
        file,
    })
}

pub(super) fn candidates(binaries: &[Binary]) -> Vec<Candidate> {
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

/// Which file a path means: one that a target has mapped under that name, else the one it leads a target to, else
/// us.
pub(super) fn file_of(
    path: &Path,
    targets: &Targets,
    binaries: &mut Vec<Binary>,
) -> Result<FileId> {
    if let Some(mapped) = binaries
        .iter()
        .find(|binary| !targets.is_empty() && binary.path() == path)
    {
        return Ok(mapped.id());
    }
    let mut failed = None;
    let inside = targets.iter().filter_map(|it| in_root_of(it, path));
    for candidate in inside.chain(std::iter::once(path.to_owned())) {
        match Binary::open_as(&candidate, path) {
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

/// The path as a target would understand it.
pub(super) fn in_root_of(process: &Process, path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix("/").ok()?;
    Some(PathBuf::from(format!("/proc/{}/root", process.pid())).join(below))
}
