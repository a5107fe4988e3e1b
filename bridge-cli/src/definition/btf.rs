//! Functions, structures and their members, from the kernel's type information (BTF).
//!
//! ```text
//! header  u16 magic 0xeb9f  u8 version 1  u8 flags  u32 header length
//!         u32 types offset  u32 types length  u32 strings offset  u32 strings length
//! type    u32 name  u32 info (bits 0–15 count, 24–28 kind, 31 flag)  u32 size or type   then by kind
//! ```
//! `/sys/kernel/btf/vmlinux` is whole in itself; that of a module goes on where it ends: its first type
//! has the next number, its first string the next offset. Nothing is copied out but where each type
//! begins. The layout is Documentation/bpf/btf.rst of the kernel.

use std::collections::HashMap;

use super::knowledge::{Member, Prototype, Type, TypeId};

/// One file of type information.
#[derive(Debug, Default)]
pub(super) struct Btf {
    bytes: Vec<u8>,
    /// Where each type begins, from the first of this file on.
    types: Vec<u32>,
    strings: usize,
    /// The number of the first type and the offset of the first string.
    first_type: u32,
    first_string: u32,
    functions: HashMap<Box<str>, u32>,
    structures: HashMap<Box<str>, u32>,
}

const STRUCTURE: u32 = 4;
const UNION: u32 = 5;
const FUNCTION: u32 = 12;

/// How long a chain of typedefs and qualifiers may be.
const LONGEST_CHAIN: usize = 32;

impl Btf {
    /// Reads a whole file; `base` is the kernel's own where this is a module's. `None` where the bytes
    /// are no type information. Reading stops at the first type of an unknown kind.
    pub(super) fn parse(bytes: Vec<u8>, base: Option<&Btf>) -> Option<Btf> {
        let word = |at: usize| word(&bytes, at);
        if word(0)? & 0xff_ffff != 0x01_eb9f {
            return None;
        }
        let header = word(4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(at)? as usize)?;
            let end = start.checked_add(word(at + 4)? as usize)?;
            (end <= bytes.len()).then_some((start, end))
        };
        let (mut at, end) = section(8)?;
        let (strings, _) = section(16)?;
        let mut btf = Btf {
            strings,
            first_type: base.map_or(1, Btf::next_type),
            first_string: base.map_or(0, |base| base.first_string + base.string_bytes()),
            ..Btf::default()
        };
        while at + 12 <= end {
            let info = word(at + 4)?;
            let Some(tail) = tail(info) else {
                break;
            };
            btf.types.push(at as u32);
            at += 12 + tail;
        }
        btf.bytes = bytes;
        for (index, &start) in btf.types.iter().enumerate() {
            let (Some(name), Some(info)) =
                (word_at(&btf.bytes, start, 0), word_at(&btf.bytes, start, 4))
            else {
                continue;
            };
            let names = match info >> 24 & 31 {
                STRUCTURE => &mut btf.structures,
                FUNCTION => &mut btf.functions,
                _ => continue,
            };
            let own = name
                .checked_sub(btf.first_string)
                .and_then(|at| text(&btf.bytes, btf.strings, at));
            if let Some(name) = own.filter(|name| !name.is_empty()) {
                names
                    .entry(name.into())
                    .or_insert(btf.first_type + index as u32);
            }
        }
        Some(btf)
    }

    fn next_type(&self) -> u32 {
        self.first_type + self.types.len() as u32
    }

    fn string_bytes(&self) -> u32 {
        word(&self.bytes, 20).unwrap_or(0)
    }
}

