//! The kernel events that the bridge records as typed data: their fields and how they print.
//!
//! Their records do not come through tracefs, so they do not need it; these are the kernel's own field
//! names and `print fmt`s, as of Linux 6.18. A test compares them with those of the running kernel.

use std::sync::Arc;

use super::format::{FormatField, Location, Shape};
use super::print_fmt::{NoNames, PrintFmt, UnknownForm};
use super::symbols::Symbols;

/// One kernel event.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name in category `sched`.
    pub name: &'static str,
    /// Fields and their types, in order.
    pub fields: &'static [(&'static str, &'static str)],
    /// The arguments of its `print fmt`, quotes included.
    pub print_fmt: &'static str,
}

/// Who leaves the CPU, and who comes.
pub const SCHED_SWITCH: Builtin = Builtin {
    name: "sched_switch",
    fields: &[
        ("prev_comm", "char[16]"),
        ("prev_pid", "pid_t"),
        ("prev_prio", "int"),
        ("prev_state", "long"),
        ("next_comm", "char[16]"),
        ("next_pid", "pid_t"),
        ("next_prio", "int"),
    ],
    print_fmt: r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }) : "R", REC->prev_state & 0x100 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#,
};

const WAKE_FIELDS: &[(&str, &str)] = &[
    ("comm", "char[16]"),
    ("pid", "pid_t"),
    ("prio", "int"),
    ("target_cpu", "int"),
];
const WAKE_PRINT: &str =
    r#""comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#;

/// Somebody wakes a task.
pub const SCHED_WAKING: Builtin = Builtin {
    name: "sched_waking",
    fields: WAKE_FIELDS,
    print_fmt: WAKE_PRINT,
};
/// A task is runnable again.
pub const SCHED_WAKEUP: Builtin = Builtin {
    name: "sched_wakeup",
    fields: WAKE_FIELDS,
    print_fmt: WAKE_PRINT,
};
/// A new task is runnable for the first time.
pub const SCHED_WAKEUP_NEW: Builtin = Builtin {
    name: "sched_wakeup_new",
    fields: WAKE_FIELDS,
    print_fmt: WAKE_PRINT,
};

/// A task moves to another CPU.
pub const SCHED_MIGRATE_TASK: Builtin = Builtin {
    name: "sched_migrate_task",
    fields: &[
        ("comm", "char[]"),
        ("pid", "pid_t"),
        ("prio", "int"),
        ("orig_cpu", "int"),
        ("dest_cpu", "int"),
    ],
    print_fmt: r#""comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", __get_str(comm), REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu"#,
};

/// A task makes another one.
pub const PROCESS_FORK: Builtin = Builtin {
    name: "sched_process_fork",
    fields: &[
        ("parent_comm", "char[]"),
        ("parent_pid", "pid_t"),
        ("child_comm", "char[]"),
        ("child_pid", "pid_t"),
    ],
    print_fmt: r#""comm=%s pid=%d child_comm=%s child_pid=%d", __get_str(parent_comm), REC->parent_pid, __get_str(child_comm), REC->child_pid"#,
};

/// A process runs another program.
pub const PROCESS_EXEC: Builtin = Builtin {
    name: "sched_process_exec",
    fields: &[
        ("filename", "char[]"),
        ("pid", "pid_t"),
        ("old_pid", "pid_t"),
    ],
    print_fmt: r#""filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid"#,
};

/// A task ends.
pub const PROCESS_EXIT: Builtin = Builtin {
    name: "sched_process_exit",
    fields: &[
        ("comm", "char[16]"),
        ("pid", "pid_t"),
        ("prio", "int"),
        ("group_dead", "bool"),
    ],
    print_fmt: r#""comm=%s pid=%d prio=%d group_dead=%s", REC->comm, REC->pid, REC->prio, REC->group_dead ? "true" : "false""#,
};

/// All of them.
pub const ALL: [&Builtin; 8] = [
    &SCHED_SWITCH,
    &SCHED_WAKING,
    &SCHED_WAKEUP,
    &SCHED_WAKEUP_NEW,
    &SCHED_MIGRATE_TASK,
    &PROCESS_FORK,
    &PROCESS_EXEC,
    &PROCESS_EXIT,
];

impl Builtin {
    /// Compiles its `print fmt`.
    ///
    /// # Errors
    /// None that a test would not have seen; the type is that of every compilation.
    pub fn compile(&self) -> Result<PrintFmt, UnknownForm> {
        let fields: Vec<FormatField> = self
            .fields
            .iter()
            .map(|field| format_field(*field))
            .collect();
        PrintFmt::compile(self.print_fmt, &fields, &NoNames, Arc::new(Symbols::none()))
    }
}

/// A field as `print fmt` sees it. It has no place in a record, since there is none.
fn format_field((name, type_name): (&str, &str)) -> FormatField {
    let (size, shape) = match type_name {
        "char[16]" => (16, Shape::Text),
        "char[]" => (4, Shape::DynamicText(Location::Record)),
        "bool" => (1, Shape::Bool),
        "long" => (8, Shape::Integer { signed: true }),
        _ => (4, Shape::Integer { signed: true }),
    };
    FormatField {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        offset: 0,
        size,
        shape,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Value;

    fn printed(builtin: &Builtin, values: &[Value]) -> String {
        let mut out = Vec::new();
        builtin.compile().unwrap().write(values, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_builtin_compiles() {
        for builtin in ALL {
            assert!(builtin.compile().is_ok(), "{}", builtin.name);
        }
    }

    #[test]
    fn sched_switch_prints_as_the_kernel_prints_it() {
        let switch = |state| {
            let values = [
                Value::text(*b"orders"),
                Value::Signed(4242),
                Value::Signed(120),
                Value::Signed(state),
                Value::text(*b"swapper/1"),
                Value::Signed(0),
                Value::Signed(120),
            ];
            printed(&SCHED_SWITCH, &values)
        };
        assert_eq!(
            switch(1),
            "prev_comm=orders prev_pid=4242 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120"
        );
        assert!(switch(0).contains("prev_state=R ==>"));
        assert!(switch(0x100).contains("prev_state=R+ ==>"));
        assert!(switch(0x82).contains("prev_state=D|I ==>"));
    }

    #[test]
    fn a_wakeup_pads_the_cpu_to_three_digits() {
        let values = [
            Value::text(*b"a b"),
            Value::Signed(7),
            Value::Signed(19),
            Value::Signed(1),
        ];
        assert_eq!(
            printed(&SCHED_WAKING, &values),
            "comm=a b pid=7 prio=19 target_cpu=001"
        );
    }
}
