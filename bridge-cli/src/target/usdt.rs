//! USDT probes: the stapsdt notes of a binary, grouped by name and ready to be attached.
//!
//! A probe is a provider and a name; wherever the compiler put it (inlined here, unrolled there) is a
//! **location**, with an address, a semaphore and argument places of its own. Several names may share one
//! address, since linkers fold functions of equal code: then a hit is a hit of all of them, and
//! [`UsdtNotes::shared_addresses`] says so.

use std::collections::{HashMap, HashSet};
use std::fmt;

use tracebraid_bpf::spec;

use super::argument::{self, Argument, ArgumentType, Context};
use super::argument_text;
use super::image::{Image, Place, Sections};
use super::nop5;
use super::note::{self, StapsdtNote};

/// The largest `.note.stapsdt` that is read, bytes. Ten thousand probes take about one and a half million;
/// a file of nothing but one-digit constants takes thirty times its size in memory.
const MAX_NOTES: u64 = 8 << 20;

/// What was found on looking for USDT notes.
#[derive(Clone, Debug)]
pub enum UsdtNotes {
    /// There are notes.
    Found {
        /// One a name, in the order of the file.
        probes: Vec<UsdtProbe>,
        /// Notes that were skipped because they are malformed.
        malformed: usize,
    },
    /// No section of the file holds any.
    None,
    /// The file has no section headers, and only they lead to the notes.
    NoSectionHeaders,
    /// The section headers cannot be read, for this reason.
    DamagedSectionHeaders(String),
}

impl UsdtNotes {
    /// The probes; none where nothing was found.
    pub fn probes(&self) -> &[UsdtProbe] {
        match self {
            UsdtNotes::Found { probes, .. } => probes,
            UsdtNotes::None | UsdtNotes::NoSectionHeaders | UsdtNotes::DamagedSectionHeaders(_) => {
                &[]
            }
        }
    }

    /// Groups of probes that stand at one address: its file offset, and the indices of the probes.
    pub fn shared_addresses(&self) -> Vec<(u64, Vec<usize>)> {
        let mut at: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, probe) in self.probes().iter().enumerate() {
            for location in &probe.locations {
                if let Some(offset) = location.offset() {
                    let sharing = at.entry(offset).or_default();
                    // Indices only grow.
                    if sharing.last() != Some(&index) {
                        sharing.push(index);
                    }
                }
            }
        }
        let mut shared: Vec<_> = at
            .into_iter()
            .filter(|(_, probes)| probes.len() > 1)
            .collect();
        shared.sort_unstable();
        shared
    }
}

/// What there is to say about notes that are missing or malformed. Empty when all is well.
impl fmt::Display for UsdtNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsdtNotes::Found { malformed: 0, .. } => Ok(()),
            UsdtNotes::Found { malformed: 1, .. } => f.write_str("skipped 1 malformed note"),
            UsdtNotes::Found { malformed, .. } => write!(f, "skipped {malformed} malformed notes"),
            UsdtNotes::None => f.write_str("no USDT notes"),
            UsdtNotes::NoSectionHeaders => {
                f.write_str("no section headers, cannot look for USDT notes")
            }
            UsdtNotes::DamagedSectionHeaders(why) => {
                write!(
                    f,
                    "damaged section headers, cannot look for USDT notes: {why}"
                )
            }
        }
    }
}

/// A probe of a binary that may know nothing of tracebraid.
#[derive(Clone, Debug)]
pub struct UsdtProbe {
    /// Its provider. Bytes that are no UTF-8 stand as `\xff`.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Every place it stands at, each once, in the order of the file; at least one.
    pub locations: Vec<UsdtLocation>,
}

/// One place of a probe.
#[derive(Clone, Debug)]
pub struct UsdtLocation {
    /// The virtual address of the instruction.
    pub address: u64,
    /// Where that is.
    pub place: Place,
    /// Whether the instruction is a 5-byte nop (see [`nop5`](super::nop5)).
    pub on_nop5: bool,
    /// What switches it on.
    pub semaphore: Semaphore,
    /// Its arguments, all of them, in order.
    pub arguments: Vec<Argument>,
}

