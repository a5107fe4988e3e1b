//! Types of debug information: what definitions need of them, and their names.

use gimli::{AttributeValue, constants as dw};

use super::{DebugInfo, Found, LONGEST_CHAIN};
use crate::definition::knowledge::{Member, Type, TypeId, Types};

impl Types for DebugInfo {
    fn look(&self, id: TypeId) -> Option<Type> {
        let Some(found) = self.behind_aliases(id)? else {
            return Some(Type::Void);
        };
        let entry = &found.entry;
        let bytes = || entry.attr_value(dw::DW_AT_byte_size)?.udata_value();
        Some(match entry.tag() {
            dw::DW_TAG_base_type => self.base(&found, bytes()?),
            // A null pointer's type, `!` and the like.
            dw::DW_TAG_unspecified_type => Type::Other,
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => {
                // Nothing is where `void` would be.
                let to = self.reference(&found, dw::DW_AT_type);
                Type::Pointer(to.unwrap_or(VOID))
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                Type::Composite(self.members(&self.defined(found)))
            }
            dw::DW_TAG_array_type => Type::Array(self.reference(&found, dw::DW_AT_type)?),
            dw::DW_TAG_enumeration_type => match bytes().or_else(|| {
                let of = self.reference(&found, dw::DW_AT_type)?;
                self.size_of(of)
            })? {
                bytes @ (4 | 8) => Type::Enumeration {
                    bytes: bytes as u32,
                },
                bytes => Type::Integer {
                    bits: bytes.min(16) as u32 * 8,
                    bit_offset: 0,
                    signed: false,
                },
            },
            _ => Type::Other,
        })
    }
}

/// What nothing is at.
const VOID: TypeId = TypeId(u64::MAX);

