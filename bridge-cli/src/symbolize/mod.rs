//! From a stack as it was taken to frames with names.
//!
//! ```text
//! Watcher (where rings are drained)          Symbolizer (where events are written)
//! mappings, files opened ──── Update ────▶ what each process had mapped ─▶ unwind ─▶ names
//! ```
//! Updates and events are both in order of time, so an address is looked up in what its process had mapped
//! at that moment. Neither side needs the process: when it has ended, its files are open here.
//!
//! What cannot be found costs its own part: an address without a name stays an address, a stack that cannot
//! be followed further says so ([`End`]).

mod jit;
mod kernel;
mod module;
mod names;
mod space;
mod tables;
mod unwind;
mod user;
mod watch;

use std::collections::{BTreeMap, HashMap};

use crossbeam::channel::Receiver;
use tracebraid_bpf::record::Stack as Taken;

use crate::event::Event;
use crate::stack::{End, Frame, Stack, Wanted};

use kernel::Kernel;
use space::Space;
use unwind::Cache;
use user::UserNames;
use watch::Became;

pub use watch::{Update, Watcher, Whose};

/// Processes that are kept in mind at most.
const SPACES: usize = 1 << 14;
/// Updates that may wait for an event of a later time.
const WAITING: usize = 1 << 14;

/// See the module's page.
pub struct Symbolizer {
    wanted: Wanted,
    /// Frames that the kernel gives at most.
    given: usize,
    updates: Receiver<Update>,
    /// By time, and by when they came.
    waiting: BTreeMap<(u64, u64), Update>,
    came: u64,
    spaces: HashMap<u32, Space>,
    names: UserNames,
    kernel: Kernel,
    cache: Cache,
}

impl Symbolizer {
    /// Names what is wanted, with what the [`Watcher`] at the other end of `updates` sees.
    pub fn new(wanted: Wanted, updates: Receiver<Update>) -> Symbolizer {
        Symbolizer {
            wanted,
            given: usize::from(kernel_limit().min(wanted.frames)),
            updates,
            waiting: BTreeMap::new(),
            came: 0,
            spaces: HashMap::new(),
            names: UserNames::new(wanted.source_lines),
            kernel: Kernel::new(),
            cache: Cache::default(),
        }
    }

    /// Whether functions of the kernel can be named.
    pub fn names_the_kernel() -> bool {
        kernel::has_names()
    }

    /// Makes frames of an event's stack. Events come in order of time, as far as they can.
    pub fn resolve(&mut self, event: &mut Event) {
        let Some(stack) = &mut event.stack else {
            return;
        };
        self.advance(event.time);
        self.read(event.pid, stack);
        stack.taken = Default::default();
    }

    /// Takes in what had happened by then.
    fn advance(&mut self, time: u64) {
        for update in self.updates.try_iter() {
            self.came += 1;
            self.waiting.insert((update.time, self.came), update);
        }
        while let Some(next) = self.waiting.first_entry()
            && (next.key().0 <= time || self.waiting.len() > WAITING)
            && let Some((_, update)) = self.waiting.pop_first()
        {
            self.update(update);
        }
    }

    fn update(&mut self, update: Update) {
        let Update {
            time,
            process,
            what,
        } = update;
        if self.spaces.len() >= SPACES && !self.spaces.contains_key(&process) {
            self.spaces.clear();
        }
        match what {
            Became::Seen { regions, since } => {
                self.spaces.insert(process, Space::seen(since, regions));
            }
            _ if self.spaces.get(&process).is_some_and(|it| it.knows(time)) => {}
            Became::Mapped(region) => self.spaces.entry(process).or_default().map(region),
            Became::Replaced => {
                self.spaces.insert(process, Space::default());
                self.names.forget(process);
            }
            Became::Forked(parent) => {
                let space = self.spaces.get(&parent).cloned().unwrap_or_default();
                self.spaces.insert(process, space);
                self.names.forget(process);
            }
        }
    }

    fn read(&mut self, process: u32, stack: &mut Stack) {
        let mut frames = self.kernel.frames(&stack.taken.kernel);
        let is_cut = stack.taken.kernel.len() >= self.given;
        let (user, end) = self.user(process, &stack.taken);
        stack.end = match end {
            End::Whole if is_cut => End::Cut(self.wanted.frames),
            end => end,
        };
        frames.extend(user);
        stack.frames = frames;
    }

    /// The frames of the process, and how they end.
    fn user(&mut self, process: u32, taken: &Taken) -> (Vec<Frame>, End) {
        let most = usize::from(self.wanted.frames);
        let mut unknown = Space::default();
        let space = self.spaces.get_mut(&process).unwrap_or(&mut unknown);
        let unwound = unwind::unwind(space, taken, &mut self.cache, most);
        let addresses = &unwound.addresses[..unwound.addresses.len().min(most)];
        let mut frames = Vec::with_capacity(addresses.len());
        let mut has_lost = false;
        let mut is_whole = unwound.whole || space.is_empty();
        for (index, &address) in addresses.iter().enumerate() {
            // A return address may be the first one behind its function.
            let back = u64::from(index > 0);
            let region = space.region(address.wrapping_sub(back));
            if region.is_none() && index > 0 && !space.is_empty() {
                // Whatever was taken for a frame there was none.
                has_lost = true;
                break;
            }
            let start = frames.len();
            self.names
                .frames(process, address, back, region, &mut frames);
            let is_last = index + 1 == addresses.len();
            let ends_chain = taken.user.last() == Some(&address);
            let is_first = user::is_first_function(&frames[start..], ends_chain);
            // What the tables found from end to end needs no proof.
            let doubted = region.filter(|_| !unwound.whole);
            let has_frame = doubted.and_then(|it| it.has_frame_pointer(address.wrapping_sub(back)));
            match (is_last, has_frame) {
                // Where no tables are, nothing says that it has a caller.
                (true, has_frame) => is_whole |= is_first || has_frame.is_none(),
                // The kernel took the next address for the caller; it is the caller's caller.
                (false, Some(false)) if index + 1 >= unwound.by_tables => has_lost |= !is_first,
                _ => {}
            }
        }
        let gave_all = self.wanted.dwarf.is_some() || taken.user.len() < self.given;
        let end = match frames.is_empty() {
            true => End::Whole,
            false if unwound.addresses.len() > most || !gave_all => End::Cut(self.wanted.frames),
            false if has_lost || !is_whole => End::Incomplete,
            false => End::Whole,
        };
        (frames, end)
    }
}

/// The most frames that the kernel gives.
fn kernel_limit() -> u16 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack");
    let limit = text.ok().and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(Wanted::FRAMES)
}
