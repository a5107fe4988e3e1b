//! A stack as `perf script` prints it, a line a frame, innermost first, and an empty line behind it.
//!
//! ```text
//! \tffffffff8108e9ab symbol+0xoff ([kernel.kallsyms])
//! \t    55d0c8e021a4 orders::charge (inlined)
//! \t    55d0c8e021a4 orders::serve+0x54 (/opt/orders)
//!   /src/main.rs:17
//! ```
//! A stack that is not whole says so where the next frame would stand, in the form of one: whoever reads
//! stacks reads that too.

use std::io::Write;

use super::escape;
use crate::stack::{End, Stack};

/// Appends a stack.
pub fn stack(stack: &Stack, out: &mut Vec<u8>) {
    for frame in &stack.frames {
        // Writing to memory does not fail.
        let _ = write!(out, "\t{:16x} ", frame.address);
        match &frame.symbol {
            Some(symbol) => {
                escape(symbol.as_bytes(), out);
                if !frame.inlined {
                    let _ = write!(out, "+{:#x}", frame.offset);
                }
            }
            None => out.extend_from_slice(b"[unknown]"),
        }
        match frame.inlined {
            true => out.extend_from_slice(b" (inlined)\n"),
            false => {
                out.extend_from_slice(b" (");
                escape(frame.module.as_bytes(), out);
                out.extend_from_slice(b")\n");
            }
        }
        if let Some(source) = &frame.source {
            out.extend_from_slice(b"  ");
            escape(source.as_bytes(), out);
            out.push(b'\n');
        }
    }
    let _ = match stack.end {
        End::Whole => Ok(()),
        End::Cut(frames) => writeln!(out, "\t{:16x} [cut after {frames} frames] ([stack])", 0),
        End::Incomplete => writeln!(out, "\t{:16x} [incomplete] ([stack])", 0),
    };
    out.push(b'\n');
}
