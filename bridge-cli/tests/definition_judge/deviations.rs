//! Where we answer otherwise than the newest kernel, on purpose: each with the reason that `docs/probes.md`
//! gives, and how such a line is known.

use bridge::definition::{Definition, Place};

use crate::named::{is_of_signed_bytes, is_structure_of, read_as_text};
use crate::older::{NEWEST, Version};
use crate::vocabulary::Vocabulary;

/// One line of which the two say different things, or whose listings differ.
pub(crate) struct Disagreement<'a> {
    pub(crate) words: &'a Vocabulary<'a>,
    /// The line; where it is about a listing or a format, all lines.
    pub(crate) line: &'a str,
    /// Whether it is about a listing or a format.
    pub(crate) is_of_listing: bool,
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
    /// Our verdict on this line in its place.
    pub(crate) again: &'a dyn Fn(&str) -> String,
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

    /// Whether we say what the kernel says, where the line is written as the kernel sees it: a byte is a
    /// character, 0xa0 a blank.
    fn is_split_at_0xa0(&self) -> bool {
        if !self.line.as_bytes().contains(&0xa0) {
            return false;
        }
        let seen = |&byte: &u8| match byte {
            0xa0 => ' ',
            0xaa | 0xb5 | 0xba | 0xc0..=0xd6 | 0xd8..=0xf6 | 0xf8..=0xff => 'X',
            0x80..=0xff => '\x01',
            byte => byte as char,
        };
        let line: String = self.line.as_bytes().iter().map(seen).collect();
        let again = (self.again)(&line);
        match Version::here() >= NEWEST {
            true => again == self.theirs,
            false => (again == "ok") == (self.theirs == "ok"),
        }
    }

    /// Whether the kernel refuses a value by name, because it is in a file, and we come at least as far.
    fn is_name_in_file(&self) -> bool {
        const REFUSED: &str = "EINVAL; trace_uprobe: \"BTF is not available or not supported\"";
        let Some(column) = self::column(self.theirs).filter(|_| self.theirs.starts_with(REFUSED))
        else {
            return false;
        };
        let line = self
            .line
            .split_ascii_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let is_name = line
            .as_bytes()
            .get(column)
            .is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_');
        let is_as_far = self.ours == "ok"
            || self.ours.contains("trace_uprobe")
                && self::column(self.ours).is_some_and(|own| own >= column);
        is_name && is_as_far
    }
}

const NO_TEXT: &str = "This type does not fit for string.";

/// Where the caret of a verdict stands.
fn column(verdict: &str) -> Option<usize> {
    verdict.rsplit_once(" @")?.1.parse().ok()
}

pub(crate) struct Deviation {
    /// As `docs/probes.md` has it.
    pub(crate) reason: &'static str,
    pub(crate) is_it: fn(&Disagreement<'_>) -> bool,
}

pub(crate) const ON_PURPOSE: &[Deviation] = &[
    Deviation {
        reason: "a blank is an ASCII blank; the kernel also splits at the byte 0xa0",
        is_it: |it| it.is_split_at_0xa0(),
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
        is_it: |it| it.is_name_in_file(),
    },
    Deviation {
        reason: "a filter of an event probe is refused in words of our own",
        is_it: |it| {
            it.line.contains(" if")
                && it.ours == "EINVAL"
                && it.theirs.starts_with("EINVAL; event filter parse error: ")
        },
    },
    Deviation {
        reason: "a pointer to text is a number in filters of event probes; the kernel compares it with text only",
        is_it: |it| {
            it.line.trim_start().starts_with('e')
                && it.line.contains(" if ")
                && !it.ours.contains("event filter parse error")
                && it.theirs.contains("\"Expecting string field\"")
        },
    },
    Deviation {
        reason: "the function of f is a name; the kernel hands it to ftrace as a pattern, in which `\\_` is `_`",
        is_it: |it| {
            it.is_by_ftrace()
                && it.theirs == "ok"
                && it.ours.contains("Invalid probed address or symbol")
                && it.place().contains('\\')
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
            let texts = || read_as_text(it.words, it.line).into_iter();
            it.ours.contains(NO_TEXT)
                && !it.theirs.contains(NO_TEXT)
                && texts().any(|one| is_structure_of(it.words, &one, 8))
        },
    },
    Deviation {
        reason: ":string takes arrays of and pointers to bytes, signed or not",
        is_it: |it| {
            let texts = || read_as_text(it.words, it.line).into_iter();
            it.ours == "ok"
                && it.theirs.contains(NO_TEXT)
                && texts().any(|one| is_of_signed_bytes(it.words, &one))
        },
    },
    Deviation {
        reason: "where a member is no text, the kernel's column lies far behind the command",
        is_it: |it| {
            it.both_say(NO_TEXT) && column(it.theirs).is_some_and(|column| column > it.line.len())
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
