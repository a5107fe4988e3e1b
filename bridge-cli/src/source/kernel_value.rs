//! Where the kernel has what a filter compares: a probe's fields among the things that its program fetches.
//!
//! Each is described such that the kernel's answer is the bridge's own over the decoded event: the same bytes,
//! cut to the same width, missing in the same cases. What cannot be had in that way has a reason.

use tracebraid_bpf::hit_filter::{Cut, Member, Number, Source, Text, Who};
use tracebraid_bpf::spec::{Dynamic, Fetch, Place};
use tracebraid_filter::Type;
use tracebraid_wire::kind::{FieldKind, Kind};

use super::decode::{Decoder, Shape};
use super::syscall::Way;
use crate::event::Probe;
use crate::tracefs::format::{FormatField, Location, Shape as FieldShape};

/// A field, as the kernel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InKernel {
    /// A number.
    Number(Number),
    /// A text.
    Text(Text),
    /// It never has a value here.
    Missing,
}

/// What a probe fetches where it is hit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fetched<'a> {
    /// A probe of a file.
    User {
        /// Which of its locations.
        location: usize,
        /// What is fetched there.
        fetch: &'a Fetch,
    },
    /// A kernel tracepoint's record, of so many bytes without what its descriptors lead to.
    Record(u32),
    /// A system call, by its number.
    Call(u32),
    /// What the probe's own description says.
    Itself,
}

/// Why the kernel cannot compare a field: words behind `it is`.
pub(crate) type Found = Result<InKernel, &'static str>;

const NO_NUMBER: &str = "no number of up to 8 bytes";

impl Decoder {
    /// Where the kernel has the field of this index.
    ///
    /// # Errors
    /// Why it has it nowhere.
    pub(crate) fn in_kernel(&self, index: usize, fetched: Fetched<'_>) -> Found {
        let field = self.probe().fields.get(index);
        match (&self.shape, fetched) {
            (Shape::Slots(kinds), Fetched::User { fetch, .. }) => slot(kinds, index, fetch),
            (Shape::Arguments(locations), Fetched::User { location, .. }) => {
                let arguments = locations.get(location).map_or(&[][..], Vec::as_slice);
                let Some(argument) = arguments.get(index) else {
                    return Ok(InKernel::Missing);
                };
                if argument.float {
                    return Err("a floating-point number");
                }
                if matches!(argument.place, Place::Unsupported(_)) {
                    return Ok(InKernel::Missing);
                }
                let own = Cut::Low {
                    bytes: argument.width,
                    signed: argument.signed,
                };
                // It is compared as a number that holds it at each location.
                let cuts = [Some(own), field.and_then(|field| width(field.compared))];
                number(Source::Word(index as u8), cuts.into_iter().flatten())
            }
            (Shape::Definition(reading), _) => reading.in_kernel(index),
            (Shape::Tracepoint(format), Fetched::Record(size)) => match format.fields.get(index) {
                Some(field) => in_record(field, size),
                None => Ok(InKernel::Missing),
            },
            (Shape::Kernel, _) => member(self.probe(), index),
            (Shape::Syscalls(calls), Fetched::Call(call)) => match calls.argument(call, index) {
                Some((Way::Enter, argument, bytes, signed)) => number(
                    Source::Event(Member::Argument(argument)),
                    [Cut::Low { bytes, signed }],
                ),
                Some((Way::Exit, ..)) => number(Source::Event(Member::Result), []),
                None => Ok(InKernel::Missing),
            },
            _ => Err("not known to the kernel"),
        }
    }
}

pub(super) fn number(source: Source, cuts: impl IntoIterator<Item = Cut>) -> Found {
    Ok(InKernel::Number(Number {
        source,
        cuts: cuts.into_iter().collect(),
        present: None,
    }))
}

/// The width that a field is compared in.
fn width(kind: Option<Type>) -> Option<Cut> {
    let low = |bytes: u16, signed| Cut::Low {
        bytes: bytes as u8,
        signed,
    };
    match kind? {
        Type::Signed {
            bytes: bytes @ (1 | 2 | 4 | 8),
        } => Some(low(bytes, true)),
        Type::Unsigned {
            bytes: bytes @ (1 | 2 | 4 | 8),
        } => Some(low(bytes, false)),
        _ => None,
    }
}

