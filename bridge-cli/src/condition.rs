//! `EVENT if FILTER`: which hits are meant, and which of them.
//!
//! EVENT is what `-e` takes, FILTER the language of docs/filters.md. Without `if` every hit is meant.
//! A filter is read against the fields of each tracepoint that EVENT means, when that is first hit: what
//! it says of a field that the tracepoint lacks is an error.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Origin, Probe, What};
use crate::filter::{self, Hits, Machine, ProbeFilter, Refusals};
use crate::selector::{Scope, Selector};

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    /// EVENT, and FILTER behind it.
    selector: Selector,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] where EVENT is no form of `-e` that means tracepoints of the target, or FILTER
    /// is empty or not even balanced.
    pub fn parse(text: &str) -> Result<Condition> {
        let (event, filter) = match text.split_once(" if ") {
            Some((event, filter)) => (event, Some(filter.to_owned())),
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
        let mut refusals = Refusals::default();
        if let Some(filter) = &filter {
            // Fields are not known yet; that quotes and parentheses match and something is compared is.
            filter::check(0, filter, &mut refusals);
        }
        let condition = Condition {
            text: text.to_owned(),
            selector: selector.with_filters(filter.into_iter().collect()),
        };
        Error::several(condition.errors(refusals)).map_or(Ok(condition), Err)
    }

    /// Whether hits of a tracepoint may be meant.
    pub fn is_about(&self, group: &str, name: &str) -> bool {
        self.selector.matches(group, name)
    }

    /// Reads the filter for a tracepoint.
    fn read(&self, probe: &Probe, machine: &Machine, refusals: &mut Refusals) -> Hits {
        if !self.is_about(&probe.group, &probe.name) {
            return Hits::None;
        }
        let own = [(0, self.selector.filters.as_slice())];
        ProbeFilter::read(own.into_iter(), probe, machine, refusals)
    }

    fn errors(&self, refusals: Refusals) -> Vec<Error> {
        refusals.into_errors(|_| format!("--snapshot-when {:?}", self.text))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Conditions, with their filters as they are read for each tracepoint.
#[derive(Debug)]
pub struct Conditions {
    conditions: Vec<Condition>,
    machine: Machine,
    /// By the probe's address, which the `Arc` keeps from being used again: what each condition says of it.
    read: HashMap<usize, (Arc<Probe>, Vec<Hits>)>,
    warnings: Vec<String>,
}

impl Conditions {
    /// Of these.
    pub fn new(conditions: Vec<Condition>) -> Conditions {
        Conditions {
            conditions,
            machine: Machine::this(None),
            read: HashMap::new(),
            warnings: Vec::new(),
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
            let mut refusals = Refusals::default();
            for probe in about {
                condition.read(probe, &self.machine, &mut refusals);
            }
            wrong.extend(condition.errors(refusals));
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
            let mut read = Vec::with_capacity(self.conditions.len());
            for condition in &self.conditions {
                let mut refusals = Refusals::default();
                read.push(condition.read(probe, &self.machine, &mut refusals));
                // Which of `tracing`'s have the fields, nobody has to hear of each.
                let errors = match probe.origin {
                    Origin::Made => Vec::new(),
                    _ => condition.errors(refusals),
                };
                self.warnings.extend(errors.iter().map(Error::with_causes));
            }
            self.read.insert(address, (Arc::clone(probe), read));
        }
        let (_, read) = self.read.get(&address)?;
        let index = read.iter().position(|wish| match wish {
            Hits::None => false,
            Hits::All => true,
            Hits::Some(filter) => filter.passes(event),
        })?;
        self.conditions.get(index)
    }

    /// Warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Comm, Origin, Print, Value};

    fn probe() -> Arc<Probe> {
        Arc::new(Probe {
            group: "orders".into(),
            name: "charge__return".into(),
            origin: Origin::Application,
            fields: vec![
                crate::event::Field::new("ns", "u64"),
                crate::event::Field::new("user", "char[]"),
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
            stack: None,
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
