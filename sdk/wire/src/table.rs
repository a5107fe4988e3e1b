//! The rows of the two tables that every instrumented object carries.
//!
//! ```text
//! site row, 24 bytes     i32 code   i32 point   i32 file   u32 line   u32 flags   i32 cold
//! point row, 32 bytes    i32 schema i32 semaphore i32 stub i32 probe  i32 state   u32 slots   u32 flags   u32 fields
//! ```
//! Each i32 counts from its own address. A site is a place in code that is switched; a point is a
//! tracepoint: one provider, name and list of fields in one object, however many sites it has.

/// Bytes of a site row.
pub const SITE_ROW: usize = 24;
/// Bytes of a point row.
pub const POINT_ROW: usize = 32;
/// Site flag: the site tests the semaphore word itself; there is no code to patch.
pub const SITE_TESTS_SEMAPHORE: u32 = 1;
/// Point flag: the tracepoint has fields that are formatted when it is hit.
pub const POINT_FORMATS: u32 = 1;
/// Point flag: every field is one slot of 8 bytes.
pub const POINT_WORDS: u32 = 2;
/// Point flag: the tracepoint is the return of another, and its first field is a
/// [`Kind::Elapsed`](crate::kind::Kind::Elapsed).
pub const POINT_RETURN: u32 = 4;

/// The word that the row's `semaphore` leads to: 4 bytes, 4-aligned, in section `.probes`.
/// The first half is the USDT semaphore, raised by the kernel; the second is 1 while the process
/// itself wants the tracepoint. A site that tests instead of being patched tests all four bytes.
pub const SEMAPHORE_WORD: usize = 4;
/// Bytes of the writable state that the row's `state` leads to (see the SDK's `state`).
pub const STATE_SIZE: usize = 48;

/// The address that a self-relative offset at `address` leads to.
pub const fn relative(address: u64, offset: i32) -> u64 {
    address.wrapping_add_signed(offset as i64)
}

/// One row of the site table, as virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRow {
    /// First byte of the key (or, for a site that tests, of the test).
    pub code: u64,
    /// The point row that this site belongs to.
    pub point: u64,
    /// NUL-terminated source file.
    pub file: u64,
    /// Line in it, from 1.
    pub line: u32,
    /// Where the code goes when the site is on.
    pub cold: u64,
    /// [`SITE_TESTS_SEMAPHORE`] or 0.
    pub flags: u32,
}

/// One row of the tracepoint table, as virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointRow {
    /// The row's own address: the tracepoint's identity within the object.
    pub address: u64,
    /// The schema ([`crate::schema`]).
    pub schema: u64,
    /// The semaphore word ([`SEMAPHORE_WORD`]).
    pub semaphore: u64,
    /// The function that holds the USDT probe; takes the slots' address in the first argument.
    pub stub: u64,
    /// The nop that the USDT note points at.
    pub probe: u64,
    /// The writable state.
    pub state: u64,
    /// How many slots the USDT note describes, 0 to 12.
    pub usdt_slots: u32,
    /// [`POINT_FORMATS`], [`POINT_WORDS`], [`POINT_RETURN`].
    pub flags: u32,
}

fn word(row: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(row.get(at..at + 4)?.try_into().ok()?))
}

fn leads_to(row: &[u8], address: u64, at: usize) -> Option<u64> {
    Some(relative(
        address.wrapping_add(at as u64),
        word(row, at)? as i32,
    ))
}

/// Reads the site row that lies at `address`; `None` where the bytes are too few.
pub fn parse_site(row: &[u8], address: u64) -> Option<SiteRow> {
    Some(SiteRow {
        code: leads_to(row, address, 0)?,
        point: leads_to(row, address, 4)?,
        file: leads_to(row, address, 8)?,
        line: word(row, 12)?,
        cold: leads_to(row, address, 20)?,
        flags: word(row, 16)?,
    })
}

/// Reads the point row that lies at `address`; `None` where the bytes are too few.
pub fn parse_point(row: &[u8], address: u64) -> Option<PointRow> {
    Some(PointRow {
        address,
        schema: leads_to(row, address, 0)?,
        semaphore: leads_to(row, address, 4)?,
        stub: leads_to(row, address, 8)?,
        probe: leads_to(row, address, 12)?,
        state: leads_to(row, address, 16)?,
        usdt_slots: word(row, 20)?,
        flags: word(row, 24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_at_the_end_of_all_addresses_lead_round_it_and_no_further() {
        let row = [0xff; POINT_ROW];
        for address in [u64::MAX, u64::MAX - 16, 0] {
            let site = parse_site(&row, address).unwrap();
            assert_eq!(site.code, address.wrapping_sub(1));
            let point = parse_point(&row, address).unwrap();
            assert_eq!(point.state, address.wrapping_add(15));
        }
    }
}