/// A field of a tracebraid tracepoint.
fn slot(kinds: &[FieldKind], index: usize, fetch: &Fetch) -> Found {
    let Fetch::Slots { count, text } = fetch else {
        return Err("not in the slots");
    };
    let Some(kind) = kinds.get(index) else {
        return Ok(InKernel::Missing);
    };
    let before = &kinds[..index];
    let first: usize = before.iter().map(|kind| kind.slot_count()).sum();
    if first + kind.slot_count() > usize::from(*count) {
        return Ok(InKernel::Missing);
    }
    if kind.is_text_or_bytes() {
        let texts = before.iter().filter(|kind| kind.is_text_or_bytes()).count();
        return Ok(match texts < text.len() {
            true => InKernel::Text(Text::Slot(texts as u8)),
            false => InKernel::Missing,
        });
    }
    let presence = kind.has_presence_slot();
    let low = |bytes, signed| vec![Cut::Low { bytes, signed }];
    let cuts = match kind.kind {
        Kind::U8 => low(1, false),
        Kind::U16 => low(2, false),
        Kind::U32 | Kind::Char => low(4, false),
        Kind::I8 => low(1, true),
        Kind::I16 => low(2, true),
        Kind::I32 => low(4, true),
        Kind::U64 | Kind::I64 | Kind::Elapsed | Kind::Pointer => Vec::new(),
        Kind::Bool => [low(1, false), vec![Cut::Truth]].concat(),
        Kind::F32 | Kind::F64 => return Err("a floating-point number"),
        Kind::U128 | Kind::I128 => return Err("a number of 16 bytes"),
        Kind::Duration => return Err("a span of time"),
        Kind::Any => return Err("of any type"),
        Kind::Str | Kind::Bytes | Kind::Formatted => return Err("text"),
    };
    Ok(InKernel::Number(Number {
        source: Source::Word(first as u8 + u8::from(presence)),
        cuts,
        present: presence.then_some(first as u8),
    }))
}

/// A field of a tracepoint's record, of which the first `size` bytes are there.
pub(crate) fn in_record(field: &FormatField, size: u32) -> Found {
    let (offset, bytes) = (field.offset, field.size);
    if offset < 8 {
        return Err("in the part of the record that BPF programs do not see");
    }
    if offset.saturating_add(bytes) > size {
        return Ok(InKernel::Missing);
    }
    let integer = |cut| match bytes {
        1 | 2 | 4 | 8 => number(
            Source::Record {
                offset,
                bytes: bytes as u8,
            },
            [cut],
        ),
        16 => Err("a number of 16 bytes"),
        // Of other sizes nothing is compared.
        _ => Ok(InKernel::Missing),
    };
    let dynamic = |location| {
        let relative = location == Location::Descriptor;
        Ok(InKernel::Text(Text::Dynamic(Dynamic { offset, relative })))
    };
    let is_text = field.type_name.contains("char");
    match field.shape {
        FieldShape::Integer { signed } => integer(Cut::Low {
            bytes: bytes as u8,
            signed,
        }),
        FieldShape::Bool => integer(Cut::Truth),
        FieldShape::Text => Ok(InKernel::Text(Text::Record { offset, bytes })),
        FieldShape::Bytes if is_text => Ok(InKernel::Text(Text::Record { offset, bytes })),
        FieldShape::DynamicText(location) => dynamic(location),
        FieldShape::DynamicBytes(location) if is_text => dynamic(location),
        FieldShape::Pointer | FieldShape::Bytes | FieldShape::Numbers(_) => integer(Cut::Low {
            bytes: bytes as u8,
            signed: false,
        }),
        FieldShape::DynamicBytes(_) | FieldShape::DynamicNumbers(..) => Err(NO_NUMBER),
    }
}

/// A field of an event with a record of its own, in the order of [`builtin`](crate::tracefs::builtin).
fn member(probe: &Probe, index: usize) -> Found {
    let signed = |member| {
        let cut = Cut::Low {
            bytes: 4,
            signed: true,
        };
        number(Source::Event(member), [cut])
    };
    let comm = |who| Ok(InKernel::Text(Text::Task(who)));
    match (&*probe.name, index) {
        ("sched_process_fork", 0) => comm(Who::First),
        ("sched_process_fork", 1) => signed(Member::Tid(Who::First)),
        ("sched_process_fork", 2) => comm(Who::Second),
        ("sched_process_fork", 3) => signed(Member::Tid(Who::Second)),
        ("sched_process_exec", 0) => Err("read as the event is written"),
        ("sched_process_exec", 1) => number(Source::Thread, []),
        ("sched_process_exec", 2) => signed(Member::OldTid),
        ("sched_switch", 3) => number(Source::Event(Member::State), []),
        ("sched_switch", 4) => comm(Who::Second),
        ("sched_switch", 5) => signed(Member::Tid(Who::Second)),
        ("sched_switch", 6) => signed(Member::Priority(Who::Second)),
        (_, 0) => comm(Who::First),
        (_, 1) => signed(Member::Tid(Who::First)),
        (_, 2) => signed(Member::Priority(Who::First)),
        ("sched_process_exit", 3) => number(Source::Event(Member::First), [Cut::Truth]),
        (_, 3) => signed(Member::First),
        (_, 4) => signed(Member::Second),
        _ => Ok(InKernel::Missing),
    }
}
