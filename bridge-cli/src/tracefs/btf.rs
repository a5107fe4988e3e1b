//! Names of the kernel's C code, from its BTF (`/sys/kernel/btf/vmlinux`).
//!
//! A `print fmt` may name enumerators that nobody told tracefs about (`I_DIRTY_SYNC`) and typedefs
//! (`xfs_ino_t`); the kernel's own type information has both.
//!
//! ```text
//! header  u16 magic 0xeb9f  u8 version 1  u8 flags  u32 header length
//!         u32 types offset  u32 types length  u32 strings offset  u32 strings length
//! type    u32 name  u32 info (bits 0–15 count, 24–28 kind, 31 flag)  u32 size or type   then by kind
//! ```
//! Both offsets count from the header's end. The layout is Documentation/bpf/btf.rst of the kernel.

use std::collections::HashMap;
use std::path::Path;

use super::c_type::Scalar;
use super::print_fmt::Names;

/// What is needed of a kernel's BTF.
#[derive(Debug, Default)]
pub struct Btf {
    /// `None`: several enumerators of that name have different values.
    constants: HashMap<Box<str>, Option<i64>>,
    /// By number; 0 is void.
    types: Vec<Type>,
    /// Structures, unions, enums, typedefs and integers by name.
    named: HashMap<Box<str>, u32>,
}

#[derive(Clone, Copy, Debug)]
enum Type {
    /// A size in bytes.
    Composite(u32),
    Integer(Scalar),
    /// Another name, or a qualifier, of this type.
    Alias(u32),
    Pointer,
    Other,
}

/// How long a chain of typedefs and qualifiers may be.
const LONGEST_CHAIN: usize = 32;

impl Btf {
    /// Reads a BTF file; names nothing where it cannot be read.
    pub fn read(path: &Path) -> Btf {
        let bytes = std::fs::read(path).unwrap_or_default();
        Btf::parse(&bytes).unwrap_or_default()
    }

    /// Reads the bytes of a BTF file; `None` where they are none. Reading stops at the first type of
    /// a kind that is not known, since its length is not known either.
    pub fn parse(bytes: &[u8]) -> Option<Btf> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if word(0)? & 0xff_ffff != 0x01_eb9f {
            return None;
        }
        let header = word(4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(at)? as usize)?;
            bytes.get(start..start.checked_add(word(at + 4)? as usize)?)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut btf = Btf {
            types: vec![Type::Other],
            ..Btf::default()
        };
        let mut rest = types;
        while let Some(after) = btf.one(rest, strings) {
            rest = after;
        }
        Some(btf)
    }

    /// Takes the type that `bytes` begin with, and returns what follows.
    fn one<'a>(&mut self, bytes: &'a [u8], strings: &[u8]) -> Option<&'a [u8]> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (name, info, size) = (word(0)?, word(4)?, word(8)?);
        let count = (info & 0xffff) as usize;
        let signed = info >> 31 == 1;
        let (class, tail, prefix) = match info >> 24 & 31 {
            1 => {
                let signed = word(12)? >> 24 & 1 == 1;
                (
                    Type::Integer(Scalar {
                        size: size.min(8) as u8,
                        signed,
                    }),
                    4,
                    "",
                )
            }
            2 => (Type::Pointer, 0, ""),
            3 => (Type::Other, 12, ""),
            4 => (Type::Composite(size), 12 * count, "struct "),
            5 => (Type::Composite(size), 12 * count, "union "),
            6 => (
                Type::Integer(Scalar {
                    size: size.min(8) as u8,
                    signed,
                }),
                8 * count,
                "enum ",
            ),
            8 => (Type::Alias(size), 0, ""),
            9..=11 | 18 => (Type::Alias(size), 0, ""),
            7 | 12 | 16 => (Type::Other, 0, ""),
            13 => (Type::Other, 8 * count, ""),
            14 | 17 => (Type::Other, 4, ""),
            15 => (Type::Other, 12 * count, ""),
            19 => (
                Type::Integer(Scalar { size: 8, signed }),
                12 * count,
                "enum ",
            ),
            _ => return None,
        };
        let kind = info >> 24 & 31;
        let after = bytes.get(12 + tail..)?;
        let number = self.types.len() as u32;
        self.types.push(class);
        if matches!(kind, 1 | 4 | 5 | 6 | 8 | 19) && name != 0 {
            let name = format!("{prefix}{}", text(strings, name)?);
            self.named.entry(name.into()).or_insert(number);
        }
        for row in bytes[12..12 + tail].chunks_exact(if kind == 19 { 12 } else { 8 }) {
            let word = |at: usize| Some(u32::from_le_bytes(*row.get(at..)?.first_chunk()?));
            let value = match kind {
                6 if signed => i64::from(word(4)? as i32),
                6 => i64::from(word(4)?),
                19 => (u64::from(word(8)?) << 32 | u64::from(word(4)?)) as i64,
                _ => break,
            };
            let known = self
                .constants
                .entry(text(strings, word(0)?)?.into())
                .or_insert(Some(value));
            if *known != Some(value) {
                *known = None;
            }
        }
        Some(after)
    }

    /// What a type is behind its typedefs.
    fn resolve(&self, name: &str) -> Option<Type> {
        let mut number = *self.named.get(name)?;
        for _ in 0..LONGEST_CHAIN {
            match *self.types.get(number as usize)? {
                Type::Alias(next) => number = next,
                other => return Some(other),
            }
        }
        None
    }
}

