//! The callsites of `tracing` that were registered, and the tracepoints that they are.
//!
//! ```text
//! event   TARGET:FILE:LINE
//! span    TARGET:NAME, and with __enter, __exit, __close, __record, __follows behind the name
//! ```
//! A callsite is made known when it is first registered: `tracing` keeps no list of those that were not. The
//! table of them is read without a lock, since every hit looks into it; it is written under the gate lock,
//! by way of the registry.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracebraid_wire::kind::Kind;
use tracing_core::{Level, Metadata};

use super::{forward, interest, thread};
use crate::made::{Description, MOST_VALUES, Made};
use crate::registry;

/// Callsites that can be known. There are fewer event ids.
const ROOM: usize = 1 << 13;
/// Bytes of a name or target that are kept.
const NAME: usize = 128;

static TABLE: [OnceLock<&'static Known>; ROOM] = [const { OnceLock::new() }; ROOM];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A callsite that was registered.
pub(super) struct Known {
    pub(super) key: u64,
    /// Its place in the table.
    pub(super) index: u32,
    pub(super) metadata: &'static Metadata<'static>,
    pub(super) points: Points,
}

/// The tracepoints of a callsite.
pub(super) enum Points {
    Event(Made),
    Span(Box<SpanPoints>),
}

/// The tracepoints of a span's callsite.
pub(super) struct SpanPoints {
    pub(super) new: Made,
    pub(super) enter: Made,
    pub(super) exit: Made,
    pub(super) close: Made,
    pub(super) record: Made,
    pub(super) follows: Made,
}

impl Points {
    fn each(&self) -> impl Iterator<Item = &Made> {
        let (event, span) = match self {
            Points::Event(event) => (Some(event), None),
            Points::Span(span) => (None, Some(&**span)),
        };
        event.into_iter().chain(span.into_iter().flat_map(|span| {
            [
                &span.new,
                &span.enter,
                &span.exit,
                &span.close,
                &span.record,
                &span.follows,
            ]
        }))
    }
}

impl Known {
    /// Whether anybody wants anything of it.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.points.each().any(Made::is_on)
    }
}

/// `level` as a number, so that filters can compare it.
pub(super) fn level_number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// What tells a callsite from others: its address.
pub(super) fn key(metadata: &Metadata<'_>) -> u64 {
    /// Keeps the first number that is hashed.
    struct First(u64);
    impl Hasher for First {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        fn write_usize(&mut self, number: usize) {
            if self.0 == 0 {
                self.0 = number as u64;
            }
        }
    }
    let mut first = First(0);
    metadata.callsite().hash(&mut first);
    first.finish()
}

/// The places of the table that a callsite may have, from the first on.
fn places(key: u64) -> impl Iterator<Item = usize> {
    let hash = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize;
    (0..ROOM).map(move |step| (hash + step) % ROOM)
}

/// The callsite of this metadata, if it was registered.
#[inline]
pub(super) fn find(metadata: &Metadata<'_>) -> Option<&'static Known> {
    let key = key(metadata);
    places(key)
        .map_while(|at| TABLE[at].get().copied())
        .find(|known| known.key == key && known.metadata.callsite() == metadata.callsite())
}

/// The callsite at a place of the table.
#[inline]
pub(super) fn at(index: u32) -> Option<&'static Known> {
    TABLE.get(index as usize)?.get().copied()
}

/// All that are known.
pub(super) fn all() -> impl Iterator<Item = &'static Known> {
    TABLE.iter().filter_map(|place| place.get().copied())
}

/// The callsite of this metadata, made known if it was not. `None` where there is no room, where it is
/// neither an event nor a span, and where this thread must not make anything now: see [`thread::is_busy`].
pub(super) fn find_or_make(metadata: &'static Metadata<'static>) -> Option<&'static Known> {
    if let Some(known) = find(metadata) {
        return Some(known);
    }
    if thread::is_busy() || COUNT.load(Ordering::Relaxed) >= ROOM * 3 / 4 {
        return None;
    }
    thread::alone(|| make(metadata)).flatten()
}

/// The same, where it is made known only if it might be wanted: of those that register nowhere.
#[inline]
pub(super) fn find_or_late(metadata: &'static Metadata<'static>) -> Option<&'static Known> {
    find(metadata).or_else(|| {
        let wanted = interest::might_want(metadata);
        wanted.then(|| find_or_make(metadata)).flatten()
    })
}

