//! A hit as both print it, value by value.

use bridge::definition::argument::Argument;
use bridge::definition::knowledge::EventField;
use bridge::definition::program::Step;
use bridge::definition::value_type::ValueType;
use bridge::definition::{Definition, Kind};

use crate::older::{NEWEST, Version};
use crate::steady::witnesses;

/// Of one argument.
pub(crate) struct Values<'a> {
    pub(crate) argument: &'a Argument,
    kind: Kind,
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
    /// Whether the kernel says that some of the memory it is in, or is led to by, cannot be read.
    is_unreadable: bool,
    /// A text or a symbol's name stands behind it.
    is_before_text: bool,
    /// It begins with a field that is the address of a text.
    is_by_text_field: bool,
}

/// What both print otherwise on purpose.
struct Known {
    /// As `docs/probes.md` has it.
    reason: &'static str,
    is_it: fn(&Values<'_>) -> bool,
}

const KNOWN: &[Known] = &[
    Known {
        reason: "what cannot be read is <fault>; the kernel prints what was in the buffer",
        is_it: |it| it.ours == "<fault>" && it.is_unreadable,
    },
    Known {
        reason: "of an array of texts that cannot be read each is <fault>; the kernel prints what was in the buffer",
        is_it: |it| {
            let mut elements = it.ours.trim_matches(['{', '}']).split(',');
            it.is_unreadable && it.is_array_of_texts() && elements.all(|one| one == "<fault>")
        },
    },
    Known {
        reason: "an entry of the stack that cannot be read is <fault>; the kernel says 0, also of what lies behind \
                 the end of its own stack",
        is_it: |it| {
            let [Step::Stack(entry), ..] = it.argument.program.steps() else {
                return false;
            };
            // Its stack has 2,048 entries of which the innermost are in use.
            let is_behind = it.kind == Kind::Kernel && *entry >= 1024;
            (it.ours == "<fault>" || is_behind)
                && ["0", "0x0", "'\0'", "\"0x0\""].contains(&it.theirs)
        },
    },
    Known {
        reason: "where a return probe is on the same call, whoever is asked after it sees its trampoline as what the \
                 function goes back to",
        is_it: |it| {
            let is_entry = matches!(it.argument.program.steps().first(), Some(Step::Stack(0)));
            it.kind == Kind::Kernel
                && is_entry
                && (is_trampoline(it.ours) || is_trampoline(it.theirs))
        },
    },
    Known {
        reason: "offsets are numbers of 64 bits; the kernel keeps 32 of them",
        is_it: |it| {
            let mut steps = it.argument.program.steps().iter();
            steps.any(|step| match step {
                Step::Dereference { offset, .. }
                | Step::StoreMemory { offset, .. }
                | Step::StoreText { offset, .. } => i32::try_from(*offset).is_err(),
                _ => false,
            })
        },
    },
    Known {
        reason: "an immediate text of a user probe is the text; the kernel prints (fault)",
        is_it: |it| {
            let is_immediate = matches!(it.argument.program.steps().first(), Some(Step::Text(_)));
            it.kind == Kind::File && is_immediate && it.theirs == "(fault)"
        },
    },
    Known {
        reason: "an empty text of a process is \"\"; the kernel prints (fault) before 7",
        is_it: |it| {
            let shown = it
                .ours
                .replace("\"\"", "(fault)")
                .replace("<fault>", "(fault)");
            Version::here() < NEWEST && it.argument.value.is_text() && shown == it.theirs
        },
    },
    Known {
        reason: "@+OFFSET is read in Linux 6.1 too; its own user probes print 0 or (fault)",
        is_it: |it| {
            let is_by_offset = matches!(it.argument.program.steps(), [Step::FileOffset(_), ..]);
            let is_nothing = |text: &str| ["(fault)", "0", "0x0", "'\0'"].contains(&text);
            Version::here() < Version(6, 12) && is_by_offset && is_nothing(it.theirs)
        },
    },
    Known {
        reason: "of a field that is the address of a text event probes before 6.12 know its last byte alone",
        is_it: |it| Version::here() < Version(6, 12) && it.is_by_text_field,
    },
    Known {
        reason: "texts are cut at --string-limit",
        is_it: |it| {
            let shown = it.ours.strip_suffix("\"…");
            shown.is_some_and(|shown| {
                bytes_of(it.theirs).starts_with(&unescaped(shown))
                    && it.theirs.len() > it.ours.len()
            })
        },
    },
    Known {
        reason: "symstr before another text is the symbol; the kernel prints the other text behind it",
        is_it: |it| {
            let shown = it.ours.strip_suffix('"');
            it.argument.value == ValueType::SymbolText
                && it.is_before_text
                && shown.is_some_and(|shown| it.theirs.starts_with(shown))
        },
    },
];

/// Whether a number, in hexadecimal, is where the kernel leads returns that are probed.
fn is_trampoline(shown: &str) -> bool {
    const NAMES: [&str; 3] = [
        "arch_rethook_trampoline",
        "__kretprobe_trampoline",
        "return_to_handler",
    ];
    let table = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut symbols = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.nth(1)?))
    });
    let address = shown.trim_start_matches("0x");
    symbols.any(|(at, name)| NAMES.contains(&name) && at.trim_start_matches('0') == address)
}

