//! What a tracepoint is made of: its fields and the places where it is hit.

use tracebraid_wire::kind::FieldKind;

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FieldKind,
    /// Whether USDT readers see it: its slots are among the first twelve.
    pub in_usdt: bool,
}

/// A place in code where a tracepoint is hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Source file, as the compiler was given it.
    pub file: String,
    /// Line in it, from 1.
    pub line: u32,
    /// Address of the site's code in this process.
    pub address: usize,
    /// Whether it tests the semaphore instead of being patched (`gate = "semaphore"`).
    pub tests_semaphore: bool,
}
