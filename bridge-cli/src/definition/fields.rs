//! What a definition gives: the fields of its records and how they are printed, as the kernel's `format`
//! file shows them, and the definition as its listing does.

use std::fmt;

use super::argument::Argument;
use super::{Definition, Kind, Place};

/// One field of a definition's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Type and name as a format file writes them: `u8 v[]`, `__data_loc char[] s`.
    pub declaration: String,
    /// Bytes from the beginning of the record.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Whether it is signed, as a format file says it.
    pub signed: bool,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "field:{};\toffset:{};\tsize:{};\tsigned:{};",
            self.declaration,
            self.offset,
            self.size,
            u8::from(self.signed)
        )
    }
}

/// Bytes of the fields that every record begins with.
const COMMON: u32 = 8;

impl Definition {
    /// Its fields, without the common ones.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        let mut offset = COMMON;
        let own: &[&str] = match (self.kind, self.is_return) {
            (Kind::Event, _) => &[],
            (_, true) => &["__probe_func", "__probe_ret_ip"],
            (_, false) => &["__probe_ip"],
        };
        for name in own {
            fields.push(Field {
                declaration: format!("unsigned long {name}"),
                offset,
                size: 8,
                signed: false,
            });
            offset += 8;
        }
        for argument in &self.arguments {
            fields.push(Field {
                declaration: declaration(argument),
                offset: offset + argument.offset,
                size: argument.value.size() * argument.count.unwrap_or(1),
                signed: argument.value.is_signed(),
            });
        }
        fields
    }

    /// How its records are printed, as a format file says it.
    pub fn print_fmt(&self) -> String {
        let (mut format, mut values) = match (self.kind, self.is_return) {
            (Kind::Event, _) => (String::new(), String::new()),
            (_, true) => (
                "(%lx <- %lx)".to_owned(),
                ", REC->__probe_func, REC->__probe_ret_ip".to_owned(),
            ),
            (_, false) => ("(%lx)".to_owned(), ", REC->__probe_ip".to_owned()),
        };
        for argument in &self.arguments {
            let conversion = argument.value.conversion();
            let name = &argument.name;
            let value = |of: &str| match argument.value.is_text() {
                true => format!(", __get_str({of})"),
                false => format!(", REC->{of}"),
            };
            match argument.count {
                None => {
                    format.push_str(&format!(" {name}={conversion}"));
                    values.push_str(&value(name));
                }
                Some(count) => {
                    let all = vec![conversion; count as usize].join(",");
                    format.push_str(&format!(" {name}={{{all}}}"));
                    for index in 0..count {
                        values.push_str(&value(&format!("{name}[{index}]")));
                    }
                }
            }
        }
        format!("\"{format}\"{values}")
    }
}

fn declaration(argument: &Argument) -> String {
    let name = argument.value.format_name();
    match argument.count {
        None => format!("{name} {}", argument.name),
        Some(count) if argument.value.is_text() => format!("{name}[{count}] {}", argument.name),
        Some(_) => format!("{name} {}[]", argument.name),
    }
}

/// The definition as the kernel lists it.
impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match (self.kind, self.is_return) {
            (Kind::Kernel | Kind::File, true) => 'r',
            (Kind::Kernel | Kind::File, false) => 'p',
            (Kind::Function, _) => 'f',
            (Kind::Tracepoint, _) => 't',
            (Kind::Event, _) => 'e',
        };
        write!(f, "{letter}:{}/{} {}", self.group, self.event, self.place)?;
        if self.kind == Kind::Function && self.is_return {
            f.write_str("%return")?;
        }
        for argument in &self.arguments {
            write!(f, " {}={}", argument.name, argument.body)?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Symbol { symbol, offset: 0 } => f.write_str(symbol),
            Place::Symbol { symbol, offset } => write!(f, "{symbol}+{offset}"),
            Place::Address(address) => write!(f, "{address:#x}"),
            Place::File {
                path,
                offset,
                counter,
                ..
            } => {
                write!(f, "{path}:{offset:#018x}")?;
                match counter {
                    0 => Ok(()),
                    counter => write!(f, "({counter:#x})"),
                }
            }
            Place::Event { group, name, .. } => write!(f, "{group}.{name}"),
        }
    }
}
