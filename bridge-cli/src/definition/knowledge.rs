//! What a definition is judged against: a kernel's symbols, types and events, and the files that are
//! probed.
//!
//! These are traits, so that a definition can be judged for a kernel that is not the running one: the
//! running kernel is [`super::here`], a table in a test is another. What is not known is said to be
//! unknown, and is then left to whoever attaches.

use std::path::PathBuf;

use super::rejection::{Code, Errno};

/// Which type, in the numbering of whoever gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(pub u64);

/// A type, with its typedefs and qualifiers taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `void`.
    Void,
    /// An integer, `bool` and `char` included.
    Integer {
        /// Its width in bits.
        bits: u32,
        /// Bits before it; not 0 only where the type itself says that it is a bitfield.
        bit_offset: u32,
        /// Whether it is signed.
        signed: bool,
    },
    /// A pointer.
    Pointer(TypeId),
    /// A structure or union.
    Composite(Vec<Member>),
    /// An array of these.
    Array(TypeId),
    /// An enumeration of so many bytes.
    Enumeration {
        /// 4 or 8.
        bytes: u32,
    },
    /// A byte that is text: `char` of C, as debug information tells it from numbers.
    Character,
    /// A floating-point number of so many bytes.
    Float {
        /// 4, 8 or 16.
        bytes: u32,
    },
    /// Anything else: a function.
    Other,
}

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty for an anonymous structure or union.
    pub name: String,
    /// Its type.
    pub type_id: TypeId,
    /// Bits from the beginning of the structure.
    pub bit_offset: u32,
    /// Width in bits where it is a bitfield, else 0.
    pub bits: u32,
}

/// Something that can look types up.
pub trait Types {
    /// The type of this number; `None` where there is none.
    fn look(&self, id: TypeId) -> Option<Type>;
}

/// What a function takes and returns.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Prototype {
    /// Names (where they have one) and types of its parameters.
    pub parameters: Vec<(Option<String>, TypeId)>,
    /// What it returns; `None` is `void`.
    pub returns: Option<TypeId>,
}

/// Whether a function can be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probeable {
    /// It can, as far as is known.
    Yes,
    /// It is compiled without what ftrace needs, or has no code.
    NoTrace,
    /// It is on the blacklist of kprobes.
    Blacklisted,
}

/// A symbol of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its address; 0 where the rights to see it are missing.
    pub address: u64,
    /// Bytes up to the next symbol; `None` where that is not known.
    pub size: Option<u64>,
    /// Whether kprobes can be set on it.
    pub probeable: Probeable,
}

/// One field of a kernel event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventField {
    /// Its name.
    pub name: String,
    /// Bytes from the beginning of the record.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Whether it is signed.
    pub signed: bool,
    /// Its type as the format file writes it.
    pub type_name: String,
}

impl EventField {
    /// Whether it is the address of text.
    pub fn points_to_text(&self) -> bool {
        matches!(&*self.type_name, "char *" | "const char *")
    }

    /// From where the descriptor that it is counts: its own end (`__rel_loc`), or (`__data_loc`) the record's
    /// beginning; `None` where it is none.
    pub fn is_relative_descriptor(&self) -> Option<bool> {
        match self.type_name.split(' ').next() {
            Some("__rel_loc") => Some(true),
            Some("__data_loc") => Some(false),
            _ => None,
        }
    }
}

