//! What works in this process, and why not.

use std::fmt;

/// What [`status`](crate::status()) found.
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
    /// Whether there are rings in this process, and if not, why. Events then go through USDT probes.
    /// [`init`](crate::init()) may be called again to make them.
    pub rings: Result<(), String>,
    /// Panics that were caught in formatters and callbacks.
    pub panics: u64,
    /// Hits that skipped callbacks, since they came from within a callback of the same tracepoint.
    pub nested: u64,
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
        writeln!(out, "rings: {}", word(&self.rings))?;
        write!(
            out,
            "panics caught: {}, nested hits: {}",
            self.panics, self.nested
        )
    }
}
