//! The suite's executables, as they are built here and packed for guests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::compiler;
use super::image::Image;
use super::suite::{DATA, Row, TOOLS, Target};
use crate::cargo::{self, cargo};
use crate::error::Error;
use crate::process;

/// The suite's executables, built.
pub(super) struct Executables<'a> {
    rows: Vec<(&'a Row, PathBuf)>,
    /// Optimised: an emulated CPU takes seconds else for what takes none here.
    bridge: PathBuf,
}

impl<'a> Executables<'a> {
    /// Builds them with all that `cargo xtask test` builds, or, for some of them, no more than is needed.
    pub(super) fn build(rows: &[&'a Row], with_all: bool) -> Result<Executables<'a>, Error> {
        let mut command = cargo(&["test", "--bins", "--no-run"]);
        if with_all {
            command.args(["--workspace", "--tests"]);
        } else {
            for directory in rows.iter().map(|row| row.directory).chain(["bridge-cli"]) {
                let manifest = format!("{directory}/Cargo.toml");
                let id = process::read(&mut cargo(&["pkgid", "--manifest-path", &manifest]))?;
                command.args(["--package", id.trim()]);
            }
            if rows.iter().any(|row| row.target == Target::Library) {
                command.arg("--lib");
            }
            for row in rows {
                if let Target::Test(name) = row.target {
                    command.args(["--test", name]);
                }
            }
        }
        let mut bridges = cargo(&["build", "--package", "bridge-cli", "--bins"]);
        bridges.args(["--profile", "guest"]);
        let mut text = String::new();
        for command in [&mut command, &mut bridges] {
            command.args(["--quiet", "--message-format=json-render-diagnostics"]);
            text += &process::read(command)?;
        }
        let mut paths = HashMap::new();
        let mut bridge = None;
        for line in text.lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let Some(path) = message["executable"].as_str() else {
                continue;
            };
            let target = &message["target"];
            let manifest = message["manifest_path"].as_str().unwrap_or_default();
            let directory = Path::new(manifest).parent().unwrap_or(Path::new(""));
            let directory = directory.strip_prefix(cargo::root()).unwrap_or(directory);
            let words = (
                directory.to_string_lossy().into_owned(),
                target["kind"][0].as_str().unwrap_or_default().to_owned(),
                target["name"].as_str().unwrap_or_default().to_owned(),
            );
            if message["profile"]["test"].as_bool() == Some(true) {
                paths.insert(words, PathBuf::from(path));
            } else if words.1 == "bin" && words.2 == "bridge-cli" {
                // The last one is that of the build for guests.
                bridge = Some(path.into());
            }
        }
        let find = |row: &&'a Row| {
            let found = paths.iter().find(|((directory, kind, name), _)| {
                directory == row.directory
                    && match row.target {
                        Target::Library => kind == "lib" || kind == "rlib",
                        Target::Test(wanted) => kind == "test" && name == wanted,
                    }
            });
            let path = found.map(|(_, path)| (*row, path.clone()));
            path.ok_or_else(|| Error::failed(format!("cargo has built no {}", row.name())))
        };
        Ok(Executables {
            rows: rows.iter().map(find).collect::<Result<_, _>>()?,
            bridge: bridge.ok_or_else(|| Error::failed("cargo has built no bridge-cli"))?,
        })
    }

    /// Runs those tests that build programs, here.
    pub(super) fn run_builders(&self) -> Result<(), Error> {
        for (row, path) in &self.rows {
            if let Some(test) = row.built_by {
                // Cargo runs tests in their package's directory. What they build counts, not how they count.
                process::run(
                    Command::new(path)
                        .arg(test)
                        .args(row.arguments)
                        .env("TRACEBRAID_SHORT", "1")
                        .current_dir(row.directory),
                )?;
            }
        }
        Ok(())
    }

    /// These rows, as `tests/vm/init` reads them.
    pub(super) fn suite(&self, rows: &[&Row]) -> String {
        let is_wanted = |row: &Row| rows.iter().any(|wanted| wanted.name() == row.name());
        let mut suite = String::new();
        for (row, path) in self.rows.iter().filter(|(row, _)| is_wanted(row)) {
            // The guest's serial line is a terminal.
            let arguments = [&["--color=never"], row.arguments].concat().join(" ");
            let (name, limit) = (row.name(), row.limit);
            // Cargo runs tests in their package's directory.
            let directory = cargo::root().join(row.directory);
            let place = format!("{}\t{}", directory.display(), path.display());
            suite.push_str(&format!("{name}\t{limit}\t{place}\t{arguments}\n"));
        }
        suite
    }

    /// Packs them with all that they need.
    pub(super) fn pack(
        &self,
        target: &Path,
        stage: &Path,
        archive: &Path,
        environment: &str,
    ) -> Result<(), Error> {
        let mut image = Image::new(stage.to_owned())?;
        let root = cargo::root();
        for name in TOOLS {
            if let Some(path) = process::find_program(name) {
                image.add_program(&path);
            }
        }
        for directory in DATA {
            image.add_tree(&root.join(directory));
        }
        compiler::add(&mut image, &c_sources(root));
        for file in ["/etc/passwd", "/etc/group", "/etc/ld.so.cache"] {
            image.add(Path::new(file));
        }
        // Where tests look for it.
        image.add_stripped(&self.bridge, &target.join("debug/bridge-cli"))?;
        for name in self.rows.iter().flat_map(|(row, _)| row.peers) {
            if let Some(path) = process::find_program(name) {
                image.add_program(&path);
            }
        }
        for (row, path) in &self.rows {
            image.add_stripped(path, path)?;
            image.add(&root.join(row.directory));
            for built in row.built {
                let built = target.join("tmp").join(built);
                match built.is_dir() {
                    true => image.add_tree(&built),
                    false => image.add_program(&built),
                }
            }
        }
        image.add(&target.join("tmp"));
        let init = std::fs::read("tests/vm/init").map_err(Error::doing("tests/vm/init"))?;
        image.write(Path::new("/init"), &init, 0o755)?;
        image.write(Path::new("/vm/environment"), environment.as_bytes(), 0o644)?;
        let busybox = process::find_program("busybox")
            .ok_or_else(|| Error::failed("busybox is not installed"))?;
        let busybox = std::fs::read(&busybox).map_err(Error::doing("busybox"))?;
        image.write(Path::new("/vm/busybox"), &busybox, 0o755)?;
        image.pack(archive)?;
        let size = std::fs::metadata(archive).map_or(0, |meta| meta.len() >> 20);
        println!("{}: {size} MiB", archive.display());
        Ok(())
    }
}

fn c_sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = DATA.iter().map(|data| root.join(data)).collect();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "c") {
                found.push(path);
            }
        }
    }
    found
}
