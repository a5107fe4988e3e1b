//! `EVENT if FILTER`: which hits are meant, and which of them.
//!
//! EVENT is what `-e` takes, FILTER the language of docs/filters.md. Without `if` every hit is meant.
//! A filter is read against the fields of each tracepoint that EVENT means, when that is first hit: what
//! it says of a field that the tracepoint lacks is an error.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tracebraid_filter::{
    ErrorKind as FilterError, Field, Fields, Filter, Type, Value as FilterValue, Values,
};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Probe, Value, What};
use crate::selector::{Scope, Selector};

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    selector: Selector,
    filter: Option<String>,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] where EVENT is no form of `-e` that means tracepoints of the target, or FILTER
    /// is empty or not even balanced.
    pub fn parse(text: &str) -> Result<Condition> {
        let (event, filter) = match text.split_once(" if ") {
            Some((event, filter)) => (event, Some(filter)),
            None => (text, None),
        };
        let selector = Selector::parse(event.trim())?;
        if !matches!(selector.scope, Scope::Anywhere | Scope::Target) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("{text:?}: a condition is about tracepoints of the target"),
            )
            .hint("write PROVIDER:NAME if FILTER"));
        }
        if let Some(filter) = filter {
            // Fields are not known yet; that quotes and parentheses match and something is compared is.
            match Filter::parse(filter, &NoField) {
                Err(error) if error.kind() != FilterError::FieldNotFound => {
                    return Err(bad_filter(text, &error));
                }
                _ => {}
            }
        }
        Ok(Condition {
            text: text.to_owned(),
            selector,
            filter: filter.map(str::to_owned),
        })
    }

    /// Whether hits of a tracepoint may be meant.
    pub fn is_about(&self, group: &str, name: &str) -> bool {
        self.selector.matches(group, name)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn bad_filter(text: &str, error: &tracebraid_filter::Error) -> Error {
    Error::new(ErrorKind::Usage, format!("the condition {text:?}")).because(error.to_string())
}

/// Conditions, with their filters as they are read for each tracepoint.
#[derive(Debug, Default)]
pub struct Conditions {
    conditions: Vec<Condition>,
    /// By the probe's address, which the `Arc` keeps from being used again: a filter a condition.
    read: HashMap<usize, (Arc<Probe>, Vec<Read>)>,
    warnings: Vec<String>,
}

#[derive(Debug)]
enum Read {
    /// The condition is about other tracepoints, or its filter cannot be read for this one.
    Never,
    /// Every hit.
    Always,
    Filter(Filter),
}

impl Conditions {
    /// Of these.
    pub fn new(conditions: Vec<Condition>) -> Conditions {
        Conditions {
            conditions,
            ..Conditions::default()
        }
    }

    /// Whether hits of a tracepoint may fulfil one.
    pub fn are_about(&self, group: &str, name: &str) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.is_about(group, name))
    }

    /// Refuses a condition that is about none of these tracepoints, or whose filter cannot be read for one
    /// that it is about.
    ///
    /// # Errors
    /// All that is wrong, in one [`Error::several`].
    pub fn check<'a>(&self, probes: impl Iterator<Item = &'a Probe> + Clone) -> Result<()> {
        let mut wrong = Vec::new();
        for condition in &self.conditions {
            let mut about = probes
                .clone()
                .filter(|probe| condition.is_about(&probe.group, &probe.name))
                .peekable();
            if about.peek().is_none() {
                wrong.push(
                    Error::new(
                        ErrorKind::NoMatch,
                        format!(
                            "the condition \"{condition}\" is about no tracepoint that is recorded"
                        ),
                    )
                    .hint("-e says which are; bridge-cli list shows them"),
                );
            }
            wrong.extend(about.filter_map(|probe| read_for(condition, probe).err()));
        }
        Error::several(wrong).map_or(Ok(()), Err)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// The first condition that an event fulfils.
    pub fn fulfilled(&mut self, event: &Event) -> Option<&Condition> {
        let What::Hit { probe, .. } = &event.what else {
            return None;
        };
        let address = Arc::as_ptr(probe) as usize;
        if !self.read.contains_key(&address) {
            let read = self.conditions.iter().map(|condition| {
                read_for(condition, probe).unwrap_or_else(|error| {
                    self.warnings.push(error.with_causes());
                    Read::Never
                })
            });
            let read = read.collect();
            self.read.insert(address, (Arc::clone(probe), read));
        }
        let (_, read) = self.read.get(&address)?;
        let index = read.iter().position(|read| match read {
            Read::Never => false,
            Read::Always => true,
            Read::Filter(filter) => filter.matches(&Hit(event)),
        })?;
        self.conditions.get(index)
    }

    /// Warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

fn read_for(condition: &Condition, probe: &Probe) -> Result<Read> {
    if !condition.is_about(&probe.group, &probe.name) {
        return Ok(Read::Never);
    }
    match &condition.filter {
        None => Ok(Read::Always),
        Some(filter) => Filter::parse(filter, &ProbeFields(probe))
            .map(Read::Filter)
            .map_err(|error| bad_filter(&condition.text, &error)),
    }
}

/// An event of which nothing is known.
struct NoField;

impl Fields for NoField {
    fn field(&self, _name: &str) -> Option<Field> {
        None
    }
}

/// The fields of a tracebraid tracepoint, by the names of their types.
struct ProbeFields<'a>(&'a Probe);

