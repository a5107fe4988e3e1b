//! The schema of a tracepoint: what it is called and what its fields are.
//!
//! ```text
//! u32 length            of all this, padding excluded
//! u16 version           1
//! u8  flags             FLAG_RETURN …
//! u8  fields            how many
//! u8  kinds[fields]     kind::FieldKind bytes
//! provider NUL  name NUL  print NUL  field names, each NUL-terminated
//! ```
//! Of a tracepoint that was made at run time the file and line follow, as `FILE:LINE` and NUL. An empty
//! `print` means the default form, `name=value name=value …`.

use crate::kind::FieldKind;

/// The version written here.
pub const VERSION: u16 = 1;
/// Flag: the tracepoint is the return of the one without `__return` in its name.
pub const FLAG_RETURN: u8 = 1;
/// Flag: the tracepoint was made at run time. It is in no file, and has no USDT probe.
pub const FLAG_MADE: u8 = 2;
/// Bytes before the kinds.
pub const HEADER: usize = 8;
/// The longest schema that a reader accepts, bytes.
pub const MAX_LENGTH: usize = 64 * 1024;

/// A schema, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema<'a> {
    /// Who declares it; an application's crate by default.
    pub provider: &'a str,
    /// Its name within the provider.
    pub name: &'a str,
    /// The print format, or empty.
    pub print: &'a str,
    /// [`FLAG_RETURN`], [`FLAG_MADE`].
    pub flags: u8,
    kinds: &'a [u8],
    names: &'a [u8],
}

/// Why bytes are no schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// The bytes end before the schema does.
    Short,
    /// Its length is smaller than its header or above [`MAX_LENGTH`].
    Length(u32),
    /// Written by another version.
    Version(u16),
    /// A kind this version does not know.
    Kind(u8),
    /// A text that is not UTF-8 or not terminated.
    Text,
}

impl<'a> Schema<'a> {
    /// Reads the schema that `bytes` begin with.
    ///
    /// # Errors
    /// [`SchemaError`] names what is wrong; nothing is read past the length it states.
    pub fn parse(bytes: &'a [u8]) -> Result<Schema<'a>, SchemaError> {
        let head = bytes.get(..HEADER).ok_or(SchemaError::Short)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        if !(HEADER..=MAX_LENGTH).contains(&(length as usize)) {
            return Err(SchemaError::Length(length));
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != VERSION {
            return Err(SchemaError::Version(version));
        }
        let body = bytes
            .get(HEADER..length as usize)
            .ok_or(SchemaError::Short)?;
        let fields = head[7] as usize;
        if body.len() < fields {
            return Err(SchemaError::Short);
        }
        let (kinds, rest) = body.split_at(fields);
        if let Some(&bad) = kinds
            .iter()
            .find(|&&byte| FieldKind::from_byte(byte).is_none())
        {
            return Err(SchemaError::Kind(bad));
        }
        let (provider, rest) = text(rest)?;
        let (name, rest) = text(rest)?;
        let (print, names) = text(rest)?;
        let mut left = names;
        for _ in 0..fields {
            left = text(left)?.1;
        }
        Ok(Schema {
            provider,
            name,
            print,
            flags: head[6],
            kinds,
            names,
        })
    }

    /// The fields in order: name and kind.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, FieldKind)> + use<'a> {
        let mut names = self.names;
        self.kinds.iter().map_while(move |&byte| {
            let (name, rest) = text(names).ok()?;
            names = rest;
            Some((name, FieldKind::from_byte(byte)?))
        })
    }

    /// Where a tracepoint that was made at run time is hit: `FILE:LINE`. Others have sites.
    pub fn place(&self) -> Option<&'a str> {
        if self.flags & FLAG_MADE == 0 {
            return None;
        }
        let mut left = self.names;
        for _ in self.kinds {
            left = text(left).ok()?.1;
        }
        let (place, _) = text(left).ok()?;
        (!place.is_empty()).then_some(place)
    }
}

fn text(bytes: &[u8]) -> Result<(&str, &[u8]), SchemaError> {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .ok_or(SchemaError::Text)?;
    let text = core::str::from_utf8(&bytes[..end]).map_err(|_| SchemaError::Text)?;
    Ok((text, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    const ORDERS: &[u8] = b"\x2e\0\0\0\x01\0\0\x02\x04\x8forders\0charge\0id={id}\0id\0user\0xxxxx";

    #[test]
    fn a_schema_reads_back_its_names_and_kinds() {
        let mut bytes = ORDERS.to_vec();
        let length = bytes.len() as u32 - 5;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let schema = Schema::parse(&bytes).unwrap();
        assert_eq!(
            (schema.provider, schema.name, schema.print),
            ("orders", "charge", "id={id}")
        );
        let fields: std::vec::Vec<_> = schema.fields().collect();
        assert_eq!(
            fields[0],
            (
                "id",
                FieldKind {
                    kind: Kind::U64,
                    optional: false
                }
            )
        );
        assert_eq!(
            fields[1],
            (
                "user",
                FieldKind {
                    kind: Kind::Str,
                    optional: true
                }
            )
        );
    }

    #[test]
    fn a_schema_with_any_byte_wrong_is_read_or_refused_and_never_panics() {
        let mut good = ORDERS.to_vec();
        let length = good.len() as u32 - 5;
        good[..4].copy_from_slice(&length.to_le_bytes());
        for at in 0..good.len() {
            for value in 0..=u8::MAX {
                let mut bad = good.clone();
                bad[at] = value;
                if let Ok(schema) = Schema::parse(&bad) {
                    let _ = schema.fields().count();
                }
            }
        }
        for cut in 0..good.len() {
            let _ = Schema::parse(&good[..cut]);
        }
    }

    extern crate std;
}
