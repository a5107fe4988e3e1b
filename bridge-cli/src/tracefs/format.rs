//! A tracepoint's `format` file: where each field lies in the record, and the kernel's `print fmt`.
//!
//! ```text
//! name: block_rq_issue
//! ID: 2104
//! format:
//!     field:unsigned short common_type;  offset:0;  size:2;  signed:0;
//!     field:char comm[16];               offset:44; size:16; signed:0;
//!     field:__data_loc char[] cmd;       offset:60; size:4;  signed:0;
//!
//! print fmt: "%d,%d … [%s]", …, REC->comm
//! ```
//! A `__data_loc` field is a 32-bit descriptor: the low half says where in the record the array lies,
//! the high half how many bytes it has. For `__rel_loc` the place counts from the descriptor's end.

use std::fmt;

/// A parsed `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The tracepoint's name, without its category.
    pub name: String,
    /// The number in `common_type`.
    pub id: u32,
    /// Its own fields in order, without the `common_` ones.
    pub fields: Vec<FormatField>,
    /// The text behind `print fmt:`.
    pub print_fmt: String,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// Its name.
    pub name: String,
    /// Its type as written, the length of an array included: `char[16]`.
    pub type_name: String,
    /// Bytes from the record's start.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What the bytes are.
    pub shape: Shape,
}

/// What a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer of 1, 2, 4 or 8 bytes.
    Integer {
        /// Whether it is sign-extended.
        signed: bool,
    },
    /// `bool`.
    Bool,
    /// An address.
    Pointer,
    /// `char[N]`, up to its first NUL.
    Text,
    /// `u8[N]`, or a structure.
    Bytes,
    /// An array of wider integers.
    Numbers(Element),
    /// A descriptor of text, up to its first NUL.
    DynamicText(Location),
    /// A descriptor of bytes.
    DynamicBytes(Location),
    /// A descriptor of an array of wider integers.
    DynamicNumbers(Location, Element),
}

/// What the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether they are sign-extended.
    pub signed: bool,
}

/// From where a descriptor counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// `__data_loc`: from the record's start.
    Record,
    /// `__rel_loc`: from the descriptor's end.
    Descriptor,
}

