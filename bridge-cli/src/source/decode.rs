//! From what the rings carry to events: one [`Decoder`] a probe, made once, that knows the probe's
//! fields and how its records become values.
//!
//! ```text
//! Record { probe, body: Slots […] } ─▶ Decoder of that probe ─▶ Event { values, in the order of fields }
//! ```
//! Bytes of other processes end here: a slot, a text or a descriptor that makes no sense becomes a
//! value that says so ([`Value::Fault`] and its like), never an error that would stop the stream.

use std::collections::HashMap;
use std::sync::Arc;

use tracebraid_bpf::record::{Body, Lost, Record};
use tracebraid_bpf::spec::{
    Argument, Dynamic, Fetch, KernelEvent, Location, Place, ProbeId, TracepointProbe,
};
use tracebraid_filter::Type;
use tracebraid_wire::kind::FieldKind;

use super::definition::{self, Reading};
use super::scheduler;
use super::slots::{self, type_name};
use super::spare::Spare;
use super::syscall::{self, Syscalls, Way};
use crate::definition::compile::Compiled;
use crate::event::{Comm, Event, Field, Origin, Print, Probe, UNKNOWN_CPU, Value, What};
use crate::tracefs::builtin;
use crate::tracefs::format::{self, Format};
use crate::tracefs::print_fmt::UnknownForm;
use crate::tracefs::symbols::Symbols;
use crate::tracefs::{self, Tracefs, c_type::Scalar, record};

/// Makes events of one probe's records.
#[derive(Debug)]
pub struct Decoder {
    probe: Arc<Probe>,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    Slots(Vec<FieldKind>),
    /// The arguments of each location.
    Arguments(Vec<Vec<Argument>>),
    Definition(Reading),
    Tracepoint(Format),
    /// An event with a record of its own.
    Kernel,
    Syscalls(Syscalls),
}

impl Decoder {
    /// For a tracebraid tracepoint, as its schema describes it. An empty `print` is the plain form.
    pub fn application<'a>(
        provider: &str,
        name: &str,
        print: &str,
        fields: impl IntoIterator<Item = (&'a str, FieldKind)>,
    ) -> Decoder {
        let (fields, kinds): (Vec<Field>, Vec<FieldKind>) = fields
            .into_iter()
            .map(|(name, kind)| {
                let field = Field::new(name, type_name(kind)).compared(Some(Type::of(kind)));
                (field, kind)
            })
            .unzip();
        let print = match print {
            "" => Print::Plain,
            template => Print::Template(template.to_owned()),
        };
        let probe = Probe {
            group: provider.to_owned(),
            name: name.to_owned(),
            origin: Origin::Application,
            fields,
            print,
        };
        Decoder {
            probe: Arc::new(probe),
            shape: Shape::Slots(kinds),
        }
    }

    /// The same for the return of a function: what has no value is not printed.
    #[must_use]
    pub fn of_return(mut self, is_return: bool) -> Decoder {
        if let Some(probe) = Arc::get_mut(&mut self.probe)
            && is_return
            && matches!(probe.print, Print::Plain)
        {
            probe.print = Print::Present;
        }
        self
    }

    /// The same for one that the target made at run time, whose hits may lack a value too.
    #[must_use]
    pub fn of_made(mut self, is_made: bool) -> Decoder {
        if let Some(probe) = Arc::get_mut(&mut self.probe)
            && is_made
        {
            probe.origin = Origin::Made;
        }
        self.of_return(is_made)
    }

    /// For a USDT probe of a binary without our note. `locations` are those of the
    /// [`UserProbe`](tracebraid_bpf::spec::UserProbe), in its order. Fields are called `arg0`, `arg1`
    /// …, as many as the location with most arguments has.
    pub fn usdt(provider: &str, name: &str, locations: &[Location]) -> Decoder {
        let arguments = |location: &Location| match &location.fetch {
            Fetch::Arguments(arguments) => arguments.clone(),
            Fetch::Slots { .. } | Fetch::Program(_) => Vec::new(),
        };
        let locations: Vec<Vec<Argument>> = locations.iter().map(arguments).collect();
        let longest = locations.iter().max_by_key(|arguments| arguments.len());
        let field = |(index, argument): (usize, &Argument)| {
            let letter = match (argument.float, argument.signed) {
                (true, _) => 'f',
                (false, true) => 'i',
                (false, false) => 'u',
            };
            let bits = u32::from(argument.width) * 8;
            Field::new(format!("arg{index}"), format!("{letter}{bits}"))
                .compared(compared(&locations, index))
        };
        let fields = longest.map(|arguments| arguments.iter().enumerate().map(field).collect());
        let probe = Probe {
            group: provider.to_owned(),
            name: name.to_owned(),
            origin: Origin::Usdt,
            fields: fields.unwrap_or_default(),
            print: Print::Plain,
        };
        Decoder {
            probe: Arc::new(probe),
            shape: Shape::Arguments(locations),
        }
    }

