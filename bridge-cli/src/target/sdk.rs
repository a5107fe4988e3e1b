//! The tracepoints that a binary declares through the SDK, read from the file alone.
//!
//! The note `tracebraid` ([`tracebraid_wire::note`]) leads to two tables: one row a tracepoint, one row a
//! site. Rows hold offsets from themselves, so the file says all there is: names, field kinds, print
//! format, where the USDT probe and its semaphore are, and which bytes of code are switched. Those bytes
//! belong to the process: a probe of ours must never overlap them ([`SdkTables::site_at`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tracebraid_bpf::spec;
use tracebraid_wire::kind::FieldKind;
use tracebraid_wire::note::{self as wire_note, NoteError, Tables};
use tracebraid_wire::schema::{self, Schema};
use tracebraid_wire::table::{self, PointRow, SiteRow};

use super::image::{Image, NoteSegment, Place};
use super::note::walk;
use super::text_of;
use super::usdt::{Attachable, Semaphore, Warning};

/// The largest note segment that is searched, bytes.
const MAX_NOTES: u64 = 1 << 20;
/// The largest table that is read, bytes: half a million tracepoints.
const MAX_TABLE: u64 = 16 << 20;
/// The longest name of a source file that is read, bytes.
const MAX_FILE_NAME: u64 = 4096;
/// What is read of a schema at first; few are longer.
const SCHEMA_GUESS: u64 = 512;
/// Slots that a USDT note describes at most.
const MAX_DESCRIBED: u8 = 12;
/// Slots that a session fetches at most ([`spec::Fetch::Slots`]).
const MAX_SLOTS: usize = 64;
/// Bytes of code that a site switches.
const SITE_BYTES: u64 = 8;

/// What was found on looking for the SDK's tables.
#[derive(Clone, Debug)]
pub enum SdkTables {
    /// The binary does not link the SDK.
    None,
    /// Here they are.
    Found {
        /// One a provider, name and list of fields, in the order of the file.
        tracepoints: Vec<Tracepoint>,
        /// Rows that were skipped because they lead nowhere or to something that is no schema.
        damaged: usize,
        /// Virtual addresses of the SDK's control blocks.
        control: Vec<u64>,
    },
    /// The binary was built with another version of the SDK's format, which this program does not know.
    OtherVersion(u32),
    /// The note is too short or leads outside the file.
    Damaged(&'static str),
}

/// A tracepoint of the SDK.
#[derive(Clone, Debug)]
pub struct Tracepoint {
    /// Its provider; the crate's name by default.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// How it is printed, such as `id={id}`; empty for `name=value …`.
    pub print: String,
    /// Whether it is the return of the tracepoint without `__return` in its name.
    pub is_return: bool,
    /// Its fields in order.
    pub fields: Vec<TracepointField>,
    /// Where its USDT probes are; one, unless several copies of it were linked.
    pub locations: Vec<TracepointLocation>,
    /// The places in code that lead to it.
    pub sites: Vec<Site>,
}

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TracepointField {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FieldKind,
    /// The first of its slots.
    pub first_slot: usize,
    /// Whether all of its slots are among the twelve that the USDT note describes. Other tools see no
    /// others; a session reads the slots themselves and has them all.
    pub described: bool,
}

impl TracepointField {
    /// Its type as a listing prints it: `u64`, `Option<str>`.
    pub fn type_name(&self) -> String {
        match self.kind.optional {
            true => format!("Option<{}>", self.kind.kind.name()),
            false => self.kind.kind.name().to_owned(),
        }
    }
}

/// A USDT probe of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracepointLocation {
    /// The virtual address of its row, which is its identity within the binary.
    pub row: u64,
    /// The virtual address of the probe's nop.
    pub address: u64,
    /// Where that is.
    pub place: Place,
    /// What switches it on.
    pub semaphore: Semaphore,
    /// How many slots its note describes, 0 to 12.
    pub described_slots: u8,
}

/// A place in code that is switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Source file.
    pub file: String,
    /// Line in it, from 1.
    pub line: u32,
    /// The virtual address of its first byte.
    pub address: u64,
    /// The file offset of that.
    pub offset: u64,
    /// The virtual address of the row of the tracepoint that it leads to
    /// ([`TracepointLocation::row`]).
    pub row: u64,
    /// The virtual address of the code that runs while it is on.
    pub cold: u64,
    /// The site tests its semaphore: there is no code that is rewritten.
    pub tests_semaphore: bool,
}

impl SdkTables {
    /// The tracepoints; none where there are no tables.
    pub fn tracepoints(&self) -> &[Tracepoint] {
        match self {
            SdkTables::Found { tracepoints, .. } => tracepoints,
            SdkTables::None | SdkTables::OtherVersion(_) | SdkTables::Damaged(_) => &[],
        }
    }

