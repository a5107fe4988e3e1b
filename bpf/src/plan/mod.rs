//! From a [`Spec`] to what the kernel side needs: entries, locations, places, tables.
//!
//! An *entry* is one thing to record at one place, and serves every probe that asked for just that: two
//! probes of one address with the same fetch share an entry, and so does a system call that two probes
//! name. The kernel counts and records entries; [`Entry::probes`] says whose they are.

mod kernel;
mod place;

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::abi;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{Argument, Fetch, FunctionPlace, Location, ProbeId, Program, Spec, Step};

pub(crate) use kernel::{Calls, Tracepoint};
use place::{NO_PLACE, check, check_program, place, step};

/// Bytes of a CPU's ring where the spec says 0.
const DEFAULT_RING: usize = 1 << 20;
/// The longest string where the spec says 0.
const DEFAULT_STRING: usize = 256;
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
    pub(crate) tracepoints: Vec<Tracepoint>,
    /// Entry of each event with a record of its own, by `abi` number.
    pub(crate) events: [u32; abi::EVENTS],
    pub(crate) enter: Option<Calls>,
    pub(crate) exit: Option<Calls>,
    pub(crate) ring_bytes: usize,
    pub(crate) string_limit: usize,
    pub(crate) text_bytes: usize,
    /// Bytes of output of fetch programs, without the heads of what does not fit; 0 without any.
    pub(crate) fetch_room: usize,
}

/// One thing to record, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The probes, each with the index of its location (0 for kernel events).
    pub(crate) probes: Vec<(ProbeId, u32)>,
    pub(crate) shape: Shape,
}

/// How an entry's records are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Slots,
    Arguments(Vec<Argument>),
    /// Of each output whether it is text.
    Program(Vec<bool>),
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

/// A file and where it is probed.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    pub(crate) sites: Vec<Site>,
}

/// One address of a file. `location` is its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) offset: u64,
    pub(crate) semaphore: u64,
    pub(crate) location: u32,
    pub(crate) at_return: bool,
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
            tracepoints: Vec::new(),
            events: [abi::NO_ENTRY; abi::EVENTS],
            enter: None,
            exit: None,
            ring_bytes,
            string_limit,
            text_bytes: string_limit,
            fetch_room: 0,
        };
        plan.user(spec)?;
        plan.functions(spec)?;
        plan.tracepoints(&spec.tracepoints)?;
        plan.kernel(spec);
        Ok(plan)
    }

    fn entry(&mut self, probes: Vec<(ProbeId, u32)>, shape: Shape) -> u32 {
        self.entries.push(Entry { probes, shape });
        self.entries.len() as u32 - 1
    }

    fn user(&mut self, spec: &Spec) -> Result<()> {
        // The same file may be named by several paths; the kernel probes inodes.
        let mut files: Vec<(PathBuf, Addresses)> = Vec::new();
        let mut known: HashMap<(u64, u64), usize> = HashMap::new();
        for probe in &spec.user {
            let identity = identity(&probe.binary)?;
            let index = *known.entry(identity).or_insert_with(|| {
                files.push((probe.binary.clone(), BTreeMap::new()));
                files.len() - 1
            });
            for (number, location) in probe.locations.iter().enumerate() {
                check(&probe.binary, location)?;
                let at = (is_at_return(location), location.offset);
                let address = files[index].1.entry(at).or_default();
                address.add(&probe.binary, location, (probe.id, number as u32))?;
            }
        }
        for (path, addresses) in files {
            let mut sites = Vec::with_capacity(addresses.len());
            for ((at_return, offset), address) in addresses {
                let location = self.chain(address.wanted);
                sites.push(Site {
                    offset,
                    semaphore: address.semaphore,
                    location,
                    at_return,
                });
            }
            if !sites.is_empty() {
                self.binaries.push(Binary { path, sites });
            }
        }
        Ok(())
    }

    /// Lays the fetches of one address in a row; returns the index of the first.
    fn chain(&mut self, wanted: Vec<(Fetch, Vec<(ProbeId, u32)>)>) -> u32 {
        let first = self.locations.len() as u32;
        let count = wanted.len() as u32;
        for (number, (fetch, probes)) in wanted.into_iter().enumerate() {
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
                    self.add_program(&program);
                    let [low, high] = (program.steps.len() as u16).to_le_bytes();
                    (
                        abi::FETCH_PROGRAM,
                        low,
                        high,
                        Shape::Program(texts(&program)),
                    )
                }
            };
            let entry = self.entry(probes, shape);
            self.locations.push(abi::Location {
                entry,
                next,
                first_place,
                fetch: kind,
                words,
                texts,
                reserved: 0,
            });
        }
        first
    }
}

/// A place in the kernel's code. `location` is its cookie.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) place: FunctionPlace,
    pub(crate) at_return: bool,
    pub(crate) location: u32,
}

