//! The values of a probe definition's hit, from what its fetch program gave out.

use std::sync::Arc;

use tracebraid_bpf::hit_filter::{Cut, Source as KernelSource, Text};
use tracebraid_bpf::record::Output;
use tracebraid_filter::Type;

use super::kernel_value::{self, InKernel};

use crate::definition::compile::{Compiled, Read, Source};
use crate::definition::fields::Field as FormatField;
use crate::definition::value_type::ValueType;
use crate::definition::{Definition, Place};
use crate::event::{Base, Comm, Field, Origin, Print, Probe, UNKNOWN_LENGTH, Value};
use crate::tracefs::symbols::Symbols;

/// How the records of one definition are read.
#[derive(Debug)]
pub(super) struct Reading {
    compiled: Compiled,
    symbols: Option<Arc<Symbols>>,
}

/// The probe of a definition, and how its records are read.
pub(super) fn probe(
    definition: &Definition,
    compiled: Compiled,
    symbols: Option<Arc<Symbols>>,
) -> (Probe, Reading) {
    let shown = definition.fields();
    let (addresses, arguments) = shown.split_at(compiled.addresses);
    let name = |field: &FormatField| {
        let (type_name, name) = field.declaration.rsplit_once(' ').unwrap_or(("", ""));
        let name = name.trim_end_matches("[]");
        (type_name.to_owned(), name.to_owned())
    };
    let mut fields: Vec<Field> = addresses
        .iter()
        .map(|field| Field::new(name(field).1, "unsigned long"))
        .collect();
    for (field, read) in arguments.iter().zip(&compiled.arguments) {
        let (type_name, name) = name(field);
        let base = match read.value {
            ValueType::Hexadecimal(_) => Base::Hexadecimal,
            _ => Base::Decimal,
        };
        fields.push(Field {
            name,
            type_name,
            base,
            compared: compared(read),
        });
    }
    let probe = Probe {
        group: definition.group.clone(),
        name: definition.event.clone(),
        origin: Origin::Probe,
        fields,
        print: Print::Definition {
            event: match &definition.place {
                place @ Place::Event { .. } => Some(place.to_string()),
                _ => None,
            },
            addresses: compiled.addresses,
            symbols: symbols.clone(),
        },
    };
    (probe, Reading { compiled, symbols })
}

/// How filters compare an argument; arrays are not compared.
fn compared(read: &Read) -> Option<Type> {
    if matches!(read.source, Source::Elements(_) | Source::Outputs(_)) {
        return None;
    }
    let bytes = read.value.size() as u16;
    Some(match read.value {
        ValueType::Signed(_) => Type::Signed { bytes },
        ValueType::Char => Type::Char,
        value if value.is_text() => Type::Text,
        _ => Type::Unsigned { bytes },
    })
}

impl Reading {
    /// Where the kernel has a field that filters compare.
    pub(super) fn in_kernel(&self, index: usize) -> Result<InKernel, &'static str> {
        let output = |number: usize| number as u16;
        if index < self.compiled.addresses {
            let source = KernelSource::Output {
                number: output(index),
                bytes: 8,
            };
            return kernel_value::number(source, []);
        }
        let before = self.compiled.arguments.iter();
        let before = before.take(index - self.compiled.addresses);
        let outputs: usize = before.map(Read::outputs).sum();
        let number = output(self.compiled.addresses + outputs);
        let Some(read) = self.compiled.arguments.get(index - self.compiled.addresses) else {
            return Ok(InKernel::Missing);
        };
        match (&read.source, read.value) {
            (Source::Comm, _) => return Ok(InKernel::Text(Text::Thread)),
            (Source::Constant(_), _) => return Err("a constant"),
            // Behind its length.
            (Source::Sized, _) => return Ok(InKernel::Text(Text::Output(number + 1))),
            _ if read.is_signed && read.bits.is_some() => return Err("a bitfield with a sign"),
            (Source::Elements(_) | Source::Outputs(_), _) => return Err("an array"),
            (Source::One, ValueType::SymbolText) => return Err("the name of a symbol"),
            (Source::One, value) if value.is_text() => {
                return Ok(InKernel::Text(Text::Output(number)));
            }
            (Source::One, _) => {}
        }
        let bytes = read.value.size() as u8;
        let signed = matches!(read.value, ValueType::Signed(_));
        let whole = Cut::Low { bytes, signed };
        let bits = read.bits.map(|(width, offset)| Cut::Bits {
            first: offset.min(63) as u8,
            count: width.clamp(1, 64) as u8,
        });
        // A bitfield is compared as a number of its whole width.
        let again = bits.map(|_| whole);
        let source = KernelSource::Output { number, bytes };
        kernel_value::number(source, [Some(whole), bits, again].into_iter().flatten())
    }

    /// Appends the values, in the order of the probe's fields.
    pub(super) fn append(&self, outputs: Vec<Output>, comm: &Comm, values: &mut Vec<Value>) {
        let mut outputs = outputs.into_iter();
        let mut next = || outputs.next().unwrap_or(Output::NoRoom);
        for _ in 0..self.compiled.addresses {
            values.push(match next() {
                Output::Read(bytes) => Value::Pointer(number(&bytes, false)),
                other => missing(&other),
            });
        }
        for read in &self.compiled.arguments {
            values.push(match &read.source {
                Source::Comm => Value::text(comm.bytes()),
                Source::Constant(text) => Value::text(text.as_bytes()),
                Source::One if read.value == ValueType::SymbolText => self.symbol(next()),
                Source::One => read.one(next()),
                Source::Sized => sized(next(), next()),
                Source::Elements(count) => read.elements(next(), *count),
                Source::Outputs(count) => {
                    Value::Array((0..*count).map(|_| read.one(next())).collect())
                }
            });
        }
    }
}

