//! ELF notes, and the records of `.note.stapsdt`.
//!
//! ```text
//! note     u32 owner length   u32 description length   u32 type   owner, padded   description, padded
//! stapsdt  address of the probe   address of .stapsdt.base   address of the semaphore, or 0
//!          provider NUL   name NUL   arguments NUL
//! ```
//! (SystemTap's wiki, "UserSpaceProbeImplementation", describes it; owner `stapsdt`, type 3.)
//!
//! **The base.** Its section is loaded, the notes are not: a tool that moves an image after linking moves
//! the section header and leaves the notes, so the difference between the section's address and the base
//! in the note is to be added to the probe and to its semaphore. Linkers drop the section under
//! `--gc-sections`; then the note says 0 and there is nothing to add. A note may also say 0 where the
//! section is there, having come with another object: adding its address would be nonsense.

use object::Endianness;

use super::text_of;

/// The owner of USDT notes.
const STAPSDT_OWNER: &[u8] = b"stapsdt";
/// Their type.
const STAPSDT_TYPE: u32 = 3;

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawNote<'a> {
    /// Without its terminating NUL.
    pub(crate) owner: &'a [u8],
    pub(crate) kind: u32,
    pub(crate) description: &'a [u8],
    /// Of the description, from the start of the bytes walked.
    pub(crate) offset: usize,
}

/// The rest of the notes cannot be found: a length points past their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// Walks notes that lie one after the other, each part aligned to `alignment` (4, or 8).
pub(crate) fn walk(
    bytes: &[u8],
    endianness: Endianness,
    alignment: usize,
) -> impl Iterator<Item = Result<RawNote<'_>, Overrun>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        // Less than a header is padding.
        if bytes.len() - at < 12 {
            return None;
        }
        match note_at(bytes, at, endianness, alignment) {
            Some((note, next)) => {
                at = next.min(bytes.len());
                Some(Ok(note))
            }
            None => {
                at = bytes.len();
                Some(Err(Overrun))
            }
        }
    })
}

fn note_at(
    bytes: &[u8],
    at: usize,
    endianness: Endianness,
    alignment: usize,
) -> Option<(RawNote<'_>, usize)> {
    let word = |at: usize| number(bytes, at, 4, endianness).map(|word| word as usize);
    let owner_at = at.checked_add(12)?;
    let owner_end = owner_at.checked_add(word(at)?)?;
    let offset = owner_end.checked_next_multiple_of(alignment)?;
    let end = offset.checked_add(word(at + 4)?)?;
    let owner = bytes.get(owner_at..owner_end)?;
    let description = bytes.get(offset..end)?;
    let owner = owner.strip_suffix(b"\0").unwrap_or(owner);
    let note = RawNote {
        owner,
        kind: word(at + 8)? as u32,
        description,
        offset,
    };
    Some((note, end.checked_next_multiple_of(alignment)?))
}

/// An unsigned number of 4 or 8 bytes.
pub(crate) fn number(bytes: &[u8], at: usize, width: usize, endianness: Endianness) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    let fold = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    Some(match endianness {
        Endianness::Little => bytes.iter().rev().fold(0, fold),
        Endianness::Big => bytes.iter().fold(0, fold),
    })
}

/// A USDT note, as the file's virtual addresses; the base is already worked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StapsdtNote {
    pub(crate) address: u64,
    /// 0 where there is none.
    pub(crate) semaphore: u64,
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The notes of one `.note.stapsdt` section, and how many could not be read.
pub(crate) fn stapsdt_notes(
    bytes: &[u8],
    endianness: Endianness,
    address_width: usize,
    base_section: Option<u64>,
) -> (Vec<StapsdtNote>, usize) {
    let mut notes = Vec::new();
    let mut malformed = 0;
    for note in walk(bytes, endianness, 4) {
        match note {
            Ok(note) if note.owner != STAPSDT_OWNER || note.kind != STAPSDT_TYPE => {}
            Ok(note) => {
                match stapsdt_note(note.description, endianness, address_width, base_section) {
                    Some(note) => notes.push(note),
                    None => malformed += 1,
                }
            }
            Err(Overrun) => malformed += 1,
        }
    }
    (notes, malformed)
}

