//! Every tracepoint of the process, over all objects that are loaded.
//!
//! Nothing registers at start: the tables of each object are read when somebody asks. What was
//! enabled by pattern is remembered as *wishes*, so that it holds for libraries that load later.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracebraid_wire::glob;
use tracebraid_wire::schema::{self, Schema};
use tracebraid_wire::table::{PointRow, SITE_TESTS_SEMAPHORE, SiteRow};

use crate::dso::{self, Dso, DsoId};
use crate::error::Result;
use crate::field_value::FieldValue;
use crate::gate::{self, Outcome, text};
use crate::ring;
use crate::state::Point;
use crate::tracepoint::{Field, Site};

/// One tracepoint of a loaded object: a provider, a name and a list of fields.
///
/// The same name with other fields, or in another library, is another tracepoint.
#[derive(Clone)]
pub struct Tracepoint(pub(crate) Arc<Description>);

pub(crate) struct Description {
    pub(crate) dso: DsoId,
    pub(crate) object: CString,
    pub(crate) row: u64,
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) print: String,
    pub(crate) is_return: bool,
    pub(crate) fields: Vec<Field>,
    pub(crate) sites: Vec<Site>,
}

impl Description {
    /// `provider:name: field=value field=value …`. A return says what has a value: its duration, and how it
    /// ended where that is unusual.
    pub(crate) fn write_hit<'a>(
        &self,
        fields: impl Iterator<Item = (&'a str, FieldValue<'a>)>,
        out: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        write!(out, "{}:{}:", self.provider, self.name)?;
        for (name, value) in fields {
            if !(self.is_return && matches!(value, FieldValue::None)) {
                write!(out, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

impl Tracepoint {
    /// Who declares it: the application's crate, unless it says otherwise.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.0.provider
    }

    /// Its name within the provider.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The print format; empty for the default form.
    #[must_use]
    pub fn print(&self) -> &str {
        &self.0.print
    }

    /// Its fields in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.0.fields
    }

    /// Where it is hit. A generic or inlined function has a site for each copy.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.0.sites
    }

    /// Whether this is the return of the tracepoint without `__return` in its name.
    #[must_use]
    pub fn is_return(&self) -> bool {
        self.0.is_return
    }

    /// Whether its hits come from `tracing`: it was made at run time, or stands for all of them.
    #[cfg(feature = "tracing")]
    pub(crate) fn is_of_tracing(&self) -> bool {
        let of_all = self.provider() == "tracing" && matches!(self.name(), "event" | "span");
        of_all || self.0.sites.iter().all(|site| site.address == 0)
    }

    /// Whether it calls this copy of the SDK.
    #[cfg(feature = "tracing")]
    pub(crate) fn is_ours(&self) -> bool {
        let mut is_ours = false;
        dso::for_each(|dso| {
            is_ours = dso.id() == self.0.dso && dso.is_ours();
            !is_ours
        });
        is_ours
    }

    /// Whether a hit would be seen by anybody now: what its sites say, not what is wished.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        let mut on = false;
        dso::for_each(|dso| {
            if dso.id() != self.0.dso {
                return true;
            }
            on = point_is_on(dso, self.0.row);
            false
        });
        on
    }
}

impl fmt::Debug for Tracepoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.0.provider, self.0.name)
    }
}

/// Lists every tracepoint of the loaded objects, hit or not, in the order of the objects.
#[must_use]
pub fn tracepoints() -> Vec<Tracepoint> {
    let mut found = Vec::new();
    dso::for_each(|dso| {
        let mut sites: HashMap<u64, Vec<Site>> = HashMap::new();
        for row in dso.sites() {
            sites
                .entry(row.point)
                .or_default()
                .push(describe_site(&row));
        }
        for row in dso.points() {
            let Some(schema) = schema_of(&row) else {
                continue;
            };
            let sites = match schema.place() {
                Some(place) => vec![describe_place(place)],
                None => sites.remove(&row.address).unwrap_or_default(),
            };
            found.push(Tracepoint(Arc::new(Description {
                dso: dso.id(),
                object: dso.name(),
                row: row.address,
                provider: schema.provider.to_owned(),
                name: schema.name.to_owned(),
                print: schema.print.to_owned(),
                is_return: schema.flags & schema::FLAG_RETURN != 0,
                fields: describe_fields(&schema, row.usdt_slots as usize),
                sites,
            })));
        }
        true
    });
    found
}

fn describe_site(row: &SiteRow) -> Site {
    Site {
        // SAFETY: the row is of an object that the loader's lock keeps loaded.
        file: unsafe { dso::text(row.file) }
            .to_string_lossy()
            .into_owned(),
        line: row.line,
        address: row.code as usize,
        tests_semaphore: row.flags & SITE_TESTS_SEMAPHORE != 0,
    }
}

