//! The files of this machine, as definitions see them.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::dwarf::{DebugInfo, Instance};
use super::knowledge::{Binary, FileTrouble, Files, Inlined, Type, TypeId, Types, UserParameter};
use super::rejection::Errno;
use super::siblings;
use super::usdt_probe::UsdtSite;
use crate::glob::Glob;
use crate::instructions;
use crate::nearest;
use crate::target::functions::{Around, Function};
use crate::target::{self, Place, Process, Semaphore};

/// Files by their paths; each is read once.
#[derive(Default)]
pub struct FilesHere {
    /// As the targets see them.
    views: Vec<View>,
    /// The files that the targets run, as they call them.
    mapped: Vec<PathBuf>,
    opened: RefCell<HashMap<String, Rc<dyn Binary>>>,
}

/// Files as a target sees them.
struct View {
    pid: u32,
    /// Where a path is looked for: the target may be in another mount namespace.
    root: PathBuf,
    /// What it runs that is gone from under its name, and where that is to be had.
    replaced: HashMap<PathBuf, PathBuf>,
}

impl std::fmt::Debug for FilesHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesHere").finish_non_exhaustive()
    }
}

/// Where programs and libraries are that are named without their directory.
const DIRECTORIES: [&str; 10] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/sbin",
];

impl FilesHere {
    /// This machine's, as this process sees them.
    pub fn new() -> FilesHere {
        FilesHere::default()
    }

    /// The same, as these processes see them, the first before the others.
    pub fn of<'a>(processes: impl IntoIterator<Item = &'a Process>) -> FilesHere {
        let mut files = FilesHere::default();
        for process in processes {
            let mut view = View {
                pid: process.pid(),
                root: format!("/proc/{}/root", process.pid()).into(),
                replaced: HashMap::new(),
            };
            // Of a process that has ended nothing is known; that is told by whoever attaches.
            let mappings = process.mappings().unwrap_or_default();
            for mapping in mappings.iter().filter(|mapping| mapping.executable) {
                let (name, place) = process.name_of(mapping);
                view.replaced
                    .extend(place.map(|place| (name.clone(), place)));
                if !files.mapped.contains(&name) {
                    files.mapped.push(name);
                }
            }
            files.views.push(view);
        }
        files
    }

    /// Where this process finds the file that a path means: the one that the first target means that has it.
    pub fn place(&self, path: &str) -> PathBuf {
        let mut places = self.views.iter().filter_map(|view| view.place(path));
        places.next().unwrap_or_else(|| PathBuf::from(path))
    }

    /// The targets for which a path leads to another file than the one that it means.
    pub fn elsewhere(&self, path: &str) -> Vec<u32> {
        let identity = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        let meant = identity(&self.place(path));
        let differs = |view: &&View| {
            let place = view.place(path).and_then(|place| identity(&place));
            place.is_some() && place != meant
        };
        let others = self.views.iter().filter(differs);
        others.map(|view| view.pid).collect()
    }
}

impl View {
    /// The file that the target runs although it was removed or replaced, else the one below its root if it is
    /// there.
    fn place(&self, path: &str) -> Option<PathBuf> {
        // The target calls its files by whole names.
        let whole = std::path::absolute(path).ok()?;
        let replaced = self.replaced.get(&whole);
        let replaced = replaced.or_else(|| self.replaced.get(&without_links(&whole)?));
        if let Some(place) = replaced {
            return Some(place.clone());
        }
        let inside = self.root.join(whole.strip_prefix("/").ok()?);
        inside.exists().then_some(inside)
    }
}

/// A path by the directory that it leads to; the file itself need not be there any more.
fn without_links(path: &Path) -> Option<PathBuf> {
    let directory = path.parent()?.canonicalize().ok()?;
    Some(directory.join(path.file_name()?))
}

/// Whether a file is one that is called `name` for short: `libc` is `libc.so.6`, and `c` as well.
fn is_called(path: &Path, name: &str) -> bool {
    let Some(file) = path.file_name().and_then(OsStr::to_str) else {
        return false;
    };
    let stem = file.split(".so").next().unwrap_or(file);
    file == name || stem == name || stem.strip_prefix("lib") == Some(name)
}

/// Why there is nothing at a path.
fn trouble(error: &std::io::Error) -> FileTrouble {
    match error.raw_os_error() {
        Some(libc::ENAMETOOLONG) => FileTrouble::NotReached(Errno::Enametoolong),
        Some(libc::ENOTDIR) => FileTrouble::NotReached(Errno::Enotdir),
        Some(libc::ELOOP) => FileTrouble::NotReached(Errno::Eloop),
        Some(libc::EACCES) => FileTrouble::NotReached(Errno::Eacces),
        _ => FileTrouble::NotFound,
    }
}

