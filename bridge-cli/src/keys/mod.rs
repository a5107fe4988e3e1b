//! Keys switched from outside, for a process in which nobody does it.
//!
//! A program switches its own keys: its helper thread makes the text equal to what is wanted. A program
//! that never called `tracebraid::init()`, or starts no helper, has nobody who would. The bridge then does
//! it in its place, by the same rule and the same data:
//!
//! ```text
//! semaphore word of a tracepoint   readers (raised by the kernel) | wanted (by the program itself)
//! key of a site                    on exactly if the word of a tracepoint of this place is not 0
//! ```
//! So nothing is to be agreed upon: whoever looks later finds the text as it should be, or makes it so, and
//! a program that calls `init()` in the middle goes on by itself. One byte is written a key, and only where
//! the eight bytes in memory are one of the two forms that the file leads to, in a mapping of that file.
//!
//! [`Janitor`] is the process that undoes it when the bridge is killed.

mod janitor;
mod memory;
mod site;

use std::collections::{HashMap, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::target::{Binary, Mapping, Process};

pub use janitor::Janitor;
pub(crate) use janitor::serve;
pub use memory::Way;
pub(crate) use memory::way_of_this_kernel;

use memory::Memory;
use site::{Key, keys_of};

/// Files by what `maps` calls them: device and inode.
type MappedId = ((u32, u32), u64);

/// How often a key is looked at again whose wish changed while it was written.
const AGAIN: usize = 4;

/// Which keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All that are not as they are wanted: what a helper thread does.
    Equal,
    /// Those that are on and that nobody wants: how it is undone.
    OnlyOff,
}

/// The binaries that were read, each once, however many processes map it. They stay open, so that no
/// other file gets their numbers.
#[derive(Debug, Default)]
pub struct Files(HashMap<MappedId, Option<Binary>>);

impl Files {
    /// None yet.
    pub fn new() -> Files {
        Files::default()
    }

    /// The binary of a mapping, if it has keys.
    fn of(&mut self, process: &Process, mapping: &Mapping) -> Option<&Binary> {
        let entry = self.0.entry((mapping.device, mapping.inode));
        let known = entry.or_insert_with(|| {
            let binary = process.binary_of(mapping).ok()?;
            let mut sites = binary.tracepoints().iter().flat_map(|it| &it.sites);
            let has_keys = binary.unfit().is_none() && sites.any(|site| !site.tests_semaphore);
            has_keys.then_some(binary)
        });
        known.as_ref()
    }
}

/// The keys of one process.
#[derive(Debug)]
pub struct Keys {
    process: Process,
    way: Way,
}

/// What was found, before anything is written.
#[derive(Debug)]
pub struct Found {
    memory: Memory,
    differing: Vec<(Key, bool)>,
    /// Keys that are on since a reader outside of the program wants them.
    pub on_for_readers: usize,
    /// Places whose bytes are no key's: a breakpoint of another tool, or another file in its place.
    pub strange: usize,
}

impl Found {
    /// How many keys are to be written.
    pub fn len(&self) -> usize {
        self.differing.len()
    }

    /// Whether all is as it should be.
    pub fn is_empty(&self) -> bool {
        self.differing.is_empty()
    }
}

impl Keys {
    /// Of a process.
    ///
    /// # Errors
    /// Those of [`Process::open`].
    pub fn of(pid: u32) -> Result<Keys> {
        Keys::by(pid, Way::Plain)
    }

    /// The same where it is known how its memory is to be written. (By itself that is found out by the
    /// first write.)
    ///
    /// # Errors
    /// Those of [`Process::open`].
    pub fn by(pid: u32, way: Way) -> Result<Keys> {
        Ok(Keys {
            process: Process::open(pid)?,
            way,
        })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Looks which keys are to be written.
    ///
    /// # Errors
    /// [`ErrorKind::Target`] where the process has ended, [`ErrorKind::Rights`] where its memory may not be
    /// touched.
    pub fn look(&self, files: &mut Files, rule: Rule) -> Result<Found> {
        // In this order: if it starts another program in between, this memory is of none, and its
        // bytes are no keys.
        let memory = Memory::of(&self.process)?;
        let mappings = self.process.mappings()?;
        let mut found = Found {
            memory,
            differing: Vec::new(),
            on_for_readers: 0,
            strange: 0,
        };
        let mut loaded = HashSet::new();
        for mapping in mappings.iter().filter(|mapping| mapping.executable) {
            let Some(binary) = files.of(&self.process, mapping) else {
                continue;
            };
            let Some(bias) = binary.load_bias(mapping) else {
                continue;
            };
            // The text of a file may be in pieces, and a file be loaded twice.
            if loaded.insert((mapping.inode, bias)) {
                for key in keys_of(binary, bias) {
                    found.consider(key, &mappings, rule);
                }
            }
        }
        Ok(found)
    }

    /// Writes what was found. How many keys were written.
    ///
    /// # Errors
    /// [`ErrorKind::Rights`] or [`ErrorKind::Unsupported`] where the memory cannot be written, and why. Keys
    /// that were written stay so.
    pub fn write(&mut self, found: Found) -> Result<usize> {
        let Found {
            memory,
            mut differing,
            ..
        } = found;
        let written = differing.len();
        for _ in 0..AGAIN {
            let bytes: Vec<(u64, u8)> = differing.iter().map(|(key, on)| key.switch(*on)).collect();
            self.way = memory
                .write(&self.process, self.way, &bytes)
                .map_err(|error| self.refused(&error))?;
            // Who changed its mind meanwhile may have found the key still as it was.
            differing = differing
                .into_iter()
                .map(|(key, on)| (key.is_wanted(&memory), on, key))
                .filter(|(wanted, on, _)| *wanted != Some(*on))
                .filter_map(|(wanted, _, key)| Some((key, wanted?)))
                .collect();
            if differing.is_empty() {
                break;
            }
        }
        Ok(written)
    }

    fn refused(&self, cause: &std::io::Error) -> Error {
        let pid = self.process.pid();
        let message = format!("the keys of process {pid} cannot be written");
        let cause = cause.to_string();
        match self.process.tracer() {
            Some(tracer) if tracer != std::process::id() => Error::new(
                ErrorKind::Rights,
                format!("{message}: this kernel lets only its tracer write, and process {tracer} traces it"),
            )
            .because(cause)
            .hint(format!("end process {tracer} (a debugger, strace), or call tracebraid::init() in the program")),
            _ => Error::new(ErrorKind::Rights, message).because(cause).hint(
                "run as root or with CAP_SYS_PTRACE, or call tracebraid::init() in the program; tracepoints with \
                 gate = \"semaphore\" need neither",
            ),
        }
    }
}

impl Found {
    fn consider(&mut self, key: Key, mappings: &[Mapping], rule: Rule) {
        let Some(wanted) = key.is_wanted(&self.memory) else {
            return;
        };
        if !key.is_mapped(mappings) {
            return;
        }
        match key.state(&self.memory) {
            None => self.strange += 1,
            Some(true) if wanted => {
                self.on_for_readers += usize::from(key.has_readers(&self.memory));
            }
            Some(on) if on == wanted => {}
            Some(on) if on || rule == Rule::Equal => self.differing.push((key, wanted)),
            Some(_) => {}
        }
    }
}
