//! The files of this machine, as definitions see them.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::knowledge::{Binary, FileTrouble, Files, Type, TypeId, Types, UserParameter};
use crate::glob::Glob;
use crate::instructions;
use crate::nearest;
use crate::target::functions::{Around, Function};
use crate::target::{self, Place};

/// Files by their paths; each is read once.
#[derive(Default)]
pub struct FilesHere {
    /// Where a path is looked for that leads to nothing: the root of a process in another mount namespace.
    root: Option<PathBuf>,
    opened: RefCell<HashMap<String, Rc<dyn Binary>>>,
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

    /// The same, and what only a process under this root sees.
    pub fn in_root(root: Option<PathBuf>) -> FilesHere {
        FilesHere {
            root,
            ..FilesHere::default()
        }
    }

    /// The path, or that below the root where the path leads to nothing.
    fn place(&self, path: &str) -> PathBuf {
        let place = PathBuf::from(path);
        match (&self.root, path.strip_prefix('/')) {
            (Some(root), Some(below)) if !place.exists() => root.join(below),
            _ => place,
        }
    }
}

impl Files for FilesHere {
    fn open(&self, path: &str) -> Result<Rc<dyn Binary>, FileTrouble> {
        if let Some(binary) = self.opened.borrow().get(path) {
            return Ok(Rc::clone(binary));
        }
        let place = self.place(path);
        let metadata = std::fs::metadata(&place).map_err(|_| FileTrouble::NotFound)?;
        if !metadata.is_file() {
            return Err(FileTrouble::NotRegular);
        }
        let binary: Rc<dyn Binary> = Rc::new(BinaryHere::open(&place));
        self.opened
            .borrow_mut()
            .insert(path.to_owned(), Rc::clone(&binary));
        Ok(binary)
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
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
}

impl BinaryHere {
    fn open(path: &Path) -> BinaryHere {
        use std::os::unix::fs::MetadataExt;
        let identity = std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
        BinaryHere {
            identity: identity.unwrap_or_default(),
            opened: target::Binary::open(path).map_err(|error| error.with_causes()),
            functions: OnceCell::new(),
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

impl Types for BinaryHere {
    fn look(&self, _id: TypeId) -> Option<Type> {
        None
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
        let mut found: Vec<(u64, u64)> = self
            .all()
            .0
            .iter()
            .filter(|function| function.is_called(name))
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
        let matches = |function: &&Function| {
            pattern.matches(&function.symbol)
                || function
                    .name
                    .as_deref()
                    .is_some_and(|name| pattern.matches(name))
        };
        let matching: Vec<&Function> = self.all().0.iter().filter(matches).collect();
        let mut times = HashMap::new();
        for function in &matching {
            *times.entry(function.shown()).or_insert(0) += 1;
        }
        // What is read again as one name: instances of a generic function are told by their symbols.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | ':');
        let name = |function: &&Function| match function.shown() {
            shown if times[shown] == 1 && shown.chars().all(plain) => shown.to_owned(),
            _ => function.symbol.clone(),
        };
        let mut names: Vec<String> = matching.iter().map(name).collect();
        names.sort();
        names.dedup();
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

    fn parameters(&self, _offset: u64) -> Option<Vec<UserParameter>> {
        None
    }

    fn types(&self) -> &dyn Types {
        self
    }
}
