//! Filters that cannot be used: for which events, where in the text, and what would be right.
//!
//! A filter behind a pattern has to fit every tracepoint that was declared. Of those that `tracing` makes
//! known one by one, which have next to nothing in common, it is for the ones that have its fields; they may
//! be still to come ([`Refusals::take_awaited`]).
//!
//! One filter behind `-e 'orders:*'` may fail for ten tracepoints for one reason: that is one message. A
//! refused filter is an error, or leaves its tracepoints out; it never lets everything pass.

use std::collections::BTreeSet;

use tracebraid_filter::{Error as Fault, ErrorKind as FaultKind, Type};

use crate::error::{Error, ErrorKind};
use crate::event::{Field, Origin, Probe};
use crate::nearest::{nearest, suggestion};
use crate::print::escaped;

/// How many events are named.
const EVENTS: usize = 4;
/// How many fields are shown.
const FIELDS: usize = 16;

/// A filter that cannot be used for some events.
#[derive(Debug)]
pub struct Refusal {
    /// The number of the `-e` that it stands behind.
    pub of: usize,
    text: String,
    fault: Fault,
    /// `group:name` of the events; empty where it can be used for none.
    names: Vec<String>,
    /// Of the first of them.
    fields: Vec<Field>,
    /// The names of all their fields.
    known: BTreeSet<String>,
    /// The events are of tracepoints that were made at run time.
    of_made: bool,
}

/// All that were found.
#[derive(Debug, Default)]
pub struct Refusals {
    refused: Vec<Refusal>,
    /// Which filter could be used for which event.
    understood: Vec<(usize, String)>,
}

impl Refusals {
    /// The filters behind an `-e` can be used for this event.
    pub(super) fn understood(&mut self, of: usize, probe: &Probe) {
        let name = format!("{}:{}", probe.group, probe.name);
        self.understood.push((of, name));
    }

    /// Adds one, for one event or for any.
    pub(super) fn add(&mut self, of: usize, text: &str, fault: Fault, probe: Option<&Probe>) {
        let name = probe.map(|probe| format!("{}:{}", probe.group, probe.name));
        let of_made = probe.is_some_and(|probe| probe.origin == Origin::Made);
        let fields = probe.map(|it| it.fields.as_slice()).unwrap_or_default();
        let comparable = fields.iter().filter(|field| field.compared.is_some());
        let comparable = comparable.map(|field| field.name.clone());
        let same = self.refused.iter_mut().find(|known| {
            let place = |fault: &Fault| (fault.kind(), fault.column());
            (known.of, known.text.as_str(), known.of_made) == (of, text, of_made)
                && place(&known.fault) == place(&fault)
        });
        match same {
            Some(known) => {
                known.known.extend(comparable);
                known
                    .names
                    .extend(name.filter(|name| !known.names.contains(name)));
            }
            None => self.refused.push(Refusal {
                of,
                text: text.to_owned(),
                fault,
                names: name.into_iter().collect(),
                known: comparable.collect(),
                fields: fields.to_vec(),
                of_made,
            }),
        }
    }

    /// Whether the filters behind this `-e` were read for any event.
    pub fn have_seen(&self, of: usize) -> bool {
        let mut seen = self.understood.iter().map(|(seen, _)| *seen);
        seen.any(|seen| seen == of) || self.refused.iter().any(|refusal| refusal.of == of)
    }

    /// Takes out what is no error: that tracepoints which were made at run time lack a field. What to say of
    /// it, where the filter fits nothing so far.
    pub fn take_awaited(&mut self, subject: impl Fn(&Refusal) -> String) -> Vec<String> {
        let is_awaited =
            |refusal: &Refusal| refusal.of_made && refusal.fault.kind() == FaultKind::FieldNotFound;
        let (awaited, refused) = std::mem::take(&mut self.refused)
            .into_iter()
            .partition(is_awaited);
        self.refused = refused;
        let fits_nothing =
            |refusal: &&Refusal| self.understood.iter().all(|(of, _)| *of != refusal.of);
        let say = |refusal: &Refusal| {
            let error = refusal.error(&subject(refusal), &[]).with_causes();
            format!("{error}; waiting for one that has it")
        };
        awaited.iter().filter(fits_nothing).map(say).collect()
    }

