//! What is behind `if` in a probe at an event: a filter of the event's own fields, which the kernel evaluates.
//!
//! ```text
//! e sched.sched_switch to=$next_comm:string if prev_pid > 5
//!   arguments   output 0: text at next_comm                    ─▶ record
//!   for `if`    output 1: 4 bytes at prev_pid                  ─▶ filter, and no further
//! ```
//! It is a part of the definition: with `--user-filter` too it is the kernel that decides.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tracebraid_bpf::hit_filter::{HitFilter, Number, Source, Text};
use tracebraid_bpf::spec::Step;
use tracebraid_filter::Type;

use crate::definition::compile::Compiled;
use crate::definition::kernel_here::KernelHere;
use crate::definition::{Definition, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Origin, Print, Probe};
use crate::filter::{Hits, Machine, ProbeFilter, Refusals};
use crate::source::decode::tracepoint_probe;
use crate::source::kernel_value::{Found, InKernel, in_record};
use crate::tracefs::{self, format::Format};

/// The filter of a definition, if it has one; what it looks at is fetched behind its arguments.
///
/// # Errors
/// Where it cannot be read, or the kernel cannot decide it.
pub(super) fn compile(
    definition: &Definition,
    kernel: &KernelHere,
    machine: &Machine,
    compiled: &mut Compiled,
) -> Result<Option<HitFilter>> {
    let Place::Event {
        group,
        name,
        filter: Some(text),
    } = &definition.place
    else {
        return Ok(None);
    };
    let Some(format) = kernel.event_format(group, name) else {
        let message = format!("-e {}: the event has gone meanwhile", definition.text);
        return Err(Error::new(ErrorKind::NoMatch, message));
    };
    let (filter, probe) = match read(text, group, &format, machine, false) {
        Ok(read) => read,
        // What points to text is compared as a number, or else as the text.
        Err(refusals) => match read(text, group, &format, machine, true) {
            Ok(read) => read,
            Err(_) => {
                let errors = refusals.into_errors(|_| format!("-e {}", definition.text));
                let nothing = || Error::new(ErrorKind::Usage, "a filter that is not understood");
                return Err(Error::several(errors).unwrap_or_else(nothing));
            }
        },
    };
    let Some(filter) = filter else {
        return Ok(None);
    };
    let shown = compiled.program.steps.iter();
    let first = shown.filter(|step| step.is_output()).count();
    let looked_at = LookedAt {
        format: &format,
        probe: &probe,
        size: tracepoint_probe(tracebraid_bpf::spec::ProbeId(0), group, &format).size,
        first,
        fetched: RefCell::default(),
    };
    let hits = filter
        .in_kernel(&probe, &|index| looked_at.fetch(index))
        .map_err(|why| {
            let message = format!(
                "-e {}: the kernel cannot decide the filter behind if: {why}",
                definition.text
            );
            Error::new(ErrorKind::Usage, message)
        })?;
    compiled.program.for_filters = looked_at.fetched.into_inner().steps;
    Ok(Some(hits))
}

/// Reads a filter; `None` is one that every hit passes. With it the event, as the filter was read for it.
fn read(
    text: &str,
    group: &str,
    format: &Format,
    machine: &Machine,
    pointers_are_text: bool,
) -> std::result::Result<(Option<ProbeFilter>, Probe), Refusals> {
    let mut fields = tracefs::fields(format);
    let points_to_text =
        |type_name: &str| pointers_are_text && matches!(type_name, "char *" | "const char *");
    for field in &mut fields {
        if points_to_text(&field.type_name) {
            field.compared = Some(Type::Text);
        }
    }
    let probe = Probe {
        group: group.to_owned(),
        name: format.name.clone(),
        origin: Origin::Kernel,
        fields,
        print: Print::Plain,
    };
    let mut refusals = Refusals::default();
    let filters = [text.to_owned()];
    let by = std::iter::once((0, &filters[..]));
    match ProbeFilter::read(by, &probe, machine, &mut refusals) {
        Hits::All => Ok((None, probe)),
        Hits::Some(filter) => Ok((Some(filter), probe)),
        Hits::None => Err(refusals),
    }
}

/// Fields that a filter looks at, each fetched once.
struct LookedAt<'a> {
    format: &'a Format,
    probe: &'a Probe,
    /// Bytes of the record that BPF programs see.
    size: u32,
    /// Outputs before those for the filter.
    first: usize,
    fetched: RefCell<Fetched>,
}

#[derive(Default)]
struct Fetched {
    steps: Vec<Step>,
    fields: BTreeMap<usize, InKernel>,
}

impl LookedAt<'_> {
    fn fetch(&self, index: usize) -> Found {
        let mut fetched = self.fetched.borrow_mut();
        if let Some(known) = fetched.fields.get(&index) {
            return Ok(known.clone());
        }
        let Some(field) = self.format.fields.get(index) else {
            return Ok(InKernel::Missing);
        };
        let outputs = fetched.steps.iter().filter(|step| step.is_output()).count();
        let number = u16::try_from(self.first + outputs).map_err(|_| "one of too many")?;
        let is_text = self.probe.fields[index].compared == Some(Type::Text);
        let offset = field.offset;
        let (steps, found) = match in_record(field, self.size)? {
            InKernel::Number(_) if is_text => (
                [
                    Step::Field {
                        offset,
                        bytes: 8,
                        signed: false,
                    },
                    Step::StoreText(0),
                ],
                InKernel::Text(Text::Output(number)),
            ),
            InKernel::Number(Number {
                source: Source::Record { offset, bytes },
                cuts,
                present,
            }) => {
                let source = Source::Output { number, bytes };
                (
                    memory(offset, bytes.into()),
                    InKernel::Number(Number {
                        source,
                        cuts,
                        present,
                    }),
                )
            }
            InKernel::Text(Text::Record { offset, bytes }) => {
                let bytes = bytes.min(LONGEST) as u16;
                let text = Text::Within { number, bytes };
                (memory(offset, bytes), InKernel::Text(text))
            }
            InKernel::Text(Text::Dynamic(field)) => (
                [Step::FieldData(field), Step::StoreText(0)],
                InKernel::Text(Text::Output(number)),
            ),
            other => return Ok(other),
        };
        fetched.steps.extend(steps);
        fetched.fields.insert(index, found.clone());
        Ok(found)
    }
}

/// Bytes of one output.
const LONGEST: u32 = 512;

fn memory(offset: u32, size: u16) -> [Step; 2] {
    [Step::Record(offset), Step::StoreMemory { offset: 0, size }]
}
