//! Probes and events as filters see them: which fields there are, and what their values compare as.
//!
//! Compared is what is printed: a pointer's address and never what it leads to, the number behind a
//! printed symbol. A field's [`Type`] is decided where its probe is described; a value of any width is
//! brought into its form here, so that an event decides the same whichever way it came.

use std::ops::Range;
use std::sync::Arc;

use tracebraid_filter::{Field, Fields, Function, Type, Value as FilterValue, Values};

use crate::event::{Event, Origin, Probe, UNKNOWN_CPU, Value, What};
use crate::tracefs::c_type;
use crate::tracefs::symbols::Symbols;

/// What of the machine a filter may name.
#[derive(Clone, Debug)]
pub struct Machine {
    /// How many CPUs there can be.
    cpus: u16,
    /// The kernel's functions, where they are known.
    symbols: Option<Arc<Symbols>>,
}

impl Machine {
    /// This one. `symbols` name the kernel's functions.
    pub fn this(symbols: Option<Arc<Symbols>>) -> Machine {
        let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible");
        let last = possible.ok().and_then(|text| {
            let last = text.trim().rsplit(['-', ',']).next()?;
            last.parse::<u16>().ok()
        });
        Machine {
            cpus: last.map_or(u16::MAX, |last| last.saturating_add(1)),
            symbols,
        }
    }
}

/// The fields of a probe.
pub(super) struct ProbeFields<'a> {
    pub(super) probe: &'a Probe,
    pub(super) machine: &'a Machine,
}

impl Fields for ProbeFields<'_> {
    fn field(&self, name: &str) -> Option<Field> {
        let (index, field) = (0..)
            .zip(&self.probe.fields)
            .find(|(_, field)| field.name == name)?;
        Some(Field {
            index,
            kind: field.compared?,
        })
    }

    fn function(&self, wanted: Function<'_>) -> Option<Range<u64>> {
        self.machine.symbols.as_ref()?.function(wanted)
    }

    fn cpus(&self) -> u16 {
        self.machine.cpus
    }
}

/// What a field of this type compares as, by the name of the type: of C, or a number's as in `i32` and
/// `f64`. `None` where that does not say.
pub(crate) fn type_of_name(name: &str) -> Option<Type> {
    if name.ends_with('*') {
        return Some(Type::Unsigned { bytes: 8 });
    }
    if let Some((element, _)) = name.split_once('[') {
        return (element == "char").then_some(Type::Text);
    }
    let rust = |letter: char| -> Option<u16> {
        let bits: u16 = name.strip_prefix(letter)?.parse().ok()?;
        Some(bits / 8)
    };
    match name {
        "bool" | "_Bool" => return Some(Type::Bool),
        "f32" | "f64" => return rust('f').map(|bytes| Type::Float { bytes }),
        "i8" | "i16" | "i32" | "i64" => return rust('i').map(|bytes| Type::Signed { bytes }),
        _ => {}
    }
    let scalar = c_type::named(name)?;
    let bytes = scalar.size.into();
    Some(match scalar.signed {
        true => Type::Signed { bytes },
        false => Type::Unsigned { bytes },
    })
}

/// An event as filters see it.
pub(super) struct Hit<'a>(pub(super) &'a Event);

impl Values for Hit<'_> {
    fn value(&self, index: u16) -> FilterValue<'_> {
        let What::Hit { probe, values } = &self.0.what else {
            return FilterValue::Missing;
        };
        let index = usize::from(index);
        let field = probe.fields.get(index).and_then(|field| field.compared);
        match (field, values.get(index)) {
            (Some(kind), Some(value)) => {
                compared(kind, value, probe.origin).unwrap_or(FilterValue::Missing)
            }
            _ => FilterValue::Missing,
        }
    }

    fn thread(&self) -> Option<i32> {
        i32::try_from(self.0.tid).ok()
    }

    fn cpu(&self) -> Option<u32> {
        Some(self.0.cpu).filter(|cpu| *cpu != UNKNOWN_CPU)
    }

    fn comm(&self) -> Option<[u8; 16]> {
        Some(self.0.comm.0)
    }
}

/// A value in the form of its field's type; `None` where there is none to compare.
fn compared(kind: Type, value: &Value, origin: Origin) -> Option<FilterValue<'_>> {
    Some(match kind {
        Type::Signed { bytes: 16 } => match value {
            Value::Signed128(value) => FilterValue::SignedWide(*value),
            _ => return None,
        },
        Type::Unsigned { bytes: 16 } => match value {
            Value::Unsigned128(value) => FilterValue::UnsignedWide(*value),
            array => FilterValue::UnsignedWide(bits(array, 16)?),
        },
        Type::Signed { bytes } => {
            let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
            FilterValue::Signed(((bits(value, bytes)? as u64) << unused) as i64 >> unused)
        }
        Type::Unsigned { bytes } => {
            let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
            FilterValue::Unsigned((bits(value, bytes)? as u64) << unused >> unused)
        }
        Type::Bool => FilterValue::Unsigned(u64::from(bits(value, 8)? != 0)),
        Type::Char => FilterValue::Unsigned(bits(value, 8)? as u64),
        Type::Float { .. } => match value {
            Value::F32(value) => FilterValue::Float((*value).into()),
            Value::F64(value) => FilterValue::Float(*value),
            _ => return None,
        },
        Type::Text => match value {
            Value::Text { bytes, .. } => FilterValue::Text(bytes),
            // A kernel record's array of characters ends with its first NUL.
            Value::Bytes { bytes, .. } if origin == Origin::Kernel => {
                let end = bytes.iter().position(|&byte| byte == 0);
                FilterValue::Text(&bytes[..end.unwrap_or(bytes.len())])
            }
            Value::Bytes { bytes, .. } => FilterValue::Text(bytes),
            _ => return None,
        },
        Type::Duration => match value {
            Value::Duration(value) => FilterValue::UnsignedWide(value.as_nanos()),
            _ => return None,
        },
        Type::Any => match value {
            Value::Text { bytes, .. } => FilterValue::Text(bytes),
            Value::F64(value) => FilterValue::Float(*value),
            Value::Signed(value) => FilterValue::SignedWide((*value).into()),
            Value::Signed128(value) => FilterValue::SignedWide(*value),
            Value::Unsigned128(value) => match i128::try_from(*value) {
                Ok(value) => FilterValue::SignedWide(value),
                Err(_) => FilterValue::UnsignedWide(*value),
            },
            value => FilterValue::SignedWide(bits(value, 8)? as i128),
        },
        // A type that this bridge does not know has no value that it could know.
        _ => return None,
    })
}

/// The bits of a number, or of an array of so many bytes.
fn bits(value: &Value, size: u16) -> Option<u128> {
    Some(match value {
        Value::Unsigned(value) | Value::Pointer(value) => (*value).into(),
        Value::Signed(value) => (*value as u64).into(),
        Value::Bool(value) => (*value).into(),
        Value::Char(value) => u32::from(*value).into(),
        Value::Bytes { bytes, .. } if bytes.len() <= 16 => bytes
            .iter()
            .rev()
            .fold(0, |bits, byte| bits << 8 | u128::from(*byte)),
        Value::Array(elements) if size <= 16 && !elements.is_empty() => {
            let width = 8 * u32::from(size) / elements.len() as u32;
            let unused = 64_u32.checked_sub(width).filter(|unused| *unused < 64)?;
            let mut whole = 0_u128;
            for element in elements.iter().rev() {
                let element = bits(element, 8)? as u64;
                whole = whole << width | u128::from(element << unused >> unused);
            }
            whole
        }
        _ => return None,
    })
}
