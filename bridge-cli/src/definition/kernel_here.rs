//! The running kernel, as definitions see it.
//!
//! ```text
//! symbols     /proc/kallsyms (names without rights too, addresses with CAP_SYSLOG)
//! types       /sys/kernel/btf/*
//! events      tracefs: events/GROUP/NAME/format
//! probeable   tracefs: available_filter_functions; debugfs: kprobes/blacklist
//! boundaries  /proc/kcore, decoded from the function's beginning
//! ```
//! Each is read when it is first asked for. Where one cannot be read (lockdown, no rights) its answers
//! are "not known", and attaching finds out.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::btf::AllBtf;
use super::kernel_text::KernelText;
use super::knowledge::{EventField, Kernel, Probeable, Prototype, Symbol, Type, TypeId, Types};
use super::siblings;
use crate::glob::Glob;
use crate::nearest;
use crate::tracefs::Tracefs;
use crate::tracefs::format::{Element, Format, Shape};

/// See the module's page.
#[derive(Debug, Default)]
pub struct KernelHere {
    tracefs: Option<Tracefs>,
    symbols: OnceCell<AllSymbols>,
    types: OnceCell<AllBtf>,
    traceable: OnceCell<Option<HashSet<String>>>,
    blacklist: OnceCell<HashSet<String>>,
    defined: OnceCell<Vec<(String, String)>>,
    text: OnceCell<Option<KernelText>>,
}

/// Lines of `/proc/kallsyms`.
#[derive(Debug, Default)]
pub(super) struct AllSymbols {
    /// In order of address; those without one (no rights) in order of the file.
    pub(super) rows: Vec<Row>,
    /// Indices of rows in order of their names.
    by_name: Vec<u32>,
    modules: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) address: u64,
    /// Such as `t`.
    kind: u8,
    pub(super) name: Box<str>,
    pub(super) module: Option<Box<str>>,
}

impl AllSymbols {
    fn parse(text: &str) -> AllSymbols {
        let mut all = AllSymbols::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ' ');
            let address = parts
                .next()
                .and_then(|text| u64::from_str_radix(text, 16).ok());
            let (Some(address), Some(kind), Some(name)) = (address, parts.next(), parts.next())
            else {
                continue;
            };
            let (name, module) = match name.split_once('\t') {
                Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
                None => (name, None),
            };
            if let Some(module) = module
                && !all.modules.contains(module)
            {
                all.modules.insert(module.to_owned());
            }
            all.rows.push(Row {
                address,
                kind: kind.bytes().next().unwrap_or(b'?'),
                name: name.into(),
                module: module.map(Into::into),
            });
        }
        all.rows.sort_by_key(|row| row.address);
        all.by_name = (0..all.rows.len() as u32).collect();
        let rows = &all.rows;
        all.by_name
            .sort_by(|&a, &b| rows[a as usize].name.cmp(&rows[b as usize].name));
        all
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Row> + 'a {
        let row = |&index: &u32| &self.rows[index as usize];
        let start = self
            .by_name
            .partition_point(|index| *row(index).name < *name);
        self.by_name[start..]
            .iter()
            .map(row)
            .take_while(move |row| *row.name == *name)
    }

    /// All symbols of an address; none where addresses may not be seen.
    pub(super) fn at(&self, address: u64) -> &[Row] {
        let start = self.rows.partition_point(|row| row.address < address);
        let end = self.rows.partition_point(|row| row.address <= address);
        if address == 0 {
            &[]
        } else {
            &self.rows[start..end]
        }
    }

    /// Bytes up to the next symbol.
    fn size(&self, address: u64) -> Option<u64> {
        if address == 0 {
            return None;
        }
        let after = self.rows.partition_point(|row| row.address <= address);
        Some(self.rows.get(after)?.address - address)
    }
}

impl Row {
    pub(super) fn is_code(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }
}

