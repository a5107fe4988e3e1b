//! Tracepoints as directories list them, and as they are wanted.

use std::sync::Arc;

use tracebraid_bpf::spec::ProbeId;
use tracebraid_wire::kind::FieldKind;
use tracebraid_wire::region::ListedPoint;
use tracebraid_wire::schema::{FLAG_MADE, FLAG_RETURN, Schema};

use crate::event::{Field, Probe};
use crate::filter::ProbeFilter;
use crate::source::LostPlaces;
use crate::source::decode::Decoder;

/// A tracepoint that a region's directory lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its event id.
    pub event: u16,
    /// The process whose region lists it.
    pub pid: u32,
    /// Where its row is in that process's memory, which says in which object it is.
    pub row: u64,
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// The print format, or empty.
    pub print: String,
    /// Whether it is the return of another.
    pub is_return: bool,
    /// Whether it was made at run time, so that it is in no file.
    pub is_made: bool,
    /// Where it is hit, `FILE:LINE`, if it was made at run time and says so.
    pub place: Option<String>,
    /// Fields in order.
    pub fields: Vec<(String, FieldKind)>,
}

impl Listed {
    /// Reads an entry of the directory of a region of `pid`.
    pub(super) fn read(pid: u32, point: &ListedPoint<'_>) -> Option<Listed> {
        let schema = Schema::parse(point.schema).ok()?;
        Some(Listed {
            event: point.event,
            pid,
            row: point.row,
            provider: schema.provider.to_owned(),
            name: schema.name.to_owned(),
            print: schema.print.to_owned(),
            is_return: schema.flags & FLAG_RETURN != 0,
            is_made: schema.flags & FLAG_MADE != 0,
            place: schema.place().map(str::to_owned),
            fields: schema
                .fields()
                .map(|(name, kind)| (name.to_owned(), kind))
                .collect(),
        })
    }

    /// What it is called and how it prints.
    pub fn decoder(&self) -> Decoder {
        let fields = self
            .fields
            .iter()
            .map(|(name, kind)| (name.as_str(), *kind));
        Decoder::application(&self.provider, &self.name, &self.print, fields)
            .of_return(self.is_return)
            .of_made(self.is_made)
    }
}

/// A tracepoint that is wanted from the rings.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its number in the session.
    pub probe: ProbeId,
    /// What it is called and how it prints.
    pub what: Arc<Probe>,
    /// Its fields' kinds.
    pub kinds: Vec<FieldKind>,
    /// The files (by inode) in which its hits come through USDT probes already: of these it is not wanted.
    pub probed_in: Vec<u64>,
    /// Which of its hits are wanted; `None`: all.
    pub filter: Option<ProbeFilter>,
}

/// A tracepoint that is wanted, and what became of it.
pub(super) struct Point {
    pub(super) probe: ProbeId,
    pub(super) what: Arc<Probe>,
    pub(super) kinds: Vec<FieldKind>,
    pub(super) probed_in: Vec<u64>,
    pub(super) filter: Option<ProbeFilter>,
    pub(super) delivered: u64,
    /// Hits of which nobody wanted more than their number.
    pub(super) counted: u64,
    /// Hits that did not pass the filter.
    pub(super) filtered: u64,
    pub(super) places: LostPlaces,
}

impl Point {
    /// One that is looked at without a session.
    pub(super) fn of_listed(listed: &Listed) -> Point {
        Point {
            probe: ProbeId(0),
            what: Arc::clone(listed.decoder().probe()),
            kinds: listed.fields.iter().map(|(_, kind)| *kind).collect(),
            probed_in: Vec::new(),
            filter: None,
            delivered: 0,
            counted: 0,
            filtered: 0,
            places: LostPlaces::new(),
        }
    }

    /// Whether an entry of a directory is this tracepoint.
    pub(super) fn is(&self, listed: &Listed) -> bool {
        let what = &self.what;
        let is_field = |((name, kind), (field, own)): (&(String, FieldKind), _)| {
            let (field, own): (&Field, &FieldKind) = (field, own);
            *name == field.name && kind == own
        };
        listed.provider == what.group
            && listed.name == what.name
            && listed.fields.len() == self.kinds.len()
            && listed
                .fields
                .iter()
                .zip(what.fields.iter().zip(&self.kinds))
                .all(is_field)
    }
}
