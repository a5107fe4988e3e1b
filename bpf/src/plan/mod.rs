//! From a [`Spec`] to what the kernel side needs: entries, locations, places, tables.
//!
//! An *entry* is one thing to record at one place, and serves every probe that asked for just that: two
//! probes of one address with the same fetch share an entry, and so does a system call that two probes
//! name. The kernel counts and records entries; [`Entry::probes`] says whose they are.

mod function;
mod kernel;
mod place;
mod user;

pub(crate) use function::{Event, Function, Needs, RawTracepoint};
pub(crate) use kernel::{Calls, Tracepoint};
pub(crate) use user::{Binary, Site};

use std::cell::OnceCell;

use crate::abi;
use crate::error::{Error, Result};
use crate::fetch_code::FetchCode;
use crate::fetching::{FetchBy, Fetching};
use crate::filter_code::FilterCode;
use crate::hit_filter::HitFilter;
use crate::spec::{Argument, Fetch, Kept, ProbeId, Program, Spec, Step};
use crate::stacks;
use place::{NO_PLACE, kept_place, place, step};

/// Bytes of a CPU's ring where the spec says 0.
const DEFAULT_RING: usize = 1 << 20;
/// The longest string where the spec says 0.
const DEFAULT_STRING: usize = 256;
/// The least data of a solo ring: what any record takes fits several times.
const LEAST_SOLO: usize = 64 << 10;
/// The shortest limit that makes sense: a thread's name fits.
const LEAST_STRING: usize = 16;
/// Text of one record, all strings together: what a record may cost the ring.
const MOST_TEXT: usize = 48 << 10;

/// Everything to attach, checked and numbered.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) entries: Vec<Entry>,
    pub(crate) locations: Vec<abi::Location>,
    pub(crate) places: Vec<abi::Place>,
    pub(crate) binaries: Vec<Binary>,
    pub(crate) functions: Vec<Function>,
    pub(crate) raw_tracepoints: Vec<RawTracepoint>,
    pub(crate) events: Vec<Event>,
    pub(crate) tracepoints: Vec<Tracepoint>,
    /// Entry of each event with a record of its own, by `abi` number.
    pub(crate) typed: [u32; abi::EVENTS],
    pub(crate) enter: Option<Calls>,
    pub(crate) exit: Option<Calls>,
    pub(crate) ring_bytes: usize,
    pub(crate) string_limit: usize,
    pub(crate) text_bytes: usize,
    /// Hits are counted, and nothing of them is recorded.
    pub(crate) count_only: bool,
    /// Bytes of output of fetch programs, without the heads of what does not fit; 0 without any.
    pub(crate) fetch_room: usize,
    pub(crate) stacks: abi::Stacks,
    pub(crate) code: Code,
}

/// What is written into the programs before they are loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    /// The filters of all entries, if any has one.
    pub(crate) filters: Option<FilterCode>,
    /// All fetch programs, if there is one.
    pub(crate) programs: Option<FetchCode>,
    /// What the kernel said to them, where it refused them.
    pub(crate) refused: OnceCell<String>,
}

/// One thing to record, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The probes, each with the index of its location (0 for kernel events).
    pub(crate) probes: Vec<(ProbeId, u32)>,
    pub(crate) shape: Shape,
    /// Which of its hits are recorded.
    pub(crate) filter: Option<HitFilter>,
}

/// What is fetched at one address, which hits of it are wanted, and for whom.
#[derive(Clone, Debug)]
struct Wanted {
    fetch: Fetch,
    filter: Option<HitFilter>,
    probes: Vec<(ProbeId, u32)>,
}

impl Wanted {
    /// What it knows of a call's entry.
    fn kept(&self) -> Vec<Kept> {
        match &self.fetch {
            Fetch::Program(program) => program.kept(),
            Fetch::Slots { .. } | Fetch::Arguments(_) => Vec::new(),
        }
    }
}

/// What is kept of a call's entry, and for which location at its return.
#[derive(Clone, Debug)]
struct Keep {
    location: u32,
    words: Vec<Kept>,
}

/// How an entry's records are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Slots,
    Arguments(Vec<Argument>),
    Program {
        /// Of each output whether it is text.
        texts: Vec<bool>,
        /// Outputs behind them that only filters see.
        hidden: usize,
    },
    Tracepoint,
    Switch,
    Wake,
    Migrate,
    Fork,
    Exec,
    Exit,
    SysEnter,
    SysExit,
}

