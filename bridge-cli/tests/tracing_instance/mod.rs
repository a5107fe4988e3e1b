//! Probes of the kernel's own beside the bridge's: definitions in `dynamic_events`, recorded by a tracefs instance
//! of the test. Both go when the test ends, however it ends.

#![allow(dead_code)] // Each test binary uses a part of it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

fn root() -> Option<PathBuf> {
    let roots = MOUNTS.iter().map(PathBuf::from);
    roots.into_iter().find(|root| root.join("events").is_dir())
}

/// Whether this kernel has probes of a definition's kind, and they may be set here.
pub(crate) fn takes(definition: &str) -> bool {
    let Some(root) = root() else {
        return false;
    };
    let name = format!("tb_tried_{}/tried", std::process::id());
    let events = root.join("dynamic_events");
    let definition = definition.replace(":tried", &format!(":{name}"));
    let is_taken = append(&events, &format!("{definition}\n")).is_ok();
    is_taken && append(&events, &format!("-:{name}\n")).is_ok()
}

fn append(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().append(true).open(file)?;
    file.write_all(text.as_bytes())
}

/// See the module's page.
pub(crate) struct Instance {
    root: PathBuf,
    path: PathBuf,
    /// `GROUP/NAME` of its probes.
    probes: Vec<String>,
}

impl Instance {
    /// Makes one with these probes, which are in a group of the test's own, whatever theirs is called.
    pub(crate) fn with_probes(name: &str, definitions: &[&str]) -> Instance {
        let root = root().expect("tracefs is mounted");
        let group = format!("tb_{name}_{}", std::process::id());
        let path = root.join(format!("instances/{group}"));
        fs::create_dir(&path).unwrap();
        let mut instance = Instance {
            root,
            path,
            probes: Vec::new(),
        };
        for definition in definitions {
            let (head, rest) = definition.split_once(' ').expect("a place");
            let (letter, event) = head.split_once(':').expect("a name");
            let line = format!("{letter}:{group}/{event} {rest}\n");
            append(&instance.root.join("dynamic_events"), &line)
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            instance.probes.push(format!("{group}/{event}"));
        }
        instance
    }

    /// `GROUP/NAME` of each.
    pub(crate) fn probes(&self) -> &[String] {
        &self.probes
    }

    /// Begins to record their hits.
    pub(crate) fn start(&self) {
        for probe in &self.probes {
            self.write(&format!("events/{probe}/enable"), "1");
        }
        self.write("tracing_on", "1");
    }

    pub(crate) fn stop(&self) {
        self.write("tracing_on", "0");
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path.join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }

    /// What was recorded of a probe and a thread, without what stands before the probe's name.
    pub(crate) fn bodies(&self, event: &str, pid: &str) -> Vec<String> {
        let text = fs::read(self.path.join("trace")).unwrap();
        let text = String::from_utf8_lossy(&text);
        let mark = format!(": {event}: ");
        let of_thread = format!("-{pid} ");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split_once(&mark))
            .filter(|(head, _)| head.contains(&of_thread))
            .map(|(_, body)| body.replace("(fault)", "<fault>"))
            .collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("tracing_on"), "0");
        for probe in &self.probes {
            let _ = fs::write(self.path.join(format!("events/{probe}/enable")), "0");
        }
        let _ = fs::remove_dir(&self.path);
        for probe in &self.probes {
            let _ = append(&self.root.join("dynamic_events"), &format!("-:{probe}\n"));
        }
    }
}

/// Runs a command in a mount namespace in which tracefs is mounted nowhere.
#[allow(unsafe_code)]
pub(crate) fn without_tracefs(command: &mut Command) -> Output {
    // SAFETY: between fork and exec nothing but system calls is made, with arguments that live outside.
    unsafe {
        command.pre_exec(|| {
            const NONE: Option<&str> = None;
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
            for place in [
                "/sys/kernel/tracing",
                "/sys/kernel/debug/tracing",
                "/sys/kernel/debug",
            ] {
                // Where it is mounted twice it has to be taken away twice.
                while umount2(place, MntFlags::MNT_DETACH).is_ok() {}
            }
            Ok(())
        });
    }
    command.output().expect("the command starts")
}