fn describe_place(place: &str) -> Site {
    let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
    Site {
        file: file.to_owned(),
        line: line.parse().unwrap_or(0),
        address: 0,
        tests_semaphore: false,
    }
}

fn describe_fields(schema: &Schema<'_>, usdt_slots: usize) -> Vec<Field> {
    let mut slots = 0;
    let fields = schema.fields().map(|(name, kind)| {
        slots += kind.slot_count();
        Field {
            name: name.to_owned(),
            kind,
            in_usdt: slots <= usdt_slots,
        }
    });
    fields.collect()
}

/// The schema that a row leads to.
pub(crate) fn schema_of<'a>(row: &PointRow) -> Option<Schema<'a>> {
    Schema::parse(schema_bytes(row)?).ok()
}

/// Its bytes.
pub(crate) fn schema_bytes<'a>(row: &PointRow) -> Option<&'a [u8]> {
    let start = row.schema as usize as *const u8;
    // SAFETY: the row leads to a schema of this program, whose first word is its length; it is in a
    // read-only section of an object that the loader's lock keeps loaded.
    unsafe {
        let length = u32::from_le_bytes(start.cast::<[u8; 4]>().read()) as usize;
        (length <= schema::MAX_LENGTH).then(|| std::slice::from_raw_parts(start, length))
    }
}

/// Whether hits of a point come through: somebody wants it, and a site of it is on. A site is another
/// point's too, and where a key could not be switched it is what its bytes say.
fn point_is_on(dso: &Dso<'_>, row: u64) -> bool {
    let wanted = dso
        .points()
        .find(|point| point.address == row)
        .is_some_and(|point| {
            // SAFETY: as above.
            unsafe { Point::of(&point) }.wanted()
        });
    let is_on =
        |site: SiteRow| site.flags & SITE_TESTS_SEMAPHORE != 0 || gate::is_on(&site) == Some(true);
    wanted && (dso.is_made() || dso.sites().filter(|site| site.point == row).any(is_on))
}

/// What was asked for by pattern, and which objects know of it.
pub(crate) struct Wishes {
    /// Enables minus disables of each pattern, in the order in which they first came.
    patterns: Vec<(String, i64)>,
    /// Objects that the patterns were applied to.
    applied: Vec<DsoId>,
}

impl Wishes {
    pub(crate) const fn new() -> Wishes {
        Wishes {
            patterns: Vec::new(),
            applied: Vec::new(),
        }
    }

    /// Applies all wishes to an object that loaded since the last look.
    pub(crate) fn adopt(&mut self, dso: &Dso<'_>) {
        let id = dso.id();
        // Tracepoints made at run time take their wishes as they are made.
        if dso.is_made() || self.applied.contains(&id) {
            return;
        }
        self.applied.push(id);
        self.apply(dso);
    }

    /// Applies all wishes to an object's points, which have none yet.
    fn apply(&self, dso: &Dso<'_>) {
        for row in dso.points() {
            let Some(schema) = schema_of(&row) else {
                continue;
            };
            let count: i64 = self
                .patterns
                .iter()
                .filter(|(pattern, _)| names(pattern, schema.provider, schema.name))
                .map(|(_, count)| count)
                .sum();
            // SAFETY: the object is loaded while it is shown.
            let point = unsafe { Point::of(&row) };
            point
                .state
                .enabled
                .fetch_add(count.max(0) as u32, Ordering::Relaxed);
        }
    }

    fn remember(&mut self, pattern: &str, change: i64, took_effect: bool) {
        match self.patterns.iter_mut().find(|(known, _)| known == pattern) {
            Some((_, count)) if change > 0 || *count > 0 || took_effect => *count += change,
            None if change > 0 || took_effect => self.patterns.push((pattern.to_owned(), change)),
            _ => {}
        }
        self.patterns.retain(|&(_, count)| count != 0);
    }

    /// Whether anything is wished that tracepoints made later may be named by.
    #[cfg(feature = "tracing")]
    fn any(&self) -> bool {
        self.patterns.iter().any(|(_, count)| *count > 0)
    }

    /// Forgets objects that are gone.
    fn keep(&mut self, loaded: &[DsoId]) {
        self.applied.retain(|id| loaded.contains(id));
    }
}

/// Whether a pattern names a tracepoint: `PROVIDER:NAME`, or `NAME` in any provider.
pub(crate) fn names(pattern: &str, provider: &str, name: &str) -> bool {
    match pattern.split_once(':') {
        Some((providers, names)) => {
            glob::matches(providers, provider) && glob::matches(names, name)
        }
        None => glob::matches(pattern, name),
    }
}

