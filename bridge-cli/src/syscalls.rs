//! System calls: their numbers, and the names under which the kernel lists them as tracepoints.
//!
//! `syscalls:sys_enter_X` and `syscalls:sys_exit_X` are recorded by one raw tracepoint each way, which
//! knows numbers only. The numbers come from the crate `syscalls`; a few of the kernel's tracepoints
//! carry the name of the C function instead of the call's (`newfstat` for `fstat`), and calls younger
//! than the crate's table are listed here.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use syscalls::Sysno;

/// Prefix of entries.
pub const ENTER: &str = "sys_enter_";
/// Prefix of exits.
pub const EXIT: &str = "sys_exit_";
/// Their category.
pub const CATEGORY: &str = "syscalls";

/// The call's name, and the name in its tracepoints.
#[cfg(target_arch = "x86_64")]
const RENAMED: &[(&str, &str)] = &[
    ("stat", "newstat"),
    ("fstat", "newfstat"),
    ("lstat", "newlstat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
];
#[cfg(not(target_arch = "x86_64"))]
const RENAMED: &[(&str, &str)] = &[
    ("fstat", "newfstat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
];

/// Calls that the crate's table does not have yet: these numbers are the same on every architecture.
const YOUNGER: &[(u32, &str)] = &[
    (468, "file_getattr"),
    (469, "file_setattr"),
    (470, "listns"),
];

fn table() -> &'static BTreeMap<u32, &'static str> {
    static TABLE: OnceLock<BTreeMap<u32, &'static str>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<u32, &'static str> = YOUNGER.iter().copied().collect();
        for call in Sysno::iter() {
            let name = call.name();
            let traced = RENAMED
                .iter()
                .find(|(own, _)| *own == name)
                .map_or(name, |(_, traced)| traced);
            if let Ok(number) = u32::try_from(call.id()) {
                table.insert(number, traced);
            }
        }
        table
    })
}

/// The name of call `number` as tracepoints have it: `fsync`, `newfstat`.
pub fn name(number: u32) -> Option<&'static str> {
    table().get(&number).copied()
}

/// The number of the call whose tracepoints have this name.
pub fn number(name: &str) -> Option<u32> {
    table()
        .iter()
        .find(|(_, own)| **own == name)
        .map(|(number, _)| *number)
}

/// Every call, in order of number.
pub fn all() -> impl Iterator<Item = (u32, &'static str)> {
    table().iter().map(|(number, name)| (*number, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_number() {
        for (own, called) in all() {
            assert_eq!(number(called), Some(own), "{called}");
            assert_eq!(name(own), Some(called));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn known_calls_have_their_known_numbers() {
        assert_eq!(number("read"), Some(0));
        assert_eq!(number("fsync"), Some(74));
        assert_eq!(number("newfstat"), Some(5));
        assert_eq!(number("fstat"), None);
        assert_eq!(number("newfstatat"), Some(262));
    }
}
