//! The target: a process or several, their threads, the binaries they map, and the tracepoints in them.
//!
//! A **process** is held by its directory under `/proc`, opened once, so that a number that was given to
//! somebody else meanwhile is never mistaken for it. Its executable mappings lead to files, each known by
//! device and inode and opened through the process itself: neither another mount namespace nor a file
//! that was replaced leads to the wrong one.
//!
//! A **binary** is such a file, or one that the user named. All that is known of it is read from the file
//! alone, by offset, with limits, and every number in it is taken for hostile:
//!
//! ```text
//! file ─▶ image     segments (address ↔ file offset), sections, symbols
//!          ├▶ sdk    the note `tracebraid` and its tables ─▶ Tracepoint
//!          └▶ note   .note.stapsdt ─▶ usdt (+ argument) ─▶ UsdtProbe
//! ```
//!
//! Both kinds turn into [`tracebraid_bpf::spec::Location`]s. A tracepoint of the SDK is a USDT probe too;
//! it is listed once, as the richer of the two. What is not there is a value, not an error: a binary
//! without section headers says so instead of failing.

mod argument;
mod argument_text;
mod binary;
mod debug_file;
mod debug_sections;
mod family;
pub mod functions;
mod image;
mod mapped_file;
mod maps;
mod nop5;
mod note;
mod operand;
mod process;
mod process_end;
mod sdk;
mod targets;
mod uretprobe_call;
mod usdt;

pub use argument::{Argument, ArgumentType};
pub use binary::{Binary, FileId, Unfit};
pub use debug_sections::DebugSections;
pub(crate) use family::{descendants, is_alive, threads};
pub(crate) use image::{Image, Section};
pub use image::{Machine, Place, Segment};
pub(crate) use maps::parse_all_maps;
pub use maps::{Mapping, parse_maps};
pub use process::{Process, Scan, Thread};
pub use process_end::ProcessEnd;
pub use sdk::{SdkTables, Site, Tracepoint, TracepointField, TracepointLocation};
pub use targets::Targets;
pub(crate) use uretprobe_call::is_filtered as shows_returns_to_seccomp;
pub use usdt::{Attachable, Semaphore, UsdtLocation, UsdtNotes, UsdtProbe, Warning};

/// Bytes of a file as text: UTF-8 as it is, every other byte as `\xff`, so that two names that differ
/// stay different.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