/// The callsite of this metadata, if anybody wants anything of it.
#[cfg(feature = "tracing-layer")]
pub(super) fn find_wanted(metadata: &'static Metadata<'static>) -> Option<&'static Known> {
    find_or_late(metadata).filter(|known| interest::wants(known))
}

/// Its tracepoints are all switched as is wished before anybody finds it: a hit of another thread that comes
/// meanwhile waits here, and then finds all of them.
fn make(metadata: &'static Metadata<'static>) -> Option<&'static Known> {
    let points = points_of(metadata)?;
    let rows: Vec<u64> = points.each().map(Made::row).collect();
    let publish = || {
        let key = key(metadata);
        let Some(at) = places(key).find(|&at| TABLE[at].get().is_none()) else {
            return;
        };
        let known = Known {
            key,
            index: at as u32,
            metadata,
            points,
        };
        // Nobody else writes, under the gate lock.
        if TABLE[at].set(Box::leak(Box::new(known))).is_ok() {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
    };
    registry::adopt_made(&rows, || find(metadata).is_none(), publish);
    find(metadata)
}

fn points_of(metadata: &Metadata<'_>) -> Option<Points> {
    if forward::is_forwarded(metadata) {
        return None;
    }
    const EVENT: [(&str, Kind); 2] = [("level", Kind::U8), ("span", Kind::U64)];
    const SPAN: [(&str, Kind); 3] = [
        ("level", Kind::U8),
        ("id", Kind::U64),
        ("parent", Kind::U64),
    ];
    let ours = if metadata.is_event() {
        &EVENT[..]
    } else {
        &SPAN[..]
    };
    let is_ours = |name: &str| ours.iter().any(|(own, _)| *own == name);
    let fields: Vec<String> = metadata
        .fields()
        .iter()
        .take(MOST_VALUES)
        .map(|field| match field.name() {
            name if is_ours(name) => format!("fields.{name}"),
            name => name.replace('\0', "_"),
        })
        .collect();
    let values: Vec<&str> = fields.iter().map(String::as_str).collect();
    let place = match (metadata.file(), metadata.line()) {
        (Some(file), Some(line)) => format!("{}:{line}", file.replace('\0', "_")),
        _ => String::new(),
    };
    let provider = clean(metadata.target());
    let point = |name: &str, words: &[(&str, Kind)], values: &[&str]| {
        Made::new(&Description {
            provider: &provider,
            name,
            words,
            values,
            place: &place,
        })
    };
    if metadata.is_event() {
        let base = place.rsplit('/').next().unwrap_or("");
        let name = match base {
            "" => clean(metadata.name()),
            base => base.replace(|c: char| c.is_whitespace() || c.is_control(), "_"),
        };
        return point(&name, ours, &values).map(Points::Event);
    }
    if !metadata.is_span() {
        return None;
    }
    let name = clean(metadata.name());
    let of = |what: &str, words: &[(&str, Kind)], values: &[&str]| {
        point(&format!("{name}__{what}"), words, values)
    };
    let id = ("id", Kind::U64);
    Some(Points::Span(Box::new(SpanPoints {
        new: point(&name, ours, &values)?,
        enter: of("enter", &[id], &[])?,
        exit: of("exit", &[id], &[])?,
        close: of("close", &[id, ("ns", Kind::Elapsed)], &[])?,
        record: of("record", &[id], &values)?,
        follows: of("follows", &[id, ("follows", Kind::U64)], &[])?,
    })))
}

/// A name as `-e` can say it: modules are parted by points; colons, blanks and control characters become `_`.
pub(super) fn clean(name: &str) -> String {
    let name = name.replace("::", ".");
    let name = name.chars().map(|c| match c {
        ':' => '_',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    });
    let mut kept = String::new();
    for c in name {
        if kept.len() + c.len_utf8() > NAME {
            break;
        }
        kept.push(c);
    }
    if kept.is_empty() {
        "_".to_owned()
    } else {
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn a_target_becomes_a_provider_that_a_pattern_can_name() {
        for (target, provider) in [
            ("shop::cart", "shop.cart"),
            ("my app:v2\n", "my_app_v2_"),
            ("", "_"),
            ("a:::b", "a._b"),
            ("käse", "käse"),
        ] {
            assert_eq!(clean(target), provider);
        }
        assert_eq!(clean(&"x".repeat(1000)).len(), 128);
    }
}