/// Why a `format` file was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    what: &'static str,
    line: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`", self.what, self.line)
    }
}

impl std::error::Error for FormatError {}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// [`FormatError`] names the first line that is not understood.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let bad = |what, line: &str| FormatError {
            what,
            line: line.trim().to_owned(),
        };
        let (head, print_fmt) = text
            .split_once("print fmt:")
            .ok_or_else(|| bad("no print fmt", ""))?;
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        for line in head.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = Some(rest.trim().parse().map_err(|_| bad("not a number", line))?);
            } else if let Some(rest) = line.strip_prefix("field:") {
                let field = field(rest).ok_or_else(|| bad("not a field", line))?;
                if !field.name.starts_with("common_") {
                    fields.push(field);
                }
            } else if !line.is_empty() && line != "format:" {
                return Err(bad("not a line of a format file", line));
            }
        }
        Ok(Format {
            name: name.ok_or_else(|| bad("no name", ""))?,
            id: id.ok_or_else(|| bad("no ID", ""))?,
            fields,
            print_fmt: print_fmt.trim().to_owned(),
        })
    }

    /// Bytes of the fixed part of a record.
    pub fn record_size(&self) -> u32 {
        let ends = self
            .fields
            .iter()
            .map(|field| field.offset.saturating_add(field.size));
        ends.max().unwrap_or(8)
    }
}

impl FormatField {
    /// From where its descriptor counts, if it is one.
    pub fn location(&self) -> Option<Location> {
        match self.shape {
            Shape::DynamicText(location)
            | Shape::DynamicBytes(location)
            | Shape::DynamicNumbers(location, _) => Some(location),
            Shape::Integer { .. }
            | Shape::Bool
            | Shape::Pointer
            | Shape::Text
            | Shape::Bytes
            | Shape::Numbers(_) => None,
        }
    }
}

/// `unsigned long args[6];  offset:16;  size:48;  signed:0;`
fn field(text: &str) -> Option<FormatField> {
    let mut parts = text.split(';');
    let declaration = parts.next()?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.trim().split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => signed = value != "0",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    let (declared, array) = match declaration.rfind('[') {
        // `char[] name` has its brackets in the type, `char name[16]` behind the name.
        Some(at) if declaration.ends_with(']') => (&declaration[..at], Some(&declaration[at..])),
        _ => (declaration, None),
    };
    let (at, last) = declared
        .char_indices()
        .rfind(|&(_, c)| !(c.is_alphanumeric() || c == '_'))?;
    let name_start = at + last.len_utf8();
    let name = &declared[name_start..];
    let base = declared[..name_start].trim();
    if name.is_empty() || base.is_empty() {
        return None;
    }
    let shape = shape(base, array, size, signed);
    let array = array.unwrap_or("");
    Some(FormatField {
        name: name.to_owned(),
        type_name: format!("{base}{array}"),
        offset,
        size,
        shape,
    })
}

fn shape(base: &str, array: Option<&str>, size: u32, signed: bool) -> Shape {
    let dynamic = [
        ("__data_loc ", Location::Record),
        ("__rel_loc ", Location::Descriptor),
    ];
    for (prefix, location) in dynamic {
        if let Some(element) = base.strip_prefix(prefix) {
            return match array_of(element.trim_end_matches("[]").trim()) {
                ArrayOf::Text => Shape::DynamicText(location),
                ArrayOf::Bytes => Shape::DynamicBytes(location),
                ArrayOf::Numbers(element) => Shape::DynamicNumbers(location, element),
            };
        }
    }
    let integer_size = matches!(size, 1 | 2 | 4 | 8);
    if let Some(array) = array {
        let count: Option<u32> = array.trim_matches(['[', ']']).trim().parse().ok();
        return match (array_of(base), count) {
            (ArrayOf::Text, _) => Shape::Text,
            (ArrayOf::Numbers(element), None) => Shape::Numbers(element),
            (_, Some(count)) if count > 0 && base.contains('*') && size / count == 8 => {
                Shape::Numbers(Element {
                    size: 8,
                    signed: false,
                })
            }
            // The size is the kernel's word; a typedef's width follows from it.
            (_, Some(count))
                if count > 0 && matches!(size / count, 2 | 4 | 8) && !composite(base) =>
            {
                Shape::Numbers(Element {
                    size: (size / count) as u8,
                    signed,
                })
            }
            (ArrayOf::Bytes | ArrayOf::Numbers(_), _) => Shape::Bytes,
        };
    }
    if base.ends_with('*') {
        return Shape::Pointer;
    }
    match base {
        "bool" | "_Bool" if size == 1 => Shape::Bool,
        _ if integer_size && !composite(base) => Shape::Integer { signed },
        _ => Shape::Bytes,
    }
}

fn composite(base: &str) -> bool {
    base.starts_with("struct ") || base.starts_with("union ")
}

enum ArrayOf {
    Text,
    Bytes,
    Numbers(Element),
}

fn array_of(base: &str) -> ArrayOf {
    let base = base.strip_prefix("const ").unwrap_or(base);
    if base == "char" {
        return ArrayOf::Text;
    }
    match base {
        "cpumask_t" => ArrayOf::Numbers(Element {
            size: 8,
            signed: false,
        }),
        _ => match super::c_type::named(base) {
            Some(scalar) if scalar.size > 1 => ArrayOf::Numbers(Element {
                size: scalar.size,
                signed: scalar.signed,
            }),
            _ => ArrayOf::Bytes,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> FormatField {
        field(line.strip_prefix("field:").unwrap()).unwrap()
    }

    #[test]
    fn a_format_file_gives_its_fields_without_the_common_ones() {
        let format = Format::parse(
            "name: sys_enter\nID: 443\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
             \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\n\
             print fmt: \"NR %ld\", REC->id\n",
        )
        .unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sys_enter", 443));
        assert_eq!(format.fields.len(), 2);
        assert_eq!(format.record_size(), 64);
        assert_eq!(format.print_fmt, "\"NR %ld\", REC->id");
    }

    #[test]
    fn a_declaration_may_hold_characters_of_any_width() {
        // The last that belongs to no name is three bytes long.
        let odd = one("field:int \u{fffd}\u{fffd}e;offset:8;size:4;signed:0;");
        assert_eq!((odd.name.as_str(), odd.offset), ("e", 8));
    }

    #[test]
    fn each_shape_of_declaration_is_told_apart() {
        let shape = |line| one(line).shape;
        assert_eq!(
            shape("field:char comm[16];offset:8;size:16;signed:0;"),
            Shape::Text
        );
        assert_eq!(
            shape("field:u8 uuid[16];offset:8;size:16;signed:0;"),
            Shape::Bytes
        );
        assert_eq!(
            shape("field:bool dead;offset:8;size:1;signed:0;"),
            Shape::Bool
        );
        assert_eq!(
            shape("field:const char * s;offset:8;size:8;signed:0;"),
            Shape::Pointer
        );
        assert_eq!(
            shape("field:__data_loc char[] cmd;offset:60;size:4;signed:0;"),
            Shape::DynamicText(Location::Record)
        );
        assert_eq!(
            shape("field:__rel_loc u64[] addrs;offset:60;size:4;signed:0;"),
            Shape::DynamicNumbers(
                Location::Descriptor,
                Element {
                    size: 8,
                    signed: false
                }
            )
        );
        assert_eq!(
            shape("field:__data_loc unsigned char[] cmnd;offset:60;size:4;signed:0;"),
            Shape::DynamicBytes(Location::Record)
        );
        assert_eq!(
            shape("field:struct sockaddr x;offset:8;size:8;signed:0;"),
            Shape::Bytes
        );
        assert_eq!(
            shape("field:xfs_agino_t a[3];offset:8;size:12;signed:0;"),
            Shape::Numbers(Element {
                size: 4,
                signed: false
            })
        );
        let args = one("field:unsigned long args[6];offset:16;size:48;signed:0;");
        assert_eq!(
            (args.name.as_str(), args.type_name.as_str()),
            ("args", "unsigned long[6]")
        );
    }

    #[test]
    fn a_line_that_is_no_field_is_named() {
        let error = Format::parse("name: x\nID: 1\nformat:\n\tfield:int;\nprint fmt: \"\"\n");
        assert_eq!(error.unwrap_err().to_string(), "not a field: `field:int;`");
        assert!(Format::parse("").is_err());
        assert!(Format::parse("name: x\nID: y\nprint fmt: \"\"").is_err());
    }
}