    /// They as errors, in the order of `-e`. `subject` says what the filter stands behind, such as `-e orders:*`.
    pub fn into_errors(mut self, subject: impl Fn(&Refusal) -> String) -> Vec<Error> {
        self.take_awaited(&subject);
        let error = |refusal: &Refusal| {
            let others = self.understood.iter().filter(|(of, _)| *of == refusal.of);
            let others: Vec<String> = others.map(|(_, name)| name.clone()).collect();
            refusal.error(&subject(refusal), &others)
        };
        self.refused.sort_by_key(|refusal| refusal.of);
        self.refused.iter().map(error).collect()
    }
}

impl Refusal {
    fn error(&self, subject: &str, others: &[String]) -> Error {
        let whom = match about_fields(self.fault.kind()) {
            true if !self.names.is_empty() => format!(" for {}", some_of(&self.names, EVENTS)),
            _ => String::new(),
        };
        // The first line is the sentence; the text and the caret under it follow.
        let told = self.fault.to_string();
        let mut lines = told.lines();
        let sentence = lines.next().unwrap_or("");
        let mut hint: Vec<&str> = lines
            .map(|line| line.strip_prefix("  ").unwrap_or(line))
            .collect();
        let advice = self.advice();
        hint.extend(advice.iter().map(String::as_str));
        let named = match others.is_empty() || !about_fields(self.fault.kind()) {
            true => String::new(),
            false => format!("it can be used for {}", some_of(others, EVENTS)),
        };
        hint.extend([named.as_str()].into_iter().filter(|it| !it.is_empty()));
        let message = format!("{subject}: the filter cannot be used{whom}: {sentence}");
        Error::new(ErrorKind::Usage, message).hint(hint.join("\n"))
    }

    /// What would be right.
    fn advice(&self) -> Vec<String> {
        let kind = self.fault.kind();
        let field = self.field();
        let compared = field.and_then(|field| field.compared);
        let about = |what: &str| match field {
            Some(field) => vec![format!("{} is {}: {what}", field.name, field.type_name)],
            None => vec![what.to_owned()],
        };
        let one = |text: &str| vec![text.to_owned()];
        match kind {
            FaultKind::TextTooLong => one("several --filter behind one -e have to hold together"),
            FaultKind::NoFilter | FaultKind::FieldExpected => {
                one("a comparison is FIELD OPERATOR VALUE, such as cents > 1000 or user ~ \"al*\"")
            }
            FaultKind::TooManyOpen => one("a ) is missing"),
            FaultKind::TooFewOpen => one("a ( is missing, or a ) is too many"),
            FaultKind::MissingQuote => one(
                "text ends with the quote that it begins with, \" or '; nothing is escaped in it",
            ),
            FaultKind::FieldNotFound => self.fields_there(),
            FaultKind::InvalidOperator => one("behind a field stands ==, !=, <, <=, >, >=, & or ~"),
            FaultKind::InvalidValue | FaultKind::IllegalInteger => match compared {
                Some(Type::Text) => about("text stands in quotes, \" or '"),
                Some(Type::Bool) => about("write true or false"),
                Some(Type::Any) => about("write a number, text in quotes, true or false"),
                Some(Type::Float { .. }) => about("write a number such as 9.5 or -1e3"),
                Some(Type::Duration) => {
                    about("write nanoseconds, or a whole number with ns, us, ms or s")
                }
                Some(Type::Char) => about("write one character in quotes, or its number"),
                Some(Type::Unsigned { .. }) => {
                    about("write a number such as 17, 0x11 or 021, without a sign")
                }
                Some(_) => about("write a number such as 17, -1, 0x11 or 021"),
                None => one("write a number such as 17, -1 or 0x11, or text in quotes"),
            },
            FaultKind::OperandTooLong => one("text has at most 255 bytes, a number 23 characters"),
            FaultKind::ExpectString => about("text stands in quotes, \" or '"),
            FaultKind::ExpectNumber if is_pointer(field) => {
                about("the text behind the address is not read, only the address can be compared")
            }
            FaultKind::ExpectNumber => about("a number stands without quotes"),
            FaultKind::ExpectCharacter => about("write one character in quotes"),
            FaultKind::IllegalOperation => match compared {
                Some(Type::Text) => about("text is compared by ==, != and ~"),
                _ if is_pointer(field) => about(
                    "the text behind the address is not read, only the address can be compared",
                ),
                Some(Type::Float { .. } | Type::Duration | Type::Char) => {
                    about("it is compared by ==, !=, <, <=, > and >=")
                }
                _ => about(
                    "numbers are compared by ==, !=, <, <=, >, >= and &; ~ is for text, CPUS{…} goes with ==, != and &",
                ),
            },
            FaultKind::FunctionNotFound => one(
                "the kernel has no function of that name or address, or hides its addresses (kernel.kptr_restrict)",
            ),
            FaultKind::MissingBraceOpen | FaultKind::MissingBraceClose => one("write CPUS{0-3,5}"),
            FaultKind::InvalidCpuList => {
                match std::fs::read_to_string("/sys/devices/system/cpu/possible") {
                    Ok(possible) => vec![format!("this machine has the CPUs {}", possible.trim())],
                    Err(_) => one("write CPUS{0-3,5}"),
                }
            }
            FaultKind::TooManyTerms => one("comparisons are joined by && or ||"),
            FaultKind::Unfinished => {
                one("behind &&, || and ! stands a comparison or a parenthesis")
            }
            _ => Vec::new(),
        }
    }

