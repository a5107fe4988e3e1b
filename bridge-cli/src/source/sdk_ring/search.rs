//! Which regions there are: those of the targets by now, and those that come later.

use std::time::{Duration, Instant};

use super::taken::{ANSWER, Taken, Wish};
use super::{SdkRings, find, header, shared};
use crate::error::Error;

/// How often regions are looked for.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// How often where somebody waits for it.
const SOON: Duration = Duration::from_millis(5);

/// Whether a process has a helper thread, as far as its regions say: it switches its keys by itself.
pub fn is_served(pid: u32) -> bool {
    let own = find::numbers(pid).last().copied();
    find::of_process(pid).iter().any(|(path, _)| {
        // A child of fork has its parent's region, and nobody who serves it.
        header::of(path).is_some_and(|header| header.helper != 0 && Some(header.pid) == own)
    })
}

/// Has the helper thread of a process look at its semaphores now, if it has one.
pub fn wake_helper(pid: u32) {
    for (path, _) in find::of_process(pid) {
        // A region that cannot be opened has a helper that looks a few times a second all the same.
        if let Ok(shared) = shared::Shared::open(&path, pid) {
            shared.wake_helper();
        }
    }
}

impl SdkRings {
    /// Looks for regions when it is time: of a target, which makes them when it calls `init()`, anew after
    /// it starts another program, and of its descendants. Whether there are new ones.
    pub fn look(&mut self) -> bool {
        let start = Instant::now();
        if start < self.next_look || self.stopped {
            return false;
        }
        for region in &mut self.regions {
            region.has_ended = region.has_ended || !region.is_there();
        }
        let before = self.regions.len();
        for target in self.targets.clone() {
            let live =
                |region: &Taken| region.pid == target && region.wish.is_target && !region.has_ended;
            if !self.regions.iter().any(live) {
                self.look_and_say(target);
            }
        }
        if self.how.follow {
            let mut family = self.family();
            let descendants = find::descendants(&family);
            self.kin.extend(&descendants);
            self.kin.retain(|&pid| find::is_alive(pid));
            family.extend(descendants);
            family.retain(|pid| !self.targets.contains(pid));
            for pid in family {
                self.look_and_say(pid);
            }
        }
        // What takes long is done more rarely: a tenth of the time at most.
        let pause = match self.waits_until {
            Some(_) => SOON,
            // Programs that it starts wait for us.
            None if self.how.started && self.how.follow => 4 * SOON,
            None => LOOK,
        };
        self.next_look = Instant::now() + pause.max(start.elapsed() * 10);
        self.regions.len() > before
    }

    /// Looks for regions that the targets may have made with libraries that they have loaded.
    pub fn look_for_libraries(&mut self) {
        for target in self.targets.clone() {
            self.look_and_say(target);
        }
    }

    /// The processes that are known to be the targets'.
    fn family(&self) -> Vec<u32> {
        let mut family = self.targets.clone();
        for region in &self.regions {
            for pid in [region.pid].iter().chain(region.people.children()) {
                if !family.contains(pid) {
                    family.push(*pid);
                }
            }
        }
        family
    }

    /// Whether somebody who is followed lives although the targets have ended.
    pub fn is_followed_alive(&mut self) -> bool {
        self.has_living_kin()
            || self.how.follow
                && self.regions.iter_mut().any(|region| {
                    region.has_living_children()
                        || !region.wish.is_target && find::is_alive(region.pid)
                })
    }

    /// Whether a descendant lives that was seen while its parents lived: it may append to rings of theirs.
    pub(super) fn has_living_kin(&self) -> bool {
        self.kin.iter().any(|&pid| find::is_alive(pid))
    }

    /// Descendants that somebody else knows of.
    pub fn know_kin(&mut self, pids: &[u32]) {
        if self.how.follow {
            let targets = &self.targets;
            self.kin
                .extend(pids.iter().filter(|pid| !targets.contains(pid)));
        }
    }

    pub(super) fn look_and_say(&mut self, pid: u32) {
        for error in self.look_at(pid) {
            self.warnings.push(error.with_causes());
        }
    }

    /// Takes the regions of a process that are its own and not taken yet.
    pub(super) fn look_at(&mut self, pid: u32) -> Vec<Error> {
        let mut errors = Vec::new();
        let is_target = self.targets.contains(&pid);
        for (path, id) in find::of_process(pid) {
            let is_known = self.regions.iter().any(|region| region.id == id);
            // Refused for good is only what is whole.
            if is_known || self.refused.contains(&id) || !header::is_made(&path) {
                continue;
            }
            // A child of fork has its parent's region too.
            let owner = header::owner(&path);
            if owner.is_some() && owner != find::numbers(pid).last().copied() {
                continue;
            }
            let wish = Wish {
                is_target,
                children: self.how.follow,
                recorder: self.how.recorder,
                count_only: self.how.count_only,
            };
            match Taken::take(path, id, pid, wish, &mut self.warnings) {
                Ok(mut region) => {
                    region.shared.want_later(&self.later);
                    if region.sync(&self.points) || !self.later.is_empty() {
                        region.shared.ask(ANSWER);
                    }
                    self.waits_until = self.waits_until.filter(|_| !is_target);
                    self.regions.push(region);
                }
                Err(error) => {
                    self.refused.insert(id);
                    errors.push(error);
                }
            }
        }
        errors
    }
}
