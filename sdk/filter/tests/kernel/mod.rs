//! Events of a kernel as filters see them: their fields, and functions that the kernel has.

use std::ops::Range;

use tracebraid_filter::{Field, Fields, Function, Type};

const S2: Type = Type::Signed { bytes: 2 };
const S4: Type = Type::Signed { bytes: 4 };
const S8: Type = Type::Signed { bytes: 8 };
const U1: Type = Type::Unsigned { bytes: 1 };
const U2: Type = Type::Unsigned { bytes: 2 };
const U4: Type = Type::Unsigned { bytes: 4 };
const U8: Type = Type::Unsigned { bytes: 8 };

const COMMON: &[(&str, Type)] = &[
    ("common_type", U2),
    ("common_flags", U1),
    ("common_preempt_count", U1),
    ("common_pid", S4),
];

const EVENTS: &[(&str, &[(&str, Type)])] = &[
    (
        "sched_switch",
        &[
            ("prev_comm", Type::Text),
            ("prev_pid", S4),
            ("prev_prio", S4),
            ("prev_state", S8),
            ("next_comm", Type::Text),
            ("next_pid", S4),
            ("next_prio", S4),
        ],
    ),
    (
        "sched_wakeup",
        &[
            ("comm", Type::Text),
            ("pid", S4),
            ("prio", S4),
            ("target_cpu", S4),
        ],
    ),
    (
        "kmalloc",
        &[
            ("call_site", U8),
            ("ptr", U8),
            ("bytes_req", U8),
            ("bytes_alloc", U8),
            ("gfp_flags", U8),
            ("node", S4),
        ],
    ),
    (
        "sys_enter_openat",
        &[
            ("__syscall_nr", S4),
            ("dfd", U8),
            ("filename", Type::Text),
            ("flags", U8),
            ("mode", U8),
            ("__filename_val", Type::Text),
        ],
    ),
    (
        "raw_sys_enter",
        &[("id", S8), ("args", Type::Unsigned { bytes: 48 })],
    ),
    (
        "task_rename",
        &[
            ("pid", S4),
            ("oldcomm", Type::Text),
            ("newcomm", Type::Text),
            ("oom_score_adj", S2),
        ],
    ),
    (
        "probe",
        &[
            ("__probe_ip", U8),
            ("u8v", U1),
            ("s8v", Type::Signed { bytes: 1 }),
            ("u16v", U2),
            ("s16v", S2),
            ("u32v", U4),
            ("s32v", S4),
            ("u64v", U8),
            ("s64v", S8),
            ("x", U8),
            ("bf", U1),
            ("str", Type::Text),
            ("imms", Type::Text),
            ("sarr", Type::Text),
            ("arr", U2),
        ],
    ),
    // A whole group: the fields that each of its events has.
    ("sched", &[]),
];

/// A function at an address that the tables name.
pub(crate) const VFS_READ: Range<u64> = 0xffff_ffff_8123_4500..0xffff_ffff_8123_4600;
/// Where the probe of the event `probe` sits.
pub(crate) const GETPPID: Range<u64> = 0xffff_ffff_8100_0000..0xffff_ffff_8100_0080;

/// An event of this kernel, on a machine with two CPUs.
pub(crate) struct Event {
    fields: Vec<(&'static str, Type)>,
}

impl Event {
    pub(crate) fn named(name: &str) -> Event {
        let (_, own) = EVENTS
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("no event {name}"));
        Event {
            fields: own.iter().chain(COMMON).copied().collect(),
        }
    }
}

impl Fields for Event {
    fn field(&self, name: &str) -> Option<Field> {
        let index = self.fields.iter().position(|(known, _)| *known == name)?;
        Some(Field {
            index: index as u16,
            kind: self.fields[index].1,
        })
    }

    fn function(&self, wanted: Function<'_>) -> Option<Range<u64>> {
        match wanted {
            Function::At(address) => VFS_READ.contains(&address).then_some(VFS_READ),
            Function::Name("vfs_read") => Some(VFS_READ),
            Function::Name("__x64_sys_getppid") => Some(GETPPID),
            Function::Name(
                "kernel_clone" | "alloc_pipe_info" | "load_elf_phdrs" | "alloc_bprm" | "jiffies"
                | "dummy:dummy_xmit",
            ) => Some(1..2),
            Function::Name(_) => None,
        }
    }

    fn cpus(&self) -> u16 {
        2
    }
}
