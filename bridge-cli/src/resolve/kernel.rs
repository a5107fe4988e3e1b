//! Kernel tracepoints by name: which there are, and what each is recorded as.
//!
//! System calls and the main scheduler events have records of their own and need nothing from tracefs
//! (only the names of system calls' arguments come from there). All others are described by tracefs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracebraid_bpf::spec::{KernelEvent, KernelProbe};

use crate::error::{Error, Result};
use crate::mount::ensure_tracefs;
use crate::selector::{Scope, Selector};
use crate::source::decode::{Decoder, tracepoint_probe};
use crate::syscalls;
use crate::tracefs::Tracefs;

use super::Resolved;
use super::asking::{Asked, Asking};
use super::choose::KernelName;

/// Up to so many system calls have a probe, and a row in the summary, each; more share one.
const SEPARATE_CALLS: usize = 32;

const SCHED: &str = "sched";

/// Scheduler events with a record of their own.
const TYPED: [(&str, KernelEvent); 8] = [
    ("sched_switch", KernelEvent::SchedSwitch),
    ("sched_waking", KernelEvent::SchedWaking),
    ("sched_wakeup", KernelEvent::SchedWakeup),
    ("sched_wakeup_new", KernelEvent::SchedWakeupNew),
    ("sched_migrate_task", KernelEvent::SchedMigrateTask),
    ("sched_process_fork", KernelEvent::ProcessFork),
    ("sched_process_exec", KernelEvent::ProcessExec),
    ("sched_process_exit", KernelEvent::ProcessExit),
];

/// What is traced without `-e`.
pub(super) fn default_names() -> impl Iterator<Item = String> {
    let sched = TYPED
        .iter()
        .map(|(name, _)| format!("tracepoint:{SCHED}:{name}"));
    let calls = [syscalls::ENTER, syscalls::EXIT]
        .map(|prefix| format!("tracepoint:{}:{prefix}*", syscalls::CATEGORY));
    sched.chain(calls)
}

/// The kernel's tracepoints.
#[derive(Debug)]
pub(super) struct Kernel {
    tracefs: Option<Arc<Tracefs>>,
    names: Vec<KernelName>,
}

impl Kernel {
    /// Looks the names up in tracefs, which is mounted privately where it must be. Without tracefs only
    /// system calls and the main scheduler events are known, which is enough if `selectors` ask for no
    /// more.
    ///
    /// # Errors
    /// Why there is no tracefs, where it is needed.
    pub(super) fn open(selectors: &[Selector]) -> Result<Kernel> {
        let found = ensure_tracefs().and_then(|()| Tracefs::find());
        match found {
            Ok(tracefs) => {
                let names = tracefs
                    .tracepoints()?
                    .into_iter()
                    .map(|it| (it.category, it.name))
                    .collect();
                Ok(Kernel {
                    tracefs: Some(Arc::new(tracefs)),
                    names,
                })
            }
            Err(error) => {
                let names = builtin_names();
                let known = |selector: &Selector| {
                    names
                        .iter()
                        .any(|(group, name)| selector.matches(group, name))
                };
                let asked = selectors.iter().filter(|selector| {
                    selector.scope == Scope::Kernel || selector.scope == Scope::Anywhere
                });
                match asked.into_iter().find(|selector| !known(selector)) {
                    None => Ok(Kernel {
                        tracefs: None,
                        names,
                    }),
                    Some(selector) => Err(needs_tracefs(selector, error)),
                }
            }
        }
    }

    /// All of them.
    pub(super) fn names(&self) -> Vec<KernelName> {
        self.names.clone()
    }

    /// Adds the chosen ones to what is probed; with `separate`, however many system calls a probe each.
    pub(super) fn add(
        &self,
        chosen: &[KernelName],
        separate: bool,
        asking: Asking<'_>,
        next: &mut u32,
        resolved: &mut Resolved,
    ) {
        resolved.symbols = self.tracefs.as_ref().map(|it| Arc::clone(it.symbols()));
        let mut calls = [BTreeSet::new(), BTreeSet::new()];
        for (category, name) in chosen {
            if category == SCHED
                && let Some((_, event)) = TYPED.iter().find(|(typed, _)| typed == name)
            {
                let by = asking.for_kernel(category, name);
                self.add_event(event.clone(), by, next, resolved);
                continue;
            }
            if category == syscalls::CATEGORY {
                let by_prefix =
                    [syscalls::ENTER, syscalls::EXIT].map(|prefix| name.strip_prefix(prefix));
                let numbers = by_prefix.map(|call| call.and_then(syscalls::number));
                if let Some(way) = numbers.iter().position(Option::is_some) {
                    calls[way].extend(numbers[way]);
                    continue;
                }
            }
            let by = asking.for_kernel(category, name);
            self.add_tracepoint(category, name, by, next, resolved);
        }
        for (way, numbers) in calls.into_iter().enumerate() {
            self.add_calls(way, numbers, separate, asking, next, resolved);
        }
    }