impl KernelHere {
    /// The running kernel; of its events nothing is known without tracefs.
    pub fn new(tracefs: Option<Tracefs>) -> KernelHere {
        KernelHere {
            tracefs,
            ..KernelHere::default()
        }
    }

    pub(super) fn all(&self) -> &AllSymbols {
        self.symbols.get_or_init(|| {
            let text = fs::read("/proc/kallsyms").unwrap_or_default();
            AllSymbols::parse(&String::from_utf8_lossy(&text))
        })
    }

    pub(super) fn btf(&self) -> &AllBtf {
        self.types.get_or_init(|| {
            let mut all = AllBtf::default();
            let directory = Path::new("/sys/kernel/btf");
            let mut add = |path: PathBuf| {
                if let Ok(bytes) = fs::read(path) {
                    all.add(bytes);
                }
            };
            add(directory.join("vmlinux"));
            let files = fs::read_dir(directory).into_iter().flatten().flatten();
            let mut modules: Vec<PathBuf> = files.map(|file| file.path()).collect();
            modules.retain(|path| !path.ends_with("vmlinux"));
            modules.sort();
            modules.into_iter().for_each(add);
            all
        })
    }

    /// The module that a function is in, if it is in one and nowhere else.
    pub(crate) fn module_of(&self, function: &str) -> Option<String> {
        let mut rows = self.all().named(function).filter(|row| row.is_code());
        let module = rows.next()?.module.as_deref()?;
        rows.next().is_none().then(|| module.to_owned())
    }

    /// Whether ftrace has a place at the beginning of a function; `None`: not known.
    pub(crate) fn is_traced(&self, function: &str) -> Option<bool> {
        let traceable = self.traceable()?;
        // Of several names of one place ftrace lists one.
        let is_listed = |row: &Row| traceable.contains(&*row.name);
        let has_place =
            |row: &Row| is_listed(row) || self.all().at(row.address).iter().any(is_listed);
        Some(self.all().named(function).any(has_place))
    }

    /// Functions that ftrace can trace, where that can be read.
    fn traceable(&self) -> Option<&HashSet<String>> {
        self.traceable
            .get_or_init(|| {
                let root = self.tracefs.as_ref()?.root();
                let text = fs::read(root.join("available_filter_functions")).ok()?;
                let text = String::from_utf8_lossy(&text);
                let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
                let all: HashSet<String> = text.lines().filter_map(name).collect();
                (!all.is_empty()).then_some(all)
            })
            .as_ref()
    }

    fn blacklist(&self) -> &HashSet<String> {
        self.blacklist.get_or_init(|| {
            let text = fs::read_to_string("/sys/kernel/debug/kprobes/blacklist");
            let text = text.unwrap_or_default();
            let name = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
            text.lines().filter_map(name).collect()
        })
    }

    fn text(&self) -> Option<&KernelText> {
        self.text.get_or_init(KernelText::open).as_ref()
    }

    fn symbol(&self, row: &Row) -> Symbol {
        Symbol {
            name: row.name.to_string(),
            address: row.address,
            size: self.all().size(row.address),
            probeable: self.probeable(row),
        }
    }

    pub(super) fn probeable(&self, row: &Row) -> Probeable {
        if !row.is_code() {
            return Probeable::NoTrace;
        }
        if self.blacklist().contains(&*row.name) {
            return Probeable::Blacklisted;
        }
        let Some(traceable) = self.traceable() else {
            return Probeable::Yes;
        };
        // Of several names of one place ftrace lists one. Parts of a function (`f.cold`) are as traceable
        // as the function.
        let is_traceable = |row: &Row| {
            let whole = row.name.split('.').next().unwrap_or(&row.name);
            traceable.contains(&*row.name) || traceable.contains(whole)
        };
        match is_traceable(row) || self.all().at(row.address).iter().any(is_traceable) {
            true => Probeable::Yes,
            false => Probeable::NoTrace,
        }
    }