/// Bytes behind the first 12 of a type.
fn tail(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match info >> 24 & 31 {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        STRUCTURE | UNION | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word_at(bytes: &[u8], start: u32, offset: usize) -> Option<u32> {
    word(bytes, start as usize + offset)
}

fn text(bytes: &[u8], strings: usize, at: u32) -> Option<&str> {
    let bytes = bytes.get(strings + at as usize..)?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

/// The kernel's type information and that of modules, as one.
#[derive(Debug, Default)]
pub(super) struct AllBtf {
    /// The kernel's own first.
    files: Vec<Btf>,
}

impl AllBtf {
    pub(super) fn add(&mut self, bytes: Vec<u8>) {
        self.files.extend(Btf::parse(bytes, self.files.first()));
    }

    /// The bytes of a type: of which file, and where it begins there.
    fn find(&self, id: TypeId) -> Option<(usize, u32)> {
        let (file, number) = ((id.0 >> 32) as usize, id.0 as u32);
        let of = |file: usize| {
            let own = self.files.get(file)?;
            let index = number.checked_sub(own.first_type)?;
            Some((file, *own.types.get(index as usize)?))
        };
        of(file).or_else(|| of(0))
    }

    pub(super) fn name(&self, file: usize, at: u32) -> Option<&str> {
        let own = self.files.get(file)?;
        match at.checked_sub(own.first_string) {
            Some(at) => text(&own.bytes, own.strings, at),
            None => {
                let base = self.files.first()?;
                text(&base.bytes, base.strings, at)
            }
        }
    }

    pub(super) fn words(
        &self,
        id: TypeId,
    ) -> Option<(usize, u32, impl Fn(usize) -> Option<u32> + '_)> {
        let (file, start) = self.find(id)?;
        let bytes = &self.files[file].bytes;
        Some((file, start, move |at| word_at(bytes, start, at)))
    }

    /// A type behind its typedefs and qualifiers.
    pub(super) fn look(&self, mut id: TypeId) -> Option<Type> {
        let same_file = |id: TypeId, number: u32| TypeId(id.0 >> 32 << 32 | u64::from(number));
        for _ in 0..LONGEST_CHAIN {
            if id.0 as u32 == 0 {
                return Some(Type::Void);
            }
            let (file, _, word) = self.words(id)?;
            let (info, value) = (word(4)?, word(8)?);
            let count = (info & 0xffff) as usize;
            return Some(match info >> 24 & 31 {
                8..=11 | 18 => {
                    id = same_file(id, value);
                    continue;
                }
                1 => {
                    let data = word(12)?;
                    // Kernels before 6.2 are compiled with a signed `char`, later ones with an unsigned one.
                    let is_char = self.name(file, word(0)?) == Some("char");
                    Type::Integer {
                        bits: data & 0xff,
                        bit_offset: data >> 16 & 0xff,
                        signed: data >> 24 & 1 == 1 && !is_char,
                    }
                }
                2 => Type::Pointer(same_file(id, value)),
                3 => Type::Array(same_file(id, word(12)?)),
                STRUCTURE | UNION => {
                    let has_widths = info >> 31 == 1;
                    let member = |index: usize| {
                        let at = 12 + 12 * index;
                        let place = word(at + 8)?;
                        let (bit_offset, bits) = match has_widths {
                            true => (place & 0xff_ffff, place >> 24),
                            false => (place, 0),
                        };
                        Some(Member {
                            name: self.name(file, word(at)?)?.to_owned(),
                            type_id: same_file(id, word(at + 4)?),
                            bit_offset,
                            bits,
                        })
                    };
                    Type::Composite((0..count).map(member).collect::<Option<_>>()?)
                }
                6 => Type::Enumeration { bytes: 4 },
                19 => Type::Enumeration { bytes: 8 },
                _ => Type::Other,
            });
        }
        None
    }

    /// A function's parameters and what it returns.
    pub(super) fn prototype(&self, function: &str) -> Option<Prototype> {
        let found = self.named(|btf| btf.functions.get(function).copied())?;
        let (_, _, word) = self.words(found)?;
        let id = TypeId(found.0 >> 32 << 32 | u64::from(word(8)?));
        let (file, _, word) = self.words(id)?;
        let (info, returns) = (word(4)?, word(8)?);
        if info >> 24 & 31 != 13 {
            return None;
        }
        let of = |number: u32| TypeId(id.0 >> 32 << 32 | u64::from(number));
        let parameter = |index: usize| {
            let at = 12 + 8 * index;
            let name = self.name(file, word(at)?)?;
            let name = (!name.is_empty()).then(|| name.to_owned());
            Some((name, of(word(at + 4)?)))
        };
        Some(Prototype {
            parameters: (0..(info & 0xffff) as usize)
                .map(parameter)
                .collect::<Option<_>>()?,
            returns: (returns != 0).then(|| of(returns)),
        })
    }

    /// A structure by its name.
    pub(super) fn structure(&self, name: &str) -> Option<TypeId> {
        self.named(|btf| btf.structures.get(name).copied())
    }

    fn named(&self, find: impl Fn(&Btf) -> Option<u32>) -> Option<TypeId> {
        self.files.iter().enumerate().find_map(|(file, btf)| {
            find(btf).map(|number| TypeId((file as u64) << 32 | u64::from(number)))
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Type information of one file; `strings` and `types` go on from those of a base.
    pub(in super::super) fn file(strings: &[u8], types: &[&[u32]]) -> Vec<u8> {
        let types: Vec<u8> = types
            .iter()
            .flat_map(|words| words.iter().flat_map(|word| word.to_le_bytes()))
            .collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let lengths = [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        bytes.extend(lengths.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    /// `int`, a pointer to it, `struct point { int x; unsigned flag:3; }` and `int f(struct point *p)`.
    fn base() -> Vec<u8> {
        let strings = b"\0int\0point\0x\0flag\0f\0p\0";
        file(
            strings,
            &[
                &[1, 1 << 24, 4, 1 << 24 | 32],
                &[5, 4 << 24 | 1 << 31 | 2, 8, 11, 1, 0, 13, 1, 3 << 24 | 32],
                &[0, 2 << 24, 2],
                &[0, 13 << 24 | 1, 1, 20, 3],
                &[18, 12 << 24, 4],
            ],
        )
    }

    #[test]
    fn functions_and_members_are_found_by_name() {
        let mut all = AllBtf::default();
        all.add(base());
        let prototype = all.prototype("f").unwrap();
        let (name, id) = &prototype.parameters[0];
        assert_eq!(name.as_deref(), Some("p"));
        let Some(Type::Pointer(to)) = all.look(*id) else {
            panic!("no pointer");
        };
        assert_eq!(Some(to), all.structure("point"));
        let Some(Type::Composite(members)) = all.look(to) else {
            panic!("no structure");
        };
        let of = |member: &Member| (member.name.clone(), member.bit_offset, member.bits);
        assert_eq!(of(&members[0]), ("x".to_owned(), 0, 0));
        assert_eq!(of(&members[1]), ("flag".to_owned(), 32, 3));
        let int = all.look(members[0].type_id).unwrap();
        assert_eq!(
            int,
            Type::Integer {
                bits: 32,
                bit_offset: 0,
                signed: true
            }
        );
        assert_eq!(all.prototype("point"), None);
    }

    #[test]
    fn a_module_s_types_go_on_where_the_kernel_s_end() {
        let mut all = AllBtf::default();
        all.add(base());
        let start = 22;
        // struct more { struct point *where; } and void g(struct more *m): types 6 to 9.
        all.add(file(
            b"more\0where\0g\0m\0",
            &[
                &[start, 4 << 24 | 1, 8, start + 5, 3, 0],
                &[0, 2 << 24, 6],
                &[0, 13 << 24 | 1, 0, start + 13, 7],
                &[start + 11, 12 << 24, 8],
            ],
        ));
        let prototype = all.prototype("g").unwrap();
        assert_eq!(prototype.returns, None);
        let Some(Type::Pointer(to)) = all.look(prototype.parameters[0].1) else {
            panic!("no pointer");
        };
        let Some(Type::Composite(members)) = all.look(to) else {
            panic!("no structure");
        };
        assert_eq!(members[0].name, "where");
        let Some(Type::Pointer(point)) = all.look(members[0].type_id) else {
            panic!("no pointer");
        };
        assert!(matches!(all.look(point), Some(Type::Composite(members)) if members.len() == 2));
    }

    #[test]
    fn damaged_bytes_give_less_or_nothing_and_never_a_panic() {
        let good = base();
        let ask = |bytes: Vec<u8>| {
            let mut all = AllBtf::default();
            all.add(bytes);
            let _ = (all.prototype("f"), all.structure("point"));
            for number in 0..8 {
                let _ = all.look(TypeId(number));
            }
        };
        for cut in 0..good.len() {
            ask(good[..cut].to_vec());
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                ask(bad);
            }
        }
    }
}
