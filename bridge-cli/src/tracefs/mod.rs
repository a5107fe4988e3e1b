//! What the kernel says about its tracepoints, from tracefs: which there are, what their records look
//! like, and how it prints them.
//!
//! tracefs is only read here; nothing is enabled in it. It is found where it is mounted, and where it
//! is not, the [`Error`] says how to mount it: attaching by BPF works without, but nobody can tell
//! then what a tracepoint's record looks like.

pub mod btf;
pub mod builtin;
pub mod c_type;
pub mod format;
pub mod print_fmt;
pub mod record;
pub mod symbols;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tracebraid_filter::Type;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Base, Field, Print};
use btf::Btf;
use format::{Format, Shape};
use print_fmt::{PrintFmt, UnknownForm};
use symbols::Symbols;

/// A mounted tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    symbols: Arc<Symbols>,
    names: OnceLock<Btf>,
}

/// A tracepoint's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TracepointName {
    /// Such as `sched`.
    pub category: String,
    /// Such as `sched_switch`.
    pub name: String,
}

/// Where tracefs is mounted, in the order in which it is looked for.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracefs {
    /// Finds tracefs.
    ///
    /// # Errors
    /// [`ErrorKind::Rights`] where it may not be read, [`ErrorKind::Unsupported`] where it is not
    /// mounted; the hint says what to do.
    pub fn find() -> Result<Tracefs> {
        let mut refused = None;
        for mount in MOUNTS {
            match std::fs::File::open(Path::new(mount).join("available_events")) {
                Ok(_) => return Ok(Tracefs::at(mount)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    refused.get_or_insert((mount, error));
                }
                Err(_) => {}
            }
        }
        Err(match refused {
            Some((mount, error)) => Error::new(
                ErrorKind::Rights,
                format!("tracefs at {mount} may not be read"),
            )
            .hint("run as root, or with CAP_DAC_READ_SEARCH (tracefs has mode 0700)")
            .because(error),
            None => Error::new(ErrorKind::Unsupported, "tracefs is not mounted")
                .hint("mount it: mount -t tracefs tracefs /sys/kernel/tracing"),
        })
    }

    /// The tracefs at this place, mounted there or not.
    pub fn at(root: impl Into<PathBuf>) -> Tracefs {
        let root = root.into();
        let symbols = Arc::new(Symbols::new("/proc/kallsyms", root.join("printk_formats")));
        Tracefs {
            root,
            symbols,
            names: OnceLock::new(),
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The names of kernel addresses.
    pub fn symbols(&self) -> &Arc<Symbols> {
        &self.symbols
    }

    /// Every tracepoint of `available_events`, in order of category and name.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn tracepoints(&self) -> Result<Vec<TracepointName>> {
        let text = self.read("available_events")?;
        let row = |line: &str| {
            let (category, name) = line.trim().split_once(':')?;
            Some(TracepointName {
                category: category.to_owned(),
                name: name.to_owned(),
            })
        };
        let mut names: Vec<_> = text.lines().filter_map(row).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The format of one tracepoint.
    ///
    /// # Errors
    /// [`ErrorKind::NoMatch`] where there is no such tracepoint, [`ErrorKind::Other`] where its file
    /// is not understood.
    pub fn format(&self, category: &str, name: &str) -> Result<Format> {
        let is_name = |text: &str| !text.is_empty() && !text.contains(['/', '\0']) && text != "..";
        let unknown = || {
            Error::new(
                ErrorKind::NoMatch,
                format!("the kernel has no tracepoint {category}:{name}"),
            )
        };
        if !is_name(category) || !is_name(name) {
            return Err(unknown());
        }
        let file = format!("events/{category}/{name}/format");
        if !self.root.join(&file).exists() {
            return Err(unknown());
        }
        let text = self.read(&file)?;
        Format::parse(&text).map_err(|cause| {
            let message = format!("the format of {category}:{name} is not understood");
            Error::new(ErrorKind::Other, message).because(cause)
        })
    }

    /// Compiles the `print fmt` of a format.
    ///
    /// # Errors
    /// [`UnknownForm`] says what of it is not known; print `name=value` then.
    pub fn print_fmt(&self, format: &Format) -> Result<PrintFmt, UnknownForm> {
        let names = LazyNames(self);
        PrintFmt::compile(
            &format.print_fmt,
            &format.fields,
            &names,
            Arc::clone(&self.symbols),
        )
    }

    /// How the events of a format are printed, and why not as the kernel does if so.
    pub fn print(&self, format: &Format) -> (Print, Option<UnknownForm>) {
        match self.print_fmt(format) {
            Ok(compiled) => (Print::Kernel(Box::new(compiled)), None),
            Err(unknown) => (Print::Plain, Some(unknown)),
        }
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.root.join(file);
        // No length is asked for first: tracefs files have none.
        match std::fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => {
                let kind = match error.kind() {
                    io::ErrorKind::PermissionDenied => ErrorKind::Rights,
                    _ => ErrorKind::Other,
                };
                let message = format!("{} cannot be read", path.display());
                Err(Error::new(kind, message).because(error))
            }
        }
    }
}

/// The kernel's BTF, read when the first name is asked for: few `print fmt`s need it.
struct LazyNames<'a>(&'a Tracefs);

impl LazyNames<'_> {
    fn btf(&self) -> &Btf {
        self.0
            .names
            .get_or_init(|| Btf::read(Path::new("/sys/kernel/btf/vmlinux")))
    }
}

impl print_fmt::Names for LazyNames<'_> {
    fn constant(&self, name: &str) -> Option<i64> {
        self.btf().constant(name)
    }

    fn scalar(&self, name: &str) -> Option<c_type::Scalar> {
        self.btf().scalar(name)
    }

    fn size_of(&self, type_name: &str) -> Option<u64> {
        self.btf().size_of(type_name)
    }
}

/// The fields of an event of this format.
pub fn fields(format: &Format) -> Vec<Field> {
    let field = |field: &format::FormatField| Field {
        name: field.name.clone(),
        type_name: field.type_name.clone(),
        base: Base::Decimal,
        compared: compared(field),
    };
    format.fields.iter().map(field).collect()
}

/// How filters compare a field: as the kernel does, where that can be known of what is printed.
fn compared(field: &format::FormatField) -> Option<Type> {
    let bytes = u16::try_from(field.size).ok()?;
    Some(match field.shape {
        Shape::Integer { signed: true } => Type::Signed { bytes },
        Shape::Integer { signed: false } | Shape::Pointer => Type::Unsigned { bytes },
        Shape::Bool => Type::Bool,
        Shape::Text | Shape::DynamicText(_) => Type::Text,
        Shape::Bytes | Shape::DynamicBytes(_) if field.type_name.contains("char") => Type::Text,
        // One number as wide as the array; of other sizes it never matches.
        Shape::Bytes | Shape::Numbers(_) => Type::Unsigned { bytes },
        Shape::DynamicBytes(_) | Shape::DynamicNumbers(..) => return None,
    })
}
