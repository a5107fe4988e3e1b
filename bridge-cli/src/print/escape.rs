//! Bytes that a program sent, so that a terminal shows them and does nothing else.

use super::value::display;

/// Appends bytes so that a terminal shows them and does nothing else. Backslashes stay single.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    escape_with(bytes, b"", out);
}

/// The same of a text that stands among lines of our own: a name that another program chose ends none of them.
pub fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether nothing there is to be escaped, as far as terminals go.
pub fn is_plain(bytes: &[u8]) -> bool {
    // Without an early end inside a block, so that a block is a few vector instructions.
    bytes.chunks(32).all(|block| {
        block
            .iter()
            .fold(true, |plain, &byte| plain & (0x20..0x7f).contains(&byte))
    })
}

pub(super) fn escape_with(bytes: &[u8], also: &[u8], out: &mut Vec<u8>) {
    if is_plain(bytes) && (also.is_empty() || !bytes.iter().any(|byte| also.contains(byte))) {
        return out.extend_from_slice(bytes);
    }
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            match character {
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\0' => out.extend_from_slice(b"\\0"),
                '\x01'..='\x1f' | '\x7f' => {
                    display(format_args!("\\x{:02x}", character as u32), out)
                }
                _ if acts_on_terminals(character) => {
                    display(format_args!("\\u{{{:x}}}", character as u32), out);
                }
                _ => {
                    if character.is_ascii() && also.contains(&(character as u8)) {
                        out.push(b'\\');
                    }
                    out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                }
            }
        }
        for byte in chunk.invalid() {
            display(format_args!("\\x{byte:02x}"), out);
        }
    }
}

/// C1 controls (some terminals obey them), line and paragraph separators, and the marks that turn the
/// direction of writing and so can make a line read as another one.
fn acts_on_terminals(character: char) -> bool {
    matches!(character,
        '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Escapes what stands from `start` on, if anything there needs it.
pub(super) fn escape_in_place(start: usize, out: &mut Vec<u8>) {
    if is_plain(&out[start..]) {
        return;
    }
    let raw = out.split_off(start);
    escape(&raw, out);
}