impl Plan {
    pub(crate) fn new(spec: &Spec) -> Result<Plan> {
        let string_limit = match spec.string_limit {
            0 => DEFAULT_STRING,
            limit @ LEAST_STRING..=abi::STRING_LIMIT => limit,
            limit => {
                return Err(Error::bad_spec(format!(
                    "a string limit of {limit} bytes is outside {LEAST_STRING} to {}",
                    abi::STRING_LIMIT
                )));
            }
        };
        let ring_bytes = ring_bytes(spec.ring_bytes)?;
        let mut plan = Plan {
            entries: Vec::new(),
            locations: Vec::new(),
            places: Vec::new(),
            binaries: Vec::new(),
            functions: Vec::new(),
            raw_tracepoints: Vec::new(),
            events: Vec::new(),
            tracepoints: Vec::new(),
            typed: [abi::NO_ENTRY; abi::EVENTS],
            enter: None,
            exit: None,
            ring_bytes,
            string_limit,
            text_bytes: string_limit,
            count_only: false,
            fetch_room: 0,
            stacks: stacks::constants(spec.stacks.as_ref())?,
            code: Code::default(),
        };
        plan.user(spec)?;
        plan.functions(spec)?;
        plan.tracepoints(spec)?;
        plan.kernel(spec)?;
        plan.text_bytes = plan.text_bytes.next_multiple_of(8);
        if plan.entries.iter().any(|entry| entry.filter.is_some()) {
            let text_bytes = plan.text_bytes as u32;
            plan.code.filters = Some(FilterCode::compile(&plan.entries, text_bytes)?);
        }
        if plan.fetch_room != 0 {
            let code = FetchCode::compile(&mut plan.locations, &plan.places, plan.fetch_room);
            plan.code.programs = Some(code);
        }
        Ok(plan)
    }

    /// Whether anything is kept of calls' entries.
    pub(crate) fn keeps(&self) -> bool {
        self.locations.iter().any(|location| location.keeps != 0)
    }

    /// Whether anything looks at registers that were put aside: code of fetch programs does not.
    pub(crate) fn keeps_registers(&self) -> bool {
        let mut locations = self.locations.iter();
        self.stacks.memory != 0 || self.keeps() || locations.any(|location| location.code == 0)
    }

    /// Bytes of data in each CPU's solo ring; `None` where no record goes there, since there is no tracepoint or
    /// stacks are wanted.
    pub(crate) fn solo_bytes(&self) -> Option<usize> {
        let is_wanted = !self.tracepoints.is_empty() && self.stacks.room == 0 && !self.count_only;
        is_wanted.then(|| self.ring_bytes.max(LEAST_SOLO))
    }

    /// Bytes of each CPU's other ring: of a page, where nothing goes there.
    pub(crate) fn shared_bytes(&self) -> usize {
        let is_alone = self.locations.is_empty()
            && self.typed.iter().all(|&entry| entry == abi::NO_ENTRY)
            && self.enter.is_none()
            && self.exit.is_none();
        match self.solo_bytes() {
            Some(_) if is_alone => crate::memory::page_size(),
            _ => self.ring_bytes,
        }
    }

    /// Whether anything asks for the address of the probed function.
    pub(crate) fn asks_function(&self) -> bool {
        let mut steps = self.places.iter();
        steps.any(|step| step.kind == abi::STEP_FUNCTION)
    }

    /// The same with hits that are counted and not recorded: of rings there is as little as can be.
    pub(crate) fn only_counting(self) -> Plan {
        Plan {
            count_only: true,
            ring_bytes: crate::memory::page_size(),
            ..self
        }
    }

    /// The same with fetch programs that run so.
    pub(crate) fn fetching_by(mut self, by: FetchBy) -> Plan {
        match by {
            FetchBy::Code => {}
            FetchBy::Steps => {
                self.code.programs = None;
                for location in &mut self.locations {
                    location.code = 0;
                }
            }
            FetchBy::RefusedCode if self.code.programs.is_some() => {
                self.code.programs = Some(FetchCode::refused());
            }
            FetchBy::RefusedCode => {}
        }
        self
    }

    /// How fetch programs run; `None` where there are none.
    pub(crate) fn fetching(&self, refused: Option<&String>) -> Option<Fetching> {
        let locations = self.locations.iter();
        let programs = locations.filter(|location| location.fetch == abi::FETCH_PROGRAM);
        let coded = programs
            .clone()
            .filter(|location| location.code != 0)
            .count();
        let all = programs.count();
        (all > 0).then(|| Fetching {
            coded,
            followed: all - coded,
            refused: refused.cloned(),
        })
    }

    fn entry(
        &mut self,
        probes: Vec<(ProbeId, u32)>,
        shape: Shape,
        filter: Option<HitFilter>,
    ) -> u32 {
        self.entries.push(Entry {
            probes,
            shape,
            filter,
        });
        self.entries.len() as u32 - 1
    }

    /// Lays the fetches of one address in a row, and what is kept there; returns the index of the first.
    fn chain(&mut self, wanted: Vec<Wanted>, keeps: Vec<Keep>) -> u32 {
        self.chain_into(None, wanted, keeps)
    }

