//! The other way: our tracepoints as events of `tracing`, for people who read them with what they have.
//!
//! A tracepoint becomes a callsite, which is asked for as any: where nobody wants it, a hit costs the look at
//! an interest. It is one of ours by its module path, so that what is forwarded does not come back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_core::callsite::{self, Callsite, Identifier};
use tracing_core::field::{DisplayValue, FieldSet, Value, display};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, Kind, Level, Metadata, dispatcher};

use crate::error::Result;
use crate::event::Event as Hit;
use crate::field_value::FieldValue;
use crate::fields::MAX_FIELDS;
use crate::probe::Attachment;
use crate::registry::{self, Tracepoint};

/// The module path of what is forwarded.
const FORWARDED: &str = "tracebraid::tracing::forward";

/// Whether this is the callsite of something that is forwarded.
pub(super) fn is_forwarded(metadata: &Metadata<'_>) -> bool {
    metadata.module_path() == Some(FORWARDED)
}

/// What is forwarded is so while this lives.
#[derive(Debug)]
#[must_use = "nothing is forwarded once this is dropped"]
pub struct Forwarding {
    attachments: Vec<Attachment>,
}

impl Forwarding {
    /// How many tracepoints are forwarded.
    #[must_use]
    pub fn tracepoints(&self) -> usize {
        self.attachments.len()
    }
}

/// Forwards the hits of the SDK's tracepoints that `pattern` names (as in [`crate::enable`]), and that are
/// loaded now, to the current dispatcher of the thread that hits: as INFO events with the provider as target,
/// the name as name, and their fields.
///
/// # Errors
/// As of [`Tracepoint::attach`]; nothing is forwarded then.
pub fn forward(pattern: &str) -> Result<Forwarding> {
    let mut attachments = Vec::new();
    for point in crate::tracepoints() {
        let is_meant = registry::names(pattern, point.provider(), point.name());
        // What came from `tracing` is there already.
        if !is_meant || point.is_of_tracing() {
            continue;
        }
        let site = site_of(&point);
        attachments.push(point.attach(move |hit| site.event(hit))?);
    }
    Ok(Forwarding { attachments })
}

/// A tracepoint as a callsite of `tracing`, which are for ever.
struct Site {
    metadata: OnceLock<Metadata<'static>>,
    wanted: AtomicBool,
}

impl Callsite for Site {
    fn set_interest(&self, interest: Interest) {
        self.wanted.store(!interest.is_never(), Ordering::Relaxed);
    }

    fn metadata(&self) -> &Metadata<'_> {
        self.metadata.get_or_init(|| {
            // Never: it is set before anybody has the callsite.
            unreachable!("a callsite has metadata")
        })
    }
}

/// The callsite of a tracepoint, made and registered the first time.
fn site_of(point: &Tracepoint) -> &'static Site {
    static SITES: Mutex<Option<HashMap<u64, &'static Site>>> = Mutex::new(None);
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let sites = sites.get_or_insert_default();
    if let Some(site) = sites.get(&point.0.row) {
        return site;
    }
    let text = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let site: &'static Site = Box::leak(Box::new(Site {
        metadata: OnceLock::new(),
        wanted: AtomicBool::new(false),
    }));
    let names = point.fields().iter().map(|field| text(&field.name));
    let names: &'static [&'static str] = Box::leak(names.collect());
    let at = point.sites().first();
    let _ = site.metadata.set(Metadata::new(
        text(point.name()),
        text(point.provider()),
        Level::INFO,
        at.map(|at| text(&at.file)),
        at.map(|at| at.line),
        Some(FORWARDED),
        FieldSet::new(names, Identifier(site)),
        Kind::EVENT,
    ));
    callsite::register(site);
    sites.insert(point.0.row, site);
    site
}

impl Site {
    fn event(&'static self, hit: &Hit<'_>) {
        let Some(metadata) = self
            .metadata
            .get()
            .filter(|_| self.wanted.load(Ordering::Relaxed))
        else {
            return;
        };
        dispatcher::get_default(|dispatch| {
            if !dispatch.enabled(metadata) {
                return;
            }
            let fields = metadata.fields();
            let mut values = [FieldValue::None; MAX_FIELDS];
            for (place, (_, value)) in values.iter_mut().zip(hit.fields()) {
                *place = value;
            }
            let shown = values.map(display);
            let Some(first) = fields.iter().next() else {
                dispatch.event(&Event::new(metadata, &fields.value_set(&[])));
                return;
            };
            let mut named = [const { None }; MAX_FIELDS];
            for (place, field) in named.iter_mut().zip(fields.iter()) {
                *place = Some(field);
            }
            let pairs: [_; MAX_FIELDS] = std::array::from_fn(|index| match &named[index] {
                Some(field) => (field, value_of(&values[index], &shown[index])),
                None => (&first, None),
            });
            dispatch.event(&Event::new(metadata, &fields.value_set(&pairs)));
        });
    }
}

/// The value, in its type where `tracing` has that.
fn value_of<'a>(
    value: &'a FieldValue<'a>,
    shown: &'a DisplayValue<FieldValue<'a>>,
) -> Option<&'a dyn Value> {
    Some(match value {
        FieldValue::Unsigned(value) => value,
        FieldValue::Signed(value) => value,
        FieldValue::Unsigned128(value) => value,
        FieldValue::Signed128(value) => value,
        FieldValue::Bool(value) => value,
        FieldValue::F32(value) => value,
        FieldValue::F64(value) => value,
        FieldValue::Str(text) => text,
        FieldValue::Char(_)
        | FieldValue::Bytes(_)
        | FieldValue::Pointer(_)
        | FieldValue::Duration(_) => shown,
        FieldValue::None => return None,
    })
}