fn text(strings: &[u8], at: u32) -> Option<&str> {
    let bytes = strings.get(at as usize..)?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

impl Names for Btf {
    fn constant(&self, name: &str) -> Option<i64> {
        *self.constants.get(name)?
    }

    fn scalar(&self, name: &str) -> Option<Scalar> {
        match self.resolve(name)? {
            Type::Integer(scalar) => Some(scalar),
            Type::Composite(_) | Type::Alias(_) | Type::Pointer | Type::Other => None,
        }
    }

    fn size_of(&self, type_name: &str) -> Option<u64> {
        match self.resolve(type_name)? {
            Type::Integer(scalar) => Some(scalar.size.into()),
            Type::Composite(size) => Some(size.into()),
            Type::Pointer => Some(8),
            Type::Alias(_) | Type::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An enum of two, a typedef of it, and a structure.
    fn sample() -> Vec<u8> {
        let strings = b"\0color\0RED\0BLUE\0color_t\0point\0";
        let mut types: Vec<u8> = Vec::new();
        let mut words =
            |words: &[u32]| types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        words(&[1, 6 << 24 | 1 << 31 | 2, 4, 7, 1, 11, u32::MAX]);
        words(&[16, 8 << 24, 1]);
        words(&[24, 4 << 24, 24]);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ] {
            bytes.extend_from_slice(&u32::to_le_bytes(word));
        }
        bytes.extend_from_slice(&types);
        bytes.extend_from_slice(strings);
        bytes
    }

    #[test]
    fn enumerators_typedefs_and_sizes_are_found_by_name() {
        let btf = Btf::parse(&sample()).unwrap();
        assert_eq!(
            (btf.constant("RED"), btf.constant("BLUE")),
            (Some(1), Some(-1))
        );
        assert_eq!(btf.scalar("color_t"), Some(Scalar::INT));
        assert_eq!(btf.size_of("struct point"), Some(24));
        assert_eq!(
            (btf.constant("GREEN"), btf.scalar("struct point")),
            (None, None)
        );
    }

    #[test]
    fn damaged_bytes_give_less_or_nothing_and_never_a_panic() {
        let good = sample();
        for cut in 0..good.len() {
            let _ = Btf::parse(&good[..cut]);
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                if let Some(btf) = Btf::parse(&bad) {
                    let _ = (btf.size_of("color_t"), btf.constant("RED"));
                }
            }
        }
    }
}
