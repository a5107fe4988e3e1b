//! Watching what processes map, from the moment of attaching on.
//!
//! ```text
//! /proc/PID/maps once ─┐
//! the kernel's records ┴▶ Update (with the file, opened) ─▶ Symbolizer, in order of time
//! ```
//! This side runs where the rings are drained: a file is opened within a few milliseconds of its mapping, as
//! long as it is to be had, also where the process ends at once. Reading it is the other side's work.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use crossbeam::channel::Sender;
use tracebraid_bpf::mappings::{Change, Mapped, Mappings, What};

use super::module::Modules;
use super::space::{Backing, Region};
use crate::event::Event;
use crate::target::{Mapping, Process, descendants};

/// What became of a process.
#[derive(Clone, Debug)]
pub struct Update {
    pub(super) time: u64,
    pub(super) process: u32,
    pub(super) what: Became,
}

#[derive(Clone, Debug)]
pub(super) enum Became {
    /// It has this mapped; what happened until `since` is in it.
    Seen { regions: Vec<Region>, since: u64 },
    /// It maps this too.
    Mapped(Region),
    /// It is another program, that has nothing mapped yet.
    Replaced,
    /// It has what its parent has.
    Forked(u32),
}

/// Whose mappings are looked at first. Others are when an event of theirs comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of these processes and of what they fork.
    Processes(Vec<u32>),
    /// Of all.
    All,
}

/// See the module's page.
#[derive(Debug)]
pub struct Watcher {
    mappings: Option<Mappings>,
    modules: Modules,
    /// The processes that have been looked at, and what they have forked.
    known: HashSet<u32>,
    /// Whether every process is wanted.
    all: bool,
    updates: Sender<Update>,
    changes: Vec<Change>,
}

impl Watcher {
    /// Begins to watch. The second value says why mappings that are made from now on are not seen, where
    /// that is so.
    pub fn start(whose: Whose, updates: Sender<Update>) -> (Watcher, Option<String>) {
        // Before anything is looked at: what is mapped in between is seen twice, not overlooked.
        let (mappings, warning) = match Mappings::follow() {
            Ok(mappings) => (Some(mappings), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let pids = match &whose {
            Whose::Processes(pids) => [&pids[..], &descendants(pids)].concat(),
            Whose::All => all_processes(),
        };
        let mut watcher = Watcher {
            mappings,
            modules: Modules::default(),
            known: HashSet::new(),
            all: whose == Whose::All,
            updates,
            changes: Vec::new(),
        };
        for pid in pids {
            watcher.see(pid, tracebraid_bpf::now());
        }
        (watcher, warning)
    }

    /// Looks at what was mapped since the last call. To be called with the events of a round behind its
    /// drains: then all that they may need is known.
    pub fn look(&mut self, events: &[Event]) {
        let mut changes = std::mem::take(&mut self.changes);
        if let Some(mappings) = &mut self.mappings {
            mappings.drain(&mut changes);
        }
        for change in changes.drain(..) {
            self.follow(change);
        }
        self.changes = changes;
        for event in events {
            if event.stack.is_some() && !self.known.contains(&event.pid) {
                self.see(event.pid, event.time);
            }
        }
    }

    /// How many records of mappings were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        self.mappings.as_mut().map_or(0, Mappings::take_lost)
    }

    /// Looks at a process whose events from a time on need that. One that has ended by now, or may not be
    /// looked at, has addresses without names.
    fn see(&mut self, pid: u32, time: u64) {
        self.known.insert(pid);
        let Ok(process) = Process::open(pid) else {
            return;
        };
        let since = tracebraid_bpf::now();
        let code = process.code().unwrap_or_default();
        let regions = code.iter().map(|mapping| self.region(&process, mapping));
        let regions = regions.collect();
        self.send(time, pid, Became::Seen { regions, since });
    }

    fn region(&mut self, process: &Process, mapping: &Mapping) -> Region {
        let open = || {
            let (path, file) = process.file_of(mapping);
            (path.into_os_string().into_vec(), file)
        };
        let backing = self.backing(mapping.device, mapping.inode, &mapping.name, open);
        Region {
            range: mapping.range.clone(),
            offset: mapping.offset,
            backing,
        }
    }

    fn backing(
        &mut self,
        device: (u32, u32),
        inode: u64,
        name: &[u8],
        open: impl FnOnce() -> (Vec<u8>, Option<File>),
    ) -> Backing {
        match name {
            b"[vdso]" => Backing::Module(self.modules.vdso()),
            _ if inode != 0 => Backing::Module(self.modules.file(device, inode, open)),
            b"" => Backing::Memory("//anon".into()),
            name => Backing::Memory(crate::target::text_of(name).into()),
        }
    }

    fn follow(&mut self, change: Change) {
        let Change {
            time,
            process,
            what,
        } = change;
        match what {
            What::Forked { parent } if self.known.contains(&parent) => {
                self.known.insert(process);
            }
            What::Forked { .. } => {
                // Its number was another's before.
                self.known.remove(&process);
                return;
            }
            What::Replaced if self.all => {
                self.known.insert(process);
            }
            _ if self.known.contains(&process) => {}
            _ => return,
        }
        let what = match what {
            What::Mapped(mapped) => Became::Mapped(self.mapped(process, mapped)),
            What::Replaced => Became::Replaced,
            What::Forked { parent } => Became::Forked(parent),
        };
        self.send(time, process, what);
    }

    fn mapped(&mut self, pid: u32, mapped: Mapped) -> Region {
        let mapping = Mapping {
            range: mapped.range,
            writable: false,
            executable: true,
            offset: mapped.offset,
            device: mapped.device,
            inode: mapped.inode,
            name: mapped.name,
        };
        let open = || {
            let through = Process::open(pid)
                .ok()
                .map(|process| process.file_of(&mapping));
            match through {
                Some((path, Some(file))) => (path.into_os_string().into_vec(), Some(file)),
                // It has ended; the file may still be there under its name.
                _ => (mapping.name.clone(), by_name(&mapping)),
            }
        };
        let backing = self.backing(mapping.device, mapping.inode, &mapping.name, open);
        Region {
            range: mapping.range.clone(),
            offset: mapping.offset,
            backing,
        }
    }

    fn send(&self, time: u64, process: u32, what: Became) {
        // Nobody asks any more where the writer has ended.
        let _ = self.updates.send(Update {
            time,
            process,
            what,
        });
    }
}

/// The file of a mapping by its name here, if it is that file.
fn by_name(mapping: &Mapping) -> Option<File> {
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(&mapping.name));
    if !path.is_absolute() || !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let found = file.metadata().ok()?;
    let device = (libc::major(found.dev()), libc::minor(found.dev()));
    // Some file systems make their numbers up, and then differently for `stat`.
    let may_be_on = device == mapping.device || (device.0 == 0 && mapping.device.0 == 0);
    (found.ino() == mapping.inode && may_be_on).then_some(file)
}

fn all_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
