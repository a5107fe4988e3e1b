//! The same answers as Linux 7.2 to 300 filters, except where docs/filters.md says otherwise.

mod kernel;

use std::collections::HashMap;

use kernel::{Event, GETPPID};
use tracebraid_filter::{Error, ErrorKind, Field, Fields, Filter, Type, Value, Values};

const DOCS: &str = include_str!("../../../docs/filters.md");

/// Filters that the kernel accepts and this crate does not.
const REFUSED: &[(&str, ErrorKind)] = &[
    ("F085", ErrorKind::Unfinished),
    ("F104", ErrorKind::Unfinished),
    ("F251", ErrorKind::Unfinished),
    ("S085", ErrorKind::Unfinished),
    ("F176", ErrorKind::FieldNotFound),
    ("F335", ErrorKind::FieldNotFound),
    ("F338", ErrorKind::FieldNotFound),
];

/// Filters that other events pass than in the kernel.
const PASSED: &[(&str, &str)] = &[
    ("S055", "2,4,5,7,8,9"),
    ("S094", "1,3,7"),
    ("S112", "1,5"),
    ("S113", "1,2,3,4,5,6,7"),
];

/// The rows of a table whose first line is a comment and second the names of the columns.
fn rows<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let rows: Vec<_> = table
        .lines()
        .skip(2)
        .map(|line| {
            let columns: Vec<&str> = line.splitn(N, '\t').collect();
            columns
                .try_into()
                .unwrap_or_else(|_| panic!("not {N} columns: {line:?}"))
        })
        .collect();
    assert!(!rows.is_empty());
    rows
}

fn unescaped(filter: &str) -> String {
    filter.replace("\\t", "\t").replace("\\s", " ")
}

fn parse(event: &str, filter: &str) -> Result<Filter, Error> {
    Filter::parse(&unescaped(filter), &Event::named(event))
}

#[test]
fn verdicts_are_those_of_the_kernel() {
    let mut wrong = Vec::new();
    for [id, event, errno, column, sentence, filter] in rows(include_str!("verdicts.tsv")) {
        let refused = REFUSED.iter().find(|(row, _)| *row == id);
        let agrees = match (parse(event, filter), refused) {
            (Ok(_), None) => errno == "0",
            (Ok(_), Some(_)) => false,
            (Err(error), Some((_, kind))) => errno == "0" && error.kind() == *kind,
            (Err(error), None) => {
                error.kind().errno().to_string() == errno
                    && error.kernel_column().to_string() == column
                    && error.kind().kernel_wording() == Some(sentence)
            }
        };
        if !agrees {
            wrong.push(format!(
                "{id} {filter:?}: {errno} {sentence:?} @{column}, here {:?}",
                parse(event, filter).map(|_| "accepted")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_deviation_is_in_the_documentation() {
    for id in REFUSED
        .iter()
        .map(|(id, _)| id)
        .chain(PASSED.iter().map(|(id, _)| id))
    {
        assert!(DOCS.contains(id), "{id}");
    }
    for row in DOCS
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| {
            word.len() == 4 && word.starts_with(['F', 'S']) && word[1..].parse::<u16>().is_ok()
        })
    {
        let listed = REFUSED.iter().any(|(id, _)| *id == row);
        assert!(listed || PASSED.iter().any(|(id, _)| *id == row), "{row}");
    }
}

/// An event of the table, as its line has it.
struct Known<'a> {
    values: HashMap<u16, Value<'a>>,
    comm: &'a str,
}

fn field(event: &Event, name: &str) -> Field {
    event
        .field(name)
        .unwrap_or_else(|| panic!("no field {name}"))
}

impl<'a> Known<'a> {
    fn new(event: &'a Event, line: &'a str) -> Known<'a> {
        let mut known = Known {
            values: HashMap::new(),
            comm: "work",
        };
        let number = field(event, "common_pid").index;
        known.values.insert(number, Value::Signed(77));
        if let Some(probe) = event.field("__probe_ip") {
            let address = Value::Unsigned(GETPPID.start + 4);
            known.values.insert(probe.index, address);
        }
        for (name, value) in line.split('\t').filter_map(|pair| pair.split_once('=')) {
            let field = field(event, name);
            let value = match field.kind {
                _ if value.is_empty() => Value::Missing,
                Type::Text => Value::Text(value.trim_matches('"').as_bytes()),
                Type::Signed { .. } => Value::Signed(value.parse().unwrap()),
                _ => Value::Unsigned(value.parse().unwrap()),
            };
            // A thread that is being renamed still has its old name.
            if let ("oldcomm", Value::Text(text)) = (name, value) {
                known.comm = std::str::from_utf8(text).unwrap();
            }
            known.values.insert(field.index, value);
        }
        known
    }
}

impl Values for Known<'_> {
    fn value(&self, index: u16) -> Value<'_> {
        self.values.get(&index).copied().unwrap_or(Value::Missing)
    }

    fn thread(&self) -> Option<i32> {
        panic!("the event has common_pid as a field")
    }

    fn cpu(&self) -> Option<u32> {
        Some(0)
    }

    fn comm(&self) -> Option<[u8; 16]> {
        let mut comm = [0; 16];
        comm[..self.comm.len()].copy_from_slice(self.comm.as_bytes());
        Some(comm)
    }
}

#[test]
fn the_events_that_pass_are_those_that_pass_in_the_kernel() {
    let events = rows::<3>(include_str!("events.tsv"));
    let mut wrong = Vec::new();
    for [id, event, passing, filter] in rows(include_str!("selected.tsv")) {
        let filter = match parse(event, filter) {
            Ok(filter) => filter,
            Err(_) if REFUSED.iter().any(|(row, _)| *row == id) => continue,
            Err(error) => panic!("{id}\n{error}"),
        };
        let fields = Event::named(event);
        let passed: Vec<&str> = events
            .iter()
            .filter(|[known, _, line]| {
                *known == event && filter.matches(&Known::new(&fields, line))
            })
            .map(|[_, number, _]| *number)
            .collect();
        let ours = PASSED.iter().find(|(row, _)| *row == id);
        let wanted = ours.map_or(passing, |(_, ours)| ours);
        if passed.join(",") != wanted || ours.is_some_and(|(_, ours)| *ours == passing) {
            wrong.push(format!(
                "{id} {filter}: {wanted}, here {}",
                passed.join(",")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