    fn add_event(
        &self,
        event: KernelEvent,
        by: Vec<usize>,
        next: &mut u32,
        resolved: &mut Resolved,
    ) {
        let decoder = Decoder::kernel(&event, self.tracefs.as_ref());
        let id = resolved.add(next, decoder, by);
        resolved.spec.kernel.push(KernelProbe { id, event });
    }

    fn add_tracepoint(
        &self,
        category: &str,
        name: &str,
        by: Vec<usize>,
        next: &mut u32,
        resolved: &mut Resolved,
    ) {
        let Some(tracefs) = &self.tracefs else { return };
        let format = match tracefs.format(category, name) {
            Ok(format) => format,
            Err(error) => {
                resolved
                    .warnings
                    .push(format!("{category}:{name} is left out: {error}"));
                return;
            }
        };
        let probe = tracepoint_probe(tracebraid_bpf::spec::ProbeId(*next), category, &format);
        let (decoder, unknown) = Decoder::tracepoint(tracefs, category, format);
        if let Some(unknown) = unknown {
            resolved.warnings.push(format!(
                "{category}:{name} is printed as name=value: {unknown}"
            ));
        }
        resolved.add(next, decoder, by);
        resolved.spec.tracepoints.push(probe);
    }

    /// System calls of one way: a probe each while they are few, one for all of them otherwise.
    fn add_calls(
        &self,
        way: usize,
        numbers: BTreeSet<u32>,
        separate: bool,
        asking: Asking<'_>,
        next: &mut u32,
        resolved: &mut Resolved,
    ) {
        let event = |numbers: Vec<u32>| match way {
            0 => KernelEvent::SysEnter(numbers),
            _ => KernelEvent::SysExit(numbers),
        };
        let prefix = [syscalls::ENTER, syscalls::EXIT][way];
        let known = self
            .names
            .iter()
            .filter(|(category, name)| {
                let call = name.strip_prefix(prefix);
                category == syscalls::CATEGORY && call.and_then(syscalls::number).is_some()
            })
            .count();
        let by = |number: u32| {
            let call = syscalls::name(number).unwrap_or("");
            asking.for_kernel(syscalls::CATEGORY, &format!("{prefix}{call}"))
        };
        match numbers.len() {
            0 => {}
            few if few <= SEPARATE_CALLS || separate => {
                for number in numbers {
                    self.add_event(event(vec![number]), by(number), next, resolved);
                }
            }
            // Every call, those without a tracepoint of their own too.
            all if all == known && !asking.filters_kernel() => {
                self.add_event(event(Vec::new()), Vec::new(), next, resolved);
            }
            _ => {
                let event = event(numbers.iter().copied().collect());
                let decoder = Decoder::kernel(&event, self.tracefs.as_ref());
                let mut asked = Vec::new();
                for number in numbers.into_iter().filter(|_| asking.filters_kernel()) {
                    asked.push((Arc::clone(decoder.probe_of_call(number)), by(number)));
                }
                let id = resolved.add(next, decoder, Vec::new());
                let each = asked.into_iter();
                resolved
                    .asked
                    .extend(each.map(|(what, by)| Asked::new(id, &what, by)));
                resolved.spec.kernel.push(KernelProbe { id, event });
            }
        }
    }
}

fn builtin_names() -> Vec<KernelName> {
    let sched = TYPED
        .iter()
        .map(|(name, _)| (SCHED.to_owned(), (*name).to_owned()));
    let calls = syscalls::all().flat_map(|(_, call)| {
        [syscalls::ENTER, syscalls::EXIT]
            .map(|prefix| (syscalls::CATEGORY.to_owned(), format!("{prefix}{call}")))
    });
    sched.chain(calls).collect()
}

fn needs_tracefs(selector: &Selector, error: Error) -> Error {
    let hint = error.hint_text().map(ToOwned::to_owned);
    let wrapped = Error::new(
        error.kind(),
        format!("-e {selector}: the kernel's tracepoints cannot be looked up"),
    )
    .because(error);
    match hint {
        Some(hint) => wrapped.hint(hint),
        None => wrapped,
    }
}
