//! The stack of an event: what was running when it happened, innermost first.
//!
//! It comes from the kernel as addresses and memory ([`Stack::taken`]); [`crate::symbolize`] makes
//! [`Frame`]s of that once the event's place in the stream is known.

use std::sync::Arc;

use tracebraid_bpf::record;

/// What of stacks is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The most frames of the kernel, and of the process.
    pub frames: u16,
    /// Bytes of the process's stack that are copied and unwound by the program's tables; `None` follows
    /// frame pointers.
    pub dwarf: Option<u16>,
    /// Each frame's place in the source.
    pub source_lines: bool,
}

impl Wanted {
    /// The most frames where the user says nothing: what the kernel gives unless it is told otherwise.
    pub const FRAMES: u16 = 127;
    /// Bytes that [`dwarf`](Wanted::dwarf) copies where the user says nothing, as perf does.
    pub const DWARF: u16 = 8192;
}

/// See the module's page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// As it came; empty once it was read.
    pub taken: record::Stack,
    /// The kernel's frames, then the process's.
    pub frames: Vec<Frame>,
    /// How it ends.
    pub end: End,
}

/// How a stack ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// At a thread's first function, as far as can be known.
    #[default]
    Whole,
    /// It is deeper than so many frames.
    Cut(u16),
    /// Callers are missing: functions without frame pointers, memory that was not copied or cannot be read.
    Incomplete,
}

/// A function that had been called and had not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The instruction it is at or returns to.
    pub address: u64,
    /// Whether it is the kernel's.
    pub kernel: bool,
    /// Its name, as the source has it.
    pub symbol: Option<Arc<str>>,
    /// Bytes from where the function begins.
    pub offset: u64,
    /// The file it is in, or a name in brackets.
    pub module: Arc<str>,
    /// Its code stands in the next frame's function, at the same address.
    pub inlined: bool,
    /// File and line in the source, `/src/main.rs:17`.
    pub source: Option<Arc<str>>,
}

impl From<Box<record::Stack>> for Box<Stack> {
    fn from(taken: Box<record::Stack>) -> Box<Stack> {
        Box::new(Stack {
            taken: *taken,
            ..Stack::default()
        })
    }
}
