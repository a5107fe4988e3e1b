//! Requests of a reader and the answers of the program's helper thread, over words that both map.
//!
//! ```text
//! reader   has the lock ─▶ writes what it wants ─▶ ASKED += 1 ─▶ BELL += 1, wake
//!          FLUSH_ASKED += 1 ─▶ BELL += 1, wake
//! helper   hears BELL ─▶ flush ─▶ whose is the lock?  somebody's: read what is wanted    (Turn::Serve)
//!                                                     nobody's:   erase what was wanted  (Turn::Forget)
//!          ─▶ switch sites ─▶ ANSWERED = the request it had taken, wake ─▶ wait while BELL is as heard
//! ```
//! Four things could go wrong, and do not:
//!
//! * **A request between the helper's look and its sleep.** The helper notes the bell before it looks, and
//!   the kernel puts it to sleep only while the bell is what was noted.
//! * **An answer to less than was asked.** What is answered is the number that was read before the lock and
//!   the wishes were.
//! * **A reader that takes the lock while the helper erases what the last one wanted.** `SERVING` says
//!   that a helper still has wishes in force. A reader that finds it set asks first and awaits the answer:
//!   having answered under the new lock, the helper has erased what it had to, and will erase nothing more
//!   as long as the lock is held.
//! * **A reader that has the lock and has not written yet what it wants.** Only what is asked is served: a
//!   child of fork goes on with what its parent's reader wanted until its own has asked.
//!
//! Nothing here waits: the caller's futex calls do, on [`Words::bell`], [`Words::answered`] and
//! [`Words::flushed`].

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// The words.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// Requests to look at what is wanted: counted up by the reader.
    pub asked: &'a AtomicU32,
    /// Futex. The request that was answered last.
    pub answered: &'a AtomicU32,
    /// Requests for a flush: counted up by the reader.
    pub flush_asked: &'a AtomicU32,
    /// Futex. The flush that was done last.
    pub flushed: &'a AtomicU32,
    /// Futex. Counted up after each request of either kind.
    pub bell: &'a AtomicU32,
    /// 1 while wishes of a reader are in force, or are being erased.
    pub serving: &'a AtomicU32,
}

/// The reader's side. It has the lock.
impl Words<'_> {
    /// Asks the helper to look at what is wanted. The request's number; [`bell`](Self::bell) is to be woken.
    pub fn ask(&self) -> u32 {
        self.count_up(self.asked)
    }

    /// Asks for a flush. Its number; [`bell`](Self::bell) is to be woken.
    pub fn ask_flush(&self) -> u32 {
        self.count_up(self.flush_asked)
    }

    fn count_up(&self, word: &AtomicU32) -> u32 {
        let number = word.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        self.bell.fetch_add(1, Ordering::AcqRel);
        number
    }

    /// Whether a helper may still be erasing what an earlier reader wanted. Then a request is to be answered
    /// before anything is wanted.
    pub fn may_be_erased(&self) -> bool {
        self.serving.load(Ordering::Acquire) != 0
    }
}

/// Whether a word that is counted up has come to a number.
pub fn has_come_to(word: u32, number: u32) -> bool {
    word.wrapping_sub(number) < u32::MAX / 2
}

/// What a helper is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing: what was asked is in force.
    Rest,
    /// Nothing: nobody has the lock. Requests are answered, for theirs is served by there being nobody.
    Nobody,
    /// Read what is wanted, put it in force, [`Helper::answer`].
    Serve,
    /// Erase what was wanted, say [`Helper::erased`], take it out of force, [`Helper::answer`].
    Forget,
}

/// The helper's side: one thread's.
pub struct Helper {
    /// The bell before the last look.
    heard: AtomicU32,
    /// The request that is being served.
    taken: AtomicU32,
    /// The request that was answered last.
    answered: AtomicU32,
    serving: AtomicBool,
    has_answered: AtomicBool,
}

impl Helper {
    /// A helper that has served nobody.
    #[cfg(not(loom))]
    pub const fn new() -> Helper {
        Helper {
            heard: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            serving: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
        }
    }

    /// A helper that has served nobody.
    #[cfg(loom)]
    pub fn new() -> Helper {
        Helper {
            heard: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            serving: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
        }
    }

    /// Begins a look at the words: what is asked from here on wakes the helper, or keeps it from sleeping.
    pub fn hear(&self, words: &Words<'_>) {
        self.heard
            .store(words.bell.load(Ordering::Acquire), Ordering::Relaxed);
    }

    /// What the bell was when the look began. The helper may sleep as long as it is that.
    pub fn heard(&self) -> u32 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The flush that is due.
    pub fn flush(&self, words: &Words<'_>) -> Option<u32> {
        let asked = words.flush_asked.load(Ordering::Acquire);
        (words.flushed.load(Ordering::Relaxed) != asked).then_some(asked)
    }

    /// Says that a flush is done. [`Words::flushed`] is to be woken.
    pub fn flushed(&self, words: &Words<'_>, number: u32) {
        words.flushed.store(number, Ordering::Release);
    }

    /// What is to be done. `is_owned` tells whether a reader has the lock.
    pub fn turn(&self, words: &Words<'_>, is_owned: impl FnOnce() -> bool) -> Turn {
        // Before the lock is looked at: whoever asked this had it.
        let asked = words.asked.load(Ordering::Acquire);
        if !is_owned() {
            self.taken.store(asked, Ordering::Relaxed);
            return match self.serving.swap(false, Ordering::Relaxed) {
                true => Turn::Forget,
                false => Turn::Nobody,
            };
        }
        if asked == self.answered.load(Ordering::Relaxed) {
            return Turn::Rest;
        }
        self.serving.store(true, Ordering::Relaxed);
        // Before the lock is looked at again, and so before anything is erased.
        words.serving.store(1, Ordering::Release);
        self.taken.store(asked, Ordering::Relaxed);
        Turn::Serve
    }

    /// Says that what was wanted is erased.
    pub fn erased(&self, words: &Words<'_>) {
        words.serving.store(0, Ordering::Release);
    }

    /// Answers the request that the last turn took. Whether [`Words::answered`] is to be woken.
    pub fn answer(&self, words: &Words<'_>) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        self.answered.store(taken, Ordering::Relaxed);
        if taken != 0 {
            self.has_answered.store(true, Ordering::Release);
        }
        words.answered.swap(taken, Ordering::AcqRel) != taken
    }

    /// Whether any request was ever answered, of this region or an earlier one. Of any thread.
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Acquire)
    }

    /// Begins to serve another region, of which nothing was asked.
    pub fn begin_anew(&self) {
        self.answered.store(0, Ordering::Relaxed);
        self.serving.store(false, Ordering::Relaxed);
    }
}

impl Default for Helper {
    fn default() -> Helper {
        Helper::new()
    }
}
