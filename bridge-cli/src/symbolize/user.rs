//! Names of a process's addresses: from its files, or from what it says of code that it made by itself.

use std::collections::HashMap;
use std::sync::Arc;

use super::jit::JitNames;
use super::names::Names;
use super::space::{Backing, Region};
use crate::stack::Frame;

/// Functions that threads begin with: they have no caller.
const FIRST_FUNCTIONS: &[&str] = &[
    "_start",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "__GI___clone3",
];

/// See the module's page.
pub(super) struct UserNames {
    of_files: Names,
    of_processes: HashMap<u32, JitNames>,
    nowhere: Arc<str>,
}

impl UserNames {
    pub(super) fn new(source_lines: bool) -> UserNames {
        UserNames {
            of_files: Names::new(source_lines),
            of_processes: HashMap::new(),
            nowhere: "[unknown]".into(),
        }
    }

    /// The process is another one now.
    pub(super) fn forget(&mut self, process: u32) {
        self.of_processes.remove(&process);
    }

    /// Appends the frames at an address, inlined ones first. What is asked for is what lies so many bytes
    /// before it.
    pub(super) fn frames(
        &mut self,
        process: u32,
        address: u64,
        back: u64,
        region: Option<&Region>,
        out: &mut Vec<Frame>,
    ) {
        let mut frame = Frame {
            address,
            kernel: false,
            symbol: None,
            offset: 0,
            module: Arc::clone(&self.nowhere),
            inlined: false,
            source: None,
        };
        match region.map(|region| (region, &region.backing)) {
            Some((region, Backing::Module(module))) => {
                frame.module = Arc::clone(&module.name);
                let found = self.of_files.of(module, region.file_offset(address - back));
                for name in found.iter() {
                    out.push(Frame {
                        symbol: Some(Arc::clone(&name.text)),
                        offset: if name.inlined { 0 } else { name.offset + back },
                        inlined: name.inlined,
                        source: name.source.clone(),
                        ..frame.clone()
                    });
                }
                if !found.is_empty() {
                    return;
                }
            }
            Some((_, Backing::Memory(name))) => {
                frame.module = Arc::clone(name);
                let names = self.of_processes.entry(process).or_default();
                if let Some((symbol, offset)) = names.find(process, address - back) {
                    (frame.symbol, frame.offset) = (Some(symbol), offset + back);
                }
            }
            None => {}
        }
        out.push(frame);
    }
}

/// Whether a thread begins with it. Where the chain of frame pointers ends, what has no name in the C library's
/// files is taken for that: stripped ones name only what they export.
pub(super) fn is_first_function(frames: &[Frame], ends_chain: bool) -> bool {
    frames.last().is_some_and(|frame| match &frame.symbol {
        Some(symbol) => FIRST_FUNCTIONS.contains(&&**symbol),
        None => {
            ends_chain && {
                let file = frame.module.rsplit('/').next().unwrap_or("");
                ["libc.", "libc-", "ld-"]
                    .iter()
                    .any(|start| file.starts_with(start))
            }
        }
    })
}
