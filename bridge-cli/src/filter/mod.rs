//! Which hits are wanted: the filters behind `-e`, read for each tracepoint that the `-e` means.
//!
//! ```text
//! -e orders:* --filter F ──┐ for each probe: read against its fields ──▶ ProbeFilter
//! -e orders:charge ────────┘   refused: said which, where and what would be right (Refusals)
//! ```
//! A hit is wanted where one of the `-e` that mean its tracepoint lets it pass; one without a filter lets
//! all pass. All filters of one `-e` have to hold. A program evaluates its own tracepoints' filters before
//! it writes anything, and the kernel those of everything that is probed (`kernel`); what the user asks to
//! have evaluated here is, over decoded events ([`Filters`]).

mod compared;
mod guess;
mod kernel;
mod refused;

use std::collections::HashMap;
use std::sync::Arc;

use tracebraid_filter::{Filter, MAX_TEXT, Source};

use crate::event::{Event, Probe};

pub use compared::Machine;
pub(crate) use compared::type_of_name;
pub use refused::{Refusal, Refusals};

use compared::{Hit, ProbeFields};

/// Which hits of one probe are wanted.
#[derive(Clone, Debug)]
pub struct ProbeFilter {
    /// One of these has to hold, and of that all.
    any: Vec<Vec<Filter>>,
    text: String,
}

/// Which hits of a probe several `-e` together mean.
#[derive(Debug)]
pub enum Hits {
    /// Every hit.
    All,
    /// Those that pass.
    Some(ProbeFilter),
    /// None: no `-e` that means it can be understood for it.
    None,
}

impl ProbeFilter {
    /// Reads the filters of each `-e` that means a probe. What cannot be read is among `refusals`, and adds
    /// nothing to what is wanted.
    pub fn read<'a>(
        of_each: impl Iterator<Item = (usize, &'a [String])>,
        probe: &Probe,
        machine: &Machine,
        refusals: &mut Refusals,
    ) -> Hits {
        let fields = ProbeFields { probe, machine };
        let mut any = Vec::new();
        let mut texts = Vec::new();
        let mut all_pass = false;
        for (index, filters) in of_each {
            let mut own = Vec::new();
            let mut is_understood = true;
            for text in filters {
                match Filter::parse(text, &fields) {
                    Ok(filter) => own.push((filter, text.as_str())),
                    Err(error) => {
                        is_understood = false;
                        refusals.add(index, text, error, Some(probe));
                    }
                }
            }
            if !is_understood {
                continue;
            }
            refusals.understood(index, probe);
            // `0`, which every event passes, cannot stand beside others.
            own.retain(|(filter, _)| !filter.program().steps.is_empty());
            all_pass |= own.is_empty();
            let (filters, own_texts): (Vec<Filter>, Vec<String>) = own
                .into_iter()
                .map(|(filter, text)| (filter, format!("({text})")))
                .unzip();
            any.push(filters);
            texts.push(own_texts.join(" && "));
        }
        match (all_pass, &mut texts[..]) {
            (true, _) => Hits::All,
            (false, []) => Hits::None,
            (false, [only]) => Hits::Some(ProbeFilter {
                text: std::mem::take(only),
                any,
            }),
            (false, several) => Hits::Some(ProbeFilter {
                text: several
                    .iter()
                    .map(|one| format!("({one})"))
                    .collect::<Vec<_>>()
                    .join(" || "),
                any,
            }),
        }
    }

    /// Whether a hit of the probe is wanted.
    pub fn passes(&self, event: &Event) -> bool {
        let hit = Hit(event);
        self.any
            .iter()
            .any(|all| all.iter().all(|filter| filter.matches(&hit)))
    }

    /// The same in one text, for a program that evaluates it. `None` where that would be too long.
    pub fn text(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| text.len() <= MAX_TEXT)
    }

    /// Whether it asks for the thread's number, which a program in another pid namespace knows by another.
    pub fn asks_for_thread(&self) -> bool {
        let mut filters = self.any.iter().flatten();
        filters.any(|filter| {
            let mut steps = filter.program().steps.iter();
            steps.any(|step| step.source == Source::Thread)
        })
    }
}

/// Says what is wrong with a filter whatever fields its events have.
pub fn check(index: usize, text: &str, refusals: &mut Refusals) {
    if let Err(error) = guess::parse(text) {
        refusals.add(index, text, error, None);
    }
}

/// The filters of probes whose hits are looked at here.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// By the probe's address, which the `Arc` keeps from being used again.
    of: HashMap<usize, (Arc<Probe>, ProbeFilter)>,
}

impl Filters {
    /// Sets a probe's filter.
    pub fn insert(&mut self, probe: Arc<Probe>, filter: ProbeFilter) {
        self.of
            .insert(Arc::as_ptr(&probe) as usize, (probe, filter));
    }

    /// Whether a hit is wanted. A probe without a filter wants all, and losses are always told.
    pub fn pass(&self, event: &Event) -> bool {
        let probe = Arc::as_ptr(event.probe()) as usize;
        self.of
            .get(&probe)
            .is_none_or(|(_, filter)| filter.passes(event))
    }

    /// How many probes have one.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether nobody has one.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}
