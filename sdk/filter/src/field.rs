//! What a filter may ask of an event: which fields there are, and what their values are.

use core::ops::Range;

use tracebraid_wire::kind::{FieldKind, Kind};
use tracebraid_wire::schema::Schema;

/// What a field is, as far as comparing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// A signed integer of 1, 2, 4, 8 or 16 bytes. One of another size can be compared, as in the
    /// kernel, and never matches.
    Signed {
        /// Its size.
        bytes: u16,
    },
    /// An unsigned integer or an address, of the same sizes. An array of numbers in a kernel event
    /// is one of these too, as large as the array.
    Unsigned {
        /// Its size.
        bytes: u16,
    },
    /// 0 or 1; may be compared with `true` and `false` as well.
    Bool,
    /// A Unicode scalar value; may be compared with a quoted character as well.
    Char,
    /// A floating-point number of 4 or 8 bytes.
    Float {
        /// Its size.
        bytes: u16,
    },
    /// Text, or bytes that are compared like text.
    Text,
    /// A span of time, compared in nanoseconds or with a unit: `5ms`.
    Duration,
    /// What is only known of each value: a number, text, or `true` and `false`. A comparison with
    /// something of another form does not hold.
    Any,
}

impl Type {
    /// What a field of an application's tracepoint is.
    pub const fn of(kind: FieldKind) -> Type {
        match kind.kind {
            Kind::U8 => Type::Unsigned { bytes: 1 },
            Kind::U16 => Type::Unsigned { bytes: 2 },
            Kind::U32 => Type::Unsigned { bytes: 4 },
            Kind::U64 | Kind::Pointer | Kind::Elapsed => Type::Unsigned { bytes: 8 },
            Kind::U128 => Type::Unsigned { bytes: 16 },
            Kind::I8 => Type::Signed { bytes: 1 },
            Kind::I16 => Type::Signed { bytes: 2 },
            Kind::I32 => Type::Signed { bytes: 4 },
            Kind::I64 => Type::Signed { bytes: 8 },
            Kind::I128 => Type::Signed { bytes: 16 },
            Kind::Bool => Type::Bool,
            Kind::Char => Type::Char,
            Kind::F32 => Type::Float { bytes: 4 },
            Kind::F64 => Type::Float { bytes: 8 },
            Kind::Str | Kind::Bytes | Kind::Formatted => Type::Text,
            Kind::Duration => Type::Duration,
            Kind::Any => Type::Any,
        }
    }
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The number by which [`Values::value`] is asked for it.
    pub index: u16,
    /// What it is.
    pub kind: Type,
}

/// A function, as `.function` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function<'a> {
    /// By its symbol; one in a module may be `MODULE:SYMBOL`.
    Name(&'a str),
    /// By an address in it.
    At(u64),
}

/// The fields of the event that a filter is for.
///
/// `common_pid`, `comm` (or `COMM`) and `cpu` (or `CPU`, `common_cpu`) need not be among them: they
/// are every event's, and are asked of [`Values`] by their own methods. Where an event has a field
/// of one of these names, the field is meant.
pub trait Fields {
    /// The field of this name, if the event has one.
    fn field(&self, name: &str) -> Option<Field>;

    /// The addresses of a function; `None` where there is no such function, as by default.
    fn function(&self, wanted: Function<'_>) -> Option<Range<u64>> {
        let _ = wanted;
        None
    }

    /// How many CPUs the machine may have: `CPUS{…}` must stay below. At most 8192 count.
    fn cpus(&self) -> u16 {
        MAX_CPUS
    }
}

/// The most CPUs that a kernel for x86-64 can be built for.
pub(crate) const MAX_CPUS: u16 = 8192;

/// The fields in the order of the schema; a field's index is its position.
impl Fields for Schema<'_> {
    fn field(&self, name: &str) -> Option<Field> {
        (0..).zip(self.fields()).find_map(|(index, (found, kind))| {
            (found == name).then_some(Field {
                index,
                kind: Type::of(kind),
            })
        })
    }
}

/// The value of a field.
///
/// Its form must be that of the field's [`Type`]; a value of another form counts as missing. A number of a
/// [`Type::Any`] is of 16 bytes or floating-point, and `true` is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// There is none: an empty `Option`, or memory that could not be read.
    Missing,
    /// Of a [`Type::Signed`] up to 8 bytes, sign-extended.
    Signed(i64),
    /// Of a [`Type::Unsigned`] up to 8 bytes, of a [`Type::Bool`] or of a [`Type::Char`].
    Unsigned(u64),
    /// Of a [`Type::Signed`] of 16 bytes.
    SignedWide(i128),
    /// Of a [`Type::Unsigned`] of 16 bytes; the nanoseconds of a [`Type::Duration`].
    UnsignedWide(u128),
    /// Of a [`Type::Float`].
    Float(f64),
    /// Of a [`Type::Text`], without a terminating NUL; need not be UTF-8.
    Text(&'a [u8]),
}

/// An event that a filter is asked about.
///
/// Each method is called only when the filter comes to a comparison that needs it.
pub trait Values {
    /// The field with this index, which [`Fields::field`] gave.
    fn value(&self, index: u16) -> Value<'_>;

    /// The thread that the event is of: `common_pid`, which in Linux is the thread's number.
    fn thread(&self) -> Option<i32>;

    /// The CPU that it happened on: `cpu`.
    fn cpu(&self) -> Option<u32>;

    /// The thread's name, padded with NULs: `comm`.
    fn comm(&self) -> Option<[u8; 16]>;
}
