//! Stacks while attached: whose mappings are watched, and what the user is told of what there is not.

use crossbeam::channel::{self, Receiver};
use tracebraid_bpf::spec::{self, UserStack};

use super::{Note, Options};
use crate::event::Event;
use crate::stack::Wanted;
use crate::symbolize::{Symbolizer, Update, Watcher, Whose};
use crate::target::Targets;

/// Bytes of each CPU's ring where stacks are in it and the user says nothing.
const RING: usize = 8 << 20;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Stacks {
    watcher: Watcher,
    has_said_lost: bool,
}

/// What the writing thread names stacks by.
pub(super) type Named = (Wanted, Receiver<Update>);

impl Stacks {
    /// Begins to watch what is mapped by those whose events are wanted.
    pub(super) fn start(
        wanted: Wanted,
        options: &Options,
        targets: &Targets,
        say: &mut dyn FnMut(Note),
    ) -> (Stacks, Named) {
        let whose = match options.all_processes || targets.is_empty() {
            false => Whose::Processes(targets.pids()),
            true => Whose::All,
        };
        let (updates, receiver) = channel::unbounded();
        let (watcher, warning) = Watcher::start(whose, updates);
        if let Some(why) = warning {
            say(Note::Warning(format!(
                "{why}; stacks have no names in what is loaded from now on"
            )));
        }
        if !Symbolizer::names_the_kernel() {
            say(Note::Warning(
                "functions of the kernel are shown by their addresses: /proc/kallsyms gives none \
                 (CAP_SYSLOG is missing, or kernel.kptr_restrict is 2)"
                    .into(),
            ));
        }
        let stacks = Stacks {
            watcher,
            has_said_lost: false,
        };
        (stacks, (wanted, receiver))
    }

    /// Looks at what was mapped. To be called behind each round of the rings, before its events are written.
    pub(super) fn look(&mut self, events: &[Event], say: &mut dyn FnMut(Note)) {
        self.watcher.look(events);
        if self.watcher.take_lost() > 0 && !self.has_said_lost {
            self.has_said_lost = true;
            say(Note::Warning(
                "processes start and load faster than can be followed: some stacks have no names"
                    .into(),
            ));
        }
    }
}

/// What sessions take of stacks, and the size of their rings.
pub(super) fn spec(options: &Options) -> (Option<spec::Stacks>, usize) {
    let stacks = options.stacks.map(|wanted| spec::Stacks {
        frames: wanted.frames,
        user: wanted.dwarf.map_or(UserStack::Frames, UserStack::Memory),
    });
    let ring = match options.ring_bytes {
        0 if stacks.is_some() => RING,
        bytes => bytes,
    };
    (stacks, ring)
}