    /// For a probe definition; `symbols` name addresses, where it is in the kernel.
    pub fn definition(
        definition: &crate::definition::Definition,
        compiled: Compiled,
        symbols: Option<Arc<Symbols>>,
    ) -> Decoder {
        let (probe, reading) = definition::probe(definition, compiled, symbols);
        Decoder {
            probe: Arc::new(probe),
            shape: Shape::Definition(reading),
        }
    }

    /// For any kernel tracepoint, by its format. The second value says why its events are printed as
    /// `name=value`, where that is so.
    pub fn tracepoint(
        tracefs: &Tracefs,
        category: &str,
        format: Format,
    ) -> (Decoder, Option<UnknownForm>) {
        let (print, unknown) = tracefs.print(&format);
        let probe = Probe {
            group: category.to_owned(),
            name: format.name.clone(),
            origin: Origin::Kernel,
            fields: tracefs::fields(&format),
            print,
        };
        (
            Decoder {
                probe: Arc::new(probe),
                shape: Shape::Tracepoint(format),
            },
            unknown,
        )
    }

    /// For an event with a record of its own. The names of system calls' arguments come from tracefs;
    /// without it they are `arg0` to `arg5`.
    pub fn kernel(event: &KernelEvent, tracefs: Option<&Arc<Tracefs>>) -> Decoder {
        let builtin = match event {
            KernelEvent::SchedSwitch => &builtin::SCHED_SWITCH,
            KernelEvent::SchedWaking => &builtin::SCHED_WAKING,
            KernelEvent::SchedWakeup => &builtin::SCHED_WAKEUP,
            KernelEvent::SchedWakeupNew => &builtin::SCHED_WAKEUP_NEW,
            KernelEvent::SchedMigrateTask => &builtin::SCHED_MIGRATE_TASK,
            KernelEvent::ProcessFork => &builtin::PROCESS_FORK,
            KernelEvent::ProcessExec => &builtin::PROCESS_EXEC,
            KernelEvent::ProcessExit => &builtin::PROCESS_EXIT,
            KernelEvent::SysEnter(numbers) => {
                return Decoder::syscalls(Syscalls::new(Way::Enter, numbers, tracefs.cloned()));
            }
            KernelEvent::SysExit(numbers) => {
                return Decoder::syscalls(Syscalls::new(Way::Exit, numbers, None));
            }
        };
        Decoder {
            probe: Arc::new(scheduler::probe(builtin)),
            shape: Shape::Kernel,
        }
    }

    fn syscalls(syscalls: Syscalls) -> Decoder {
        Decoder {
            probe: Arc::clone(syscalls.any()),
            shape: Shape::Syscalls(syscalls),
        }
    }

    /// The probe. For system calls, where one probe of the session stands for many, the one that
    /// their losses are reported under.
    pub fn probe(&self) -> &Arc<Probe> {
        &self.probe
    }

    /// The number of the system call whose probe this is, where it is of one.
    pub(crate) fn call_of(&self, probe: &Arc<Probe>) -> Option<u32> {
        match &self.shape {
            Shape::Syscalls(syscalls) => syscalls.number_of(probe),
            _ => None,
        }
    }

    /// The probe of a system call, where this decoder stands for several.
    pub fn probe_of_call(&self, number: u32) -> &Arc<Probe> {
        match &self.shape {
            Shape::Syscalls(syscalls) => syscalls.probe(number),
            _ => &self.probe,
        }
    }

    /// Makes an event of a record. A record whose body is of another probe's sort has
    /// [`Value::Fault`] in every field.
    pub fn event(&self, record: Record, spare: &mut Spare) -> Event {
        let mut values = spare.values(self.probe.fields.len());
        let probe = self.hit(record.body, record.tid, &Comm(record.comm), &mut values);
        Event {
            time: record.time,
            cpu: record.cpu,
            pid: record.tgid,
            tid: record.tid,
            comm: Comm(record.comm),
            late: false,
            what: What::Hit { probe, values },
            stack: record.stack.map(Into::into),
        }
    }

    /// Makes an event of a loss; it stands at the end of the time in which the events were lost.
    pub fn lost(&self, lost: &Lost) -> Event {
        Event {
            time: lost.before,
            cpu: match lost.cpu {
                Lost::UNKNOWN_CPU => UNKNOWN_CPU,
                cpu => cpu,
            },
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            late: false,
            what: What::Lost {
                probe: Arc::clone(&self.probe),
                count: lost.count,
                after: lost.after,
                reason: lost.reason,
            },
            stack: None,
        }
    }

