//! Who descends from whom, and who lives, as `/proc` tells it by numbers.

use std::fs;

/// The most processes that are looked at in one go: a table of them that grows faster than it is read
/// does not keep us.
const MAX_PROCESSES: usize = 4096;

/// Whether there is such a process, and it is more than a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, which may hold anything, parentheses included.
    let runs = |rest: &str| !rest.starts_with(['Z', 'X']);
    // The first thread may end before the others.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| runs(rest) || threads(pid).len() > 1)
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
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
pub(crate) fn descendants(of: &[u32]) -> Vec<u32> {
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
        assert!(is_alive(sleeper));
        let pid = nix::unistd::Pid::from_raw(sleeper as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
        assert!(!is_alive(shell.id()));
    }
}