impl Files for FilesHere {
    fn open(&self, path: &str) -> Result<Rc<dyn Binary>, FileTrouble> {
        if let Some(binary) = self.opened.borrow().get(path) {
            return Ok(Rc::clone(binary));
        }
        let place = self.place(path);
        let metadata = std::fs::metadata(&place).map_err(|error| trouble(&error))?;
        if !metadata.is_file() {
            return Err(FileTrouble::NotRegular);
        }
        let binary: Rc<dyn Binary> = Rc::new(BinaryHere::open(&place, Path::new(path)));
        self.opened
            .borrow_mut()
            .insert(path.to_owned(), Rc::clone(&binary));
        Ok(binary)
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let mapped = self.mapped.iter().find(|path| is_called(path, name));
        if let Some(mapped) = mapped {
            return Some(mapped.clone());
        }
        let names = [
            name.to_owned(),
            format!("{name}.so.6"),
            format!("{name}.so"),
            format!("lib{name}.so.6"),
            format!("lib{name}.so"),
        ];
        let places = DIRECTORIES.iter().flat_map(|directory| {
            names
                .iter()
                .map(move |name| Path::new(directory).join(name))
        });
        places.into_iter().find(|path| path.is_file())
    }
}

/// One file.
#[derive(Debug)]
struct BinaryHere {
    identity: (u64, u64),
    opened: Result<target::Binary, String>,
    functions: OnceCell<(Vec<Function>, Around)>,
    debug_info: OnceCell<Result<DebugInfo, String>>,
}

/// Bytes of a function's code that its parameters are looked for in.
pub(crate) const PROLOGUE: u64 = 1024;

impl BinaryHere {
    fn open(place: &Path, path: &Path) -> BinaryHere {
        let identity = std::fs::metadata(place).map(|metadata| (metadata.dev(), metadata.ino()));
        BinaryHere {
            identity: identity.unwrap_or_default(),
            opened: target::Binary::open_as(place, path).map_err(|error| error.with_causes()),
            functions: OnceCell::new(),
            debug_info: OnceCell::new(),
        }
    }

    fn all(&self) -> &(Vec<Function>, Around) {
        self.functions.get_or_init(|| {
            let functions = match &self.opened {
                Ok(binary) => binary.functions(),
                Err(_) => Vec::new(),
            };
            let around = Around::new(&functions);
            (functions, around)
        })
    }
}

impl BinaryHere {
    fn debug_info(&self) -> Result<&DebugInfo, &String> {
        let read = || match &self.opened {
            Ok(binary) => DebugInfo::of(binary),
            Err(why) => Err(why.clone()),
        };
        self.debug_info.get_or_init(read).as_ref()
    }
}

impl Types for BinaryHere {
    fn look(&self, id: TypeId) -> Option<Type> {
        self.debug_info().ok()?.look(id)
    }
}

impl Binary for BinaryHere {
    fn identity(&self) -> (u64, u64) {
        self.identity
    }

    fn unfit(&self) -> Option<String> {
        match &self.opened {
            Ok(binary) => binary.unfit().map(|unfit| format!("it is {unfit}")),
            Err(why) => Some(why.clone()),
        }
    }