    /// The same for hits of an entry that there is already.
    fn chain_into(&mut self, known: Option<u32>, wanted: Vec<Wanted>, keeps: Vec<Keep>) -> u32 {
        let first = self.locations.len() as u32;
        let fetches = wanted.len() as u32;
        let count = fetches + keeps.len() as u32;
        for (number, one) in wanted.into_iter().enumerate() {
            let keeps = !one.kept().is_empty();
            let Wanted {
                fetch,
                filter,
                probes,
            } = one;
            let number = number as u32;
            let next = if number + 1 < count {
                first + number + 1
            } else {
                0
            };
            let first_place = self.places.len() as u32;
            let (kind, words, texts, shape) = match fetch {
                Fetch::Slots { count, text } => {
                    let text_bytes = (text.len() * self.string_limit).min(MOST_TEXT);
                    self.text_bytes = self.text_bytes.max(text_bytes);
                    self.places
                        .extend(text.iter().map(|&(address, length)| abi::Place {
                            base: address.into(),
                            index: length.into(),
                            kind: abi::PLACE_TEXT,
                            ..NO_PLACE
                        }));
                    (abi::FETCH_SLOTS, count, text.len() as u8, Shape::Slots)
                }
                Fetch::Arguments(arguments) => {
                    self.places.extend(arguments.iter().map(place));
                    let count = arguments.len() as u8;
                    (abi::FETCH_ARGUMENTS, count, 0, Shape::Arguments(arguments))
                }
                Fetch::Program(program) => {
                    let looked_at = filter.as_ref().map(HitFilter::outputs);
                    self.add_program(&program, &looked_at.unwrap_or_default());
                    let count = self.places.len() as u32 - first_place;
                    let [low, high] = (count as u16).to_le_bytes();
                    let hidden = outputs(&program.for_filters).count();
                    let texts = texts(&program);
                    let shape = Shape::Program { texts, hidden };
                    (abi::FETCH_PROGRAM, low, high, shape)
                }
            };
            let entry = known.unwrap_or_else(|| self.entry(probes, shape, filter));
            self.locations.push(abi::Location {
                entry,
                next,
                first_place,
                fetch: kind,
                words,
                texts,
                keeps: keeps.into(),
                code: 0,
            });
        }
        for (number, Keep { location, words }) in keeps.into_iter().enumerate() {
            let number = fetches + number as u32;
            let first_place = self.places.len() as u32;
            self.places.extend(words.iter().map(kept_place));
            self.locations.push(abi::Location {
                entry: location,
                next: if number + 1 < count {
                    first + number + 1
                } else {
                    0
                },
                first_place,
                fetch: abi::FETCH_KEEP,
                words: words.len() as u8,
                texts: 0,
                keeps: 0,
                code: 0,
            });
        }
        first
    }

    /// Of the outputs that a filter looks at, the words of their places say where they are.
    fn add_program(&mut self, program: &Program, looked_at: &[u16]) {
        let mut numbers = 0..;
        let kept = program.kept();
        let mut place = |own: &Step| {
            let mut place = step(own, &kept);
            let output = own.is_output().then(|| numbers.next()).flatten();
            let word = looked_at.iter().position(|wanted| Some(*wanted) == output);
            place.index = word.map_or(abi::NO_REGISTER, |word| word as u16);
            place
        };
        self.places.extend(program.steps.iter().map(&mut place));
        if !program.for_filters.is_empty() {
            self.places.push(abi::Place {
                kind: abi::STEP_SHOWN,
                ..NO_PLACE
            });
            self.places.extend(program.for_filters.iter().map(place));
        }
        let bytes = |step: &Step| match step {
            Step::StoreText(_) | Step::StoreSized(_) => self.string_limit,
            Step::StoreMemory { .. } => abi::ARRAY_BYTES,
            _ => 8,
        };
        let outputs = outputs(&program.steps).chain(outputs(&program.for_filters));
        let heads = abi::OUTPUT_HEAD * outputs.clone().count();
        let all: usize = outputs.map(|step| abi::OUTPUT_HEAD + bytes(step)).sum();
        // What a program asks for before it stores is the most that one step can store.
        let least = abi::OUTPUT_HEAD + abi::ARRAY_BYTES.max(self.string_limit);
        self.fetch_room = self.fetch_room.max(all.min(MOST_TEXT).max(least));
        self.text_bytes = self.text_bytes.max(self.fetch_room + heads);
    }
}

fn texts(program: &Program) -> Vec<bool> {
    outputs(&program.steps)
        .map(|step| matches!(step, Step::StoreText(_) | Step::StoreSized(_)))
        .collect()
}

fn outputs(steps: &[Step]) -> impl Iterator<Item = &Step> + Clone {
    steps.iter().filter(|step| step.is_output())
}

fn ring_bytes(wanted: usize) -> Result<usize> {
    // The kernel asks for a power of two of whole pages.
    let page = crate::memory::page_size();
    let bytes = if wanted == 0 { DEFAULT_RING } else { wanted };
    bytes
        .max(page)
        .checked_next_power_of_two()
        .filter(|&bytes| bytes <= 1 << 30)
        .ok_or_else(|| Error::bad_spec(format!("a ring of {wanted} bytes is more than 1 GiB")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_a_power_of_two_of_pages_and_at_most_a_gibibyte() {
        let rings = |ring_bytes| {
            Plan::new(&Spec {
                ring_bytes,
                ..Spec::default()
            })
        };
        assert_eq!(rings(1).unwrap().ring_bytes, crate::memory::page_size());
        assert_eq!(rings(70_000).unwrap().ring_bytes, 1 << 17);
        assert!(rings(usize::MAX).is_err());
    }
}
