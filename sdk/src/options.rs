//! How the SDK works in a process.

use std::time::Duration;

/// How the SDK works in this process. The default is right for most.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) thread: bool,
    pub(crate) watch: Duration,
    pub(crate) patching: Patching,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            thread: true,
            watch: Duration::from_millis(250),
            patching: Patching::Auto,
        }
    }
}

impl Options {
    /// The defaults: a helper thread that looks at semaphores every 250 ms.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Starts no helper thread: for programs that `unshare`, or whose sandbox forbids threads.
    #[must_use]
    pub fn no_thread(mut self) -> Options {
        self.thread = false;
        self
    }

    /// How often semaphores are looked at: 1 ms or more.
    #[must_use]
    pub fn watch_semaphores(mut self, every: Duration) -> Options {
        self.watch = every.max(Duration::from_millis(1));
        self
    }

    /// How text is written.
    #[must_use]
    pub fn patching(mut self, patching: Patching) -> Options {
        self.patching = patching;
        self
    }
}

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Patching {
    /// Through `/proc/self/mem`, and where that is refused by `mprotect`.
    #[default]
    Auto,
    /// Through `/proc/self/mem` only.
    ProcMem,
    /// By making the page writable for the moment of the store.
    Mprotect,
}
