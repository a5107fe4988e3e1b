//! The options of `attach` about stacks.

use clap::Args;

use crate::error::{Error, ErrorKind, Result};
use crate::stack::Wanted;

/// See the module's page.
#[derive(Debug, Args)]
pub(super) struct StackArgs {
    /// The stack at every event of the kernel side: of the kernel and of the process, by frame pointers
    #[arg(short = 'g', long = "stacks")]
    stacks: bool,
    /// How the process's stack is found: fp, by frame pointers, or dwarf, by the program's unwind tables from
    /// so many bytes of it (8192). Implies -g
    #[arg(long, value_name = "fp|dwarf[,BYTES]", value_parser = call_graph)]
    call_graph: Option<CallGraph>,
    /// The most frames of the kernel, and of the process
    #[arg(long, value_name = "N", default_value_t = Wanted::FRAMES, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_stack: u16,
    /// More in what is printed: +srcline, each frame's place in the source
    #[arg(short = 'F', long = "fields", value_name = "+srcline", value_parser = ["+srcline"])]
    fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallGraph {
    dwarf: Option<u16>,
}

impl StackArgs {
    /// What is wanted; `None` where no stacks are.
    pub(super) fn wanted(&self) -> Result<Option<Wanted>> {
        if !self.stacks && self.call_graph.is_none() {
            if !self.fields.is_empty() || self.max_stack != Wanted::FRAMES {
                let message =
                    "--max-stack and -F +srcline are about stacks, and none are asked for";
                return Err(Error::new(ErrorKind::Usage, message).hint("add -g"));
            }
            return Ok(None);
        }
        Ok(Some(Wanted {
            frames: self.max_stack,
            dwarf: self.call_graph.and_then(|graph| graph.dwarf),
            source_lines: !self.fields.is_empty(),
        }))
    }
}

/// `fp`, `dwarf` or `dwarf,BYTES`.
fn call_graph(text: &str) -> Result<CallGraph, String> {
    let (way, bytes) = match text.split_once(',') {
        Some((way, bytes)) => (way, Some(bytes)),
        None => (text, None),
    };
    let dwarf = match (way, bytes) {
        ("fp", None) => None,
        ("fp", Some(_)) => return Err("fp copies nothing of the stack".into()),
        ("dwarf", None) => Some(Wanted::DWARF),
        ("dwarf", Some(bytes)) => {
            let bytes = bytes
                .parse()
                .ok()
                .filter(|bytes| (8..=65_528).contains(bytes));
            Some(bytes.ok_or("how much of the stack is from 8 to 65528 bytes")?)
        }
        _ => return Err("it is fp, dwarf or dwarf,BYTES".into()),
    };
    Ok(CallGraph { dwarf })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_find_a_stack_is_read_as_perf_writes_it() {
        let dwarf = |text| call_graph(text).map(|graph| graph.dwarf);
        assert_eq!(dwarf("fp"), Ok(None));
        assert_eq!(dwarf("dwarf"), Ok(Some(8192)));
        assert_eq!(dwarf("dwarf,65528"), Ok(Some(65_528)));
        for wrong in [
            "",
            "lbr",
            "fp,8",
            "dwarf,",
            "dwarf,7",
            "dwarf,65529",
            "dwarf,-8",
        ] {
            assert!(dwarf(wrong).is_err(), "{wrong}");
        }
    }
}
