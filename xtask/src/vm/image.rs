//! The guest's files: an initial RAM disk in which everything has the path that it has here.
//!
//! ```text
//! files of this machine ──▶ archive of /      ┐
//! stripped executables  ─┐                    ├▶ one after the other: the kernel unpacks all
//! init                  ─┴▶ stage ─▶ archive  ┤
//! a machine's suite and module       archive  ┘
//! ```
//! A path is added with everything on the way to it, symbolic links included, so that it means there what it
//! means here. Executables of ours come without their debug information, which is most of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::process;

/// Files for a guest.
pub(crate) struct Image {
    /// Of this machine, as they are.
    taken: BTreeSet<PathBuf>,
    /// A directory with what exists for the guest only.
    stage: PathBuf,
}

impl Image {
    /// One without files; `stage` is emptied.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(crate) fn new(stage: PathBuf) -> Result<Image, Error> {
        if stage.exists() {
            fs::remove_dir_all(&stage).map_err(Error::doing(stage.display().to_string()))?;
        }
        fs::create_dir_all(&stage).map_err(Error::doing(stage.display().to_string()))?;
        Ok(Image {
            taken: BTreeSet::new(),
            stage,
        })
    }

    /// Adds a file or an empty directory, and what leads to it. A path that does not exist adds nothing.
    pub(crate) fn add(&mut self, path: &Path) {
        let mut walked = PathBuf::from("/");
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
                Component::ParentDir => {
                    walked.pop();
                    continue;
                }
                Component::Normal(name) => walked.push(name),
            }
            if !self.taken.insert(walked.clone()) && !walked.is_symlink() {
                continue;
            }
            if let Ok(link) = fs::read_link(&walked) {
                let directory = walked.parent().unwrap_or(Path::new("/"));
                let target = directory.join(link);
                self.add(&target);
                if let Ok(real) = walked.canonicalize() {
                    walked = real;
                }
            } else if !walked.exists() {
                self.taken.remove(&walked);
                return;
            }
        }
    }

    /// Adds all files below a directory.
    pub(crate) fn add_tree(&mut self, directory: &Path) {
        self.add(directory);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.add_tree(&entry.path()),
                _ => self.add(&entry.path()),
            }
        }
    }

    /// Adds a program and the libraries that it is linked with.
    pub(crate) fn add_program(&mut self, program: &Path) {
        self.add(program);
        // Of a script or a static program ldd says that it is none, and that is all.
        let Ok(output) = Command::new("ldd").arg(program).output() else {
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            self.add(Path::new(library));
        }
    }

    /// Adds a program of ours, without debug information, at another's path, or at its own.
    ///
    /// # Errors
    /// It cannot be stripped.
    pub(crate) fn add_stripped(&mut self, program: &Path, path: &Path) -> Result<(), Error> {
        self.add_program(program);
        self.taken.remove(program);
        let stripped = self.place(path)?;
        let mut strip = Command::new("strip");
        strip
            .args(["--strip-debug", "-o"])
            .arg(stripped)
            .arg(program);
        process::read(&mut strip).map(|_| ())
    }

    /// Writes a file that exists for the guest only.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&mut self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
        use std::os::unix::fs::PermissionsExt as _;

        let place = self.place(path)?;
        fs::write(&place, bytes)
            .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(mode)))
            .map_err(Error::doing(place.display().to_string()))
    }

    /// Writes the archive that the kernel unpacks.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn pack(&self, archive: &Path) -> Result<(), Error> {
        let doing = || archive.display().to_string();
        let mut file = File::create(archive).map_err(Error::doing(doing()))?;
        let taken: Vec<PathBuf> = self.taken.iter().cloned().collect();
        append(&mut file, Path::new("/"), &taken)?;
        let mut staged = Vec::new();
        walk(&self.stage, &mut staged).map_err(Error::doing(self.stage.display().to_string()))?;
        append(&mut file, &self.stage, &staged)
    }

    /// Where a path of the guest is in the stage, its directory made.
    fn place(&self, path: &Path) -> Result<PathBuf, Error> {
        let place = self.stage.join(path.strip_prefix("/").unwrap_or(path));
        let directory = place.parent().unwrap_or(&self.stage);
        fs::create_dir_all(directory).map_err(Error::doing(directory.display().to_string()))?;
        Ok(place)
    }
}

/// An archive with some more files, which the kernel unpacks after the others.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn with_files(
    archive: &Path,
    files: &[(&str, Vec<u8>)],
    stage: PathBuf,
    to: &Path,
) -> Result<(), Error> {
    let mut image = Image::new(stage)?;
    for (path, bytes) in files {
        image.write(Path::new(path), bytes, 0o644)?;
    }
    let doing = || to.display().to_string();
    fs::copy(archive, to).map_err(Error::doing(doing()))?;
    let longer = File::options().append(true).open(to);
    let mut longer = longer.map_err(Error::doing(doing()))?;
    let mut staged = Vec::new();
    walk(&image.stage, &mut staged).map_err(Error::doing(image.stage.display().to_string()))?;
    append(&mut longer, &image.stage, &staged)
}

/// All paths below a directory, each after the one that it is in.
fn walk(directory: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        into.push(entry.path());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), into)?;
        }
    }
    Ok(())
}

/// Appends an archive of the paths, named from `root` on.
fn append(file: &mut File, root: &Path, paths: &[PathBuf]) -> Result<(), Error> {
    let output = file.try_clone().map_err(Error::doing("the archive"))?;
    let mut child = Command::new("cpio")
        .args([
            "--create",
            "--format=newc",
            "--null",
            "--quiet",
            "--directory",
        ])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(output)
        .spawn()
        .map_err(Error::doing("cpio"))?;
    let mut names = Vec::new();
    for path in paths {
        names.extend_from_slice(
            path.strip_prefix(root)
                .unwrap_or(path)
                .as_os_str()
                .as_bytes(),
        );
        names.push(0);
    }
    let written = match child.stdin.take() {
        Some(mut pipe) => pipe.write_all(&names),
        None => Ok(()),
    };
    let status = child.wait().map_err(Error::doing("cpio"))?;
    written.map_err(Error::doing("cpio"))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::failed(format!("cpio failed ({status})"))),
    }
}