impl Plan {
    fn functions(&mut self, spec: &Spec) -> Result<()> {
        for probe in &spec.functions {
            check_program(&probe.program)
                .map_err(|what| Error::bad_spec(format!("{:?}: {what}", probe.place)))?;
            let fetch = Fetch::Program(probe.program.clone());
            let location = self.chain(vec![(fetch, vec![(probe.id, 0)])]);
            self.functions.push(Function {
                place: probe.place.clone(),
                at_return: probe.program.at_return,
                location,
            });
        }
        Ok(())
    }

    fn add_program(&mut self, program: &Program) {
        self.places.extend(program.steps.iter().map(step));
        let bytes = |step: &Step| match step {
            Step::StoreText(_) => self.string_limit,
            Step::StoreMemory { .. } => abi::ARRAY_BYTES,
            _ => 8,
        };
        let outputs = program.steps.iter().filter(|step| step.is_output());
        let heads = abi::OUTPUT_HEAD * outputs.clone().count();
        let all: usize = outputs.map(|step| abi::OUTPUT_HEAD + bytes(step)).sum();
        // What a program asks for before it stores is the most that one step can store.
        let least = abi::OUTPUT_HEAD + abi::ARRAY_BYTES.max(self.string_limit);
        self.fetch_room = self.fetch_room.max(all.min(MOST_TEXT).max(least));
        self.text_bytes = self.text_bytes.max(self.fetch_room + heads);
    }
}

fn is_at_return(location: &Location) -> bool {
    matches!(&location.fetch, Fetch::Program(program) if program.at_return)
}

fn texts(program: &Program) -> Vec<bool> {
    let outputs = program.steps.iter().filter(|step| step.is_output());
    outputs
        .map(|step| matches!(step, Step::StoreText(_)))
        .collect()
}

/// What is wanted in one file: at the return of a function or not, and at which offset.
type Addresses = BTreeMap<(bool, u64), Address>;

/// What is wanted at one address.
#[derive(Default)]
struct Address {
    semaphore: u64,
    wanted: Vec<(Fetch, Vec<(ProbeId, u32)>)>,
}

