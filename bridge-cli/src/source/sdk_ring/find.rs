//! Where regions are: in the descriptors of a process, and in its mappings.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::target::parse_maps;
pub(super) use crate::target::{descendants, is_alive, threads};

/// What the kernel calls the memfd.
const LINK: &str = "/memfd:tracebraid (deleted)";
/// A memfd, by device and inode.
pub(super) type FileId = (u64, u64);

/// The regions of a process: one for each copy of the SDK in it that was initialised, and in a child of
/// fork those of its parent as well.
pub(super) fn of_process(pid: u32) -> Vec<(PathBuf, FileId)> {
    let named = |folder: &str| -> Vec<(PathBuf, FileId)> {
        let entries = fs::read_dir(format!("/proc/{pid}/{folder}"))
            .into_iter()
            .flatten()
            .flatten();
        let is_ours =
            |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link.as_os_str() == LINK);
        entries
            .map(|entry| entry.path())
            .filter(is_ours)
            .filter_map(|path| Some((identity(&path)?, path)))
            .map(|(id, path)| (path, id))
            .collect()
    };
    // A daemon closes descriptors that it does not know; the mapping stays.
    let mut found = named("fd");
    if found.is_empty() {
        found = named("map_files");
    }
    let mut seen = Vec::new();
    found.retain(|(_, id)| {
        let new = !seen.contains(id);
        seen.push(*id);
        new
    });
    found
}

/// Which file a path leads to, if it leads anywhere.
pub(super) fn identity(path: &Path) -> Option<FileId> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// The inode of the file that a process has mapped at an address.
pub(super) fn inode_at(pid: u32, address: u64) -> Option<u64> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mappings = parse_maps(&maps);
    let mut mappings = mappings.iter();
    let mapping = mappings.find(|mapping| mapping.range.contains(&address))?;
    Some(mapping.inode)
}

/// A process's numbers from our pid namespace inwards: the last is what it calls itself.
pub(super) fn numbers(pid: u32) -> Vec<u32> {
    status_numbers(&format!("/proc/{pid}/status"), "NSpid:")
}

/// The numbers in a line of a status file.
pub(super) fn status_numbers(path: &str, line: &str) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let numbers = text
        .lines()
        .find_map(|candidate| candidate.strip_prefix(line));
    numbers
        .unwrap_or("")
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}
