//! What generated definitions name: functions, structures, tracepoints and events of the kernel that
//! judges, and files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use bridge::definition::kernel_here::KernelHere;
use bridge::definition::knowledge::{Kernel, Type, TypeId, Types};

use crate::random::Random;

/// See the module's page.
pub(crate) struct Vocabulary<'a> {
    pub(crate) kernel: &'a KernelHere,
    /// Symbols of code, in order of their names.
    code: Vec<String>,
    /// Those of them that can be probed, have one place, and types.
    good: Vec<String>,
    /// Every symbol, whatever it is.
    symbols: Vec<String>,
    /// Tracepoints, also those without an event of the same name.
    tracepoints: Vec<String>,
    /// Groups and names of events.
    events: Vec<(String, String)>,
    /// Files, and offsets of functions in them.
    pub(crate) files: Vec<(PathBuf, Vec<u64>)>,
}

/// Functions that every kernel has, and others that are special.
const GOOD: usize = 12;

const FUNCTIONS: [&str; 22] = [
    "vfs_read",
    "vfs_read",
    "vfs_write",
    "vfs_open",
    "do_sys_openat2",
    "do_sys_openat2",
    "__x64_sys_getppid",
    "kfree",
    "kernel_clone",
    "wake_up_new_task",
    "tcp_sendmsg",
    "vfs_statx",
    "dentry_open",
    "dummy:dummy_xmit",
    "dummy_xmit",
    "dummy:no_such_function",
    "absent:dummy_xmit",
    "no_such_function",
    "do_int3",
    "sched_clock",
    "name_show",
    "jiffies",
];

const STRUCTURES: [&str; 8] = [
    "file",
    "task_struct",
    "dentry",
    "inode",
    "sk_buff",
    "net_device",
    "sock",
    "no_such_structure",
];

impl<'a> Vocabulary<'a> {
    pub(crate) fn of(
        kernel: &'a KernelHere,
        tracefs: &Path,
        files: Vec<(PathBuf, Vec<u64>)>,
    ) -> Self {
        let text = fs::read("/proc/kallsyms").expect("the kernel's symbols can be read");
        let text = String::from_utf8_lossy(&text);
        let (mut symbols, mut code) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(_), Some(kind), Some(name), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            symbols.push(name.to_owned());
            if matches!(kind, "t" | "T") {
                code.push(name.to_owned());
            }
        }
        for list in [&mut symbols, &mut code] {
            list.sort();
            list.dedup();
        }
        let stub = "__probestub_";
        let tracepoints = code.iter().filter_map(|name| {
            name.strip_prefix(stub)
                .or(name.strip_prefix("__traceiter_"))
        });
        let mut tracepoints: Vec<String> = tracepoints.map(str::to_owned).collect();
        tracepoints.sort();
        tracepoints.dedup();
        code.retain(|name| !name.contains(stub) && !name.starts_with("__pfx_"));
        let traced = fs::read_to_string(tracefs.join("available_filter_functions"));
        // Lockdown hides them, where only programs can be probed.
        let traced = traced.unwrap_or_default();
        let mut good: Vec<String> = traced
            .lines()
            .filter(|line| !line.contains([' ', '.']))
            .map(str::to_owned)
            .collect();
        good.sort();
        let several: HashSet<String> = good
            .windows(2)
            .filter(|two| two[0] == two[1])
            .map(|two| two[0].clone())
            .collect();
        good.retain(|name| !several.contains(name) && kernel.prototype(name).is_some());
        let events = fs::read_to_string(tracefs.join("available_events")).unwrap_or_default();
        let mut events: Vec<(String, String)> = events
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(group, name)| (group.to_owned(), name.to_owned()))
            .collect();
        events.sort();
        Vocabulary {
            kernel,
            code,
            good,
            symbols,
            tracepoints,
            events,
            files,
        }
    }

    /// A symbol to be probed.
    pub(crate) fn function(&self, random: &mut Random) -> String {
        match random.below(20) {
            0..=8 => (random.text(&FUNCTIONS)).to_owned(),
            9..=17 => random.one(&self.code).clone(),
            _ => random.one(&self.symbols).clone(),
        }
    }

    /// One that can be probed, and of which the kernel has types.
    pub(crate) fn good_function(&self, random: &mut Random) -> String {
        match random.below(3) {
            0 => random.text(&FUNCTIONS[..GOOD]).to_owned(),
            _ => random.one(&self.good).clone(),
        }
    }

    /// A symbol of data or code.
    pub(crate) fn symbol(&self, random: &mut Random) -> String {
        match random.below(3) {
            0 => random.one(&self.symbols).clone(),
            _ => (random.text(&["jiffies", "linux_banner", "vfs_read", "no_such_data"])).to_owned(),
        }
    }

    pub(crate) fn tracepoint(&self, random: &mut Random) -> String {
        let known = [
            "sched_switch",
            "task_rename",
            "sched_wakeup",
            "no_such_tracepoint",
        ];
        match random.below(3) {
            0 => (random.text(&known)).to_owned(),
            _ => random.one(&self.tracepoints).clone(),
        }
    }

    pub(crate) fn event(&self, random: &mut Random) -> (String, String) {
        let known = [
            ("sched", "sched_switch"),
            ("raw_syscalls", "sys_enter"),
            ("net", "net_dev_queue"),
        ];
        match random.below(3) {
            0 => {
                let (group, name) = *random.one(&known);
                (group.to_owned(), name.to_owned())
            }
            _ => random.one(&self.events).clone(),
        }
    }

    pub(crate) fn fields(&self, (group, name): &(String, String)) -> Vec<String> {
        let fields = self.kernel.event(group, name).unwrap_or_default();
        fields.into_iter().map(|field| field.name).collect()
    }

    pub(crate) fn structure(&self, random: &mut Random) -> &'static str {
        random.text(&STRUCTURES)
    }

    /// A way of some steps through members of the type, as it would be written behind a name.
    pub(crate) fn way(&self, random: &mut Random, from: TypeId) -> String {
        match self.kernel.look(from) {
            Some(Type::Pointer(to)) => self.way_in(random, to),
            _ => String::new(),
        }
    }

    /// The same from a structure that is pointed to.
    pub(crate) fn way_in(&self, random: &mut Random, mut at: TypeId) -> String {
        let mut written = String::new();
        let mut separator = "->";
        for _ in 0..4 {
            let Some((name, next)) = self.member(random, at) else {
                break;
            };
            written.push_str(separator);
            written.push_str(&name);
            match self.kernel.look(next) {
                Some(Type::Pointer(to)) => (at, separator) = (to, "->"),
                Some(Type::Composite(_)) => (at, separator) = (next, "."),
                _ => break,
            }
            if random.percent(45) {
                break;
            }
            if random.percent(4) {
                separator = random.text(&["->", ".", "-", ""]);
            }
        }
        written
    }

    /// A member of a structure, also of those without a name inside it.
    fn member(&self, random: &mut Random, mut of: TypeId) -> Option<(String, TypeId)> {
        loop {
            let Some(Type::Composite(members)) = self.kernel.look(of) else {
                return None;
            };
            if members.is_empty() {
                return None;
            }
            let member = random.one(&members);
            if !member.name.is_empty() {
                return Some((member.name.clone(), member.type_id));
            }
            of = member.type_id;
        }
    }
}