impl Address {
    fn add(&mut self, file: &Path, location: &Location, probe: (ProbeId, u32)) -> Result<()> {
        if location.semaphore != 0 {
            if self.semaphore != 0 && self.semaphore != location.semaphore {
                return Err(Error::bad_spec(format!(
                    "two probes at offset {:#x} of {} name different semaphores; the kernel keeps one \
                     for an address",
                    location.offset,
                    file.display()
                )));
            }
            self.semaphore = location.semaphore;
        }
        let same = self
            .wanted
            .iter_mut()
            .find(|(fetch, _)| *fetch == location.fetch);
        if let Some((_, probes)) = same {
            probes.push(probe);
        } else if self.wanted.len() == abi::CHAIN {
            return Err(Error::bad_spec(format!(
                "more than {} different probes at offset {:#x} of {}",
                abi::CHAIN,
                location.offset,
                file.display()
            )));
        } else {
            self.wanted.push((location.fetch.clone(), vec![probe]));
        }
        Ok(())
    }
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

fn identity(path: &Path) -> Result<(u64, u64)> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        let kind = ErrorKind::Attach {
            file: Some(path.into()),
            offset: None,
        };
        Error::new(kind, format!("cannot open {} to probe it", path.display())).because(error)
    })?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{
        Dynamic, KernelEvent, KernelProbe, Place, Register, TracepointProbe, UserProbe,
    };

    fn user(id: u32, offset: u64, semaphore: u64, fetch: Fetch) -> UserProbe {
        let binary = std::env::current_exe().unwrap();
        let locations = vec![Location {
            offset,
            semaphore,
            fetch,
        }];
        UserProbe {
            id: ProbeId(id),
            binary,
            locations,
        }
    }

    fn slots(count: u8, text: &[(u8, u8)]) -> Fetch {
        Fetch::Slots {
            count,
            text: text.to_vec(),
        }
    }

    fn plan(user: Vec<UserProbe>) -> Result<Plan> {
        Plan::new(&Spec {
            user,
            ..Spec::default()
        })
    }

    #[test]
    fn one_address_is_one_site_whatever_is_fetched_there() {
        let plan = plan(vec![
            user(1, 0x20, 0, slots(2, &[])),
            user(2, 0x10, 0, slots(1, &[])),
            user(3, 0x20, 0x900, Fetch::Arguments(vec![])),
            user(4, 0x20, 0, slots(2, &[])),
        ])
        .unwrap();
        assert_eq!(plan.binaries.len(), 1);
        let site = |offset, semaphore, location| Site {
            offset,
            semaphore,
            location,
            at_return: false,
        };
        assert_eq!(
            plan.binaries[0].sites,
            [site(0x10, 0, 0), site(0x20, 0x900, 1)]
        );
        let next: Vec<u32> = plan
            .locations
            .iter()
            .map(|location| location.next)
            .collect();
        assert_eq!(next, [0, 2, 0]);
        let probes: Vec<_> = plan
            .entries
            .iter()
            .map(|entry| entry.probes.clone())
            .collect();
        let id = |id| (ProbeId(id), 0);
        assert_eq!(probes, [vec![id(2)], vec![id(1), id(4)], vec![id(3)]]);
    }

    #[test]
    fn a_file_by_two_names_is_one_binary() {
        let mut other = user(2, 0x20, 0, slots(0, &[]));
        other.binary = "/proc/self/exe".into();
        let plan = plan(vec![user(1, 0x20, 0, slots(0, &[])), other]).unwrap();
        assert_eq!((plan.binaries.len(), plan.locations.len()), (1, 1));
    }

    #[test]
    fn what_cannot_be_recorded_is_refused() {
        let argument = |width| {
            Fetch::Arguments(vec![Argument {
                width,
                signed: false,
                float: false,
                place: Place::Constant(0),
            }])
        };
        let chain = |count| {
            (0..count)
                .map(|number| user(number, 0x10, 0, slots(number as u8, &[])))
                .collect()
        };
        for bad in [
            vec![
                user(1, 0x10, 0x900, slots(0, &[])),
                user(2, 0x10, 0x902, slots(0, &[])),
            ],
            vec![user(1, 0x10, 0, slots(65, &[]))],
            vec![user(1, 0x10, 0, slots(2, &[(1, 2)]))],
            vec![user(1, 0x10, 0, slots(64, &[(0, 1); 33]))],
            vec![user(1, 0x10, 0, argument(3))],
            chain(5),
        ] {
            let error = plan(bad).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::BadSpec, "{error}");
        }
        assert!(plan(chain(4)).is_ok());
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

    #[test]
    fn an_argument_that_is_nowhere_keeps_its_place_in_the_row() {
        let argument = |place| Argument {
            width: 8,
            signed: false,
            float: false,
            place,
        };
        let base = Some(Register::Rsp);
        let fetch = Fetch::Arguments(vec![
            argument(Place::Unsupported("%xmm0".into())),
            argument(Place::Memory {
                base,
                index: Some((Register::Rax, 3)),
                displacement: 0,
            }),
            argument(Place::Constant(7)),
        ]);
        let plan = plan(vec![user(1, 0x10, 0, fetch)]).unwrap();
        let kinds: Vec<u8> = plan.places.iter().map(|place| place.kind).collect();
        assert_eq!(
            kinds,
            [abi::PLACE_NONE, abi::PLACE_NONE, abi::PLACE_CONSTANT]
        );
        assert_eq!(plan.locations[0].words, 3);
    }

    #[test]
    fn a_system_call_has_an_entry_for_each_set_of_probes_that_want_it() {
        let probe = |id, numbers: &[u32]| KernelProbe {
            id: ProbeId(id),
            event: KernelEvent::SysEnter(numbers.to_vec()),
        };
        let kernel = vec![probe(1, &[3, 5]), probe(2, &[5]), probe(3, &[3, 5, 2000])];
        let plan = Plan::new(&Spec {
            kernel,
            ..Spec::default()
        })
        .unwrap();
        let numbers = plan.enter.unwrap().numbers.entry;
        let whose = |number: usize| -> Vec<u32> {
            let entry = plan.entries.get(numbers[number] as usize);
            entry
                .iter()
                .flat_map(|entry| entry.probes.iter().map(|(id, _)| id.0))
                .collect()
        };
        assert_eq!(
            (whose(3), whose(5), whose(4)),
            (vec![1, 3], vec![1, 2, 3], vec![])
        );
        assert!(plan.exit.is_none());
        let kernel = vec![probe(1, &[]), probe(2, &[5])];
        let plan = Plan::new(&Spec {
            kernel,
            ..Spec::default()
        })
        .unwrap();
        let numbers = plan.enter.unwrap().numbers.entry;
        assert_ne!(numbers[5], numbers[4]);
        assert_eq!(numbers[4], numbers[abi::SYSCALLS]);
    }

    #[test]
    fn a_tracepoint_whose_layout_makes_no_sense_is_refused() {
        let probe = |size, offsets: &[u32]| TracepointProbe {
            id: ProbeId(0),
            category: "a".into(),
            name: "b".into(),
            size,
            dynamic: offsets
                .iter()
                .map(|&offset| Dynamic {
                    offset,
                    relative: false,
                })
                .collect(),
        };
        let plan = |tracepoints| {
            Plan::new(&Spec {
                tracepoints,
                ..Spec::default()
            })
        };
        for bad in [
            vec![probe(7, &[])],
            vec![probe(8193, &[])],
            vec![probe(16, &[13])],
            vec![probe(16, &[u32::MAX])],
            vec![probe(16, &[8; 17])],
            vec![probe(16, &[8]), probe(24, &[8])],
        ] {
            assert_eq!(plan(bad).unwrap_err().kind(), &ErrorKind::BadSpec);
        }
        assert_eq!(
            plan(vec![probe(16, &[8, 12]), probe(16, &[8, 12])])
                .unwrap()
                .entries
                .len(),
            1
        );
    }
}
