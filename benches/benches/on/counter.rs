//! A uprobe of the kernel that only counts: what a USDT probe costs at least while somebody looks.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;

use bridge::target::Binary;
use tracebraid_tests::uprobe::Uprobe;

/// The thread that runs what is measured.
const CALLING_THREAD: i32 = 0;

/// A probe in this process, from now until it is dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    name: String,
    probe: Uprobe,
}

/// A counter on each place of each probe that these providers have in this program.
pub(crate) fn on_providers(providers: &[&str]) -> Result<Vec<Counter>, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let binary = Binary::open(&program)?;
    let ours = binary.tracepoints().iter();
    let ours = ours.map(|point| (&point.provider, &point.name, point.attachable()));
    let theirs = binary.usdt_probes().iter();
    let theirs = theirs.map(|probe| (&probe.provider, &probe.name, probe.attachable()));
    let mut counters = Vec::new();
    // Tracepoints of ours are probes of the file as well: two counters at one place would cost twice.
    let mut counted = BTreeSet::new();
    for (provider, name, probe) in ours.chain(theirs) {
        if !providers.contains(&provider.as_str()) {
            continue;
        }
        for location in &probe.locations {
            if !counted.insert(location.offset) {
                continue;
            }
            let name = format!("{provider}:{name}");
            let (offset, semaphore) = (location.offset, location.semaphore);
            let probe = Uprobe::attach(CALLING_THREAD, &program, offset, semaphore)?;
            counters.push(Counter { name, probe });
        }
    }
    match counters.is_empty() {
        false => Ok(counters),
        true => Err("this program has no probe that can be attached".into()),
    }
}

impl Counter {
    /// The probe that is counted: `provider:name`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Hits so far.
    pub(crate) fn hits(&mut self) -> io::Result<u64> {
        self.probe.hits()
    }
}
