//! How the SDK works in a process.

use std::time::Duration;

#[cfg(tracebraid_keys)]
use crate::environment;

/// How the SDK works in this process. The default is right for most.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) thread: bool,
    pub(crate) watch: Duration,
    pub(crate) patching: Patching,
    pub(crate) appending: Appending,
    pub(crate) flight_recorder: bool,
    pub(crate) eager: bool,
    recording: Option<String>,
    ring_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            thread: true,
            watch: Duration::from_millis(250),
            patching: Patching::Auto,
            appending: Appending::Auto,
            flight_recorder: false,
            eager: false,
            recording: None,
            ring_bytes: None,
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

    /// How records are appended to the rings.
    #[must_use]
    pub fn appending(mut self, appending: Appending) -> Options {
        self.appending = appending;
        self
    }

    /// Bytes of each CPU's ring: a power of two from 16 KiB to 1 GiB, others are rounded up to one. The
    /// environment variable `TRACEBRAID_RING` (`1M`, `65536`) stands above it. Memory is taken as it is
    /// first written.
    #[must_use]
    pub fn ring(mut self, bytes: usize) -> Options {
        self.ring_bytes = Some(bytes);
        self
    }

    /// Makes the rings a flight recorder from the start: full ones of this many bytes (as for
    /// [`ring`](Self::ring)) overwrite what is oldest, and what they hold can be looked at any time by
    /// `bridge-cli snapshot`. All tracepoints are recorded, or those that [`record`](Self::record) names.
    #[must_use]
    pub fn flight_recorder(mut self, bytes: usize) -> Options {
        self.flight_recorder = true;
        self.ring(bytes)
    }

    /// Records the tracepoints that `pattern` names from the start, with nobody asking: in a flight
    /// recorder always, else until the first bridge that attaches says what it wants. The environment
    /// variable `TRACEBRAID_RECORD` stands above it.
    #[must_use]
    pub fn record(mut self, pattern: &str) -> Options {
        self.recording = Some(pattern.to_owned());
        self
    }

    /// Takes all memory of the rings in [`init_with`](crate::init_with()), a ring of [`ring`](Self::ring)
    /// bytes for each CPU, and makes the calling thread known, so that its events need no system call and
    /// no new page from then on: for services that close a seccomp filter or lock their memory later.
    #[must_use]
    pub fn eager(mut self) -> Options {
        self.eager = true;
        self
    }

    /// How text is written.
    #[must_use]
    pub fn patching(mut self, patching: Patching) -> Options {
        self.patching = patching;
        self
    }
}

/// Bytes of a ring where nobody says.
#[cfg(tracebraid_keys)]
const RING_BYTES: usize = 1 << 20;

#[cfg(tracebraid_keys)]
impl Options {
    /// The ring's size: from the environment, else what was asked, else 1 MiB.
    pub(crate) fn ring_bytes(&self) -> usize {
        use tracebraid_ring::Geometry;

        let from_environment =
            environment::variable("TRACEBRAID_RING").and_then(|text| size(&text));
        let wanted = from_environment.or(self.ring_bytes).unwrap_or(RING_BYTES);
        wanted
            .clamp(Geometry::MIN_RING, Geometry::MAX_RING)
            .next_power_of_two()
    }

    /// What is recorded with nobody asking: from the environment, else what was asked, else everything
    /// where the rings are a flight recorder.
    pub(crate) fn recording(&self) -> Option<String> {
        let from_environment = environment::variable("TRACEBRAID_RECORD");
        let asked = from_environment.or_else(|| self.recording.clone());
        asked.or_else(|| self.flight_recorder.then(|| "*".to_owned()))
    }
}

/// Reads `65536`, `64k`, `1M`, `1G`.
#[cfg(tracebraid_keys)]
fn size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.trim().as_bytes().last()? {
        b'k' | b'K' => (&text.trim()[..text.trim().len() - 1], 1 << 10),
        b'm' | b'M' => (&text.trim()[..text.trim().len() - 1], 1 << 20),
        b'g' | b'G' => (&text.trim()[..text.trim().len() - 1], 1 << 30),
        _ => (text.trim(), 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// How records are appended to the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum Appending {
    /// In a restartable sequence: with the C library's area, else with one of our own, else under a lock.
    #[default]
    Auto = 0,
    /// In a restartable sequence with an area of our own (where the C library has registered none).
    OwnRseq = 1,
    /// Under a lock.
    Locked = 2,
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
