//! Probes as text, in the language that the kernel documents for `kprobe_events`, `uprobe_events` and
//! `dynamic_events`, and what that text means.
//!
//! ```text
//! text ─▶ lines ─▶ words ─▶ place, name, arguments ─▶ Definition ─▶ its fields; spec of the kernel side
//!                             │ against Knowledge: symbols, types, events, files
//! p:open do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring
//! r:opened do_sys_openat2 fd=$retval:s32
//! p:add /usr/bin/app:add_order id=%di:u32 user=+0(+8(%si)):string
//! ```
//! A definition is read in the order in which Linux 7.2 reads it, so that what is refused is refused for
//! the same reason and at the same column; where we do otherwise on purpose stands in `docs/probes.md`.
//! Nothing here attaches anything, and nothing needs the running kernel: what is known of a kernel and of
//! files comes through [`Knowledge`].

pub mod argument;
mod btf;
mod by_name;
mod by_user_name;
mod c_name;
pub mod compile;
pub mod dwarf;
mod event_probe;
mod expand;
mod expression;
pub mod fields;
pub mod files_here;
mod function_probe;
pub mod kernel_functions;
pub mod kernel_here;
mod kernel_probe;
mod kernel_text;
pub mod knowledge;
mod name;
mod parse;
pub mod program;
pub mod rejection;
pub mod set;
mod short;
mod siblings;
mod text;
pub mod usdt_probe;
mod user_probe;
pub mod value_type;

use argument::Argument;
use knowledge::Knowledge;
use parse::Parse;
use rejection::{Code, Complaint, Errno, Rejection};
use set::Set;

pub use kernel_probe::address_of;
pub use short::is_short;

/// Whether a text is a definition, not the name of a tracepoint: a short form, a name of a USDT probe with
/// arguments behind it, or a letter and a place.
pub fn is_definition(text: &str) -> bool {
    let text = text.trim();
    let Some((first, _)) = text.split_once(|c: char| c.is_ascii_whitespace()) else {
        return is_short(text);
    };
    let is_letter = first.starts_with(['p', 'r', 'f', 't', 'e']) && !first.contains(['*', '?']);
    is_short(first) || usdt_probe::has_arguments(text) || is_letter
}
pub(crate) use short::split as split_place;

/// A definition that was read and found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// What sort of probe it is.
    pub kind: Kind,
    /// The event's group.
    pub group: String,
    /// The event's name.
    pub event: String,
    /// Whether it is hit when the function returns.
    pub is_return: bool,
    /// Where it is.
    pub place: Place,
    /// What it fetches.
    pub arguments: Vec<Argument>,
    /// What the user should know; it is good nevertheless.
    pub warnings: Vec<String>,
    /// Why attaching refuses it, though the kernel would not.
    pub obstacle: Option<String>,
    /// The line it stands in, from 1.
    pub line: usize,
    /// The definition with its blanks folded.
    pub text: String,
    /// Which of the texts that were read it is from, from 0.
    pub source: usize,
}

/// See [`Definition::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `p` and `r` in the kernel.
    Kernel,
    /// `p` and `r` in a file.
    File,
    /// `f`.
    Function,
    /// `t`.
    Tracepoint,
    /// `e`.
    Event,
}

/// See [`Definition::place`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A kernel function, or a tracepoint.
    Symbol {
        /// `FUNCTION` or `MODULE:FUNCTION`.
        symbol: String,
        /// Bytes behind its beginning.
        offset: u64,
    },
    /// A kernel address.
    Address(u64),
    /// A place in a file.
    File {
        /// As written.
        path: String,
        /// Device and inode.
        identity: (u64, u64),
        /// Bytes from the beginning of the file.
        offset: u64,
        /// The file offset of the counter that is raised while the probe is set; 0 for none.
        counter: u64,
        /// The symbol it was named by.
        symbol: Option<String>,
    },
    /// An event.
    Event {
        /// Its group.
        group: String,
        /// Its name.
        name: String,
        /// What is behind `if`.
        filter: Option<String>,
    },
}

impl Place {
    /// Whether it is the same place. All numeric addresses are, to the kernel.
    fn is_at(&self, other: &Place) -> bool {
        match (self, other) {
            (
                Place::File {
                    identity: a,
                    offset: x,
                    ..
                },
                Place::File {
                    identity: b,
                    offset: y,
                    ..
                },
            ) => (a, x) == (b, y),
            (Place::Address(_), Place::Address(_)) => true,
            _ => self == other,
        }
    }
}

/// The file of tracefs that definitions are written as if into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// `kprobe_events`: `p` and `r` in the kernel.
    Kprobe,
    /// `uprobe_events`: `p` and `r` in files.
    Uprobe,
    /// `dynamic_events`: all of them.
    #[default]
    Dynamic,
}

/// The longest line, bytes without its end.
const LINE: usize = 4094;

/// Definitions, read line by line.
pub struct Reader<'a> {
    knowledge: Knowledge<'a>,
    language: Language,
    set: Set,
    line: usize,
    texts: usize,
}

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// It is blank, or a comment.
    Empty,
    /// It defines this.
    Defined(Box<Definition>),
    /// It takes back earlier ones.
    TakenBack,
    /// It is refused.
    Refused(Box<Rejection>),
}

impl<'a> Reader<'a> {
    /// One that judges against this.
    pub fn new(knowledge: Knowledge<'a>, language: Language) -> Reader<'a> {
        Reader {
            knowledge,
            language,
            set: Set::default(),
            line: 0,
            texts: 0,
        }
    }

    /// The same definitions, but what follows is as if written into another file.
    #[must_use]
    pub fn with_language(self, language: Language) -> Reader<'a> {
        Reader { language, ..self }
    }

