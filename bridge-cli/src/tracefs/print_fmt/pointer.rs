//! The kernel's `%p…` family: what a pointer leads to, printed in place of its address.

use std::io::Write;
use std::net::Ipv6Addr;

use crate::print::hex;

/// What stands behind `%p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointerForm {
    /// `%p`, `%px`, `%pK`: the address itself, 16 digits. (The kernel prints a hash of it for `%p`,
    /// unless tracefs' option `hash-ptr` is off; nobody outside can compute that hash.)
    Address,
    /// `%pS`, `%ps`, `%pB`: the name of a kernel function or variable.
    Symbol {
        /// Whether `+0x10/0x40` follows.
        with_offset: bool,
    },
    /// `%pM`, `%pMF`, `%pm`: six bytes with a separator or none.
    HardwareAddress(Option<u8>),
    /// `%pI4`, `%pi4`: four bytes, `true` when each takes three digits.
    Ipv4 { padded: bool },
    /// `%pI6`, `%pI6c`, `%pi6`.
    Ipv6(Ipv6Form),
    /// `%pIS…`: a sockaddr.
    SocketAddress { port: bool, compressed: bool },
    /// `%pU…`: 16 bytes.
    Uuid { little_endian: bool, upper: bool },
    /// `%*ph…`: as many bytes as the width says.
    Hex(Option<u8>),
    /// `%*pb`, `%*pbl`: as many bits as the width says.
    Bitmap { list: bool },
    /// `%pa`, `%pad`: what is at the address, as `0x` and 16 digits.
    PhysicalAddress,
}

/// How an IPv6 address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ipv6Form {
    /// Eight groups of four digits.
    Full,
    /// Without colons.
    Digits,
    /// The shortest.
    Compressed,
}

impl PointerForm {
    /// Reads the letters behind `%p`; `None` for a form that is not known. The kernel takes every
    /// letter and digit there for a part of the form.
    pub(super) fn parse(text: &[u8]) -> Option<(PointerForm, &[u8])> {
        let length = text
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        let (letters, _) = text.split_at(length);
        let (form, used) = match letters {
            [b'K' | b'x', ..] => (PointerForm::Address, 1),
            [b'S' | b'B', ..] => (PointerForm::Symbol { with_offset: true }, 1),
            [b's', ..] => (PointerForm::Symbol { with_offset: false }, 1),
            [b'M', b'F', ..] => (PointerForm::HardwareAddress(Some(b'-')), 2),
            [b'M', ..] => (PointerForm::HardwareAddress(Some(b':')), 1),
            [b'm', ..] => (PointerForm::HardwareAddress(None), 1),
            [b'I', b'4', ..] => (PointerForm::Ipv4 { padded: false }, 2),
            [b'i', b'4', ..] => (PointerForm::Ipv4 { padded: true }, 2),
            [b'I', b'6', b'c', ..] => (PointerForm::Ipv6(Ipv6Form::Compressed), 3),
            [b'I', b'6', ..] => (PointerForm::Ipv6(Ipv6Form::Full), 2),
            [b'i', b'6', ..] => (PointerForm::Ipv6(Ipv6Form::Digits), 2),
            [b'I', b'S', options @ ..] => {
                let options = &options[..options.iter().take_while(|b| b"pc".contains(b)).count()];
                let (port, compressed) = (options.contains(&b'p'), options.contains(&b'c'));
                (
                    PointerForm::SocketAddress { port, compressed },
                    2 + options.len(),
                )
            }
            [b'U', options @ ..] => {
                let (little_endian, upper, used) = match options.first() {
                    Some(b'l') => (true, false, 2),
                    Some(b'L') => (true, true, 2),
                    Some(b'B') => (false, true, 2),
                    Some(b'b') => (false, false, 2),
                    _ => (false, false, 1),
                };
                (
                    PointerForm::Uuid {
                        little_endian,
                        upper,
                    },
                    used,
                )
            }
            [b'h', b'C', ..] => (PointerForm::Hex(Some(b':')), 2),
            [b'h', b'D', ..] => (PointerForm::Hex(Some(b'-')), 2),
            [b'h', b'N', ..] => (PointerForm::Hex(None), 2),
            [b'h', ..] => (PointerForm::Hex(Some(b' ')), 1),
            [b'b', b'l', ..] => (PointerForm::Bitmap { list: true }, 2),
            [b'b', ..] => (PointerForm::Bitmap { list: false }, 1),
            [b'a', b'p' | b'd', ..] => (PointerForm::PhysicalAddress, 2),
            [b'a', ..] => (PointerForm::PhysicalAddress, 1),
            [] => (PointerForm::Address, 0),
            _ => return None,
        };
        Some((form, &text[used..]))
    }