    /// The format of one of the kernel's own events that probes can stand at. Events that somebody has defined
    /// are none, nor are those of the tracers.
    pub(crate) fn event_format(&self, group: &str, name: &str) -> Option<Format> {
        let is_defined = |(own, event): &(String, String)| own == group && event == name;
        if group == "ftrace" || self.defined().iter().any(is_defined) {
            return None;
        }
        self.tracefs.as_ref()?.format(group, name).ok()
    }

    /// Group and name of the events that somebody has defined, by whatever tool.
    fn defined(&self) -> &[(String, String)] {
        self.defined.get_or_init(|| {
            let file = self
                .tracefs
                .as_ref()
                .map(|it| it.root().join("dynamic_events"));
            let text = file
                .and_then(|file| fs::read(file).ok())
                .unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            text.lines().filter_map(defined_event).collect()
        })
    }

    /// Names of functions that resemble a text, the nearest first.
    pub fn similar(&self, name: &str) -> Vec<String> {
        // There are 200,000: only those of about the same length and beginning are compared.
        let first = name.bytes().next();
        let names = self
            .function_names()
            .filter(|other| other.bytes().next() == first && other.len().abs_diff(name.len()) <= 3);
        nearest::nearest(name, names)
    }

    fn function_names(&self) -> impl Iterator<Item = &str> {
        let rows = self.all().rows.iter();
        rows.filter(|row| row.is_code()).map(|row| &*row.name)
    }
}

/// `p:GROUP/NAME …`, as `dynamic_events` lists a probe.
fn defined_event(line: &str) -> Option<(String, String)> {
    let (_, name) = line.split_whitespace().next()?.split_once(':')?;
    let (group, name) = name.split_once('/')?;
    Some((group.to_owned(), name.to_owned()))
}

impl Types for KernelHere {
    fn look(&self, id: TypeId) -> Option<Type> {
        self.btf().look(id)
    }
}

impl Kernel for KernelHere {
    fn symbols(&self, module: Option<&str>, name: &str) -> Vec<Symbol> {
        let rows = self.all().named(name);
        let rows = rows.filter(|row| module.is_none() || row.module.as_deref() == module);
        rows.map(|row| self.symbol(row)).collect()
    }

    fn has_module(&self, name: &str) -> bool {
        self.all().modules.contains(name)
            || Path::new("/sys/module")
                .join(name)
                .join("initstate")
                .exists()
    }

    fn symbol_at(&self, address: u64) -> Option<(Symbol, u64)> {
        let rows = &self.all().rows;
        let after = rows.partition_point(|row| row.address <= address);
        // What nothing follows has no end; what stands before everything has no address.
        rows.get(after)?;
        let start = rows[after.checked_sub(1)?].address;
        let first = rows.partition_point(|row| row.address < start);
        // What is below the kernel's half are offsets of per-CPU data.
        (start >> 63 == 1).then(|| (self.symbol(&rows[first]), address - start))
    }

    fn is_boundary(&self, symbol: &Symbol, offset: u64) -> Option<bool> {
        if symbol.address == 0 {
            return None;
        }
        self.text()?.is_boundary(symbol.address, offset)
    }

    fn is_traced(&self, function: &str) -> Option<bool> {
        KernelHere::is_traced(self, function)
    }

    fn is_entry(&self, symbol: &Symbol, offset: u64) -> bool {
        if symbol.address == 0 {
            return false;
        }
        let address = symbol.address.wrapping_add(offset);
        let begins_with_endbr = |start| {
            self.text()
                .is_some_and(|text| text.begins_with_endbr(start))
        };
        self.symbol_at(address)
            .is_some_and(|(inner, behind)| match behind {
                0 => true,
                4 => begins_with_endbr(inner.address),
                _ => false,
            })
    }

    fn prototype(&self, function: &str) -> Option<Prototype> {
        // Module functions are named with their module, their types are not.
        let name = function.split_once(':').map_or(function, |(_, name)| name);
        match function.contains(':') {
            true => None,
            false => self.btf().prototype(name),
        }
    }