impl Fields for ProbeFields<'_> {
    fn field(&self, name: &str) -> Option<Field> {
        let index = self.0.fields.iter().position(|field| field.name == name)?;
        Some(Field {
            index: u16::try_from(index).ok()?,
            kind: type_of(&self.0.fields[index].type_name)?,
        })
    }
}

/// `u64`, `Option<str>` as a type to compare by.
fn type_of(name: &str) -> Option<Type> {
    let inner = name
        .strip_prefix("Option<")
        .and_then(|rest| rest.strip_suffix('>'))
        .unwrap_or(name);
    let kinds = tracebraid_wire::kind::Kind::ALL;
    let kind = kinds.iter().find(|kind| kind.name() == inner)?;
    Some(Type::of(tracebraid_wire::kind::FieldKind {
        kind: *kind,
        optional: false,
    }))
}

/// An event as filters see it.
struct Hit<'a>(&'a Event);

impl Values for Hit<'_> {
    fn value(&self, index: u16) -> FilterValue<'_> {
        let What::Hit { values, .. } = &self.0.what else {
            return FilterValue::Missing;
        };
        match values.get(usize::from(index)) {
            Some(Value::Unsigned(value)) => FilterValue::Unsigned(*value),
            Some(Value::Signed(value)) => FilterValue::Signed(*value),
            Some(Value::Unsigned128(value)) => FilterValue::UnsignedWide(*value),
            Some(Value::Signed128(value)) => FilterValue::SignedWide(*value),
            Some(Value::Bool(value)) => FilterValue::Unsigned((*value).into()),
            Some(Value::Char(value)) => FilterValue::Unsigned(u64::from(*value)),
            Some(Value::F32(value)) => FilterValue::Float((*value).into()),
            Some(Value::F64(value)) => FilterValue::Float(*value),
            Some(Value::Text { bytes, .. } | Value::Bytes { bytes, .. }) => {
                FilterValue::Text(bytes)
            }
            Some(Value::Pointer(value)) => FilterValue::Unsigned(*value),
            Some(Value::Duration(value)) => FilterValue::UnsignedWide(value.as_nanos()),
            Some(
                Value::Array(_)
                | Value::Absent
                | Value::Fault
                | Value::Unsupported
                | Value::NotCaptured,
            )
            | None => FilterValue::Missing,
        }
    }

    fn thread(&self) -> Option<i32> {
        i32::try_from(self.0.tid).ok()
    }

    fn cpu(&self) -> Option<u32> {
        Some(self.0.cpu)
    }

    fn comm(&self) -> Option<[u8; 16]> {
        Some(self.0.comm.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Comm, Origin, Print};

    fn probe() -> Arc<Probe> {
        Arc::new(Probe {
            group: "orders".into(),
            name: "charge__return".into(),
            origin: Origin::Application,
            fields: vec![
                crate::event::Field::new("ns", "u64"),
                crate::event::Field::new("user", "str"),
            ],
            print: Print::Plain,
        })
    }

    fn event(probe: &Arc<Probe>, ns: u64, user: &str) -> Event {
        Event {
            time: 1,
            cpu: 0,
            pid: 1,
            tid: 1,
            comm: Comm::default(),
            late: false,
            what: What::Hit {
                probe: Arc::clone(probe),
                values: vec![Value::Unsigned(ns), Value::text(user.as_bytes())],
            },
        }
    }

    fn conditions(text: &str) -> Conditions {
        Conditions::new(vec![Condition::parse(text).unwrap()])
    }

    #[test]
    fn a_condition_is_fulfilled_by_the_hits_that_its_filter_lets_pass() {
        let probe = probe();
        let mut slow = conditions("orders:charge__return if ns > 50000000 && user ~ 'al*'");
        assert!(
            slow.fulfilled(&event(&probe, 60_000_000, "alice"))
                .is_some()
        );
        assert!(slow.fulfilled(&event(&probe, 60_000_000, "bob")).is_none());
        assert!(
            slow.fulfilled(&event(&probe, 50_000_000, "alice"))
                .is_none()
        );
        assert!(
            conditions("orders:*")
                .fulfilled(&event(&probe, 0, ""))
                .is_some()
        );
        assert!(
            conditions("other:*")
                .fulfilled(&event(&probe, 0, ""))
                .is_none()
        );
    }

    #[test]
    fn a_bad_condition_is_an_error_and_never_one_that_always_holds() {
        for bad in [
            "orders:*  if ",
            "orders:x if (ns > 1",
            "orders:x if ns > 'a",
            ":x if ns > 1",
            "tp:a:b",
        ] {
            assert_eq!(
                Condition::parse(bad).unwrap_err().kind(),
                ErrorKind::Usage,
                "{bad}"
            );
        }
        let probe = probe();
        let check = |text: &str| conditions(text).check([&*probe].into_iter());
        assert!(check("orders:charge__return if ns > 1").is_ok());
        let unknown = check("orders:charge__return if nanos > 1").unwrap_err();
        assert!(
            unknown.with_causes().contains("Field not found"),
            "{unknown:?}"
        );
        assert_eq!(
            check("orders:refund if ns > 1").unwrap_err().kind(),
            ErrorKind::NoMatch
        );
        let mut late = conditions("orders:* if nanos > 1");
        assert!(late.fulfilled(&event(&probe, 9, "")).is_none());
        assert_eq!(late.take_warnings().len(), 1);
    }
}