    /// Whether it prints what the pointer leads to, and so needs the bytes.
    pub(super) fn follows(self) -> bool {
        !matches!(self, PointerForm::Address | PointerForm::Symbol { .. })
    }

    /// Appends what the form makes of the bytes that the pointer leads to. Too few bytes: `<fault>`.
    pub(super) fn write(self, bytes: &[u8], width: Option<i64>, out: &mut Vec<u8>) {
        let count = usize::try_from(width.unwrap_or(1)).unwrap_or(0);
        let written = match self {
            PointerForm::HardwareAddress(separator) => {
                bytes.get(..6).map(|bytes| separated(bytes, separator, out))
            }
            PointerForm::Hex(separator) => {
                // As the kernel: 64 bytes at most.
                bytes
                    .get(..count.min(64))
                    .map(|bytes| separated(bytes, separator, out))
            }
            PointerForm::Ipv4 { padded } => {
                bytes.first_chunk().map(|bytes| ipv4(*bytes, padded, out))
            }
            PointerForm::Ipv6(form) => bytes.first_chunk().map(|bytes| ipv6(*bytes, form, out)),
            PointerForm::SocketAddress { port, compressed } => {
                socket_address(bytes, port, compressed, out)
            }
            PointerForm::Uuid {
                little_endian,
                upper,
            } => bytes
                .first_chunk()
                .map(|bytes| uuid(*bytes, little_endian, upper, out)),
            PointerForm::Bitmap { list } => {
                let words = bytes.get(..count.div_ceil(8).min(bytes.len()));
                words.map(|words| {
                    if list {
                        bit_list(words, count, out)
                    } else {
                        bitmap(words, count, out)
                    }
                })
            }
            PointerForm::PhysicalAddress => bytes.first_chunk().map(|bytes| {
                let _ = write!(out, "{:#018x}", u64::from_le_bytes(*bytes));
            }),
            PointerForm::Address | PointerForm::Symbol { .. } => None,
        };
        if written.is_none() {
            out.extend_from_slice(b"<fault>");
        }
    }
}

fn separated(bytes: &[u8], separator: Option<u8>, out: &mut Vec<u8>) {
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.extend(separator);
        }
        hex(&[*byte], out);
    }
}

fn ipv4(bytes: [u8; 4], padded: bool, out: &mut Vec<u8>) {
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        let _ = if padded {
            write!(out, "{byte:03}")
        } else {
            write!(out, "{byte}")
        };
    }
}

fn ipv6(bytes: [u8; 16], form: Ipv6Form, out: &mut Vec<u8>) {
    match form {
        Ipv6Form::Compressed => {
            let _ = write!(out, "{}", Ipv6Addr::from(bytes));
        }
        Ipv6Form::Digits => hex(&bytes, out),
        Ipv6Form::Full => {
            for (index, group) in bytes.chunks_exact(2).enumerate() {
                if index > 0 {
                    out.push(b':');
                }
                hex(group, out);
            }
        }
    }
}

fn socket_address(bytes: &[u8], port: bool, compressed: bool, out: &mut Vec<u8>) -> Option<()> {
    let family = u16::from_le_bytes(*bytes.first_chunk()?);
    let number = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => ipv4(*bytes.get(4..)?.first_chunk()?, false, out),
        libc::AF_INET6 => {
            let form = if compressed {
                Ipv6Form::Compressed
            } else {
                Ipv6Form::Full
            };
            let address = *bytes.get(8..)?.first_chunk()?;
            if port {
                out.push(b'[');
            }
            ipv6(address, form, out);
            if port {
                out.push(b']');
            }
        }
        _ => {
            let _ = write!(out, "<address family {family}>");
            return Some(());
        }
    }
    if port {
        let _ = write!(out, ":{number}");
    }
    Some(())
}

fn uuid(mut bytes: [u8; 16], little_endian: bool, upper: bool, out: &mut Vec<u8>) {
    if little_endian {
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
    }
    let start = out.len();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        hex(&[*byte], out);
    }
    if upper {
        out[start..].make_ascii_uppercase();
    }
}