    /// The field of the comparison that is at fault.
    fn field(&self) -> Option<&Field> {
        let before = self.text.get(..self.fault.column())?;
        before
            .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .take(2)
            .find_map(|word| self.fields.iter().find(|field| field.name == word))
    }

    /// The nearest fields, and which there are.
    fn fields_there(&self) -> Vec<String> {
        let rest = self.text.get(self.fault.column()..).unwrap_or("");
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let wanted = &rest[..end.unwrap_or(rest.len())];
        let Some(name) = self.names.first() else {
            return Vec::new();
        };
        if let Some(field) = self.fields.iter().find(|field| field.name == wanted) {
            let message = format!(
                "{wanted} is {}, which nothing can be compared with",
                field.type_name
            );
            return vec![escaped(&message)];
        }
        let comparable = self.fields.iter().filter(|field| field.compared.is_some());
        let common = ["common_pid", "comm", "cpu"];
        let names = self.known.iter().map(String::as_str);
        let near = suggestion(&nearest(wanted, names.chain(common)));
        let shown: Vec<String> = comparable
            .map(|field| escaped(&format!("{} ({})", field.name, field.type_name)))
            .collect();
        let name = escaped(name);
        let has = match shown.is_empty() {
            true => format!("{name} has no fields"),
            false => format!("{name} has {}", some_of(&shown, FIELDS)),
        };
        let there = format!("{has}; every event has common_pid, comm and cpu");
        near.into_iter().chain([there]).collect()
    }
}

/// Whether the fault is one for these fields, and might be none for others.
fn about_fields(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::FieldNotFound
            | FaultKind::InvalidValue
            | FaultKind::IllegalInteger
            | FaultKind::ExpectString
            | FaultKind::ExpectNumber
            | FaultKind::ExpectCharacter
            | FaultKind::IllegalOperation
    )
}

fn is_pointer(field: Option<&Field>) -> bool {
    field.is_some_and(|field| field.type_name.ends_with('*'))
}

/// The first few, and how many more there are.
fn some_of(names: &[String], shown: usize) -> String {
    match names.len().checked_sub(shown) {
        Some(more @ 1..) => format!("{} and {more} more", names[..shown].join(", ")),
        _ => names.join(", "),
    }
}
