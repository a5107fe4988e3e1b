//! Where generated definitions are hit: a small program of ours (`targets/visited.c`), what it calls in the kernel,
//! and what is known to lie in memory there.

use std::path::Path;

use bridge::definition::files_here::FilesHere;
use bridge::definition::knowledge::Files as _;

use crate::older::{NEWEST, Version};
use crate::support::build;

/// What an expression leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The value itself is of interest.
    Value,
    /// It is the address of a text.
    Text,
    /// It is the address of a text behind which nothing is known.
    Short,
    /// It is the address of so many bytes.
    Memory(usize),
    /// It is the address of so many addresses of texts.
    Texts(usize),
    /// It is an address in the kernel's code.
    Code,
    /// It is a `struct dentry *`.
    Dentry,
    /// It is a `struct file *`.
    File,
}

/// Something that is known of a place.
pub(crate) type Root = (&'static str, What);

/// A place that is hit.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) letter: &'static str,
    pub(crate) place: String,
    /// Behind its beginning there are so many bytes, of which any instruction may be probed.
    pub(crate) bytes: u64,
    pub(crate) roots: &'static [Root],
}

/// The program, and all that it hits.
pub(crate) struct Seats {
    pub(crate) command: Vec<String>,
    /// Names that its only thread has.
    pub(crate) names: [&'static str; 2],
    pub(crate) all: Vec<Seat>,
}

use What::{Code, Dentry, File, Memory, Short, Text, Texts, Value};

/// Places in the kernel: letter, place, how much of it is probed inside, and what is known.
const KERNEL: &[(&str, &str, u64, &[Root])] = &[
    ("p", "do_sys_openat2", 0, OPEN),
    ("p", "do_sys_openat2", 60, &[]),
    ("f", "do_sys_openat2", 0, OPEN_BY_NUMBER),
    ("r", "do_sys_openat2", 0, RETURNED),
    ("f", "do_sys_openat2%return", 0, OPEN_BY_NUMBER),
    ("p", "do_sys_openat2%return", 0, RETURNED),
    ("p", "vfs_open", 0, OPENED),
    ("r", "vfs_open", 0, RETURNED),
    ("f", "vfs_open", 0, OPENED_BY_NUMBER),
    ("f", "vfs_open%return", 0, OPENED_BY_NUMBER),
    ("p", "vfs_read", 0, READ),
    ("p", "vfs_read", 90, &[]),
    ("r", "vfs_read", 0, READ_BY_NUMBER),
    ("f", "vfs_read", 0, READ_BY_NUMBER),
    ("f", "vfs_read%return", 0, READ_BY_NUMBER),
    ("p", "vfs_write", 0, READ),
    ("f", "vfs_write", 0, READ_BY_NUMBER),
    ("p", "__x64_sys_getppid", 0, ASKED),
    ("p", "__x64_sys_getppid", 12, &[]),
    ("r", "__x64_sys_getppid", 0, RETURNED),
    ("f", "__x64_sys_getppid", 0, ASKED_BY_NUMBER),
    ("t", "task_rename", 0, RENAMED_BY_NUMBER),
    ("t", "sys_enter", 0, ENTERED_BY_NUMBER),
    ("t", "sys_exit", 0, ENTERED_BY_NUMBER),
    ("e", "task.task_rename", 0, RENAMED),
    ("e", "syscalls.sys_enter_openat", 0, &[("$filename", Text)]),
    ("e", "syscalls/sys_enter_write", 0, &[("$buf", Text)]),
    ("e", "syscalls.sys_exit_openat", 0, &[("$ret", Value)]),
    ("e", "raw_syscalls.sys_enter", 0, &[("$args", Memory(48))]),
    ("e", "raw_syscalls.sys_exit", 0, &[("$ret", Value)]),
];

const OPEN: &[Root] = &[
    ("%si", Text),
    ("%si", Text),
    ("%dx", Memory(24)),
    ("%di", Value),
    ("$stack0", Code),
];
const OPEN_BY_NUMBER: &[Root] = &[("$arg2", Text), ("$arg3", Memory(24)), ("$arg1", Value)];
const OPENED: &[Root] = &[
    ("%di", Memory(16)),
    ("+8(%di)", Dentry),
    ("%si", Memory(64)),
    ("$stack0", Code),
];
const OPENED_BY_NUMBER: &[Root] = &[
    ("$arg1", Memory(16)),
    ("+8($arg1)", Dentry),
    ("$arg2", File),
];
const READ: &[Root] = &[
    ("%di", File),
    ("%si", Memory(5)),
    ("%si", Text),
    ("%cx", Memory(8)),
    ("%dx", Value),
];
const READ_BY_NUMBER: &[Root] = &[("$arg1", File), ("$arg2", Text), ("$arg3", Value)];
/// Registers of the system call, which the C library has filled.
const ASKED: &[Root] = &[
    ("%di", Memory(168)),
    ("+56(%di)", Text),
    ("+56(%di)", Text),
    ("+104(%di)", Value),
];
const ASKED_BY_NUMBER: &[Root] = &[("$arg1", Memory(168)), ("+56($arg1)", Text)];
const RETURNED: &[Root] = &[("$retval", Value)];
const RENAMED_BY_NUMBER: &[Root] = &[("$arg2", Text), ("$arg1", Memory(64))];
const ENTERED_BY_NUMBER: &[Root] = &[("$arg1", Memory(168)), ("$arg2", Value)];
/// Behind the text the record has what its memory had before.
const RENAMED: &[Root] = &[
    ("$newcomm", Memory(NAME)),
    ("$oldcomm", Memory(NAME)),
    ("$newcomm", Short),
    ("$oldcomm", Short),
    ("$pid", Value),
];
/// Bytes of either name of the program's thread, with the one that ends it.
const NAME: usize = 8;

/// Functions of the program, and what is known at their beginnings.
const FILE: &[(&str, &[Root], &[Root])] = &[
    (
        "told",
        &[
            ("%dx", Text),
            ("%r9", Memory(88)),
            ("+8(%r9)", Text),
            ("+40(%r9)", Text),
            ("%r9", Memory(88)),
            ("+0(%r9)", Memory(88)),
            ("+8(+0(%r9))", Text),
            ("%cx", Value),
            ("%r8", Value),
        ],
        RETURNED,
    ),
    (
        "chosen",
        &[
            ("%di", Memory(88)),
            ("%si", Texts(3)),
            ("+8(%di)", Text),
            ("+8(+0(%di))", Text),
            ("+72(%di)", Text),
            ("%dx", Value),
        ],
        &[("$retval", Text), ("$retval", Text)],
    ),
    (
        "many",
        &[
            ("$stack1", Text),
            ("$stack2", Value),
            ("$stack", Memory(24)),
            ("%r9", Value),
        ],
        RETURNED,
    ),
    (
        "behind",
        &[
            ("%di", Memory(88)),
            ("+0(+0(%di))", Memory(40)),
            ("+72(%di)", Text),
            ("+8(%di)", Text),
        ],
        &[("$retval", Memory(88)), ("+8($retval)", Text)],
    ),
];

impl Seats {
    pub(crate) fn new() -> Seats {
        let program = build("visited");
        let path = program.display().to_string();
        // Without kprobes there are those of the program.
        let of_kernel = match Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
            true => KERNEL,
            false => &[],
        };
        // Before, an array's value is its first eight bytes.
        let is_array = |root: &Root| root.0 == "$args";
        let has_arrays = Version::here() >= NEWEST;
        let of_kernel = of_kernel
            .iter()
            .filter(|(_, _, _, roots)| has_arrays || !roots.iter().any(is_array));
        let kernel = of_kernel.map(|&(letter, place, bytes, roots)| Seat {
            letter,
            place: place.to_owned(),
            bytes,
            roots,
        });
        let mut all: Vec<Seat> = kernel.collect();
        let binary = FilesHere::new().open(&path).expect("it is there");
        for (function, at_entry, at_return) in FILE {
            let (offset, bytes) = binary.functions(function)[0];
            let seat = |letter, bytes, roots| Seat {
                letter,
                place: format!("{path}:{offset:#x}"),
                bytes,
                roots,
            };
            all.extend([
                seat("p", 0, *at_entry),
                seat("p", 0, *at_entry),
                seat("p", bytes, &[]),
                seat("r", 0, *at_return),
            ]);
        }
        Seats {
            command: vec![path, "/etc/passwd".to_owned()],
            names: ["visited", "renamed"],
            all,
        }
    }
}
