//! A reader that asks, a helper that answers, and a reader that dies.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::model;
use crate::protocol::{Helper, Turn, Words, has_come_to};
use crate::sync::{AtomicU32, Ordering};

/// Two readers, as the lock knows them, and as what they want.
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// What both sides map, the kernel's lock and its futexes, and the program.
struct World {
    asked: AtomicU32,
    answered: AtomicU32,
    flush_asked: AtomicU32,
    flushed: AtomicU32,
    bell: AtomicU32,
    serving: AtomicU32,
    /// What the reader wants: whose wishes these are.
    wanted: AtomicU32,
    /// Who has the lock of the memfd, which the kernel looks at and changes under a lock of its own.
    owner: Mutex<u32>,
    /// The kernel's queue of sleepers.
    queue: Mutex<()>,
    woken: Condvar,
    /// Whose wishes the program's sites are switched by.
    in_force: AtomicU32,
    /// Nothing more will be asked.
    over: AtomicU32,
    helper: Helper,
}

impl World {
    fn new() -> Arc<World> {
        let zero = || AtomicU32::new(0);
        Arc::new(World {
            asked: zero(),
            answered: zero(),
            flush_asked: zero(),
            flushed: zero(),
            bell: zero(),
            serving: zero(),
            wanted: zero(),
            owner: Mutex::new(0),
            queue: Mutex::new(()),
            woken: Condvar::new(),
            in_force: zero(),
            over: zero(),
            helper: Helper::new(),
        })
    }

    fn words(&self) -> Words<'_> {
        Words {
            asked: &self.asked,
            answered: &self.answered,
            flush_asked: &self.flush_asked,
            flushed: &self.flushed,
            bell: &self.bell,
            serving: &self.serving,
        }
    }

    /// FUTEX_WAIT without a time: sleeps while the word is `value`, or until somebody wakes.
    fn sleep(&self, word: &AtomicU32, value: u32) {
        let queue = self.queue.lock().unwrap();
        if word.load(Ordering::Acquire) == value {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    /// FUTEX_WAKE. Also what happens when a sleeper's time is up.
    fn wake(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }

    fn is_owned(&self) -> bool {
        *self.owner.lock().unwrap() != 0
    }

    fn set_owner(&self, owner: u32) {
        *self.owner.lock().unwrap() = owner;
    }

    /// One look of the helper thread, as `service::serve` and `service::done` of the SDK have it.
    fn look(&self) {
        let words = self.words();
        self.helper.hear(&words);
        if let Some(number) = self.helper.flush(&words) {
            self.helper.flushed(&words, number);
            self.wake();
        }
        match self.helper.turn(&words, || self.is_owned()) {
            Turn::Rest => return,
            Turn::Nobody => {}
            Turn::Serve => {
                let wanted = self.wanted.load(Ordering::Relaxed);
                self.in_force.store(wanted, Ordering::Relaxed);
            }
            Turn::Forget => {
                self.wanted.store(0, Ordering::Relaxed);
                self.helper.erased(&words);
                self.in_force.store(0, Ordering::Relaxed);
            }
        }
        if self.helper.answer(&words) {
            self.wake();
        }
    }

    /// The helper thread.
    fn help(&self) {
        loop {
            self.look();
            // After the bell was heard: the last ring of it says that this is set.
            if self.over.load(Ordering::Acquire) != 0 {
                return;
            }
            self.sleep(&self.bell, self.helper.heard());
        }
    }

    fn end(&self) {
        self.over.store(1, Ordering::Release);
        self.bell.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// Waits until a word has come to a number.
    fn wait_for(&self, word: &AtomicU32, number: u32) {
        loop {
            let now = word.load(Ordering::Acquire);
            if has_come_to(now, number) {
                return;
            }
            self.sleep(word, now);
        }
    }

    fn ask(&self) {
        let number = self.words().ask();
        self.wake();
        self.wait_for(&self.answered, number);
    }

    /// The reader wants something, and is answered.
    fn want(&self, who: u32) {
        self.wanted.store(who, Ordering::Relaxed);
        self.ask();
    }
}

/// A helper, and `reader` beside it.
fn beside_a_helper(world: &Arc<World>, reader: impl FnOnce(&World)) {
    let other = Arc::clone(world);
    let helper = thread::spawn(move || other.help());
    reader(world);
    world.end();
    helper.join().unwrap();
}

#[test]
fn no_request_for_a_flush_is_slept_through() {
    model(2, || {
        beside_a_helper(&World::new(), |world| {
            for _ in 0..2 {
                let number = world.words().ask_flush();
                world.wake();
                world.wait_for(&world.flushed, number);
            }
        });
    });
}

#[test]
fn what_is_wanted_is_in_force_when_the_request_is_answered() {
    model(2, || {
        beside_a_helper(&World::new(), |world| {
            world.set_owner(FIRST);
            for wish in [7, 8] {
                world.want(wish);
                assert_eq!(world.in_force.load(Ordering::Relaxed), wish);
            }
        });
    });
}

/// The first reader dies while its wishes are in force, the second takes the lock at once.
fn hand_over(second: impl Fn(&World) + Send + Sync + 'static) {
    model(2, move || {
        let world = World::new();
        world.set_owner(FIRST);
        world.wanted.store(FIRST, Ordering::Relaxed);
        world.words().ask();
        world.look();
        assert_eq!(world.in_force.load(Ordering::Relaxed), FIRST);
        beside_a_helper(&world, |world| {
            world.set_owner(0);
            // The helper may look right now, for its time is up.
            world.wake();
            world.set_owner(SECOND);
            second(world);
            assert_eq!(world.in_force.load(Ordering::Relaxed), SECOND);
        });
    });
}

#[test]
fn a_reader_that_takes_over_finds_its_wishes_in_force_and_not_erased() {
    hand_over(|world| {
        if world.words().may_be_erased() {
            world.ask();
        }
        world.want(SECOND);
    });
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_reader_that_would_not_ask_first_might_have_its_wishes_erased() {
    hand_over(|world| world.want(SECOND));
}

/// As in a child of fork, where the wishes of its parent's reader are in force, and that reader comes.
#[test]
fn a_reader_that_has_the_lock_and_has_not_asked_takes_nothing_out_of_force() {
    model(2, || {
        let world = World::new();
        world.in_force.store(FIRST, Ordering::Relaxed);
        beside_a_helper(&world, |world| {
            world.set_owner(FIRST);
            // The helper may look right now, for its time is up.
            world.wake();
            assert_eq!(world.in_force.load(Ordering::Relaxed), FIRST);
            world.want(FIRST);
            assert_eq!(world.in_force.load(Ordering::Relaxed), FIRST);
        });
    });
}

#[test]
fn a_program_whose_reader_is_gone_is_off_and_says_that_nothing_is_being_erased() {
    model(2, || {
        let world = World::new();
        world.set_owner(FIRST);
        world.wanted.store(FIRST, Ordering::Relaxed);
        world.words().ask();
        world.look();
        beside_a_helper(&world, |world| {
            world.set_owner(0);
            // Who detaches in order unlocks and asks, so that the helper need not find out by itself.
            world.ask();
            assert_eq!(world.in_force.load(Ordering::Relaxed), 0);
            assert_eq!(world.wanted.load(Ordering::Relaxed), 0);
            assert!(!world.words().may_be_erased());
        });
    });
}