    fn functions(&self, name: &str) -> Vec<(u64, u64)> {
        let called = || {
            let functions = self.all().0.iter();
            functions.filter(|function| function.is_called(name))
        };
        // Of several versions that one is meant which programs are linked with today.
        let has_new = called().any(|function| !function.is_old());
        let mut found: Vec<(u64, u64)> = called()
            .filter(|function| !has_new || name.contains('@') || !function.is_old())
            .map(|function| (function.offset, function.size))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn similar_functions(&self, name: &str) -> Vec<String> {
        nearest::nearest(name, self.all().0.iter().map(Function::shown))
    }

    fn matching_functions(&self, pattern: &Glob) -> Vec<String> {
        let mut places = HashSet::new();
        // Several names of one place are one probe.
        let matching: Vec<&Function> = self
            .all()
            .0
            .iter()
            .filter(|function| function.is_matched_by(pattern) && places.insert(function.offset))
            .collect();
        let mut times = HashMap::new();
        for function in &matching {
            *times.entry(function.shown()).or_insert(0) += 1;
            if function.name.is_some() {
                *times.entry(&function.symbol).or_insert(0) += 1;
            }
        }
        // What is read again as one place: instances of a generic function are told by their symbols, and
        // functions of one symbol by where they are.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | ':');
        let name = |function: &&Function| match function.shown() {
            shown if times[shown] == 1 && shown.chars().all(plain) => shown.to_owned(),
            _ if times[function.symbol.as_str()] == 1 => function.symbol.clone(),
            _ => format!("{:#x}", function.offset),
        };
        let mut names: Vec<String> = matching.iter().map(name).collect();
        names.sort();
        names
    }

    fn obstacle(&self, offset: u64) -> Option<String> {
        let binary = self.opened.as_ref().ok()?;
        let Some(address) = binary.address_of(offset) else {
            return Some(format!(
                "offset {offset:#x} is in no part of the file that is loaded"
            ));
        };
        if !matches!(
            binary.place(address),
            Place::File {
                executable: true,
                ..
            }
        ) {
            return Some(format!("offset {offset:#x} is no code"));
        }
        if let Some(site) = binary.sdk().site_at(offset, 1) {
            return Some(format!(
                "offset {offset:#x} is a site of the tracepoint at {}:{}, whose bytes the program switches itself",
                site.file, site.line
            ));
        }
        if binary.is_harmful_to_probe(address) {
            return Some(format!(
                "at offset {offset:#x} stands a 5-byte nop, which this kernel replaces by a call that overwrites the program's stack"
            ));
        }
        let (functions, around) = self.all();
        let function = &functions[around.find(offset)?];
        let code = binary.code(function.address, offset - function.offset + 16)?;
        match instructions::is_boundary(&code, offset - function.offset) {
            Some(false) => Some(format!(
                "offset {offset:#x} is in the middle of an instruction of {}",
                function.shown()
            )),
            _ => None,
        }
    }

    fn parameters(&self, offset: u64) -> Result<Vec<UserParameter>, String> {
        let binary = self.opened.as_ref().map_err(Clone::clone)?;
        let debug_info = self.debug_info().map_err(Clone::clone)?;
        let address = binary
            .address_of(offset)
            .ok_or("it is in no part of the file that is loaded")?;
        let code = binary.code(address, PROLOGUE).unwrap_or_default();
        debug_info.parameters(address, &code).ok_or_else(|| {
            format!("the debug information knows no function that begins at offset {offset:#x}")
        })
    }

    fn types(&self) -> &dyn Types {
        self
    }

    fn type_name(&self, id: TypeId) -> String {
        match self.debug_info() {
            Ok(debug_info) => debug_info.type_name(id),
            Err(_) => "?".to_owned(),
        }
    }

    fn implementations(&self, symbol: &str) -> Option<Vec<String>> {
        let binary = self.opened.as_ref().ok()?;
        let (address, size) = binary.chooser(symbol)?;
        let code = binary.code(address, size).unwrap_or_default();
        let chosen = instructions::addresses_taken(&code, address);
        let functions = self.all().0.iter();
        let mut names: Vec<String> = functions
            .filter(|function| chosen.contains(&function.address))
            .map(|function| function.shown().to_owned())
            .collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            // Code for one address does not say them so.
            let related = self.all().0.iter().map(Function::shown);
            names = related
                .filter(|name| name.contains(symbol))
                .map(str::to_owned)
                .collect();
        }
        Some(names)
    }

    fn libraries_with(&self, name: &str) -> Vec<String> {
        let needed = self.opened.as_ref().map(target::Binary::needed);
        let needed = needed.unwrap_or_default().into_iter();
        let has_it = |library: &String| {
            let mut places = DIRECTORIES.iter();
            let place = places.find_map(|directory| {
                let place = Path::new(directory).join(library);
                target::Binary::open(&place).ok()
            });
            let functions = place.map(|binary| binary.functions()).unwrap_or_default();
            functions.iter().any(|function| function.is_called(name))
        };
        needed.filter(has_it).collect()
    }

    fn moves_its_stacks(&self) -> bool {
        self.opened.as_ref().is_ok_and(target::Binary::is_of_go)
    }

    fn usdt(&self, provider: &Glob, name: &Glob) -> Vec<UsdtSite> {
        let probes = self
            .opened
            .as_ref()
            .map_or(&[][..], target::Binary::usdt_probes);
        let wanted = probes
            .iter()
            .filter(|probe| provider.matches(&probe.provider) && name.matches(&probe.name));
        let sites = wanted.flat_map(|probe| {
            probe.locations.iter().filter_map(|location| {
                let Place::File { offset, .. } = location.place else {
                    return None;
                };
                let counter = match location.semaphore {
                    Semaphore::InFile { offset, .. } => offset,
                    _ => 0,
                };
                let arguments = location.arguments.iter();
                Some(UsdtSite {
                    provider: probe.provider.clone(),
                    name: probe.name.clone(),
                    offset,
                    counter,
                    arguments: arguments
                        .map(|argument| (argument.place.clone(), argument.kind.name()))
                        .collect(),
                })
            })
        });
        sites.collect()
    }

    fn inlined(&self, name: &str) -> Vec<Inlined> {
        let Ok(debug_info) = self.debug_info() else {
            return Vec::new();
        };
        let offset = |address: u64| {
            let functions = self.all().0.iter();
            let mut around =
                functions.filter(|one| (one.address..one.address + one.size).contains(&address));
            let around = around.next()?;
            Some(around.offset + (address - around.address))
        };
        let instances = debug_info.inlined(name).into_iter();
        let instance = |one: Instance| Inlined {
            caller: one.caller,
            called_at: one.called_at,
            offset: one.address.and_then(offset),
        };
        instances.map(instance).collect()
    }

    fn siblings(&self, name: &str) -> Vec<String> {
        let functions = self.all().0.iter().map(|one| one.symbol.as_str());
        siblings::of(name, functions)
    }
}
