//! Where regions are: in the descriptors of a process, in its mappings, and in what descends from it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the kernel calls the memfd.
const LINK: &str = "/memfd:tracebraid (deleted)";
/// The most processes that are looked at in one go: a table of them that grows faster than it is read
/// does not keep us.
const MAX_PROCESSES: usize = 4096;

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

/// Whether there is such a process, and it is more than a zombie.
pub(super) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, which may hold anything, parentheses included.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The threads of a process.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The living processes that descend from these, as the kernel knows it by now: one whose parent has ended
/// descends from somebody else.
pub(super) fn descendants(of: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut open = of.to_vec();
    while let Some(parent) = open.pop() {
        for thread in threads(parent) {
            let children = fs::read_to_string(format!("/proc/{parent}/task/{thread}/children"));
            for child in children.unwrap_or_default().split_whitespace() {
                let Ok(child) = child.parse() else { continue };
                if found.len() < MAX_PROCESSES && !found.contains(&child) && !of.contains(&child) {
                    found.push(child);
                    open.push(child);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_of_a_child_descends_from_us() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        let found = descendants(&[std::process::id()]);
        assert!(
            found.contains(&shell.id()) && found.contains(&sleeper),
            "{found:?}"
        );
        assert_eq!(descendants(&[shell.id()]), [sleeper]);
        assert!(is_alive(sleeper) && numbers(sleeper).contains(&sleeper));
        let pid = nix::unistd::Pid::from_raw(sleeper as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
        assert!(!is_alive(shell.id()));
    }
}
