//! The body of an event as text.
//!
//! Four forms, chosen by the probe ([`Print`]): `name=value name=value …` (of a return only what has a
//! value), the application's template `id={id} depth={depth}`, the kernel's own `print fmt`, or the form
//! in which the kernel prints probe definitions (`(0x401615) a=-7 s="text" v={1,2}`). Whatever the form, one event is one line
//! and a terminal does nothing with it: control characters, line and direction marks and bytes that
//! are not UTF-8 are shown escaped (`\n`, `\x1b`, `\u{202e}`, `\xff`).

mod escape;
mod stack;
mod value;

pub use escape::{escape, escaped, is_plain};
pub use stack::stack;
pub use value::{Quotes, decimal, hex, hexadecimal, value, whole_characters};

use crate::event::{Base, Field, Print, Probe, Value};
use crate::tracefs::symbols::Symbols;
use escape::{escape_in_place, escape_with};
use value::cut_mark;

/// Appends the body of a hit.
pub fn body(probe: &Probe, values: &[Value], out: &mut Vec<u8>) {
    match &probe.print {
        Print::Plain => plain(&probe.fields, values, out),
        Print::Present => present(&probe.fields, values, out),
        Print::Template(template) => fill(template, &probe.fields, values, out),
        Print::Definition {
            event,
            addresses,
            symbols,
        } => {
            let symbols = symbols.as_deref();
            out.push(b'(');
            escape(event.as_deref().unwrap_or("").as_bytes(), out);
            definition(*addresses, symbols, &probe.fields, values, out);
        }
        Print::Kernel(format) => {
            let start = out.len();
            format.write(values, out);
            escape_in_place(start, out);
        }
    }
}

/// Appends `name=value name=value …`.
pub fn plain(fields: &[Field], values: &[Value], out: &mut Vec<u8>) {
    pairs(fields.iter().zip(values), out);
}

/// The same without fields that are absent.
fn present(fields: &[Field], values: &[Value], out: &mut Vec<u8>) {
    let pairs = fields.iter().zip(values);
    self::pairs(pairs.filter(|(_, value)| **value != Value::Absent), out);
}

fn pairs<'a>(pairs: impl Iterator<Item = (&'a Field, &'a Value)>, out: &mut Vec<u8>) {
    for (index, (field, value)) in pairs.enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        escape(field.name.as_bytes(), out);
        out.push(b'=');
        self::value(value, field.base, Quotes::WhereNeeded, out);
    }
}

/// Appends `address) name=value …` as the kernel prints a probe: text and characters in quotes, arrays in
/// braces.
fn definition(
    addresses: usize,
    symbols: Option<&Symbols>,
    fields: &[Field],
    values: &[Value],
    out: &mut Vec<u8>,
) {
    let (first, rest) = values.split_at(addresses.min(values.len()));
    // Of a return the record has the function first, the line what it returns to.
    for (index, value) in first.iter().rev().enumerate() {
        if index > 0 {
            out.extend_from_slice(b" <- ");
        }
        match (value, symbols) {
            (Value::Pointer(caller), Some(symbols)) if index == 0 && first.len() > 1 => {
                symbols.write_caller(*caller, out);
            }
            _ => address(value, index == 0, symbols, out),
        }
    }
    out.push(b')');
    for (field, value) in fields.iter().skip(addresses).zip(rest) {
        out.push(b' ');
        escape(field.name.as_bytes(), out);
        out.push(b'=');
        as_the_kernel(value, field.base, symbols, out);
    }
}

fn address(value: &Value, with_offset: bool, symbols: Option<&Symbols>, out: &mut Vec<u8>) {
    match (value, symbols) {
        (Value::Pointer(address), Some(symbols)) => symbols.write(*address, with_offset, out),
        (value, _) => self::value(value, Base::Hexadecimal, Quotes::Never, out),
    }
}

fn as_the_kernel(value: &Value, base: Base, symbols: Option<&Symbols>, out: &mut Vec<u8>) {
    match value {
        Value::Text { bytes, full_length } => {
            out.push(b'"');
            escape_with(bytes, b"\"\\", out);
            out.push(b'"');
            cut_mark(bytes.len(), *full_length, out);
        }
        Value::Char(character) => {
            out.push(b'\'');
            // It is a byte, of a text in whatever encoding.
            let byte = u8::try_from(*character).unwrap_or(b'?');
            escape_with(&[byte], b"'\\", out);
            out.push(b'\'');
        }
        Value::Array(values) => {
            out.push(b'{');
            for (index, element) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                as_the_kernel(element, base, symbols, out);
            }
            out.push(b'}');
        }
        Value::Pointer(_) => address(value, true, symbols, out),
        other => self::value(other, base, Quotes::Never, out),
    }
}

