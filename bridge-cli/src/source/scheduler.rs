//! Events of the scheduler, which have records of their own: what they are called, and their values.

use tracebraid_bpf::record::{Body, Task};
use tracebraid_wire::kind::Kind;

use super::slots;
use crate::event::{Comm, Field, Origin, Print, Probe, UNKNOWN_LENGTH, Value};
use crate::tracefs::builtin::Builtin;

/// What the event is called.
pub(super) fn probe(builtin: &Builtin) -> Probe {
    let print = match builtin.compile() {
        Ok(compiled) => Print::Kernel(Box::new(compiled)),
        Err(_) => Print::Plain,
    };
    let field = |(name, type_name): &(&str, &str)| Field::new(*name, *type_name);
    Probe {
        group: "sched".to_owned(),
        name: builtin.name.to_owned(),
        origin: Origin::Kernel,
        fields: builtin.fields.iter().map(field).collect(),
        print,
    }
}

/// Appends the values of an event with a record of its own, in the order of the fields; none where the record is
/// of another sort.
pub(super) fn append(body: Body, tid: u32, values: &mut Vec<Value>) {
    let number = |number: u32| Value::Signed(i64::from(number as i32));
    let comm = |task: &Task| Value::text(Comm(task.comm).bytes());
    let who = |task: &Task| {
        [
            comm(task),
            number(task.tid),
            Value::Signed(task.prio.into()),
        ]
    };
    match body {
        Body::SchedSwitch {
            prev,
            prev_state,
            next,
        } => {
            values.extend(who(&prev));
            values.push(Value::Signed(prev_state as i64));
            values.extend(who(&next));
        }
        Body::Wake { task, target_cpu } => {
            values.extend(who(&task));
            values.push(number(target_cpu));
        }
        Body::Migrate { task, from, to } => {
            values.extend(who(&task));
            values.extend([number(from), number(to)]);
        }
        Body::Fork { parent, child } => values.extend([
            comm(&parent),
            number(parent.tid),
            comm(&child),
            number(child.tid),
        ]),
        Body::Exec { filename, old_tid } => {
            let filename = match slots::text_value(Kind::Str, Some(filename)) {
                // The kernel does not say how long a name was that it cut.
                Value::Text { bytes, full_length } if full_length > bytes.len() as u64 => {
                    Value::Text {
                        bytes,
                        full_length: UNKNOWN_LENGTH,
                    }
                }
                whole => whole,
            };
            values.extend([filename, number(tid), number(old_tid)]);
        }
        Body::Exit { task, group_dead } => {
            values.extend(who(&task));
            values.push(Value::Bool(group_dead));
        }
        Body::Slots { .. }
        | Body::Arguments { .. }
        | Body::Program(_)
        | Body::Tracepoint(_)
        | Body::SysEnter { .. }
        | Body::SysExit { .. } => {}
    }
}