/// Hexadecimal, highest first, a comma every 32 bits.
pub(super) fn bitmap(bytes: &[u8], bits: usize, out: &mut Vec<u8>) {
    let bits = bits.min(bytes.len() * 8);
    let groups = bits.div_ceil(32);
    for group in (0..groups).rev() {
        let mut word = [0; 4];
        let from = &bytes[group * 4..bytes.len().min(group * 4 + 4)];
        word[..from.len()].copy_from_slice(from);
        let in_group = if group + 1 == groups && !bits.is_multiple_of(32) {
            bits % 32
        } else {
            32
        };
        let mask = if in_group == 32 {
            u32::MAX
        } else {
            (1 << in_group) - 1
        };
        let word = u32::from_le_bytes(word) & mask;
        let digits = in_group.div_ceil(4);
        let _ = write!(out, "{word:0digits$x}");
        if group > 0 {
            out.push(b',');
        }
    }
}

/// `0-3,7`.
fn bit_list(bytes: &[u8], bits: usize, out: &mut Vec<u8>) {
    let is_set = |bit: usize| {
        bytes
            .get(bit / 8)
            .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    };
    let mut bit = 0;
    let mut first = true;
    while bit < bits {
        if !is_set(bit) {
            bit += 1;
            continue;
        }
        let start = bit;
        while bit < bits && is_set(bit) {
            bit += 1;
        }
        let comma = if first { "" } else { "," };
        first = false;
        let _ = match bit - start {
            1 => write!(out, "{comma}{start}"),
            _ => write!(out, "{comma}{start}-{}", bit - 1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(letters: &str, bytes: &[u8], width: Option<i64>) -> String {
        let (form, rest) = PointerForm::parse(letters.as_bytes()).unwrap();
        assert_eq!(rest, b"", "{letters}");
        let mut out = Vec::new();
        form.write(bytes, width, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_of_every_network_are_written_as_the_kernel_writes_them() {
        assert_eq!(shown("I4", &[127, 0, 0, 1], None), "127.0.0.1");
        assert_eq!(shown("i4", &[127, 0, 0, 1], None), "127.000.000.001");
        let mut localhost = [0; 16];
        localhost[15] = 1;
        assert_eq!(shown("I6c", &localhost, None), "::1");
        assert_eq!(
            shown("I6", &localhost, None),
            "0000:0000:0000:0000:0000:0000:0000:0001"
        );
        assert_eq!(
            shown("M", &[0, 0x1b, 2, 3, 4, 255], None),
            "00:1b:02:03:04:ff"
        );
        let inet = [2, 0, 0x1f, 0x90, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(shown("ISpc", &inet, None), "10.0.0.7:8080");
        assert_eq!(shown("ISc", &inet, None), "10.0.0.7");
        let mut inet6 = [0; 28];
        inet6[..4].copy_from_slice(&[10, 0, 0, 80]);
        inet6[23] = 1;
        assert_eq!(shown("ISpc", &inet6, None), "[::1]:80");
    }

    #[test]
    fn uuids_bytes_and_bitmaps_are_written_as_the_kernel_writes_them() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(
            shown("U", &bytes, None),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
        assert_eq!(
            shown("UL", &bytes, None),
            "03020100-0504-0706-0809-0A0B0C0D0E0F"
        );
        assert_eq!(shown("h", &bytes, Some(3)), "00 01 02");
        assert_eq!(shown("hN", &bytes, Some(3)), "000102");
        assert_eq!(
            shown("b", &[3, 0, 0, 0, 1, 0, 0, 0], Some(64)),
            "00000001,00000003"
        );
        assert_eq!(shown("b", &[0xff, 0xff], Some(10)), "3ff");
        assert_eq!(shown("bl", &[0b1000_1111, 1], Some(16)), "0-3,7-8");
    }

    #[test]
    fn too_few_bytes_are_a_fault_and_never_a_panic() {
        for letters in ["I4", "I6c", "M", "ISpc", "U", "a"] {
            assert_eq!(shown(letters, &[2, 0, 0], None), "<fault>", "{letters}");
        }
        assert_eq!(shown("b", &[], Some(64)), "");
        assert_eq!(shown("h", &[1], Some(-1)), "");
    }

    #[test]
    fn letters_that_belong_to_no_form_are_left_to_the_text() {
        let (form, rest) = PointerForm::parse(b"S) b").unwrap();
        assert_eq!(
            (form, rest),
            (PointerForm::Symbol { with_offset: true }, &b") b"[..])
        );
        assert!(PointerForm::parse(b"Gp").is_none());
    }
}