    fn structure(&self, name: &str) -> Option<TypeId> {
        self.btf().structure(name)
    }

    fn tracepoint_function(&self, tracepoint: &str) -> Option<String> {
        let name = format!("__probestub_{tracepoint}");
        self.all()
            .named(&name)
            .next()
            .map(|row| row.name.to_string())
    }

    fn event(&self, group: &str, name: &str) -> Option<Vec<EventField>> {
        let format = self.event_format(group, name)?;
        let field = |field: &crate::tracefs::format::FormatField| EventField {
            name: field.name.clone(),
            offset: field.offset,
            size: field.size,
            signed: matches!(
                field.shape,
                Shape::Integer { signed: true } | Shape::Numbers(Element { signed: true, .. })
            ),
            type_name: field.type_name.clone(),
        };
        Some(format.fields.iter().map(field).collect())
    }

    fn similar_events(&self, group: &str, name: &str) -> Vec<String> {
        let all = self.tracefs.as_ref().and_then(|it| it.tracepoints().ok());
        let all: Vec<String> = all
            .into_iter()
            .flatten()
            .map(|it| format!("{}.{}", it.category, it.name))
            .collect();
        nearest::nearest(&format!("{group}.{name}"), all.iter().map(String::as_str))
    }

    fn similar_functions(&self, name: &str) -> Vec<String> {
        self.similar(name)
    }

    fn siblings(&self, name: &str) -> Vec<String> {
        siblings::of(name, self.function_names())
    }

    fn matching_functions(&self, pattern: &Glob) -> Vec<String> {
        let rows = self.all().rows.iter().filter(|row| row.is_code());
        let mut names: BTreeMap<&str, Option<&Row>> = BTreeMap::new();
        for row in rows.filter(|row| pattern.matches(&row.name)) {
            // What has two places cannot be told apart by its name.
            names
                .entry(&row.name)
                .and_modify(|only| *only = None)
                .or_insert(Some(row));
        }
        let only = names.into_values().flatten();
        only.filter(|row| self.probeable(row) == Probeable::Yes)
            .map(|row| row.name.to_string())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_by_name_with_their_modules_and_sizes() {
        let all = AllSymbols::parse(
            "ffffffff81000000 T first\nffffffff81000040 t twice\nffffffff81000080 D data\n\
             ffffffffc0000010 t twice\t[dummy]\nffffffffc0000020 t last\t[dummy]\n",
        );
        let found: Vec<_> = all
            .named("twice")
            .map(|row| row.module.as_deref())
            .collect();
        assert_eq!(found.len(), 2);
        assert!(found.contains(&None) && found.contains(&Some("dummy")));
        assert_eq!(all.at(0xffff_ffff_8100_0040).len(), 1);
        assert!(all.at(0).is_empty());
        assert_eq!(all.size(0xffff_ffff_8100_0000), Some(0x40));
        assert_eq!(all.size(0xffff_ffff_c000_0020), None);
        assert!(all.modules.contains("dummy"));
        assert!(all.named("absent").next().is_none());
        assert!(!all.named("data").next().unwrap().is_code());
    }

    #[test]
    fn defined_events_are_known_by_group_and_name() {
        let name = |line| defined_event(line).map(|(group, name)| format!("{group}/{name}"));
        assert_eq!(
            name("p:uprobes/up /bin/app:0x10 a=%di").unwrap(),
            "uprobes/up"
        );
        assert_eq!(name("r16:g/ret vfs_read").unwrap(), "g/ret");
        assert_eq!(
            name("e:eprobes/ee sched.sched_switch").unwrap(),
            "eprobes/ee"
        );
        assert_eq!(name("s:wakeup_latency u64 lat"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn without_rights_names_are_there_and_addresses_are_not() {
        let all = AllSymbols::parse("0000000000000000 T first\n0000000000000000 t second\n");
        assert_eq!(all.named("second").count(), 1);
        assert_eq!(all.size(0), None);
    }
}