    /// The site whose switched code overlaps `length` bytes at the file offset `offset`.
    pub fn site_at(&self, offset: u64, length: u64) -> Option<&Site> {
        self.tracepoints()
            .iter()
            .flat_map(|point| &point.sites)
            .find(|site| {
                !site.tests_semaphore
                    && site.offset < offset.saturating_add(length)
                    && offset < site.offset.saturating_add(SITE_BYTES)
            })
    }

    /// What there is to say about tables that cannot be used. `None` when all is well.
    pub fn remark(&self) -> Option<String> {
        match self {
            SdkTables::None | SdkTables::Found { damaged: 0, .. } => None,
            SdkTables::Found { damaged: 1, .. } => Some("skipped 1 damaged tracepoint row".into()),
            SdkTables::Found { damaged, .. } => {
                Some(format!("skipped {damaged} damaged tracepoint rows"))
            }
            SdkTables::OtherVersion(version) => Some(format!(
                "built with version {version} of the tracebraid format; this program knows {}",
                wire_note::VERSION
            )),
            SdkTables::Damaged(what) => Some(format!("damaged tracebraid note: {what}")),
        }
    }
}

impl Tracepoint {
    /// `provider:name`
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    /// Whether a program that has it makes tracepoints at run time, of what it says through `tracing`.
    pub fn tells_of_others(&self) -> bool {
        self.provider == "tracing" && matches!(self.name.as_str(), "event" | "span")
    }

    /// The slots of an event, and which of them lead to text. A field whose slots are not all below
    /// `count` is not fetched.
    pub fn fetch(&self) -> spec::Fetch {
        let end = |field: &TracepointField| field.first_slot + field.kind.slot_count();
        let fetched = || self.fields.iter().filter(|field| end(field) <= MAX_SLOTS);
        spec::Fetch::Slots {
            // Both casts: no slot of a fetched field is above MAX_SLOTS.
            count: fetched().map(end).max().unwrap_or(0) as u8,
            text: fetched()
                .filter(|field| field.kind.is_text_or_bytes())
                .map(|field| (field.first_slot as u8, field.first_slot as u8 + 1))
                .collect(),
        }
    }

    /// The locations as a session wants them.
    pub fn attachable(&self) -> Attachable {
        let mut ready = Attachable {
            locations: Vec::new(),
            warnings: Vec::new(),
        };
        for location in &self.locations {
            let Place::File {
                offset,
                executable: true,
                ..
            } = location.place
            else {
                ready.warnings.push(Warning::NoCode {
                    probe: self.full_name(),
                    address: location.address,
                });
                continue;
            };
            if !matches!(location.semaphore, Semaphore::InFile { .. }) {
                ready.warnings.push(Warning::Semaphore {
                    probe: self.full_name(),
                    semaphore: location.semaphore,
                });
            }
            ready.locations.push(spec::Location {
                offset,
                semaphore: location.semaphore.offset(),
                fetch: self.fetch(),
            });
        }
        ready
    }
}

/// Reads the tables of a binary.
pub(crate) fn read(image: &Image) -> SdkTables {
    let mut tables = Vec::new();
    for segment in &image.notes {
        match notes_of(image, segment, &mut tables) {
            Ok(()) => {}
            Err(NoteError::Version(version)) => return SdkTables::OtherVersion(version),
            Err(NoteError::Short) => return SdkTables::Damaged("it is too short"),
        }
    }
    if tables.is_empty() {
        return SdkTables::None;
    }
    let mut reader = Reader {
        image,
        files: HashMap::new(),
        known: HashMap::new(),
        damaged: 0,
    };
    let mut tracepoints = Vec::new();
    for one in &tables {
        if let Err(what) = reader.tables(one, &mut tracepoints) {
            return SdkTables::Damaged(what);
        }
    }
    SdkTables::Found {
        tracepoints,
        damaged: reader.damaged,
        control: tables.iter().map(|one| one.control).collect(),
    }
}

/// Collects what the notes in one segment lead to. A linker may keep several notes that say the same.
fn notes_of(
    image: &Image,
    segment: &NoteSegment,
    tables: &mut Vec<Tables>,
) -> Result<(), NoteError> {
    let Some(bytes) = image.read(segment.offset, segment.size, MAX_NOTES) else {
        return Ok(());
    };
    let notes = segment
        .alignments()
        .flat_map(|alignment| walk(&bytes, image.endianness, alignment).map_while(Result::ok));
    for note in notes {
        if note.owner != wire_note::OWNER.as_bytes() || note.kind != wire_note::TYPE {
            continue;
        }
        let address = segment.address.wrapping_add(note.offset as u64);
        let found = wire_note::parse(note.description, address)?;
        if !tables.contains(&found) {
            tables.push(found);
        }
    }
    Ok(())
}

struct Reader<'a> {
    image: &'a Image,
    files: HashMap<u64, Option<String>>,
    /// Which of the tracepoints read so far is which.
    known: HashMap<Identity, usize>,
    damaged: usize,
}