impl Values<'_> {
    fn is_array_of_texts(&self) -> bool {
        self.argument.count.is_some() && self.argument.value.is_text()
    }

    /// Nothing, if they are the same; else the reason, if there is one.
    pub(crate) fn differ(&self) -> Option<Option<&'static str>> {
        if self.ours.replace("<fault>", "(fault)") == self.theirs {
            return None;
        }
        let has_texts = self.argument.value.is_text() || self.argument.value == ValueType::Char;
        if has_texts && unescaped(&self.ours.replace("<fault>", "(fault)")) == bytes_of(self.theirs)
        {
            return None;
        }
        let known = KNOWN.iter().find(|known| (known.is_it)(self));
        Some(known.map(|known| known.reason))
    }
}

/// All arguments of a hit but the witnesses. What stands before them is the address, of both.
pub(crate) fn pairs<'a>(
    definition: &'a Definition,
    fields: &[EventField],
    own: &'a str,
    their: &'a str,
) -> ((&'a str, &'a str), Vec<Values<'a>>) {
    let (ours, theirs) = (split(own, definition), split(their, definition));
    let arguments = &definition.arguments;
    let place = |name: &str| arguments.iter().position(|other| other.name == name);
    let is_witness =
        |argument: &&Argument| argument.name.starts_with('w') && argument.name.contains('_');
    let is_by_text_field = |argument: &Argument| match argument.program.steps().first() {
        Some(Step::EventField(index)) => fields.get(*index).is_some_and(EventField::points_to_text),
        _ => false,
    };
    let given = arguments.iter().take_while(|one| !is_witness(one));
    let values = given.enumerate().map(|(index, argument)| {
        let told = witnesses(index, argument, definition.kind, fields);
        let mut told = told.iter().filter_map(|(name, _)| place(name));
        let mut behind = arguments[index + 1..].iter();
        Values {
            argument,
            kind: definition.kind,
            ours: ours[index + 1],
            theirs: theirs[index + 1],
            is_unreadable: told.any(|at| theirs[at + 1] == "(fault)"),
            is_before_text: behind.any(|other| other.value.is_text()),
            is_by_text_field: is_by_text_field(argument),
        }
    });
    ((ours[0], theirs[0]), values.collect())
}

/// The address, and the value of each argument; texts may hold anything.
fn split<'t>(body: &'t str, definition: &Definition) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut rest = body;
    for argument in &definition.arguments {
        let mark = format!(" {}=", argument.name);
        let (before, behind) = rest.split_once(&mark).unwrap_or((rest, ""));
        parts.push(before);
        rest = behind;
    }
    parts.push(rest);
    parts
}

/// The bytes of a line of the kernel's, each of which is a character here.
fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u8).collect()
}

/// The bytes that a value of ours stands for.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let hexadecimal = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let braced = escape
            .strip_prefix("u{")
            .and_then(|inner| inner.split_once('}'));
        rest = match (escape.chars().next(), braced) {
            (_, Some((digits, behind))) => {
                let character = hexadecimal(digits).and_then(char::from_u32);
                let character = character.expect("a character").to_string();
                bytes.extend_from_slice(character.as_bytes());
                behind
            }
            (Some('x'), None) => {
                let byte = hexadecimal(&escape[1..3]).expect("two digits");
                bytes.push(byte as u8);
                &escape[3..]
            }
            (Some(letter), None) => {
                let byte = match letter {
                    'n' => b'\n',
                    't' => b'\t',
                    'r' => b'\r',
                    '0' => 0,
                    letter => letter as u8,
                };
                bytes.push(byte);
                &escape[letter.len_utf8()..]
            }
            (None, None) => "",
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