/// The counter of a probe that the kernel raises while somebody is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Semaphore {
    /// The probe has none and is always on.
    None,
    /// It is in the file, where the kernel can find it.
    InFile {
        /// Its virtual address.
        address: u64,
        /// Its offset in the file.
        offset: u64,
    },
    /// It is in `.bss`: the kernel finds it by file offset and it has none, so it is never raised.
    InBss {
        /// Its virtual address.
        address: u64,
    },
    /// It is in no writable part of the file.
    Unusable {
        /// Its virtual address.
        address: u64,
    },
}

impl Semaphore {
    pub(crate) fn at(image: &Image, address: u64) -> Semaphore {
        if address == 0 {
            return Semaphore::None;
        }
        match image.place(address) {
            Place::File {
                offset,
                writable: true,
                ..
            } if offset != 0 => Semaphore::InFile { address, offset },
            Place::Bss => Semaphore::InBss { address },
            Place::File { .. } | Place::Nowhere => Semaphore::Unusable { address },
        }
    }

    /// Its offset in the file as a session wants it: 0 for none.
    pub fn offset(self) -> u64 {
        match self {
            Semaphore::InFile { offset, .. } => offset,
            Semaphore::None | Semaphore::InBss { .. } | Semaphore::Unusable { .. } => 0,
        }
    }
}

/// Something about a probe that its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The semaphore will stay 0, so a probe that tests it will not fire.
    Semaphore {
        /// `provider:name`
        probe: String,
        /// Where it is.
        semaphore: Semaphore,
    },
    /// The probe stands on a 5-byte nop, which this kernel turns into a call that overwrites what the
    /// program keeps below its stack pointer; nothing is placed there.
    Nop5 {
        /// `provider:name`
        probe: String,
        /// The virtual address of the instruction.
        address: u64,
    },
    /// The note points at something that is no code of the file; nothing is placed there.
    NoCode {
        /// `provider:name`
        probe: String,
        /// The virtual address that the note says.
        address: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Semaphore {
                probe,
                semaphore: Semaphore::InBss { .. },
            } => {
                write!(
                    f,
                    "semaphore of {probe} is in .bss, cannot be set by the kernel"
                )
            }
            Warning::Semaphore { probe, .. } => {
                write!(
                    f,
                    "semaphore of {probe} is in no writable part of the file, cannot be set"
                )
            }
            Warning::Nop5 { probe, address } => {
                write!(
                    f,
                    "{probe} stands on a 5-byte nop at {address:#x}, which this kernel would turn into a call that overwrites the program's red zone: not attached there"
                )
            }
            Warning::NoCode { probe, address } => {
                write!(
                    f,
                    "{probe} points at {address:#x}, which is no code of the file"
                )
            }
        }
    }
}

/// A probe made ready: the locations that can be attached, and what is wrong with the others.
#[derive(Clone, Debug)]
pub struct Attachable {
    /// Empty where nothing can be attached; then the warnings say why.
    pub locations: Vec<spec::Location>,
    /// In the order of the file.
    pub warnings: Vec<Warning>,
}

impl UsdtLocation {
    /// The file offset of the instruction, if it is code of the file.
    pub fn offset(&self) -> Option<u64> {
        match self.place {
            Place::File {
                offset,
                executable: true,
                ..
            } => Some(offset),
            _ => None,
        }
    }
}

impl UsdtProbe {
    /// `provider:name`, as the notes say it.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    /// The types of its arguments, by the location that has the most.
    pub fn argument_types(&self) -> Vec<ArgumentType> {
        let longest = self
            .locations
            .iter()
            .max_by_key(|location| location.arguments.len());
        longest.map_or(Vec::new(), |location| {
            location
                .arguments
                .iter()
                .map(|argument| argument.kind)
                .collect()
        })
    }

    /// The locations as a session wants them.
    pub fn attachable(&self) -> Attachable {
        let mut ready = Attachable {
            locations: Vec::new(),
            warnings: Vec::new(),
        };
        let mut warned = HashSet::new();
        for location in &self.locations {
            let Some(offset) = location.offset() else {
                ready.warnings.push(Warning::NoCode {
                    probe: self.full_name(),
                    address: location.address,
                });
                continue;
            };
            if location.on_nop5 && nop5::is_harmful() {
                ready.warnings.push(Warning::Nop5 {
                    probe: self.full_name(),
                    address: location.address,
                });
                continue;
            }
            if let semaphore @ (Semaphore::InBss { .. } | Semaphore::Unusable { .. }) =
                location.semaphore
                && warned.insert(semaphore)
            {
                let probe = self.full_name();
                ready.warnings.push(Warning::Semaphore { probe, semaphore });
            }
            ready.locations.push(spec::Location {
                offset,
                semaphore: location.semaphore.offset(),
                fetch: spec::Fetch::Arguments(
                    location.arguments.iter().map(Argument::to_spec).collect(),
                ),
            });
        }
        ready
    }
}

