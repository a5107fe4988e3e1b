//! Attaching
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::selector::Selector;

mod wake;
/// What `attach` is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The process to attach to, as the bridge's user numbers it.
    pub pid: Option<u32>,
    /// The command to start as the target; empty for none.
    pub command: Vec<OsString>,
    /// What to trace. Empty means all tracepoints of the target, and sched and system calls of it.
    pub selectors: Vec<Selector>,
    /// Kernel events of all processes.
    pub all_processes: bool,
    /// Only events of this thread.
    pub thread: Option<u32>,
    /// Only events of these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// When to end; `None` means at a signal or with the target.
    pub duration: Option<Duration>,
    /// Where to write; `None` is the standard output.
    pub output: Option<PathBuf>,
    /// Name of the format (`export::formats`).
    pub format: String,
    /// Bytes of each CPU's ring; 0 takes the default.
    pub ring_bytes: usize,
    /// The longest string copied; 0 takes the default.
    pub string_limit: usize,
    /// Whether to say on the standard error what is attached.
    pub verbose: bool,
}
