//! Which tracepoints the rings know, and which of them go there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ptr;
use std::sync::atomic::Ordering;

use tracebraid_wire::region::{WANTED_ALL, WANTED_COUNTED, WANTED_FILTERED, WANTED_HERE};
use tracebraid_wire::schema::Schema;
use tracebraid_wire::table::PointRow;

use super::filter::{ALL, COUNTED, FILTERED, Handle, OFF, PointFilter, Retired};
use super::rings::Rings;
use super::{directory, service};
use crate::dso::{self, Dso, DsoId};
use crate::registry::{self, Tracepoint};
use crate::state::{Point, State};

/// What a bridge asked for, and the next event id. Part of what the process's lock protects.
pub(crate) struct Listing {
    next: u16,
    wanted: Vec<u8>,
    /// What a bridge wants of tracepoints that are made at run time.
    patterns: Vec<String>,
    /// What the program records with nobody asking.
    recording: Option<String>,
    /// The texts of filters, by event.
    filters: BTreeMap<u16, String>,
    /// The filters that hang in states, by event.
    installed: BTreeMap<u16, Installed>,
    retired: Retired,
    /// Events that stay off, since their filter is missing or cannot be read.
    refused: BTreeSet<u16>,
}

struct Installed {
    object: DsoId,
    filter: Handle,
}

impl Listing {
    pub(crate) const fn new() -> Listing {
        Listing {
            next: 1,
            wanted: Vec::new(),
            patterns: Vec::new(),
            recording: None,
            filters: BTreeMap::new(),
            installed: BTreeMap::new(),
            retired: Retired::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Sets what is recorded with nobody asking: a pattern, or nothing.
    pub(crate) fn set_recording(&mut self, pattern: Option<String>) {
        self.recording = pattern;
    }

    /// Sets what a bridge wants: a byte an event, and filters by event. Empty: there is no bridge.
    pub(crate) fn set_wanted(&mut self, wanted: Vec<u8>, filters: BTreeMap<u16, String>) {
        self.wanted = wanted;
        self.filters = filters;
        self.refused.clear();
    }

    /// Sets what a bridge wants of tracepoints that are made at run time.
    pub(crate) fn set_patterns(&mut self, patterns: Vec<String>) {
        self.patterns = patterns;
    }

    /// Whether a tracepoint that is made later might go to the rings, or is to be made known.
    #[cfg(feature = "tracing")]
    pub(crate) fn awaits_made(&self, rings: &Rings) -> bool {
        let recording = self.recording.is_some() && service::records_unasked(rings);
        recording || !self.patterns.is_empty()
    }

    /// How many events stay off because of their filter.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.len() as u32
    }

    /// Gives ids to an object's tracepoints that have none, and decides which of them go to the rings.
    pub(crate) fn apply(&mut self, dso: &Dso<'_>, rings: &Rings) {
        if !dso.is_ours() {
            return;
        }
        let own_reader = service::has_own_reader();
        let unasked = service::records_unasked(rings);
        for row in dso.points() {
            // SAFETY: the object is loaded while it is shown.
            let state = unsafe { Point::of(&row) }.state;
            if state.event.load(Ordering::Relaxed) == 0 {
                let event = registry::schema_bytes(&row).and_then(|schema| {
                    directory::append(rings.region, &mut self.next, row.address, schema)
                });
                state
                    .event
                    .store(event.unwrap_or(0).into(), Ordering::Relaxed);
            }
            let event = state.event.load(Ordering::Relaxed) as u16;
            let own = own_reader && state.enabled.load(Ordering::Relaxed) != 0;
            let wanted = self.wanted.get(usize::from(event)).copied().unwrap_or(0);
            let ring = match wanted & WANTED_HERE {
                _ if event == 0 => OFF,
                _ if own => ALL,
                WANTED_ALL => ALL,
                WANTED_FILTERED if self.install(dso.id(), &row, event, state) => FILTERED,
                WANTED_FILTERED => OFF,
                WANTED_COUNTED => COUNTED,
                _ if dso.is_made() && self.awaits(&row) => ALL,
                _ if unasked && self.records(&row) => ALL,
                _ => OFF,
            };
            // A hit that finds itself filtered finds the filter, or is in between and goes nowhere.
            state.ring.store(ring, Ordering::SeqCst);
            if ring != FILTERED {
                self.uninstall(event, state);
            }
        }
    }

    /// Whether the program wants it recorded with nobody asking.
    fn records(&self, row: &PointRow) -> bool {
        let recording = self.recording.as_deref();
        recording.is_some_and(|pattern| is_named(row, pattern))
    }

    /// Whether a bridge wanted it before it was made.
    fn awaits(&self, row: &PointRow) -> bool {
        self.patterns.iter().any(|pattern| is_named(row, pattern))
    }

    /// Hangs the event's filter in its state. Whether it has one that can be read.
    fn install(&mut self, object: DsoId, row: &PointRow, event: u16, state: &State) -> bool {
        let text = self.filters.get(&event).map_or("", String::as_str);
        let before = self.installed.get(&event);
        if before.is_some_and(|before| before.filter.text() == text) {
            return true;
        }
        let read = registry::schema_bytes(row)
            .and_then(|bytes| Schema::parse(bytes).ok())
            .and_then(|schema| PointFilter::parse(text, &schema).ok());
        let Some(filter) = read else {
            self.refused.insert(event);
            return false;
        };
        let filter = Handle::install(filter, state);
        if let Some(before) = self.installed.insert(event, Installed { object, filter }) {
            self.retired.push(before.filter);
        }
        true
    }

    fn uninstall(&mut self, event: u16, state: &State) {
        if let Some(before) = self.installed.remove(&event) {
            state.filter.store(ptr::null_mut(), Ordering::SeqCst);
            self.retired.push(before.filter);
        }
    }

    /// Takes back the filters of objects that are gone, and their states with them.
    pub(crate) fn keep(&mut self, loaded: &[DsoId]) {
        let gone = |installed: &Installed| !loaded.contains(&installed.object);
        let retired = &mut self.retired;
        self.installed.retain(|_, installed| {
            if gone(installed) {
                retired.push(installed.filter);
            }
            !gone(installed)
        });
    }

    /// Frees filters that are no longer used.
    pub(crate) fn tidy(&mut self) {
        self.retired.tidy();
    }
}

fn is_named(row: &PointRow, pattern: &str) -> bool {
    registry::schema_of(row)
        .is_some_and(|schema| registry::names(pattern, schema.provider, schema.name))
}

/// The tracepoints that have event ids, by these.
pub(crate) fn listed() -> HashMap<u16, Tracepoint> {
    let all = registry::tracepoints();
    let mut listed = HashMap::new();
    dso::for_each(|dso| {
        if dso.is_ours() {
            let id = dso.id();
            for row in dso.points() {
                // SAFETY: the object is loaded while it is shown.
                let event = unsafe { Point::of(&row) }
                    .state
                    .event
                    .load(Ordering::Relaxed) as u16;
                let known = all
                    .iter()
                    .find(|point| point.0.dso == id && point.0.row == row.address);
                if let Some(point) = known.filter(|_| event != 0) {
                    listed.insert(event, point.clone());
                }
            }
        }
        true
    });
    listed
}
