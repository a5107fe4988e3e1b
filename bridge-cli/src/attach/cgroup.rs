//! A cgroup by its path or its number: what `-G` names.
//!
//! The kernel side knows a cgroup by its number, the inode of its directory, and by how deep it lies, which
//! is where a task's own list of cgroups has it. Both come from the mounted hierarchy of version 2; the root
//! of all has the number 1, so that one whose mount begins further down, as in a container, is found out.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracebraid_bpf::spec::Cgroup;

use crate::error::{Error, ErrorKind, Result};

/// The number of the root of all.
const ROOT: u64 = 1;

/// Finds the cgroup that is named.
///
/// # Errors
/// There is no hierarchy of version 2, or nothing in it of that name.
pub(super) fn find(named: &str) -> Result<Cgroup> {
    let root = mounted()?;
    let directory = match named.parse::<u64>() {
        Ok(number) => with_number(&root, number).ok_or_else(|| {
            let message = format!("there is no cgroup with the number {number}");
            missing(message, &root)
        })?,
        Err(_) => by_path(&root, named)?,
    };
    let of = |path: &Path| {
        fs::metadata(path).map_err(|error| {
            let message = format!("cannot look at the cgroup {}", path.display());
            Error::new(ErrorKind::Target, message).because(error)
        })
    };
    if of(&root)?.ino() != ROOT {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the hierarchy at {} does not begin at the root of all cgroups, so it is not known where in it a \
                 cgroup is",
                root.display()
            ),
        )
        .hint("run the bridge outside of the container"));
    }
    let below = directory.strip_prefix(&root).unwrap_or(Path::new(""));
    Ok(Cgroup {
        number: of(&directory)?.ino(),
        level: below.components().count() as u32,
    })
}

/// Where the hierarchy of version 2 is mounted.
fn mounted() -> Result<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(|error| {
        Error::new(ErrorKind::Unsupported, "cannot read /proc/self/mountinfo").because(error)
    })?;
    let found = table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let is_it = after.split(' ').next() == Some("cgroup2");
        let point = before.split(' ').nth(4)?;
        is_it.then(|| unescaped(point))
    });
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "no cgroups of version 2 are mounted",
        )
        .hint("mount -t cgroup2 none DIRECTORY")
    })
}

/// A path of mountinfo: blanks and the like are written as three octal digits.
fn unescaped(path: &str) -> PathBuf {
    let mut parts = path.split('\\');
    let mut whole = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let digits = part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match digits {
            Some(byte) => {
                whole.push(char::from(byte));
                whole.push_str(&part[3..]);
            }
            None => {
                whole.push('\\');
                whole.push_str(part);
            }
        }
    }
    whole.into()
}

/// A directory of the hierarchy, as it stands or below its mount.
fn by_path(root: &Path, named: &str) -> Result<PathBuf> {
    let inside = root.join(named.trim_start_matches('/'));
    let found = [Path::new(named), &inside].into_iter().find_map(|path| {
        let whole = fs::canonicalize(path).ok()?;
        (whole.starts_with(root) && whole.is_dir()).then_some(whole)
    });
    found.ok_or_else(|| missing(format!("there is no cgroup {named}"), root))
}

fn missing(message: String, root: &Path) -> Error {
    let hint = format!(
        "give a directory below {}, with or without it, or the number of one (ls -id)",
        root.display()
    );
    Error::new(ErrorKind::NoMatch, message).hint(hint)
}

/// Looks through the whole hierarchy.
fn with_number(root: &Path, number: u64) -> Option<PathBuf> {
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        if fs::metadata(&directory).is_ok_and(|found| found.ino() == number) {
            return Some(directory);
        }
        let inside = fs::read_dir(&directory).into_iter().flatten().flatten();
        let directories = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(directories.map(|entry| entry.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_digits_of_a_mount_point_are_characters() {
        assert_eq!(unescaped("/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescaped("/plain\\x"), Path::new("/plain\\x"));
    }
}
