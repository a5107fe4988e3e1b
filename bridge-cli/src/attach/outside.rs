//! Keys of processes whose program has nobody who switches them: switched from here, as long as their
//! tracepoints are attached through USDT probes.
//!
//! The kernel raises a semaphore in the process, and that is all it does. Where the program has a helper
//! thread it sees that, and this has nothing to do. Else it is looked for keys that are not as they are
//! wanted when probes were attached, and four times a second: a library may have been loaded, a child
//! forked, another tool have come or gone. Before the first write a [`Janitor`] is started.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Note;
use crate::error::Error;
use crate::keys::{Files, Janitor, Keys, Rule};
use crate::source::sdk_ring;
use crate::target::descendants;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(250);
/// How often where there was nothing that could be done.
const RARELY: Duration = Duration::from_secs(2);
/// How long a helper thread may take to switch its keys until nobody waits for it any more.
const ANSWER: Duration = Duration::from_millis(500);
/// How long it waits between two looks then.
const PAUSE: Duration = Duration::from_millis(2);

/// See the module's page.
#[derive(Debug)]
pub(super) struct Outside {
    /// This bridge's executable.
    program: Option<PathBuf>,
    janitor: Option<Janitor>,
    files: Files,
    /// The processes that are looked after.
    processes: BTreeMap<u32, Keys>,
    /// Those of them whose keys nobody would switch off but us.
    undone_at_end: Vec<u32>,
    next: Instant,
    /// What was said is not said again.
    said: Vec<String>,
}

/// What came of looking at a process.
enum Seen {
    /// There is nothing to be done, or its helper thread does it.
    Settled,
    /// So many keys were switched.
    Switched(usize),
}

impl Outside {
    /// Looks after nobody yet. Without a `program` there is no janitor.
    pub(super) fn new(program: Option<PathBuf>) -> Outside {
        Outside {
            program,
            janitor: None,
            files: Files::new(),
            processes: BTreeMap::new(),
            undone_at_end: Vec::new(),
            next: Instant::now(),
            said: Vec::new(),
        }
    }

    /// Whether it is time to look again.
    pub(super) fn is_time(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Looks at these processes.
    pub(super) fn look(&mut self, pids: &[u32], say: &mut dyn FnMut(Note)) {
        let start = Instant::now();
        self.processes
            .retain(|pid, keys| pids.contains(pid) && keys.is_alive());
        let mut pause = EVERY;
        for pid in pids {
            match self.settle(*pid, say) {
                Ok(Seen::Settled) => {}
                Ok(Seen::Switched(count)) => say(Note::Detail(format!(
                    "switched {count} keys of process {pid} from outside, since nobody in it does"
                ))),
                // One that has ended has no keys.
                Err(_) if !self.processes.get(pid).is_some_and(Keys::is_alive) => {}
                Err(error) => {
                    pause = RARELY;
                    self.say_once(&error, say);
                }
            }
        }
        // What takes long is done more rarely: a tenth of the time at most.
        self.next = Instant::now() + pause.max(start.elapsed() * 10);
    }

    fn settle(&mut self, pid: u32, say: &mut dyn FnMut(Note)) -> Result<Seen, Error> {
        let keys = match self.processes.entry(pid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(Keys::of(pid)?),
        };
        let found = keys.look(&mut self.files, Rule::Equal)?;
        let is_ours = self.undone_at_end.contains(&pid);
        // What another bridge has switched on stays on for us when that one ends.
        if found.is_empty() && (is_ours || found.on_for_readers == 0) {
            return Ok(Seen::Settled);
        }
        if sdk_ring::is_served(pid) {
            // It would look by itself, but later.
            sdk_ring::wake_helper(pid);
            return Ok(Seen::Settled);
        }
        if !is_ours {
            // The janitor is told before anything is written.
            self.undone_at_end.push(pid);
            if let Err(error) = self.tell(pid) {
                say(Note::Warning(format!(
                    "{}; if this bridge is killed, keys of process {pid} stay on",
                    error.with_causes()
                )));
            }
        }
        let Some(keys) = self.processes.get_mut(&pid) else {
            return Ok(Seen::Settled);
        };
        match found.is_empty() {
            true => Ok(Seen::Settled),
            false => keys.write(found).map(Seen::Switched),
        }
    }

    /// Looks at these processes, and waits until helper threads have done what there is to be done. To be
    /// called when something was attached.
    pub(super) fn look_and_wait(&mut self, pids: &[u32], say: &mut dyn FnMut(Note)) {
        self.look(pids, say);
        let end = Instant::now() + ANSWER;
        let mut waits = |keys: &Keys| {
            let found = keys.look(&mut self.files, Rule::Equal);
            found.is_ok_and(|found| !found.is_empty()) && sdk_ring::is_served(keys.pid())
        };
        while Instant::now() < end && self.processes.values().any(&mut waits) {
            std::thread::sleep(PAUSE);
        }
    }

    fn tell(&mut self, pid: u32) -> Result<(), Error> {
        if self.janitor.is_none()
            && let Some(program) = self.program.take()
        {
            self.janitor = Some(Janitor::start(&program)?);
        }
        match &mut self.janitor {
            Some(janitor) => janitor.tell(pid),
            None => Ok(()),
        }
    }

    fn say_once(&mut self, error: &Error, say: &mut dyn FnMut(Note)) {
        let text = error.with_causes();
        if !self.said.contains(&text) {
            say(Note::Warning(text.clone()));
            self.said.push(text);
        }
    }

    /// Switches off what nobody wants any more. To be called when the probes are gone; a second call finds
    /// nothing to do.
    pub(super) fn undo(&mut self) {
        let mut pids = std::mem::take(&mut self.undone_at_end);
        // Others switch theirs off by themselves; woken, they do it now.
        let others = self.processes.keys().filter(|pid| !pids.contains(pid));
        others.for_each(|pid| sdk_ring::wake_helper(*pid));
        // Children have what their parent had when they were forked.
        pids.extend(descendants(&pids));
        for pid in pids {
            let keys = self
                .processes
                .remove(&pid)
                .map_or_else(|| Keys::of(pid), Ok);
            let undone = keys.and_then(|mut keys| {
                let found = keys.look(&mut self.files, Rule::OnlyOff)?;
                keys.write(found)
            });
            // A process that has ended has no keys; else the janitor tries it again when we have ended.
            if undone.is_err() && crate::target::is_alive(pid) {
                self.janitor = None;
            }
        }
        if let Some(janitor) = self.janitor.take() {
            janitor.dismiss();
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.undo();
    }
}