/// Looks for the notes of a binary. Notes at an address in `elsewhere` are left out: they are listed as
/// tracepoints of the SDK. `debug` opens the file that symbols went to; it is asked only when one is missing.
pub(crate) fn read(
    image: &Image,
    debug: &dyn Fn() -> Option<Image>,
    elsewhere: &HashSet<u64>,
) -> UsdtNotes {
    match &image.sections {
        Sections::Absent => return UsdtNotes::NoSectionHeaders,
        Sections::Damaged(why) => return UsdtNotes::DamagedSectionHeaders(why.clone()),
        Sections::Present(_) => {}
    }
    let base = image
        .sections_named(".stapsdt.base")
        .next()
        .map(|section| section.address);
    let width = if image.wide { 8 } else { 4 };
    let (mut notes, mut malformed) = (Vec::new(), 0);
    for section in image
        .sections_named(".note.stapsdt")
        .filter(|section| section.has_bytes)
    {
        match image.read(section.offset, section.size, MAX_NOTES) {
            Some(bytes) => {
                let (mut more, bad) = note::stapsdt_notes(&bytes, image.endianness, width, base);
                notes.append(&mut more);
                malformed += bad;
            }
            None => malformed += 1,
        }
    }
    if notes.is_empty() && malformed == 0 {
        return UsdtNotes::None;
    }
    notes.retain(|note| !elsewhere.contains(&note.address));
    UsdtNotes::Found {
        probes: group(image, debug, notes),
        malformed,
    }
}

fn group(
    image: &Image,
    debug: &dyn Fn() -> Option<Image>,
    notes: Vec<StapsdtNote>,
) -> Vec<UsdtProbe> {
    let arguments: Vec<Vec<argument::Parsed>> = notes
        .iter()
        .map(|note| argument_text::parse(&note.arguments, image.machine))
        .collect();
    let wanted: HashSet<&str> = arguments
        .iter()
        .flatten()
        .filter_map(argument::Parsed::symbol)
        .collect();
    let mut symbols = match wanted.is_empty() {
        true => HashMap::new(),
        false => image.symbols(&wanted),
    };
    if symbols.len() < wanted.len()
        && let Some(debug) = debug()
    {
        for (name, addresses) in debug.symbols(&wanted) {
            symbols.entry(name).or_insert(addresses);
        }
    }
    let symbol = |name: &str| match symbols.get(name) {
        None => Err(format!("the symbol {name} is not defined in the file")),
        Some(addresses) => match addresses.iter().collect::<Vec<_>>()[..] {
            [&address] => Ok(address),
            _ => Err(format!(
                "the symbol {name} is ambiguous: defined {} times",
                addresses.len()
            )),
        },
    };

    let mut probes: Vec<UsdtProbe> = Vec::new();
    let mut by_name: HashMap<(String, String), usize> = HashMap::new();
    let mut seen = HashSet::new();
    for (note, arguments) in notes.into_iter().zip(arguments) {
        let key = (note.provider, note.name);
        let index = *by_name.entry(key).or_insert_with_key(|(provider, name)| {
            probes.push(UsdtProbe {
                provider: provider.clone(),
                name: name.clone(),
                locations: Vec::new(),
            });
            probes.len() - 1
        });
        // Folded functions leave one note each, all for one place.
        if !seen.insert((index, note.address)) {
            continue;
        }
        let context = Context {
            symbol: &symbol,
            probe: note.address,
            fixed_address: image.fixed_address,
        };
        probes[index].locations.push(UsdtLocation {
            address: note.address,
            place: image.place(note.address),
            on_nop5: nop5::stands_at(image, note.address),
            semaphore: Semaphore::at(image, note.semaphore),
            arguments: arguments
                .into_iter()
                .map(|one| one.resolve(&context))
                .collect(),
        });
    }
    probes
}
