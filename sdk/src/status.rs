//! What works in this process, and why not.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::Ordering;

use crate::control;
use crate::dso;
use crate::gate;
use crate::state::Point;

/// What [`status`] found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Executables and libraries that have tracepoints.
    pub objects: usize,
    /// Tracepoints in them.
    pub tracepoints: usize,
    /// Places in code that are patched.
    pub sites: usize,
    /// Sites that are on now.
    pub sites_on: usize,
    /// Whether the program's text can be written through `/proc/self/mem`, and if not, why (`mprotect`
    /// is then tried when a site is switched). The write itself may still be refused.
    pub text: Result<(), String>,
    /// Whether the helper thread runs, and if not, why.
    pub helper: Result<(), String>,
    /// Panics that were caught in formatters and callbacks.
    pub panics: u64,
    /// Hits that skipped callbacks, since they came from within a callback of the same tracepoint.
    pub nested: u64,
}

/// Tells what works in this process, and why not.
#[must_use]
pub fn status() -> Status {
    let text = gate::lock().writer.open().map(drop).map_err(|error| format!("/proc/self/mem: {error}"));
    let mut status = Status {
        objects: 0,
        tracepoints: 0,
        sites: 0,
        sites_on: 0,
        text,
        helper: control::helper(),
        panics: 0,
        nested: 0,
    };
    dso::for_each(|dso| {
        status.objects += 1;
        for row in dso.points() {
            status.tracepoints += 1;
            // SAFETY: the object is loaded while it is shown.
            let state = unsafe { Point::of(&row) }.state;
            status.panics += u64::from(state.panics.load(Ordering::Relaxed));
            status.nested += u64::from(state.nested.load(Ordering::Relaxed));
        }
        for (site, _) in gate::places(dso) {
            status.sites += 1;
            status.sites_on += usize::from(gate::is_on(&site) == Some(true));
        }
        true
    });
    status
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |result: &Result<(), String>| match result {
            Ok(()) => "yes".to_owned(),
            Err(why) => format!("no: {why}"),
        };
        writeln!(
            out,
            "{} tracepoints in {} objects, {} of {} sites on",
            self.tracepoints, self.objects, self.sites_on, self.sites
        )?;
        writeln!(out, "text can be written: {}", word(&self.text))?;
        writeln!(out, "helper thread: {}", word(&self.helper))?;
        write!(out, "panics caught: {}, nested hits: {}", self.panics, self.nested)
    }
}
