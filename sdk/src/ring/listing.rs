//! Which tracepoints the rings know, and which of them go there.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::rings::Rings;
use super::{directory, service};
use crate::dso::{self, Dso};
use crate::registry::{self, Tracepoint};
use crate::state::Point;

/// What a bridge asked for, and the next event id. Part of what the process's lock protects.
pub(crate) struct Listing {
    next: u16,
    wanted: Vec<u8>,
}

impl Listing {
    pub(crate) const fn new() -> Listing {
        Listing {
            next: 1,
            wanted: Vec::new(),
        }
    }

    /// Sets what a bridge wants: a byte an event. Empty: there is no bridge.
    pub(crate) fn set_wanted(&mut self, wanted: Vec<u8>) {
        self.wanted = wanted;
    }

    /// Gives ids to an object's tracepoints that have none, and decides which of them go to the rings.
    pub(crate) fn apply(&mut self, dso: &Dso<'_>, rings: &Rings) {
        if !dso.is_ours() {
            return;
        }
        let own_reader = service::has_own_reader();
        for row in dso.points() {
            // SAFETY: the object is loaded while it is shown.
            let state = unsafe { Point::of(&row) }.state;
            if state.event.load(Ordering::Relaxed) == 0 {
                let event = registry::schema_bytes(&row)
                    .and_then(|schema| directory::append(&rings.region, &mut self.next, schema));
                state
                    .event
                    .store(event.unwrap_or(0).into(), Ordering::Relaxed);
            }
            let event = state.event.load(Ordering::Relaxed) as usize;
            let asked = self.wanted.get(event).is_some_and(|&byte| byte != 0);
            let own = own_reader && state.enabled.load(Ordering::Relaxed) != 0;
            state
                .ring
                .store(u32::from(event != 0 && (asked || own)), Ordering::Relaxed);
        }
    }
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
