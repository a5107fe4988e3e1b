//! The one in-memory event. Every source yields it, every exporter and report consumes it.
//!
//! An [`Event`] says when, where and who; its [`Probe`] says what it is called and what its fields
//! are; its values stand in the probe's order of fields. Loss is an event too, at its place in time.

use std::sync::Arc;

pub use tracebraid_bpf::record::LostReason;
use tracebraid_filter::Type;

use crate::filter::type_of_name;
use crate::stack::Stack;

/// One line of the stream.
#[derive(Clone, Debug)]
pub struct Event {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The CPU; [`UNKNOWN_CPU`] of a loss that the kernel counts for all of them together.
    pub cpu: u32,
    /// Process id, as the bridge's user sees it.
    pub pid: u32,
    /// Thread id, as the bridge's user sees it.
    pub tid: u32,
    /// The thread's name at that moment (any bytes, no NUL).
    pub comm: Comm,
    /// Whether it came after events of a later time had already been given out, so that it does not
    /// stand in its place (see `merge`). Exporters mark it.
    pub late: bool,
    /// What happened.
    pub what: What,
    /// What was running then, where that was asked for.
    pub stack: Option<Box<Stack>>,
}

/// The `cpu` of a loss whose CPU nobody knows.
pub const UNKNOWN_CPU: u32 = u32::MAX;

/// See [`Event::what`].
#[derive(Clone, Debug)]
pub enum What {
    /// A probe was hit.
    Hit {
        /// Which.
        probe: Arc<Probe>,
        /// Its fields' values, in the order of `Probe::fields`.
        values: Vec<Value>,
    },
    /// Events are missing here.
    Lost {
        /// Of which probe.
        probe: Arc<Probe>,
        /// How many.
        count: u64,
        /// Since when (ns).
        after: u64,
        /// Why.
        reason: LostReason,
    },
}

/// A thread's name: at most 15 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// The first 15 bytes of a name.
    pub fn new(name: &[u8]) -> Comm {
        let mut bytes = [0; 16];
        let length = name.len().min(15);
        bytes[..length].copy_from_slice(&name[..length]);
        Comm(bytes)
    }

    /// The bytes before the first NUL.
    pub fn bytes(&self) -> &[u8] {
        let end = self
            .0
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.0.len());
        &self.0[..end]
    }
}

/// What a probe is called, and how its hits are read and printed.
#[derive(Debug)]
pub struct Probe {
    /// Provider or category, such as `orders` or `sched`.
    pub group: String,
    /// Name, such as `charge` or `sched_switch`.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Its fields in order.
    pub fields: Vec<Field>,
    /// How its body is printed.
    pub print: Print,
}

/// Where a probe comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A tracebraid tracepoint of the target.
    Application,
    /// One that the target made at run time, as it came across a callsite of `tracing`.
    Made,
    /// A USDT probe of a binary that does not carry our note.
    Usdt,
    /// A kernel tracepoint.
    Kernel,
    /// A probe definition.
    Probe,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type as a listing prints it: `u64`, `const char *`, `pid_t`.
    pub type_name: String,
    /// How its numbers are read best.
    pub base: Base,
    /// How filters compare it; `None` where nothing can be compared with it.
    pub compared: Option<Type>,
}

impl Event {
    /// The probe that was hit, or of which hits were lost.
    pub fn probe(&self) -> &Arc<Probe> {
        match &self.what {
            What::Hit { probe, .. } | What::Lost { probe, .. } => probe,
        }
    }
}

impl Field {
    /// A field whose numbers are printed in decimal, compared as the name of its type says.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>) -> Field {
        let type_name = type_name.into();
        Field {
            name: name.into(),
            compared: type_of_name(&type_name),
            type_name,
            base: Base::Decimal,
        }
    }

    /// The same, compared as this type.
    #[must_use]
    pub fn compared(self, compared: Option<Type>) -> Field {
        Field { compared, ..self }
    }
}

/// The base in which a field's integers are printed. Pointers are hexadecimal in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Base {
    /// Counts, descriptors, identifiers.
    #[default]
    Decimal,
    /// Flags and masks: `0x80000`.
    Hexadecimal,
    /// File modes: `0644`.
    Octal,
}

/// How a body is printed.
#[derive(Debug)]
pub enum Print {
    /// `name=value name=value …`
    Plain,
    /// The same with only the fields that have a value: returns, most of which have nothing to add.
    Present,
    /// The application's `print = "id={id} depth={depth}"`.
    Template(String),
    /// As the kernel prints a probe: `(address) name=value …`, `(return address <- function) …`, or `(group.event)
    /// …`.
    Definition {
        /// The event that it is at, where it is at one.
        event: Option<String>,
        /// How many of the first fields are those addresses.
        addresses: usize,
        /// What names addresses of the kernel; `None` for a probe in a file.
        symbols: Option<Arc<crate::tracefs::symbols::Symbols>>,
    },
    /// The kernel's `print fmt`, compiled.
    Kernel(Box<crate::tracefs::print_fmt::PrintFmt>),
}

/// The length of text that was cut before anybody counted it.
pub const UNKNOWN_LENGTH: u64 = u64::MAX;

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unsigned, up to 64 bits.
    Unsigned(u64),
    /// Signed, up to 64 bits.
    Signed(i64),
    /// 128 bits, unsigned.
    Unsigned128(u128),
    /// 128 bits, signed.
    Signed128(i128),
    /// `true` or `false`.
    Bool(bool),
    /// A Unicode scalar value.
    Char(char),
    /// 32-bit float.
    F32(f32),
    /// 64-bit float.
    F64(f64),
    /// Text, perhaps not UTF-8 (foreign memory), perhaps cut.
    Text {
        /// The bytes.
        bytes: Box<[u8]>,
        /// Its true length in bytes; larger than `bytes.len()` when cut, [`UNKNOWN_LENGTH`] when
        /// it was cut and nobody knows how long it was.
        full_length: u64,
    },
    /// Bytes, perhaps cut.
    Bytes {
        /// The bytes.
        bytes: Box<[u8]>,
        /// The true length, as for text.
        full_length: u64,
    },
    /// An address.
    Pointer(u64),
    /// Seconds and nanoseconds.
    Duration(std::time::Duration),
    /// An array of a kernel record.
    Array(Vec<Value>),
    /// The `None` of an optional field.
    Absent,
    /// Memory that could not be read.
    Fault,
    /// A place that no reader can reach (an SSE register, say).
    Unsupported,
    /// A field that did not fit the USDT probe's twelve slots.
    NotCaptured,
}

impl Value {
    /// Whole text.
    pub fn text(bytes: impl Into<Box<[u8]>>) -> Value {
        let bytes = bytes.into();
        Value::Text {
            full_length: bytes.len() as u64,
            bytes,
        }
    }

    /// Whole bytes.
    pub fn bytes(bytes: impl Into<Box<[u8]>>) -> Value {
        let bytes = bytes.into();
        Value::Bytes {
            full_length: bytes.len() as u64,
            bytes,
        }
    }
}