impl Reader<'_> {
    fn tables(
        &mut self,
        tables: &Tables,
        tracepoints: &mut Vec<Tracepoint>,
    ) -> Result<(), &'static str> {
        let points = self.rows(tables.points_start, tables.points_stop, table::POINT_ROW)?;
        let sites = self.rows(tables.sites_start, tables.sites_stop, table::SITE_ROW)?;

        let mut of_point: HashMap<u64, Vec<Site>> = HashMap::new();
        for (address, row) in rows_of(&sites, tables.sites_start, table::SITE_ROW) {
            // One place may be the site of two tracepoints, entry and return: one row each.
            let site = table::parse_site(row, address);
            match site.and_then(|row| Some((row.point, self.site(&row)?))) {
                Some((point, site)) => of_point.entry(point).or_default().push(site),
                None => self.damaged += 1,
            }
        }
        for (address, row) in rows_of(&points, tables.points_start, table::POINT_ROW) {
            let point = table::parse_point(row, address).and_then(|row| self.point(&row));
            let Some(mut point) = point else {
                self.damaged += 1;
                continue;
            };
            point.sites = of_point.remove(&address).unwrap_or_default();
            // One tracepoint may have been linked in several copies.
            match self.known.entry(Identity::of(&point)) {
                Entry::Occupied(known) => {
                    let known = &mut tracepoints[*known.get()];
                    known.locations.append(&mut point.locations);
                    known.sites.append(&mut point.sites);
                }
                Entry::Vacant(free) => {
                    free.insert(tracepoints.len());
                    tracepoints.push(point);
                }
            }
        }
        Ok(())
    }

    fn rows(&self, start: u64, stop: u64, row: usize) -> Result<Vec<u8>, &'static str> {
        let size = stop
            .checked_sub(start)
            .ok_or("a table ends before it starts")?;
        if size % row as u64 != 0 {
            return Err("a table is no whole number of rows");
        }
        if size == 0 {
            return Ok(Vec::new());
        }
        self.image
            .read_at(start, size, MAX_TABLE)
            .ok_or("a table lies outside the file")
    }

    fn site(&mut self, row: &SiteRow) -> Option<Site> {
        let Place::File {
            offset,
            executable: true,
            ..
        } = self.image.place(row.code)
        else {
            return None;
        };
        let image = self.image;
        let file = self.files.entry(row.file).or_insert_with(|| {
            let bytes = image.read_up_to(row.file, MAX_FILE_NAME)?;
            let end = bytes.iter().position(|&byte| byte == 0)?;
            Some(text_of(&bytes[..end]))
        });
        Some(Site {
            file: file.clone()?,
            line: row.line,
            address: row.code,
            offset,
            row: row.point,
            cold: row.cold,
            tests_semaphore: row.flags & table::SITE_TESTS_SEMAPHORE != 0,
        })
    }

    fn point(&self, row: &PointRow) -> Option<Tracepoint> {
        let mut bytes = self.image.read_up_to(row.schema, SCHEMA_GUESS)?;
        let length = u64::from(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?));
        if length > bytes.len() as u64 {
            bytes = self
                .image
                .read_at(row.schema, length, schema::MAX_LENGTH as u64)?;
        }
        let schema = Schema::parse(&bytes).ok()?;
        let described_slots = u8::try_from(row.usdt_slots)
            .ok()
            .filter(|&slots| slots <= MAX_DESCRIBED)?;
        let mut next = 0;
        let fields = schema
            .fields()
            .map(|(name, kind)| {
                let first_slot = next;
                next += kind.slot_count();
                let described = next <= usize::from(described_slots);
                TracepointField {
                    name: name.to_owned(),
                    kind,
                    first_slot,
                    described,
                }
            })
            .collect();
        Some(Tracepoint {
            provider: schema.provider.to_owned(),
            name: schema.name.to_owned(),
            print: schema.print.to_owned(),
            is_return: schema.flags & schema::FLAG_RETURN != 0,
            fields,
            locations: vec![TracepointLocation {
                row: row.address,
                address: row.probe,
                place: self.image.place(row.probe),
                semaphore: Semaphore::at(self.image, row.semaphore),
                described_slots,
            }],
            sites: Vec::new(),
        })
    }
}

/// The rows of a table with their addresses; rows of zeros are padding between the linker's inputs.
fn rows_of(bytes: &[u8], start: u64, size: usize) -> impl Iterator<Item = (u64, &[u8])> {
    bytes
        .chunks_exact(size)
        .enumerate()
        .map(move |(index, row)| (start + (index * size) as u64, row))
        .filter(|(_, row)| row.iter().any(|&byte| byte != 0))
}

/// What makes two rows the same tracepoint.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    names: [String; 3],
    is_return: bool,
    fields: Vec<TracepointField>,
}

impl Identity {
    fn of(point: &Tracepoint) -> Identity {
        Identity {
            names: [
                point.provider.clone(),
                point.name.clone(),
                point.print.clone(),
            ],
            is_return: point.is_return,
            fields: point.fields.clone(),
        }
    }
}