    /// Appends the values of a hit, and says of which probe they are.
    fn hit(&self, body: Body, tid: u32, comm: &Comm, values: &mut Vec<Value>) -> Arc<Probe> {
        match (&self.shape, body) {
            (Shape::Slots(kinds), Body::Slots { slots, texts }) => {
                slots::append(kinds, slots, texts, values);
            }
            (
                Shape::Arguments(locations),
                Body::Arguments {
                    location,
                    values: read,
                },
            ) => {
                let arguments = locations.get(location as usize);
                let arguments = arguments.map_or(&[][..], Vec::as_slice);
                let fields = 0..self.probe.fields.len();
                values.extend(fields.map(|index| argument(arguments.get(index), read.get(index))));
            }
            (Shape::Definition(reading), Body::Program(outputs)) => {
                reading.append(outputs, comm, values);
            }
            (Shape::Tracepoint(format), Body::Tracepoint(bytes)) => {
                record::append(format, &bytes, values);
            }
            (Shape::Syscalls(syscalls), Body::SysEnter { number, args }) => {
                return Arc::clone(syscalls.entered(number, args, values));
            }
            (Shape::Syscalls(syscalls), Body::SysExit { number, result }) => {
                return Arc::clone(syscalls.returned(number, result, values));
            }
            (Shape::Kernel, body) => scheduler::append(body, tid, values),
            _ => {}
        }
        let fields = self.probe.fields.len();
        // Of another sort than its probe.
        if values.len() != fields {
            values.clear();
            values.resize(fields, Value::Fault);
        }
        Arc::clone(&self.probe)
    }
}

/// The decoders of a session, by probe.
#[derive(Debug, Default)]
pub struct Decoders(HashMap<ProbeId, Decoder>);

impl Decoders {
    /// Adds a probe's decoder, in place of the one it had.
    pub fn insert(&mut self, probe: ProbeId, decoder: Decoder) {
        self.0.insert(probe, decoder);
    }

    /// The decoder of a probe.
    pub fn get(&self, probe: ProbeId) -> Option<&Decoder> {
        self.0.get(&probe)
    }

    /// Makes an event of a record; `None` where nobody knows its probe.
    pub fn event(&self, record: Record, spare: &mut Spare) -> Option<Event> {
        Some(self.0.get(&record.probe)?.event(record, spare))
    }

    /// Makes an event of a loss; `None` where nobody knows its probe.
    pub fn lost(&self, lost: &Lost) -> Option<Event> {
        Some(self.0.get(&lost.probe)?.lost(lost))
    }
}

/// What to probe for a kernel tracepoint of this format.
pub fn tracepoint_probe(id: ProbeId, category: &str, format: &Format) -> TracepointProbe {
    let syscall_arguments = category == "syscalls";
    let read =
        |field: &&format::FormatField| !(syscall_arguments && syscall::is_copied(&field.name));
    let dynamic = |field: &format::FormatField| {
        let relative = field.location()? == format::Location::Descriptor;
        Some(Dynamic {
            offset: field.offset,
            relative,
        })
    };
    let fields: Vec<_> = format.fields.iter().filter(read).collect();
    let ends = fields
        .iter()
        .map(|field| field.offset.saturating_add(field.size));
    TracepointProbe {
        id,
        category: category.to_owned(),
        name: format.name.clone(),
        size: ends.max().unwrap_or(8),
        dynamic: fields.iter().copied().filter_map(dynamic).collect(),
    }
}

/// How filters compare an argument that may be of another width at each location: as one that holds them
/// all. `None` where it is a floating-point number at one and an integer at another.
fn compared(locations: &[Vec<Argument>], index: usize) -> Option<Type> {
    let here = || {
        locations
            .iter()
            .filter_map(|arguments| arguments.get(index))
    };
    let bytes = here().map(|argument| argument.width.into()).max()?;
    let floats = here().filter(|argument| argument.float).count();
    match (floats, here().any(|argument| argument.signed)) {
        (0, true) => Some(Type::Signed { bytes }),
        (0, false) => Some(Type::Unsigned { bytes }),
        (floats, _) => (floats == here().count()).then_some(Type::Float { bytes }),
    }
}

fn argument(argument: Option<&Argument>, value: Option<&Option<u64>>) -> Value {
    match (argument, value) {
        // This location has fewer arguments than another one of the probe.
        (None, _) => Value::Absent,
        (
            Some(Argument {
                place: Place::Unsupported(_),
                ..
            }),
            _,
        ) => Value::Unsupported,
        (Some(_), None) => Value::NotCaptured,
        (Some(_), Some(None)) => Value::Fault,
        (
            Some(Argument {
                float: true,
                width: 4,
                ..
            }),
            Some(Some(bits)),
        ) => Value::F32(f32::from_bits(*bits as u32)),
        (Some(Argument { float: true, .. }), Some(Some(bits))) => Value::F64(f64::from_bits(*bits)),
        (Some(argument), Some(Some(bits))) => {
            let bits = Scalar {
                size: argument.width,
                signed: argument.signed,
            }
            .wrap(*bits);
            if argument.signed {
                Value::Signed(bits as i64)
            } else {
                Value::Unsigned(bits)
            }
        }
    }
}
