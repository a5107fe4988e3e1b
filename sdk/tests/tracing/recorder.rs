//! A subscriber that writes down what it is told, for others to be compared with.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, subscriber::Interest};
use tracing_core::span::Current;

/// See the module's page. Ids are reused as soon as they are free.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<State>);

#[derive(Default)]
struct State {
    lines: Vec<String>,
    spans: HashMap<u64, Span>,
    numbers: u64,
}

struct Span {
    number: u64,
    handles: u32,
    metadata: &'static Metadata<'static>,
}

thread_local! {
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// `level` as the stream has it.
fn level(level: &Level) -> u8 {
    [
        Level::ERROR,
        Level::WARN,
        Level::INFO,
        Level::DEBUG,
        Level::TRACE,
    ]
    .iter()
    .position(|known| known == level)
    .unwrap() as u8
        + 1
}

/// The name of an event's tracepoint.
fn place(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap().rsplit('/').next().unwrap();
    format!("{file}:{}", metadata.line().unwrap())
}

impl Recorder {
    pub(crate) fn take(&self) -> Vec<String> {
        let mut state = self.0.lock().unwrap();
        state.numbers = 0;
        std::mem::take(&mut state.lines)
    }

    fn say(&self, id: &Id, what: impl FnOnce(&Span) -> String) {
        let mut state = self.0.lock().unwrap();
        let line = what(&state.spans[&id.into_u64()]);
        state.lines.push(line);
    }

    fn surrounding(state: &State, explicit: Option<&Id>, is_contextual: bool) -> u64 {
        let id = match explicit {
            Some(id) => Some(id.into_u64()),
            None if is_contextual => STACK.with(|stack| stack.borrow().last().copied()),
            None => None,
        };
        id.and_then(|id| state.spans.get(&id))
            .map_or(0, |span| span.number)
    }
}

impl Subscriber for Recorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let mut values = Values::of(metadata, &["level", "id", "parent"]);
        attributes.record(&mut values);
        let mut state = self.0.lock().unwrap();
        state.numbers += 1;
        let number = state.numbers;
        let parent = Self::surrounding(&state, attributes.parent(), attributes.is_contextual());
        let level = level(metadata.level());
        let name = metadata.name();
        state.lines.push(format!(
            "{name}: level={level} id={number} parent={parent}{}",
            values.text()
        ));
        let free = (1..).find(|id| !state.spans.contains_key(id)).unwrap();
        state.spans.insert(
            free,
            Span {
                number,
                handles: 1,
                metadata,
            },
        );
        Id::from_u64(free)
    }
    fn record(&self, id: &Id, record: &Record<'_>) {
        self.say(id, |span| {
            let mut values = Values::of(span.metadata, &["level", "id", "parent"]);
            record.record(&mut values);
            format!(
                "{}__record: id={}{}",
                span.metadata.name(),
                span.number,
                values.text()
            )
        });
    }
    fn record_follows_from(&self, id: &Id, other: &Id) {
        let other = self
            .0
            .lock()
            .unwrap()
            .spans
            .get(&other.into_u64())
            .map_or(0, |it| it.number);
        self.say(id, |span| {
            format!(
                "{}__follows: id={} follows={other}",
                span.metadata.name(),
                span.number
            )
        });
    }
    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut values = Values::of(metadata, &["level", "span"]);
        event.record(&mut values);
        let mut state = self.0.lock().unwrap();
        let span = Self::surrounding(&state, event.parent(), event.is_contextual());
        let level = level(metadata.level());
        state.lines.push(format!(
            "{}: level={level} span={span}{}",
            place(metadata),
            values.text()
        ));
    }
    fn enter(&self, id: &Id) {
        STACK.with(|stack| stack.borrow_mut().push(id.into_u64()));
        self.say(id, |span| {
            format!("{}__enter: id={}", span.metadata.name(), span.number)
        });
    }
    fn exit(&self, id: &Id) {
        STACK.with(|stack| {
            let mut stack = stack.borrow_mut();
            if let Some(at) = stack.iter().rposition(|known| *known == id.into_u64()) {
                stack.remove(at);
            }
        });
        self.say(id, |span| {
            format!("{}__exit: id={}", span.metadata.name(), span.number)
        });
    }
    fn clone_span(&self, id: &Id) -> Id {
        self.0
            .lock()
            .unwrap()
            .spans
            .get_mut(&id.into_u64())
            .unwrap()
            .handles += 1;
        id.clone()
    }
    fn try_close(&self, id: Id) -> bool {
        let mut state = self.0.lock().unwrap();
        let span = state.spans.get_mut(&id.into_u64()).unwrap();
        span.handles -= 1;
        if span.handles > 0 {
            return false;
        }
        let line = format!("{}__close: id={}", span.metadata.name(), span.number);
        state.lines.push(line);
        state.spans.remove(&id.into_u64());
        true
    }
    fn current_span(&self) -> Current {
        let innermost = STACK.with(|stack| stack.borrow().last().copied());
        let state = self.0.lock().unwrap();
        innermost.map_or_else(Current::none, |id| {
            Current::new(Id::from_u64(id), state.spans[&id].metadata)
        })
    }
}

/// The values of a hit, in the order of the fields, as the stream writes them.
struct Values {
    names: Vec<String>,
    values: Vec<Option<String>>,
}

impl Values {
    fn of(metadata: &Metadata<'_>, ours: &[&str]) -> Values {
        let name = |field: Field| match field.name() {
            name if ours.contains(&name) => format!("fields.{name}"),
            name => name.to_owned(),
        };
        let names: Vec<String> = metadata.fields().iter().map(name).collect();
        Values {
            values: vec![None; names.len()],
            names,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.names.iter().zip(&self.values) {
            write!(text, " {name}={}", value.as_deref().unwrap_or("None")).unwrap();
        }
        text
    }

    fn set(&mut self, field: &Field, value: String) {
        self.values[field.index()] = Some(value);
    }
}

impl Visit for Values {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.to_string());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.to_string());
    }
    fn record_i128(&mut self, field: &Field, value: i128) {
        self.set(field, value.to_string());
    }
    fn record_u128(&mut self, field: &Field, value: u128) {
        self.set(field, value.to_string());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, format!("{value:?}"));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.to_string());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.escape_debug().to_string());
    }
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field, value.to_string().escape_debug().to_string());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").escape_debug().to_string());
    }
}
