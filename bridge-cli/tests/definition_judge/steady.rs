//! Definitions whose values two that look at one hit must both see: only memory is named that does not change
//! meanwhile, and beside what is read from memory there are witnesses.
//!
//! ```text
//! v1=+8(+16(%di)):u32   w0_0=+16(%di):string   w0_1=+8(+16(%di)):string
//! ```
//! Of a number that cannot be read the kernel does not say so, of text it does: each step through memory is read
//! as text as well, and the first that cannot be read says that nothing behind it is known.

use bridge::definition::argument::Argument;
use bridge::definition::knowledge::{EventField, Kernel as _};
use bridge::definition::program::Step;
use bridge::definition::{Definition, Kind};

use crate::arguments::PLAIN_TYPES;
use crate::grammar::{At, Grammar, Sort};
use crate::seats::{Root, Seat, What};

/// Arguments of one definition, without their witnesses.
const ARGUMENTS: usize = 5;

impl Grammar<'_> {
    /// A definition at this place, without witnesses.
    pub(crate) fn hit_at(&mut self, seat: &Seat, name: &str) -> String {
        self.is_careful = true;
        self.is_steady = true;
        let mut place = seat.place.clone();
        if seat.bytes > 0 {
            let inside = 1 + self.random.below(seat.bytes as usize - 1) as u64;
            place = inside_of(&place, inside);
        }
        let mut at = At {
            sort: match seat.letter {
                "f" => Sort::Function,
                "t" => Sort::Tracepoint,
                "e" => Sort::Event,
                _ if place.starts_with('/') => Sort::File,
                _ => Sort::Kernel,
            },
            is_return: seat.letter == "r" || place.ends_with("%return"),
            parameters: Vec::new(),
            returns: None,
            fields: Vec::new(),
        };
        match at.sort {
            Sort::Tracepoint => {
                self.know(&mut at, &format!("__probestub_{place}"));
                // The first is the tracepoint's own.
                at.parameters = at.parameters.split_off(at.parameters.len().min(1));
            }
            Sort::Event => {
                let (group, event) = place.split_once(['.', '/']).expect("GROUP.EVENT");
                let fields = self.words.kernel.event(group, event).unwrap_or_default();
                // The value of any other is its address in the record, of which each has its own.
                let numbers = fields
                    .into_iter()
                    .filter(|field| !field.type_name.contains('['));
                at.fields = numbers.map(|field| field.name).collect();
            }
            _ if seat.bytes > 0 => {}
            _ => self.know(&mut at, place.trim_end_matches("%return")),
        }
        let mut line = format!("{}:bridged/{name} {place}", seat.letter);
        let mut is_asked = false;
        for _ in 0..self.random.between(1, ARGUMENTS) {
            let argument = match seat.roots.is_empty() || self.random.percent(45) {
                true => self.argument(&at),
                false => {
                    let root = *self.random.one(seat.roots);
                    self.of_root(root, &at)
                }
            };
            // Each of them is all that there are, by the same names.
            if argument.contains("$arg*") && std::mem::replace(&mut is_asked, true) {
                continue;
            }
            line.push(' ');
            line.push_str(&argument);
        }
        if at.sort == Sort::Event && self.random.percent(30) {
            line.push_str(" if");
            let filter = self.filter(&at);
            line.push_str(&filter);
        }
        line
    }

    /// An argument of what is known to be there.
    fn of_root(&mut self, (root, what): Root, at: &At) -> String {
        self.named += 1;
        let random = &mut self.random;
        let user = match random.below(5) {
            0 => "u",
            _ => "",
        };
        let plain = random.text(&PLAIN_TYPES);
        let count = random.between(1, 8);
        let body = match what {
            What::Text => {
                let offset = random.between(0, 4);
                match random.below(9) {
                    0..=2 => format!("+{user}{offset}({root}):string"),
                    3 | 4 => format!("+{offset}({root}):ustring"),
                    5 => format!("+{user}{offset}({root}):char"),
                    6 => format!("+{offset}({root}):char[{}]", count.min(5)),
                    7 => format!("+{offset}({root}):{}8[{}]", &plain[..1], count.min(5))
                        .replace(":c8", ":s8"),
                    _ => format!("+{user}{offset:#x}({root}):{plain}"),
                }
            }
            What::Short => {
                let offset = random.between(0, 4);
                let type_ = random.text(&["string", "string", "ustring"]);
                format!("+{user}{offset}({root}):{type_}")
            }
            What::Memory(bytes) => {
                let size = *random.one(&[1, 2, 4, 8]);
                let size = size.min(bytes);
                let offset = random.below(bytes - size + 1);
                let bits = 8 * size;
                let letter = random.text(&["u", "s", "x"]);
                let many = count.min((bytes - offset) / size);
                match random.below(9) {
                    0..=2 => format!("+{user}{offset}({root}):{letter}{bits}"),
                    3 | 4 => format!("+{offset}({root}):{letter}{bits}[{many}]"),
                    5 => format!("+{user}{offset}({root}):{}", self.bits_of(bits)),
                    6 => format!("+{offset}({root}):{}[{many}]", self.bits_of(bits)),
                    7 if size == 8 && at.sort != Sort::File => format!("+{offset}({root}):symbol"),
                    8 if size == 8 => {
                        format!("+{user}{}(+{user}{offset}({root})):{letter}32", count - 1)
                    }
                    _ => format!("+{offset}({root}):{letter}{bits}"),
                }
            }
            What::Texts(texts) => {
                let index = random.below(texts);
                let count = count.min(texts - index);
                let at = 8 * index;
                match random.below(4) {
                    0 => format!("+0(+{user}{at}({root})):string"),
                    1 => format!("+{at}({root}):ustring[{count}]"),
                    _ => format!("+{at}({root}):string[{count}]"),
                }
            }
            What::Code => format!("{root}:{}", random.text(&["symbol", "symstr", "x64"])),
            What::Dentry => format!("{root}:%pd"),
            What::File => format!("{root}:%pD"),
            What::Value => match random.below(4) {
                0 => format!("{root}:{}", self.bits_of(32)),
                _ => format!("{root}:{plain}"),
            },
        };
        format!("v{}={body}", self.named)
    }

    fn bits_of(&mut self, size: usize) -> String {
        let offset = self.random.below(size);
        let width = self.random.between(1, size - offset);
        format!("b{width}@{offset}/{size}")
    }
}

