//! Names of the kernel's addresses, and where a stack begins that was taken by a program of ours.
//!
//! Events with records of their own are seen by raw tracepoints, whose stacks begin in the program itself:
//! its own frame, the kernel's call of it, and the tracepoint's. The stack of the event begins behind. Where a
//! function's entry or return is seen by a trampoline, its code and the program's come first; both were
//! compiled at run time and have no names.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use crate::stack::Frame;
use crate::tracefs::symbols::Symbols;

/// Names, or beginnings of names, of functions between a tracepoint and a program of ours.
const BETWEEN: &[&str] = &[
    "bpf_",
    "__bpf_",
    "__traceiter_",
    "__SCT__tp_func_",
    "trace_call_bpf",
];
/// Where the kernel says its names.
const NAMES: &str = "/proc/kallsyms";
/// Frames among which these are looked for.
const FIRST: usize = 10;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Kernel {
    symbols: Symbols,
    whole: Arc<str>,
}

/// Whether names can be had: without the right to them every address is 0. Read only as far as it takes.
pub(super) fn has_names() -> bool {
    let Ok(file) = File::open(NAMES) else {
        return false;
    };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    // Older kernels begin with offsets into per-CPU memory, some thousand of them.
    lines.by_ref().take(1 << 15).any(|line| {
        let address = line.split(' ').next().unwrap_or("");
        u64::from_str_radix(address, 16).is_ok_and(|address| address >> 63 == 1)
    })
}

impl Kernel {
    pub(super) fn new() -> Kernel {
        Kernel {
            symbols: Symbols::new(NAMES, ""),
            whole: "[kernel.kallsyms]".into(),
        }
    }

    /// The frames of these addresses.
    pub(super) fn frames(&self, addresses: &[u64]) -> Vec<Frame> {
        let mut frames: Vec<Frame> = addresses
            .iter()
            .map(|&address| self.frame(address))
            .collect();
        let is_between = |frame: &Frame| {
            let name = frame.symbol.as_deref().unwrap_or("");
            BETWEEN.iter().any(|between| name.starts_with(between))
        };
        let last = frames.iter().take(FIRST).rposition(is_between);
        frames.drain(..last.map_or(0, |last| last + 1));
        let named = frames.iter().position(|frame| frame.symbol.is_some());
        // Where none has a name, they may not be seen.
        frames.drain(..named.unwrap_or(0));
        frames
    }

    fn frame(&self, address: u64) -> Frame {
        // What called may be the last instruction of its function.
        let found = self.symbols.find(address.saturating_sub(1));
        let module = found.as_ref().and_then(|found| found.module);
        Frame {
            address,
            kernel: true,
            symbol: found.as_ref().map(|found| found.name.into()),
            offset: found.as_ref().map_or(0, |found| found.offset + 1),
            module: module.map_or_else(|| Arc::clone(&self.whole), Arc::from),
            inlined: false,
            source: None,
        }
    }
}
