//! Who a record is of: from the number that a thread calls itself to process, thread and name as the
//! bridge's user sees them.
//!
//! ```text
//! record: tid ──▶ introduced (a record of the thread's own) ─┐
//!             └─▶ looked up (/proc, while it lives) ─────────┴▶ Person
//! ```
//! A process in a pid namespace of its own numbers itself otherwise than we do; the numbers are
//! translated while the thread lives. Of one that ended before anybody looked, the number is its own.

use std::collections::HashMap;
use std::fs;

use tracebraid_wire::record::Introduction;

use super::find;
use crate::event::Comm;

/// How long a thread's name is believed, ns.
const NAME: u64 = 500_000_000;
/// How long a thread that is unknown is not looked for again, ns.
const UNKNOWN: u64 = 50_000_000;
/// How many threads are remembered. Past it all are looked up again.
const REMEMBERED: usize = 1 << 16;

/// Who an event is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) comm: Comm,
    /// Nothing but the number in the record is known.
    pub(super) is_stranger: bool,
}

/// A thread as a region knows it: its number, and whether it is of a child.
pub(super) type Key = (u32, bool);

#[derive(Clone, Copy, Debug)]
struct Known {
    person: Person,
    /// Its process by its own numbers, where it introduced itself.
    process: Option<u32>,
    /// Until when it is not looked up again.
    until: u64,
}

/// The threads of one region.
#[derive(Debug)]
pub(super) struct People {
    /// The region's process, as we number it.
    pid: u32,
    /// Whether the process numbers itself as we do.
    same_numbers: bool,
    /// Whether anybody of it can be looked up.
    lives: bool,
    known: HashMap<Key, Known>,
    last: Option<(Key, Known)>,
    /// Children that introduced themselves, as we number them.
    children: Vec<u32>,
}

impl People {
    pub(super) fn of(pid: u32) -> People {
        People {
            pid,
            same_numbers: find::numbers(pid).len() <= 1,
            lives: true,
            known: HashMap::new(),
            last: None,
            children: Vec::new(),
        }
    }

    /// Of a process that is no more: who introduced itself is known, nobody is looked up.
    pub(super) fn of_the_dead(pid: u32) -> People {
        People {
            same_numbers: true,
            lives: false,
            ..People::of(pid)
        }
    }

    /// Whether the process numbers its threads as we do.
    pub(super) fn same_numbers(&self) -> bool {
        self.same_numbers
    }

    /// Children that introduced themselves, as we number them.
    pub(super) fn children(&self) -> &[u32] {
        &self.children
    }

    /// Forgets children that have ended.
    pub(super) fn forget_dead_children(&mut self) {
        self.children.retain(|&child| find::is_alive(child));
    }

    /// A thread has said who it is. Its process, as we number it.
    pub(super) fn introduce(&mut self, key: Key, said: &Introduction, now: u64) -> u32 {
        let (tid, of_child) = key;
        let pid = if of_child {
            self.outer_process(said.process)
        } else {
            self.pid
        };
        if of_child && !self.children.contains(&pid) {
            self.children.push(pid);
        }
        let person = Person {
            pid,
            tid: self.outer_thread(pid, tid),
            comm: Comm::new(until_nul(&said.name)),
            is_stranger: false,
        };
        self.remember(
            key,
            Known {
                person,
                process: Some(said.process),
                until: now.saturating_add(NAME),
            },
        );
        pid
    }

    /// Who a thread is, at the time `now` of ours.
    pub(super) fn person(&mut self, key: Key, now: u64) -> Person {
        if let Some((last, known)) = &self.last
            && *last == key
            && now < known.until
        {
            return known.person;
        }
        let before = self.known.get(&key).copied();
        if let Some(known) = before.filter(|known| now < known.until) {
            self.last = Some((key, known));
            return known.person;
        }
        let known = self.look_up(key, before, now);
        self.remember(key, known);
        known.person
    }

    fn remember(&mut self, key: Key, known: Known) {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(key, known);
        self.last = Some((key, known));
    }

    fn look_up(&self, (tid, of_child): Key, before: Option<Known>, now: u64) -> Known {
        let process = before.and_then(|known| known.process);
        let (pid, outer) = match (of_child, before) {
            (_, Some(known)) if !known.person.is_stranger => (known.person.pid, known.person.tid),
            (false, _) => (self.pid, self.outer_thread(self.pid, tid)),
            (true, _) => self.stranger_of_child(tid),
        };
        let path = format!("/proc/{pid}/task/{outer}/comm");
        let read = self.lives.then(|| fs::read(path).ok()).flatten();
        let comm = read.map(|name| Comm::new(name.strip_suffix(b"\n").unwrap_or(&name)));
        let known_before = before.map(|known| known.person.comm);
        let is_stranger = comm.is_none() && before.is_none_or(|known| known.person.is_stranger);
        Known {
            person: Person {
                pid,
                tid: outer,
                comm: comm.or(known_before).unwrap_or_default(),
                is_stranger,
            },
            process,
            until: now.saturating_add(if is_stranger { UNKNOWN } else { NAME }),
        }
    }

    /// Process and thread of a child's thread that has not introduced itself.
    fn stranger_of_child(&self, tid: u32) -> (u32, u32) {
        let outer = self.outer_process(tid);
        if !self.lives {
            return (outer, outer);
        }
        let process = find::status_numbers(&format!("/proc/{outer}/status"), "Tgid:");
        (process.first().copied().unwrap_or(outer), outer)
    }

    fn outer_thread(&self, pid: u32, tid: u32) -> u32 {
        if self.same_numbers {
            return tid;
        }
        let is_it = |outer: &u32| {
            let path = format!("/proc/{pid}/task/{outer}/status");
            find::status_numbers(&path, "NSpid:").last() == Some(&tid)
        };
        find::threads(pid).into_iter().find(is_it).unwrap_or(tid)
    }

    fn outer_process(&self, inner: u32) -> u32 {
        if self.same_numbers {
            return inner;
        }
        let is_it = |outer: &u32| find::numbers(*outer).last() == Some(&inner);
        find::descendants(&[self.pid])
            .into_iter()
            .find(is_it)
            .unwrap_or(inner)
    }
}

fn until_nul(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == 0);
    &name[..end.unwrap_or(name.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction(process: u32) -> Introduction {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"gone");
        Introduction {
            process,
            has_region: false,
            name,
        }
    }

    #[test]
    fn who_introduced_itself_is_known_when_it_is_gone() {
        // No thread has a number above the kernel's limit.
        let (thread, process) = (0x7fff_fff0, 0x7fff_fff1);
        let mut people = People::of(std::process::id());
        assert!(people.person((thread, false), 1).is_stranger);
        people.introduce((thread, true), &introduction(process), 1);
        let expected = Person {
            pid: process,
            tid: thread,
            comm: Comm::new(b"gone"),
            is_stranger: false,
        };
        assert_eq!(people.person((thread, true), 2), expected);
        // Also when the name is to be looked up again.
        assert_eq!(people.person((thread, true), 10 * NAME), expected);
        assert_eq!(people.children(), [process]);
        people.forget_dead_children();
        assert!(people.children().is_empty());
    }

    #[test]
    fn a_thread_that_lives_is_found_by_its_number() {
        let mut people = People::of(std::process::id());
        let found = std::thread::Builder::new()
            .name("a thread of ours".into())
            .spawn(move || {
                let tid = nix::unistd::gettid().as_raw() as u32;
                (tid, people.person((tid, false), 1))
            })
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(found.1.comm, Comm::new(b"a thread of our"));
        assert_eq!((found.1.pid, found.1.tid), (std::process::id(), found.0));
    }
}
