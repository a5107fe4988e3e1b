//! Definitions that stand beside one another: which of them are one event, which contradict, and what
//! `-:` takes back.

use super::parse::Parse;
use super::rejection::{Code, Errno};
use super::{Definition, Kind, Place};

/// Definitions in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Set(Vec<Definition>);

impl Set {
    /// Them.
    pub fn definitions(&self) -> &[Definition] {
        &self.0
    }

    /// Them.
    pub fn into_definitions(self) -> Vec<Definition> {
        self.0
    }

    pub(super) fn add(&mut self, definition: Definition) {
        self.0.push(definition);
    }

    /// Whether a definition can stand beside these.
    pub(super) fn check_new(&self, parse: &mut Parse<'_>, new: &Definition) -> Result<(), Errno> {
        if let Place::File { .. } = new.place
            && self.0.iter().any(|old| counter_differs(old, new))
        {
            // The kernel logs nothing of it.
            parse.remark(Code::RefcntDiffers.text().to_owned());
            return Err(Errno::Einval);
        }
        let same_name: Vec<&Definition> = self
            .0
            .iter()
            .filter(|old| old.group == new.group && old.event == new.event)
            .collect();
        let is_one = |kind| matches!(kind, Kind::Function | Kind::Tracepoint);
        let of_kind =
            |old: &Definition| old.kind == new.kind || is_one(old.kind) && is_one(new.kind);
        let Some(old) = same_name.iter().find(|old| of_kind(old)) else {
            let is_taken =
                !same_name.is_empty() || parse.kernel.event(&new.group, &new.event).is_some();
            parse.index = 0;
            return match is_taken {
                true => parse.fail(0, Code::EventExist, Errno::Eexist),
                false => Ok(()),
            };
        };
        parse.index = 0;
        if new.kind == Kind::Event {
            return parse.fail(0, Code::EventExist, Errno::Eexist);
        }
        if old.is_return != new.is_return || old.kind != new.kind {
            return parse.fail(0, Code::DiffProbeType, Errno::Eexist);
        }
        if let Some(index) = first_difference(new, old) {
            parse.index = index + 2;
            return parse.fail(0, Code::DiffArgType, Errno::Eexist);
        }
        let is_same = |old: &Definition| {
            of_kind(old) && old.place.is_at(&new.place) && bodies(old).eq(bodies(new))
        };
        match same_name.into_iter().any(is_same) {
            true => parse.fail(0, Code::SameProbe, Errno::Eexist),
            false => Ok(()),
        }
    }

    /// Takes back what `-:…` names.
    ///
    /// # Errors
    /// [`Errno::Einval`] where it names nothing, [`Errno::Enoent`] where there is nothing of the name.
    pub(super) fn remove(
        &mut self,
        words: &[String],
        only: Option<Kind>,
    ) -> Result<(), (Errno, Code)> {
        let command = &words[0];
        let name = match command.strip_prefix('-') {
            Some(rest) => rest.strip_prefix(':'),
            None => command.split_once(':').map(|(_, name)| name),
        };
        let name = name.ok_or((Errno::Einval, Code::BadDeletion))?;
        let (group, event) = match name.split_once('/') {
            Some((group, event)) => (Some(group), event),
            None => (None, name),
        };
        if group.is_none() && event.is_empty() {
            return Err((Errno::Einval, Code::BadDeletion));
        }
        let before = self.0.len();
        self.0.retain(|old| {
            let is_meant = only.is_none_or(|kind| kind == old.kind)
                && group.is_none_or(|group| group == old.group)
                && (event.is_empty() || event == old.event)
                && is_named(old, &words[1..]);
            !is_meant
        });
        match self.0.len() == before {
            true => Err((Errno::Enoent, Code::NoSuchProbe)),
            false => Ok(()),
        }
    }
}

fn bodies(definition: &Definition) -> impl Iterator<Item = &str> {
    definition.arguments.iter().map(|argument| &*argument.body)
}

/// The first argument by which one event's places differ.
fn first_difference(new: &Definition, old: &Definition) -> Option<usize> {
    let (a, b) = (&new.arguments, &old.arguments);
    if a.len() != b.len() {
        return Some(a.len().min(b.len()));
    }
    a.iter()
        .zip(b)
        .position(|(a, b)| (&a.name, a.value, a.count) != (&b.name, b.value, b.count))
}

fn counter_differs(old: &Definition, new: &Definition) -> bool {
    match (&old.place, &new.place) {
        (
            Place::File {
                identity: a,
                offset: x,
                counter: old,
                ..
            },
            Place::File {
                identity: b,
                offset: y,
                counter: new,
                ..
            },
        ) => (a, x) == (b, y) && old != new,
        _ => false,
    }
}

/// Whether a definition has this place and begins with these arguments.
fn is_named(definition: &Definition, words: &[String]) -> bool {
    let Some((place, arguments)) = words.split_first() else {
        return true;
    };
    let is_place = match &definition.place {
        // The kernel takes the attached event by the beginning of its group.
        Place::Event { group, name, .. } => place
            .split_once(['/', '.'])
            .is_some_and(|(start, event)| group.starts_with(start) && name == event),
        // And a function by its symbol, whether its return is meant or not.
        Place::Symbol { symbol, .. }
            if matches!(definition.kind, Kind::Function | Kind::Tracepoint) =>
        {
            symbol == place
        }
        other => other.to_string() == *place,
    };
    let own = definition.arguments.iter();
    is_place
        && arguments.len() <= definition.arguments.len()
        && own
            .zip(arguments)
            .all(|(own, given)| format!("{}={}", own.name, own.body) == *given)
}