impl DebugInfo {
    /// A type without its typedefs and qualifiers; `Some(None)` is `void`.
    fn behind_aliases(&self, mut id: TypeId) -> Option<Option<Found>> {
        for _ in 0..LONGEST_CHAIN {
            if id == VOID {
                return Some(None);
            }
            let found = self.find(id)?;
            match found.entry.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type
                | dw::DW_TAG_immutable_type => match self.reference(&found, dw::DW_AT_type) {
                    Some(next) => id = next,
                    None => return Some(None),
                },
                _ => return Some(Some(found)),
            }
        }
        None
    }

    fn base(&self, found: &Found, bytes: u64) -> Type {
        let encoding = match found.entry.attr_value(dw::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            _ => return Type::Other,
        };
        let integer = |signed| Type::Integer {
            bits: bytes.min(16) as u32 * 8,
            bit_offset: 0,
            signed,
        };
        match encoding {
            dw::DW_ATE_float | dw::DW_ATE_complex_float | dw::DW_ATE_decimal_float => Type::Float {
                bytes: bytes.min(16) as u32,
            },
            // C's `char` is text; `signed char` and `unsigned char` are numbers.
            dw::DW_ATE_signed_char | dw::DW_ATE_unsigned_char
                if bytes == 1 && self.own_name(found).as_deref() == Some("char") =>
            {
                Type::Character
            }
            dw::DW_ATE_signed | dw::DW_ATE_signed_char => integer(true),
            _ => integer(false),
        }
    }

    /// Where a type is only declared, its definition elsewhere in the unit.
    fn defined(&self, found: Found) -> Found {
        let is_declaration = |entry: &super::Entry| entry.attr(dw::DW_AT_declaration).is_some();
        if !is_declaration(&found.entry) {
            return found;
        }
        let Some(name) = self.own_name(&found) else {
            return found;
        };
        for &start in &self.units(found.is_shared).starts {
            let Some(unit) = self.unit(found.is_shared, start) else {
                continue;
            };
            let mut definition = None;
            self.walk(&unit, |entry| {
                if entry.tag() != found.entry.tag() || is_declaration(entry) {
                    return false;
                }
                let candidate = Found {
                    is_shared: found.is_shared,
                    unit: unit.clone(),
                    entry: entry.clone(),
                };
                let is_it = self.own_name(&candidate).as_ref() == Some(&name);
                if is_it {
                    definition = Some(candidate);
                }
                is_it
            });
            if let Some(definition) = definition {
                return definition;
            }
        }
        found
    }

    fn members(&self, of: &Found) -> Vec<Member> {
        let mut members = Vec::new();
        self.below(of, |depth, child| {
            let is_member = matches!(
                child.entry.tag(),
                dw::DW_TAG_member | dw::DW_TAG_inheritance
            );
            if depth == 1
                && is_member
                && let Some(member) = self.member(&child)
            {
                members.push(member);
            }
        });
        members
    }

    fn member(&self, child: &Found) -> Option<Member> {
        let number = |attribute| child.entry.attr_value(attribute)?.udata_value();
        let type_id = self.reference(child, dw::DW_AT_type)?;
        let begin = match child.entry.attr_value(dw::DW_AT_data_member_location) {
            Some(value) => value.udata_value()?.checked_mul(8)?,
            // Static members are in no object; the first of a union may leave it out.
            None if child.entry.attr(dw::DW_AT_external).is_some() => return None,
            None => 0,
        };
        let bits = number(dw::DW_AT_bit_size).unwrap_or(0);
        let begin = match (
            number(dw::DW_AT_data_bit_offset),
            number(dw::DW_AT_bit_offset),
        ) {
            (Some(offset), _) => begin.checked_add(offset)?,
            // Before DWARF 4 bits were counted from the most significant one of the storage.
            (None, Some(from_top)) => {
                let storage = number(dw::DW_AT_byte_size).or_else(|| self.size_of(type_id))?;
                let from_bottom = storage
                    .checked_mul(8)?
                    .checked_sub(from_top.checked_add(bits)?)?;
                begin.checked_add(from_bottom)?
            }
            (None, None) => begin,
        };
        // What a class inherits is found without naming the class, as in an anonymous structure.
        let name = match child.entry.tag() {
            dw::DW_TAG_inheritance => String::new(),
            _ => self.own_name(child).unwrap_or_default(),
        };
        Some(Member {
            name,
            type_id,
            bit_offset: u32::try_from(begin).ok()?,
            bits: u32::try_from(bits).ok()?,
        })
    }

    /// Bytes of a type; `None` where that is not known.
    pub(super) fn size_of(&self, id: TypeId) -> Option<u64> {
        let found = self.behind_aliases(id)??;
        if let Some(value) = found.entry.attr_value(dw::DW_AT_byte_size) {
            return value.udata_value();
        }
        match found.entry.tag() {
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => Some(8),
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => {
                let defined = self.defined(found);
                defined.entry.attr_value(dw::DW_AT_byte_size)?.udata_value()
            }
            _ => None,
        }
    }

    /// A type's name as its language writes it; `?` stands for what cannot be read.
    pub fn type_name(&self, id: TypeId) -> String {
        self.written(id, LONGEST_CHAIN)
    }

    fn written(&self, id: TypeId, depth: usize) -> String {
        let unknown = || "?".to_owned();
        if id == VOID {
            return "void".to_owned();
        }
        let (Some(found), Some(depth)) = (self.find(id), depth.checked_sub(1)) else {
            return unknown();
        };
        let to = |found: &Found| match self.reference(found, dw::DW_AT_type) {
            Some(to) => self.written(to, depth),
            None => "void".to_owned(),
        };
        let tag = found.entry.tag();
        // Rust names its pointers: `&orders::Cart`.
        if let Some(name) = self.own_name(&found) {
            let word = match tag {
                dw::DW_TAG_structure_type if self.is_c(&found) => "struct ",
                dw::DW_TAG_union_type if self.is_c(&found) => "union ",
                dw::DW_TAG_enumeration_type if self.is_c(&found) => "enum ",
                _ => "",
            };
            return format!("{word}{name}");
        }
        match tag {
            dw::DW_TAG_pointer_type => pointer(&to(&found), "*"),
            dw::DW_TAG_reference_type => pointer(&to(&found), "&"),
            dw::DW_TAG_rvalue_reference_type => pointer(&to(&found), "&&"),
            dw::DW_TAG_const_type => qualified("const", &to(&found)),
            dw::DW_TAG_volatile_type => qualified("volatile", &to(&found)),
            dw::DW_TAG_restrict_type => qualified("restrict", &to(&found)),
            dw::DW_TAG_atomic_type => qualified("_Atomic", &to(&found)),
            dw::DW_TAG_array_type => format!("{}[]", to(&found)),
            dw::DW_TAG_subroutine_type => {
                let mut parameters = Vec::new();
                self.below(&found, |level, child| {
                    if level == 1 && child.entry.tag() == dw::DW_TAG_formal_parameter {
                        parameters.push(to(&child));
                    }
                });
                format!("{} ()({})", to(&found), parameters.join(", "))
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => "struct {…}".to_owned(),
            dw::DW_TAG_union_type => "union {…}".to_owned(),
            dw::DW_TAG_enumeration_type => "enum {…}".to_owned(),
            _ => unknown(),
        }
    }

    fn is_c(&self, found: &Found) -> bool {
        let mut language = None;
        self.walk(&found.unit, |root| {
            language = match root.attr_value(dw::DW_AT_language) {
                Some(AttributeValue::Language(language)) => Some(language),
                _ => None,
            };
            true
        });
        // What several units share (dwz) says no language; such files are C's mostly.
        language.is_none_or(|language| {
            matches!(
                language,
                dw::DW_LANG_C89
                    | dw::DW_LANG_C
                    | dw::DW_LANG_C99
                    | dw::DW_LANG_C11
                    | dw::DW_LANG_C17
            ) || language == dw::DW_LANG_Mips_Assembler
        })
    }
}

/// `int *` of `int`, `int (*)(char)` of `int ()(char)`, `int **` of `int *`.
fn pointer(to: &str, mark: &str) -> String {
    if let Some(at) = to.find("()(") {
        return format!("{}{mark}{}", &to[..=at], &to[at + 1..]);
    }
    if let Some(of) = to.strip_suffix("[]") {
        return format!("{of} ({mark})[]");
    }
    match to.ends_with(['*', '&']) {
        true => format!("{to}{mark}"),
        false => format!("{to} {mark}"),
    }
}

/// `const char` of `char`, `char *const` of `char *`.
fn qualified(word: &str, of: &str) -> String {
    match of.ends_with(['*', '&']) {
        true => format!("{of}{word}"),
        false => format!("{word} {of}"),
    }
}
