//! Where we answer otherwise than the newest kernel, on purpose: each with the reason that `docs/probes.md`
//! gives, and how such a line is known.

use bridge::definition::{Definition, Place};

/// One line of which the two say different things, or whose listings differ.
pub(crate) struct Disagreement<'a> {
    /// The line; where it is about a listing or a format, all lines.
    pub(crate) line: &'a str,
    /// Whether it is about a listing or a format.
    pub(crate) is_of_listing: bool,
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
}

impl Disagreement<'_> {
    /// The second word of the line.
    fn place(&self) -> &str {
        let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b';
        let mut words = self.line.split(is_blank).filter(|word| !word.is_empty());
        words.nth(1).unwrap_or("")
    }

    /// Whether the place is in a file, by a symbol.
    fn is_symbol_in_file(&self) -> bool {
        let place = self.place();
        let behind = place.rsplit_once(':').map_or("", |(_, behind)| behind);
        place.contains('/')
            && behind.starts_with(|c: char| c.is_ascii_alphabetic() || "_.$".contains(c))
    }

    /// Whether it is of `f` or `t`.
    pub(crate) fn is_by_ftrace(&self) -> bool {
        self.line.trim_start().starts_with(['f', 't'])
    }

    fn both_say(&self, text: &str) -> bool {
        self.ours.contains(text) && self.theirs.contains(text)
    }
}

pub(crate) struct Deviation {
    /// As `docs/probes.md` has it.
    pub(crate) reason: &'static str,
    pub(crate) is_it: fn(&Disagreement<'_>) -> bool,
}

pub(crate) const ON_PURPOSE: &[Deviation] = &[
    Deviation {
        reason: "a blank is an ASCII blank; the kernel also splits at the byte 0xa0",
        is_it: |it| it.line.as_bytes().contains(&0xa0),
    },
    Deviation {
        reason: "symbols in files are taken; the kernel takes offsets only",
        is_it: |it| {
            it.is_symbol_in_file()
                && (it.theirs == "EINVAL" || it.theirs.contains("No matching dynamic event type"))
        },
    },
    Deviation {
        reason: "parameters are known by name in files with debug information",
        is_it: |it| {
            it.ours.contains("trace_uprobe")
                && it.theirs.contains("BTF is not available or not supported")
                || it.ours == "ok"
                    && it.theirs.starts_with(
                        "EINVAL; trace_uprobe: \"BTF is not available or not supported\"",
                    )
        },
    },
    Deviation {
        reason: "a filter of an event probe is refused in words of our own",
        is_it: |it| {
            it.ours == "EINVAL" && it.theirs.starts_with("EINVAL; event filter parse error: ")
        },
    },
    Deviation {
        reason: "a bitfield whose width and offset do not fit into 64 bits is refused; the kernel's sum wraps",
        is_it: |it| {
            it.ours.contains("Invalid bitfield")
                && !it.theirs.contains("Invalid bitfield")
                && it.line.contains(":b18446744073709551")
        },
    },
    Deviation {
        reason: "a structure is no text; of one of 8 bytes the kernel takes the size for the number of a type",
        is_it: |it| {
            it.ours.contains("This type does not fit for string.")
                && !it.theirs.contains("This type does not fit for string.")
        },
    },
    Deviation {
        reason: ":string takes arrays of and pointers to bytes, signed or not",
        is_it: |it| it.ours == "ok" && it.theirs.contains("This type does not fit for string."),
    },
    Deviation {
        reason: "where a member is no text, the kernel's column lies far behind the command",
        is_it: |it| {
            let column = it.theirs.rsplit_once('@').map_or("", |(_, column)| column);
            it.both_say("This type does not fit for string.")
                && column
                    .parse::<usize>()
                    .is_ok_and(|column| column > it.line.len())
        },
    },
];

/// Numeric addresses are hashed by the kernel, in names too.
pub(crate) fn without_addresses(text: &str, definitions: &[Definition]) -> String {
    let mut text = text.to_owned();
    let addresses = definitions.iter().filter_map(|one| match one.place {
        Place::Address(address) => Some(address),
        _ => None,
    });
    let addresses: Vec<u64> = addresses.collect();
    if addresses.is_empty() {
        return text;
    }
    for address in addresses {
        text = text.replace(&format!(" {address:#x}"), " 0x");
    }
    let mut from = 0;
    while let Some(at) = text[from..].find("0x") {
        let start = from + at + 2;
        let digits = text[start..]
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count();
        if digits == 16 {
            text.replace_range(start..start + digits, "");
        }
        from = start;
    }
    text
}