    /// Reads a text. The kernel stops at the first line that it refuses; here all lines are read.
    pub fn read(&mut self, text: &str) -> Vec<(usize, Line)> {
        let mut lines = Vec::new();
        self.line = 0;
        self.texts += 1;
        for line in text.split_inclusive('\n') {
            self.line += 1;
            let (line, longest) = match line.strip_suffix('\n') {
                Some(line) => (line, LINE),
                None => (line, LINE + 1),
            };
            let number = self.line;
            lines.extend(
                self.read_line(line, longest)
                    .into_iter()
                    .map(|line| (number, line)),
            );
        }
        lines
    }

    /// Reads a line; a pattern may stand for many definitions.
    fn read_line(&mut self, line: &str, longest: usize) -> Vec<Line> {
        let text = line.split('#').next().unwrap_or(line);
        let words = text::words(text);
        if line.len() > longest {
            return vec![self.refused(&words, Errno::Einval, "", Code::LineTooLong)];
        }
        let Some(first) = words.first() else {
            return vec![Line::Empty];
        };
        // With a blank before it the kernel does not see that something is taken back.
        let begins = |c| text.starts_with(c);
        if begins('-') || self.language == Language::Dynamic && begins('!') {
            return vec![self.take_back(&words)];
        }
        let expanded = match is_short(first) {
            true => short::expand(&words, &self.knowledge),
            false if usdt_probe::is_form(&words) => usdt_probe::expand(&words, &self.knowledge),
            false => return vec![self.add(&words)],
        };
        match expanded {
            Ok(all) => all.iter().map(|words| self.add(words)).collect(),
            Err(rejection) => vec![Line::Refused(Box::new(rejection))],
        }
    }

    fn add(&mut self, words: &[String]) -> Line {
        match self.define(words, &words[0]) {
            Ok(mut definition) => {
                definition.line = self.line;
                definition.source = self.texts - 1;
                self.set.add(definition.clone());
                Line::Defined(Box::new(definition))
            }
            Err(rejection) => Line::Refused(Box::new(rejection)),
        }
    }

    /// What stands after everything that was read.
    pub fn finish(self) -> Set {
        self.set
    }

    fn take_back(&mut self, words: &[String]) -> Line {
        let only = match self.language {
            Language::Kprobe => Some(Kind::Kernel),
            Language::Uprobe => Some(Kind::File),
            Language::Dynamic => None,
        };
        match self.set.remove(words, only) {
            Ok(()) => Line::TakenBack,
            // The kernel says no more than the number.
            Err((errno, code)) => self.refused(words, errno, "", code),
        }
    }

    fn refused(&self, words: &[String], errno: Errno, subsystem: &'static str, code: Code) -> Line {
        Line::Refused(Box::new(ours(words, errno, subsystem, code)))
    }

    fn define(&self, words: &[String], first: &str) -> Result<Definition, Rejection> {
        let kernel = self.knowledge.kernel;
        let set = &self.set;
        let all = self.language == Language::Dynamic;
        let is_complete = words.len() >= 2;
        match first.as_bytes()[0] {
            b'p' | b'r' if is_complete => {
                if self.language != Language::Uprobe {
                    let mut parse = Parse::new(words, "trace_kprobe", kernel);
                    match kernel_probe::read(&mut parse, words, set) {
                        Ok(Some(definition)) => return Ok(definition),
                        Ok(None) => {}
                        Err(errno) => return Err(parse.rejection(errno)),
                    }
                }
                if self.language != Language::Kprobe {
                    let opened = user_probe::Opened::of(words, self.knowledge.files);
                    let mut parse = Parse::new(words, "trace_uprobe", kernel);
                    match user_probe::read(&mut parse, words, &opened, set) {
                        Ok(Some(definition)) => return Ok(definition),
                        Ok(None) => {}
                        Err(errno) => return Err(parse.rejection(errno)),
                    }
                }
            }
            b'f' | b't' if is_complete && all => {
                let mut parse = Parse::new(words, "trace_fprobe", kernel);
                return function_probe::read(&mut parse, words, set)
                    .map_err(|errno| parse.rejection(errno));
            }
            b'e' if is_complete && all => {
                let mut parse = Parse::new(words, "event_probe", kernel);
                return event_probe::read(&mut parse, words, set)
                    .map_err(|errno| parse.rejection(errno));
            }
            b's' if all && first.starts_with("s:") => {
                return Err(ours(words, Errno::Einval, "", Code::NoSynthetic));
            }
            _ => {}
        }
        Err(ours(
            words,
            Errno::Einval,
            if all { "dynevent" } else { "" },
            Code::NoMatch,
        ))
    }
}

fn ours(words: &[String], errno: Errno, subsystem: &'static str, code: Code) -> Rejection {
    Rejection {
        errno,
        subsystem,
        complaints: vec![Complaint { code, column: 0 }],
        command: words.join(" "),
        remarks: Vec::new(),
    }
}

/// Reads arguments, which are the words from the third one on, with everything replaced.
fn arguments(parse: &mut Parse<'_>, words: &[String]) -> Result<Vec<Argument>, Errno> {
    let mut arguments = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        parse.index = index + 2;
        parse.offset = 0;
        let argument = argument::read(parse, word, &arguments)?;
        arguments.push(argument);
    }
    Ok(arguments)
}