fn stapsdt_note(
    description: &[u8],
    endianness: Endianness,
    width: usize,
    base_section: Option<u64>,
) -> Option<StapsdtNote> {
    let address = |index: usize| number(description, index * width, width, endianness);
    let (probe, base, semaphore) = (address(0)?, address(1)?, address(2)?);
    let moved = match base_section {
        Some(section) if base != 0 => section.wrapping_sub(base),
        _ => 0,
    };
    let mut texts = description.get(3 * width..)?;
    let mut text = || {
        let end = texts.iter().position(|&byte| byte == 0)?;
        let (text, rest) = texts.split_at(end);
        texts = &rest[1..];
        Some(text_of(text))
    };
    let (provider, name, arguments) = (text()?, text()?, text()?);
    if provider.is_empty() || name.is_empty() {
        return None;
    }
    Some(StapsdtNote {
        address: probe.wrapping_add(moved),
        semaphore: if semaphore == 0 {
            0
        } else {
            semaphore.wrapping_add(moved)
        },
        provider,
        name,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((owner.len() as u32).to_le_bytes());
        bytes.extend((description.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(description);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn description(probe: u64, base: u64, semaphore: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for address in [probe, base, semaphore] {
            bytes.extend(address.to_le_bytes());
        }
        bytes.extend(b"shop\0sold\0-4@%edi 8@$3\0");
        bytes
    }

    fn only(base_section: Option<u64>, probe: u64, base: u64, semaphore: u64) -> StapsdtNote {
        let bytes = note(b"stapsdt\0", 3, &description(probe, base, semaphore));
        let (notes, malformed) = stapsdt_notes(&bytes, Endianness::Little, 8, base_section);
        assert_eq!((notes.len(), malformed), (1, 0));
        notes.into_iter().next().unwrap()
    }

    #[test]
    fn an_image_that_was_moved_after_linking_moves_probe_and_semaphore() {
        let found = only(Some(0x402000), 0x301330, 0x302000, 0x304010);
        assert_eq!((found.address, found.semaphore), (0x401330, 0x404010));
        assert_eq!(
            (
                found.provider.as_str(),
                found.name.as_str(),
                found.arguments.as_str()
            ),
            ("shop", "sold", "-4@%edi 8@$3")
        );
    }

    #[test]
    fn a_base_of_zero_adds_nothing_with_or_without_the_section() {
        for section in [None, Some(0x402000)] {
            let found = only(section, 0x1330, 0, 0x4010);
            assert_eq!((found.address, found.semaphore), (0x1330, 0x4010));
        }
        assert_eq!(only(Some(0x402000), 0x1330, 0x301000, 0).semaphore, 0);
    }

    #[test]
    fn notes_of_other_owners_and_types_are_none_of_ours_and_not_malformed() {
        let mut bytes = note(b"notstap\0", 3, &description(1, 2, 3));
        bytes.extend(note(b"stapsdt\0", 4, &description(1, 2, 3)));
        assert_eq!(
            stapsdt_notes(&bytes, Endianness::Little, 8, None),
            (Vec::new(), 0)
        );
    }

    #[test]
    fn a_malformed_note_is_counted_and_the_next_one_is_still_read() {
        let mut unterminated = description(1, 2, 3);
        unterminated.pop();
        let mut bytes = note(b"stapsdt\0", 3, &unterminated);
        bytes.extend(note(b"stapsdt\0", 3, &description(1, 2, 3)[..16]));
        bytes.extend(note(b"stapsdt\0", 3, &description(1, 0, 3)));
        let (notes, malformed) = stapsdt_notes(&bytes, Endianness::Little, 8, None);
        assert_eq!((notes.len(), malformed), (1, 2));
    }

    #[test]
    fn lengths_that_point_past_the_end_stop_the_walk_with_one_complaint() {
        for at in [0, 4] {
            let mut bytes = note(b"stapsdt\0", 3, &description(1, 2, 3));
            bytes[at..at + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
            assert_eq!(
                stapsdt_notes(&bytes, Endianness::Little, 8, None),
                (Vec::new(), 1)
            );
        }
    }
}