/// A kernel, as definitions see it.
pub trait Kernel: Types {
    /// Every symbol of this name, in the kernel proper and in modules, or in one module.
    fn symbols(&self, module: Option<&str>, name: &str) -> Vec<Symbol>;
    /// Whether a module of this name is loaded.
    fn has_module(&self, name: &str) -> bool;
    /// The symbol that an address lies in, and how far behind its beginning.
    fn symbol_at(&self, address: u64) -> Option<(Symbol, u64)>;
    /// Whether ftrace can trace a function of this name; `None`: not known.
    fn is_traced(&self, function: &str) -> Option<bool>;
    /// Whether an instruction begins so many bytes behind a symbol's beginning; `None`: not known.
    fn is_boundary(&self, symbol: &Symbol, offset: u64) -> Option<bool>;
    /// Whether so many bytes behind its beginning is the entry of a function: its own (behind an `endbr64`
    /// too), or that of the next one.
    fn is_entry(&self, symbol: &Symbol, offset: u64) -> bool;
    /// What is known of a function's parameters.
    fn prototype(&self, function: &str) -> Option<Prototype>;
    /// A structure by its name.
    fn structure(&self, name: &str) -> Option<TypeId>;
    /// The function that stands for a tracepoint in the type information.
    fn tracepoint_function(&self, tracepoint: &str) -> Option<String>;
    /// The fields of an event, without the common ones; `None` where there is no such event, or it is one of
    /// those that somebody has defined.
    fn event(&self, group: &str, name: &str) -> Option<Vec<EventField>>;
    /// `GROUP.NAME` of events that resemble this one, the nearest first.
    fn similar_events(&self, _group: &str, _name: &str) -> Vec<String> {
        Vec::new()
    }
    /// Names of functions that resemble this one, the nearest first.
    fn similar_functions(&self, name: &str) -> Vec<String>;
    /// What the compiler made of a function of this name: symbols of its parts and copies (`NAME.isra.0`).
    fn siblings(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
    /// Functions that a pattern matches, in order.
    fn matching_functions(&self, pattern: &crate::glob::Glob) -> Vec<String>;
}

/// A file that is probed.
pub trait Binary {
    /// Device and inode: two paths to one file are one file.
    fn identity(&self) -> (u64, u64);
    /// Whether it is an ELF file for this machine; where it is not, why.
    fn unfit(&self) -> Option<String>;
    /// Every function of this name: where it begins in the file, and how many bytes it has.
    fn functions(&self, name: &str) -> Vec<(u64, u64)>;
    /// Names of functions that resemble this one, the nearest first.
    fn similar_functions(&self, name: &str) -> Vec<String>;
    /// Functions that a pattern matches, in order.
    fn matching_functions(&self, pattern: &crate::glob::Glob) -> Vec<String>;
    /// What keeps this offset of the file from being probed, as a sentence; `None` where nothing is known
    /// to.
    fn obstacle(&self, offset: u64) -> Option<String>;
    /// The parameters of the function that begins at this offset, from its debug information.
    ///
    /// # Errors
    /// Why they are not known, as a sentence.
    fn parameters(&self, offset: u64) -> Result<Vec<UserParameter>, String>;
    /// The debug information's types.
    fn types(&self) -> &dyn Types;
    /// A type's name, as the program's language writes it.
    fn type_name(&self, id: TypeId) -> String;
    /// The functions that an indirect function may choose, as far as its code says; `None` where the symbol is
    /// that of no indirect function.
    fn implementations(&self, symbol: &str) -> Option<Vec<String>>;
    /// The libraries among those that it is linked with which have a function of this name.
    fn libraries_with(&self, name: &str) -> Vec<String>;
    /// Whether the program moves its stacks while it runs, with the return addresses on them.
    fn moves_its_stacks(&self) -> bool;
    /// The places of USDT probes, other than tracepoints of the SDK, whose provider and name match.
    fn usdt(
        &self,
        provider: &crate::glob::Glob,
        name: &crate::glob::Glob,
    ) -> Vec<super::usdt_probe::UsdtSite>;
    /// Where a function of this name was inlined.
    fn inlined(&self, name: &str) -> Vec<Inlined>;
    /// What the compiler made of a function of this name: symbols of its parts and copies (`NAME.isra.0`).
    fn siblings(&self, name: &str) -> Vec<String>;
}

/// A place where a function's code stands inside another function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// The other function.
    pub caller: String,
    /// File and line of the call that there is in the source, where that is known.
    pub called_at: Option<(String, u64)>,
    /// Bytes from the beginning of the file, where that is known.
    pub offset: Option<u64>,
}

/// A parameter of a user function at its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserParameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_id: TypeId,
    /// Where it is at the entry, or why it is in no place that can be fetched.
    pub place: Result<UserPlace, String>,
}

/// See [`UserParameter::place`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPlace {
    /// In this register.
    Register(tracebraid_bpf::spec::Register),
    /// In memory, so many bytes from what a register holds.
    Memory {
        /// The register.
        base: tracebraid_bpf::spec::Register,
        /// Bytes from it.
        offset: i64,
    },
    /// In memory that a pointer in memory leads to.
    Indirect {
        /// The register that the pointer is found by.
        base: tracebraid_bpf::spec::Register,
        /// Bytes from it to the pointer.
        offset: i64,
        /// Bytes from where the pointer leads to.
        behind: i64,
    },
    /// Nowhere: the compiler knows that it is always this.
    Constant(u64),
    /// In several places, each a part of it.
    Pieces(Vec<Piece>),
}

/// A part of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes before it.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Where it is, or why nowhere.
    pub place: Result<UserPlace, String>,
}

/// What stands in the way of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTrouble {
    /// There is none.
    NotFound,
    /// The way to it ends before, for this reason: a part of it is too long, or no directory.
    NotReached(Errno),
    /// It is a directory, a device or something else.
    NotRegular,
}

impl FileTrouble {
    /// How the kernel refuses it.
    pub(super) fn refusal(self) -> (Code, Errno) {
        match self {
            FileTrouble::NotFound => (Code::FileNotFound, Errno::Enoent),
            FileTrouble::NotReached(errno) => (Code::FileNotFound, errno),
            FileTrouble::NotRegular => (Code::NoRegularFile, Errno::Einval),
        }
    }
}

/// The files of a machine, as definitions see them.
pub trait Files {
    /// The file at this path.
    ///
    /// # Errors
    /// See [`FileTrouble`].
    fn open(&self, path: &str) -> Result<std::rc::Rc<dyn Binary>, FileTrouble>;
    /// The path of a file that is named by its last part only (`libc`), as `uprobe:` takes it.
    fn find(&self, name: &str) -> Option<PathBuf>;
}

/// All of it.
#[derive(Clone, Copy)]
pub struct Knowledge<'a> {
    /// The kernel.
    pub kernel: &'a dyn Kernel,
    /// The files.
    pub files: &'a dyn Files,
}