/// Switches on every tracepoint that `pattern` names, in objects loaded now and later, for in-process
/// probes and readers. Returns how many are loaded now.
///
/// `pattern` is `PROVIDER:NAME` or `NAME`, each with `*`, `?` and `[…]`. Enables count: a tracepoint
/// is off again after as many [`disable`]s.
///
/// # Errors
/// Where the process cannot patch its own code, or a site is not what it should be. What could be
/// switched is; the others stay off.
pub fn enable(pattern: &str) -> Result<usize> {
    change(pattern, 1)
}

/// Takes one [`enable`] back from every tracepoint that `pattern` names. Returns how many are named.
///
/// # Errors
/// As for [`enable`].
pub fn disable(pattern: &str) -> Result<usize> {
    change(pattern, -1)
}

fn change(pattern: &str, by: i64) -> Result<usize> {
    let mut guard = gate::lock();
    let locked = &mut *guard;
    let rings = ring::current();
    let (mut named, mut took_effect) = (0, false);
    let mut outcome = Outcome::default();
    dso::for_each(|dso| {
        dso.locked(|| {
            locked.wishes.adopt(dso);
            for row in dso.points() {
                if !schema_of(&row)
                    .is_some_and(|schema| names(pattern, schema.provider, schema.name))
                {
                    continue;
                }
                named += 1;
                // SAFETY: the object is loaded while it is shown.
                let enabled = &unsafe { Point::of(&row) }.state.enabled;
                let before = enabled.load(Ordering::Relaxed);
                let after = before.saturating_add_signed(by as i32);
                took_effect |= before != after;
                enabled.store(after, Ordering::Relaxed);
            }
            if let Some(rings) = rings {
                locked.listing.apply(dso, rings);
            }
            gate::reconcile(dso, &mut locked.writer, &mut outcome);
        });
        true
    });
    locked.wishes.remember(pattern, by, took_effect);
    drop(guard);
    finish(outcome).map(|()| named)
}

/// Takes in tracepoints made at run time, all at once: what is wished of such names holds for them from now on,
/// and `then` makes them known to whoever hits them. Nothing is done where `is_needed` says no: another thread
/// has made them meanwhile, which only one does at a time.
#[cfg(feature = "tracing")]
pub(crate) fn adopt_made(rows: &[u64], is_needed: impl FnOnce() -> bool, then: impl FnOnce()) {
    let mut guard = gate::lock();
    if !is_needed() {
        return;
    }
    let locked = &mut *guard;
    let rings = ring::current();
    for &row in rows {
        dso::add_made(row, |dso| {
            locked.wishes.apply(dso);
            if let Some(rings) = rings {
                locked.listing.apply(dso, rings);
            }
            // It has no text that could be switched, so that nothing can fail.
            gate::reconcile(dso, &mut locked.writer, &mut Outcome::default());
        });
    }
    then();
}

/// Whether a tracepoint that is made later might be wanted, or is to be made known.
#[cfg(feature = "tracing")]
pub(crate) fn awaits_made() -> bool {
    let locked = gate::lock();
    let recorded = ring::current().is_some_and(|rings| locked.listing.awaits_made(rings));
    locked.wishes.any() || recorded
}

/// Makes all objects' text equal to what is wanted, new objects included. `settle` is what the helper
/// thread calls.
pub(crate) fn settle() -> Result<usize> {
    let mut guard = gate::lock();
    let locked = &mut *guard;
    let rings = ring::current();
    let mut loaded = Vec::new();
    let mut outcome = Outcome::default();
    dso::for_each(|dso| {
        dso.locked(|| {
            locked.wishes.adopt(dso);
            if let Some(rings) = rings {
                locked.listing.apply(dso, rings);
            }
            gate::reconcile(dso, &mut locked.writer, &mut outcome);
        });
        loaded.push(dso.id());
        true
    });
    locked.wishes.keep(&loaded);
    locked.listing.keep(&loaded);
    let switched = outcome.switched;
    drop(guard);
    finish(outcome).map(|()| switched)
}

/// What is left to do when the lock was given back.
pub(crate) fn finish(outcome: Outcome) -> Result<()> {
    if outcome.switched > 0 {
        text::publish();
    }
    #[cfg(feature = "tracing")]
    crate::interop::tracing::follow();
    match outcome.error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Whether any site of a tracepoint that `pattern` names is on: what the code says, not what is wished.
#[must_use]
pub fn is_enabled(pattern: &str) -> bool {
    let mut on = false;
    dso::for_each(|dso| {
        on = dso.points().any(|row| {
            schema_of(&row).is_some_and(|schema| names(pattern, schema.provider, schema.name))
                && point_is_on(dso, row.address)
        });
        !on
    });
    on
}