/// Appends a template with its `{name}` filled in. `{{` and `}}` stand for braces; a name that is no
/// field, and a brace without its partner, are shown as they are written.
fn fill(template: &str, fields: &[Field], values: &[Value], out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        escape(&rest.as_bytes()[..at], out);
        let brace = &rest[at..];
        let named = brace
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'));
        if brace.starts_with("{{") || brace.starts_with("}}") {
            out.push(brace.as_bytes()[0]);
            rest = &brace[2..];
        } else if let Some((name, after)) = named
            && let Some(index) = fields.iter().position(|field| field.name == name.trim())
            && let Some(value) = values.get(index)
        {
            self::value(value, fields[index].base, Quotes::Never, out);
            rest = after;
        } else {
            out.push(brace.as_bytes()[0]);
            rest = &brace[1..];
        }
    }
    escape(rest.as_bytes(), out);
}

#[cfg(test)]
mod tests {
    use super::value::tests::shown;
    use super::*;

    #[test]
    fn of_a_return_only_what_has_a_value_is_printed() {
        let probe = probe(Print::Present, &["ns", "end", "err"]);
        let line = |values: &[Value]| {
            let mut out = Vec::new();
            body(&probe, values, &mut out);
            String::from_utf8(out).unwrap()
        };
        let ns = Value::Unsigned(7);
        assert_eq!(line(&[ns.clone(), Value::Absent, Value::Absent]), "ns=7");
        let end = Value::Text {
            bytes: (*b"unwind").into(),
            full_length: 6,
        };
        assert_eq!(line(&[ns, end, Value::Absent]), "ns=7 end=unwind");
    }

    fn probe(print: Print, names: &[&str]) -> Probe {
        Probe {
            group: "orders".into(),
            name: "queued".into(),
            origin: crate::event::Origin::Application,
            fields: names.iter().map(|name| Field::new(*name, "u64")).collect(),
            print,
        }
    }

    fn printed(probe: &Probe, values: &[Value]) -> String {
        let mut out = Vec::new();
        body(probe, values, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_a_program_sends_reaches_the_terminal_as_a_command() {
        assert_eq!(shown(Value::text(*b"\x01\x1b[31mred")), r"\x01\x1b[31mred");
        assert_eq!(
            shown(Value::text(*b"line1\nline2\ttab\rcr\x7f")),
            r"line1\nline2\ttab\rcr\x7f"
        );
        assert_eq!(shown(Value::text(*b"\xff\xfe")), r"\xff\xfe");
        assert_eq!(shown(Value::text(*b"over\xc0\xaf")), r"over\xc0\xaf");
        assert_eq!(shown(Value::text(*b"\xed\xa0\x80s")), r"\xed\xa0\x80s");
        assert_eq!(shown(Value::text("\u{9b}31m".as_bytes())), r"\u{9b}31m");
        assert_eq!(shown(Value::text("a\u{202e}b".as_bytes())), r"a\u{202e}b");
        let probe = probe(Print::Plain, &["\x1b]0;x"]);
        assert_eq!(printed(&probe, &[Value::Unsigned(1)]), r"\x1b]0;x=1");
    }

    #[test]
    fn a_character_of_a_definition_is_a_byte() {
        let character = |byte: u8| {
            let mut out = Vec::new();
            let value = Value::Char(char::from(byte));
            as_the_kernel(&value, Base::Decimal, None, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(character(b'h'), "'h'");
        assert_eq!(character(b'\''), r"'\''");
        assert_eq!(character(0xff), r"'\xff'");
        assert_eq!(character(0), r"'\0'");
    }

    #[test]
    fn a_template_is_filled_and_unknown_names_stay_as_written() {
        let values = [Value::Unsigned(7), Value::text(*b"two words")];
        let template = |text: &str| probe(Print::Template(text.into()), &["id", "user"]);
        assert_eq!(
            printed(&template("id={id} user={user}"), &values),
            "id=7 user=two words"
        );
        assert_eq!(printed(&template("{nobody} {id"), &values), "{nobody} {id");
        assert_eq!(printed(&template("{{{id}}} }"), &values), "{7} }");
        assert_eq!(printed(&template("{ id }\n"), &values), r"7\n");
        assert_eq!(printed(&template("{{id}}"), &values), "{id}");
        assert_eq!(printed(&template("ende{"), &values), "ende{");
    }
}
