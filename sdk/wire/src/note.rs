//! The ELF note `tracebraid`: where the tables of one executable or library are.
//!
//! It is an ordinary allocated note (`PT_NOTE`), so that the running process finds it through
//! `dl_iterate_phdr` and a reader of the file finds it without section headers.
//!
//! ```text
//! desc  u32 version      1
//!       i32 sites_start  i32 sites_stop     rows of table::SiteRow
//!       i32 points_start i32 points_stop    rows of table::PointRow
//!       i32 control                         writable block of the SDK in this object
//! ```
//! Each offset counts from its own address.

use crate::table::relative;

/// The note's owner, without its terminating NUL.
pub const OWNER: &str = "tracebraid";
/// The note's type.
pub const TYPE: u32 = 1;
/// The version of everything the note leads to.
pub const VERSION: u32 = 1;
/// Bytes of the description.
pub const DESC_SIZE: usize = 24;
/// Bytes of the control block: the SDK's lock and epoch, the address of its owner, then zeros.
pub const CONTROL_SIZE: usize = 64;

/// The note's description, as virtual addresses of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// First site row.
    pub sites_start: u64,
    /// Past the last site row.
    pub sites_stop: u64,
    /// First tracepoint row.
    pub points_start: u64,
    /// Past the last tracepoint row.
    pub points_stop: u64,
    /// The control block.
    pub control: u64,
}

/// Why a description could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteError {
    /// Fewer bytes than [`DESC_SIZE`].
    Short,
    /// Written by another version of the SDK: the number it says.
    Version(u32),
}

/// Reads a description that lies at virtual address `address`.
///
/// # Errors
/// [`NoteError`] where it is too short or of another version.
pub fn parse(desc: &[u8], address: u64) -> Result<Tables, NoteError> {
    let word = |at: usize| -> Result<u32, NoteError> {
        let bytes = desc.get(at..at + 4).ok_or(NoteError::Short)?;
        Ok(u32::from_le_bytes(
            bytes.try_into().map_err(|_| NoteError::Short)?,
        ))
    };
    match word(0)? {
        VERSION => {}
        other => return Err(NoteError::Version(other)),
    }
    let at = |offset: usize| {
        let place = address.wrapping_add(offset as u64);
        Ok(relative(place, word(offset)? as i32))
    };
    Ok(Tables {
        sites_start: at(4)?,
        sites_stop: at(8)?,
        points_start: at(12)?,
        points_stop: at(16)?,
        control: at(20)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_at_the_end_of_all_addresses_leads_round_it_and_no_further() {
        let mut desc = [0; DESC_SIZE];
        desc[..4].copy_from_slice(&VERSION.to_le_bytes());
        let tables = parse(&desc, u64::MAX - 3).unwrap();
        assert_eq!((tables.sites_start, tables.control), (0, 16));
    }
}