impl Reading {
    /// The name of a symbol as text.
    fn symbol(&self, output: Output) -> Value {
        match output {
            Output::Read(bytes) => {
                let mut name = Vec::new();
                let address = number(&bytes, false);
                match &self.symbols {
                    Some(symbols) => symbols.write(address, true, &mut name),
                    None => crate::print::hexadecimal(address, &mut name),
                }
                Value::text(name)
            }
            other => missing(&other),
        }
    }
}

impl Read {
    /// How many outputs it takes.
    fn outputs(&self) -> usize {
        match self.source {
            Source::Comm | Source::Constant(_) => 0,
            Source::One | Source::Elements(_) => 1,
            Source::Sized => 2,
            Source::Outputs(count) => count as usize,
        }
    }

    fn one(&self, output: Output) -> Value {
        match (self.value.is_text(), output) {
            (true, Output::Read(bytes)) => Value::text(&*bytes),
            (true, Output::Cut(bytes)) => Value::Text {
                bytes: bytes.into(),
                full_length: UNKNOWN_LENGTH,
            },
            (false, Output::Read(bytes) | Output::Cut(bytes)) => self.scalar(&bytes),
            (_, other) => missing(&other),
        }
    }

    fn elements(&self, output: Output, count: u32) -> Value {
        let size = self.value.size() as usize;
        match output {
            Output::Read(bytes) | Output::Cut(bytes) => {
                let elements = bytes.chunks_exact(size).take(count as usize);
                Value::Array(elements.map(|bytes| self.scalar(bytes)).collect())
            }
            other => missing(&other),
        }
    }

    /// A number in the first bytes.
    fn scalar(&self, bytes: &[u8]) -> Value {
        let bytes = &bytes[..bytes.len().min(self.value.size() as usize)];
        let mut bits = number(bytes, matches!(self.value, ValueType::Signed(_)));
        if let Some((width, offset)) = self.bits {
            bits = bits.checked_shr(offset).unwrap_or(0);
            let unused = 64 - width.clamp(1, 64);
            bits &= u64::MAX >> unused;
            if self.is_signed {
                bits = ((bits << unused) as i64 >> unused) as u64;
            }
        }
        match self.value {
            ValueType::Signed(_) => Value::Signed(bits as i64),
            ValueType::Char => Value::Char(char::from(bits as u8)),
            ValueType::Symbol => Value::Pointer(bits),
            _ => Value::Unsigned(bits),
        }
    }
}

/// A text of so many bytes, whatever they are: it has no end mark.
fn sized(length: Output, text: Output) -> Value {
    let (length, mut bytes) = match (length, text) {
        (Output::Read(length), Output::Read(bytes) | Output::Cut(bytes)) => {
            (number(&length, false), bytes)
        }
        (Output::Read(length), _) if number(&length, false) == 0 => return Value::text(*b""),
        (Output::Read(_), other) | (other, _) => return missing(&other),
    };
    bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    Value::Text {
        full_length: length,
        bytes: bytes.into(),
    }
}

fn missing(output: &Output) -> Value {
    match output {
        Output::NoRoom => Value::NotCaptured,
        _ => Value::Fault,
    }
}

/// Up to 8 bytes as a number.
fn number(bytes: &[u8], signed: bool) -> u64 {
    let length = bytes.len().min(8);
    let mut word = [0; 8];
    word[..length].copy_from_slice(&bytes[..length]);
    let value = u64::from_ne_bytes(word);
    let unused = 64 - 8 * length as u32;
    match (signed, unused) {
        (true, 0..=56) => ((value << unused) as i64 >> unused) as u64,
        _ => value,
    }
}