/// The place so many bytes behind this one.
fn inside_of(place: &str, bytes: u64) -> String {
    let of_file = place.rsplit_once(":0x").and_then(|(path, offset)| {
        let offset = u64::from_str_radix(offset, 16).ok()?;
        Some(format!("{path}:{:#x}", offset + bytes))
    });
    of_file.unwrap_or_else(|| format!("{place}+{bytes}"))
}

/// The witnesses of an argument, the `index`th, in the order in which its memory is read: names and expressions.
pub(crate) fn witnesses(
    index: usize,
    argument: &Argument,
    kind: Kind,
    fields: &[EventField],
) -> Vec<(String, String)> {
    let fetch = argument.body.split(':').next().unwrap_or("");
    let mut expression = String::new();
    let mut read = Vec::new();
    for step in argument.program.steps() {
        let (offset, user) = match step {
            Step::Dereference { offset, user } | Step::StoreMemory { offset, user } => {
                (*offset, *user)
            }
            step => {
                if let Some(first) = first(step, fetch, kind, fields) {
                    expression = first;
                }
                continue;
            }
        };
        // `@` reads by itself.
        let inner = match expression.starts_with('@') && read.is_empty() {
            true => None,
            false => Some(expression.clone()),
        };
        let at = |offset: i64| match &inner {
            None if offset == 0 => expression.clone(),
            None => format!("{expression}{offset:+}"),
            Some(inner) => {
                let sign = if offset < 0 { "-" } else { "+" };
                let user = if user { "u" } else { "" };
                format!("{sign}{user}{}({inner})", offset.unsigned_abs())
            }
        };
        read.push(at(offset));
        // The last element may lie where nothing is.
        if let (Step::StoreMemory { .. }, Some(count @ 2..)) = (step, argument.count) {
            let behind = i64::from(argument.value.size() * (count - 1));
            read.push(at(offset.wrapping_add(behind)));
        }
        expression = at(offset);
    }
    let name = |(step, expression)| (format!("w{index}_{step}"), expression);
    read.into_iter().enumerate().map(name).collect()
}

/// What an expression begins with.
fn first(step: &Step, fetch: &str, kind: Kind, fields: &[EventField]) -> Option<String> {
    Some(match step {
        Step::Register(_) => {
            let start = fetch.find('%')?;
            let end = fetch[start..].find(')').unwrap_or(fetch.len() - start);
            fetch[start..start + end].to_owned()
        }
        Step::Stack(number) => format!("$stack{number}"),
        Step::StackPointer => "$stack".to_owned(),
        Step::ReturnValue => "$retval".to_owned(),
        Step::Immediate(value) if fetch.contains('@') => format!("@{value:#x}"),
        Step::Immediate(value) => format!("\\{value}"),
        Step::Argument(number) if kind == Kind::Tracepoint => format!("$arg{number}"),
        Step::Argument(number) | Step::EntryArgument(number) => format!("$arg{}", number + 1),
        Step::FileOffset(offset) => format!("@+{offset:#x}"),
        Step::Symbol { name } => format!("@{name}"),
        Step::EventField(index) => format!("${}", fields.get(*index)?.name),
        _ => return None,
    })
}

/// The line with all witnesses, before its filter.
pub(crate) fn with_witnesses(line: &str, definition: &Definition, fields: &[EventField]) -> String {
    let (mut line, filter) = match line.split_once(" if ") {
        Some((line, filter)) => (line.to_owned(), Some(filter)),
        None => (line.to_owned(), None),
    };
    for (index, argument) in definition.arguments.iter().enumerate() {
        for (name, expression) in witnesses(index, argument, definition.kind, fields) {
            line.push_str(&format!(" {name}={expression}:string"));
        }
    }
    match filter {
        Some(filter) => format!("{line} if {filter}"),
        None => line,
    }
}
