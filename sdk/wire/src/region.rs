//! The header area of a region: what a program and a bridge say to one another in shared memory.
//!
//! ```text
//! 0        header: written once by the program, before anybody else can find the region
//! 256      control words, each on a line of its own: requests of the bridge, answers of the helper
//! 1280     pairs: moments in both clocks, written by the helper
//! 3328     patterns: what the bridge wants of tracepoints that are made later
//! 4096     wanted: one byte an event, written by the bridge: what of WANTED_HERE, and WANTED_OF_CHILDREN
//! 12288    filters: entries that the bridge writes, one for each event that is WANTED_FILTERED
//! 77824    directory: one entry a tracepoint, appended by the program
//! …        losses: u32 for each CPU and event, counted up by the program; and what filters refused
//! ```
//! The rings are four groups of one a CPU ([`Group`]): the process's own and those of its children, each
//! with restartable sequences and with locks. Children of fork append to their parent's region, in rings
//! that no thread of the parent uses, until they make a region of their own.
//!
//! All little-endian. The reader copies before it looks, and takes every value for hostile; the program
//! likewise trusts nothing that the bridge wrote beyond a byte being on or off and a filter parsing.

/// `"TRBRAID"` and a NUL, as a number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TRBRAID\0");
/// The version of the region and of the records in it.
pub const VERSION: u32 = 2;
/// The most events a process can have; ids are 1 to this.
pub const MAX_EVENTS: usize = 8191;

/// Where the control words begin.
pub const CONTROL: usize = 256;
/// Where the bytes of wanted events begin.
pub const WANTED: usize = 4096;
/// Wanted byte: every hit.
pub const WANTED_ALL: u8 = 1;
/// Wanted byte: hits that pass the event's filter; none where it has no filter that can be read.
pub const WANTED_FILTERED: u8 = 2;
/// Wanted byte: hits are counted where those are that filters refuse ([`filtered_offset`]), and none of them
/// goes to the rings. For programs of which the header says [`HELPER_COUNTS`]; others leave such an event off.
pub const WANTED_COUNTED: u8 = 3;
/// Where the filters begin.
pub const FILTERS: usize = WANTED + 8192;
/// Bytes for filters.
pub const FILTERS_BYTES: usize = 64 * 1024;
/// Where the directory begins.
pub const DIRECTORY: usize = FILTERS + FILTERS_BYTES;
/// Bytes for the directory. What does not fit has no event id and is not recorded; `Header::unlisted`
/// counts it.
pub const DIRECTORY_BYTES: usize = 4 << 20;
/// The bits of a wanted byte that concern the process itself.
pub const WANTED_HERE: u8 = 3;
/// The bit of a wanted byte: hits in its children too, as far as they inherited that the event is on. In
/// the byte of event 0, which is none: children are followed.
pub const WANTED_OF_CHILDREN: u8 = 4;

/// Where the pairs of clocks begin: a `u64` of ticks and one of CLOCK_MONOTONIC nanoseconds each. The
/// first one stays; the others are written in turn, [`control::PAIRS`] counts them all.
pub const PAIRS: usize = CONTROL + 1024;
/// How many pairs there is room for.
pub const PAIRS_ROOM: usize = 128;

/// Whose rings they are, and how they are appended to. The rings of a region are these groups in this
/// order, each with a ring a CPU (of a locked ring: a ring a thread's number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Group {
    /// The process's, in restartable sequences.
    Own = 0,
    /// The process's, under a lock.
    OwnLocked = 1,
    /// Its children's, in restartable sequences.
    Children = 2,
    /// Its children's, under a lock.
    ChildrenLocked = 3,
}

impl Group {
    /// All of them, in their order.
    pub const ALL: [Group; 4] = [
        Group::Own,
        Group::OwnLocked,
        Group::Children,
        Group::ChildrenLocked,
    ];

    /// The number of its first ring where there are so many CPUs.
    pub const fn first(self, cpus: usize) -> usize {
        self as usize * cpus
    }

    /// Whether children append to it.
    pub const fn is_of_children(self) -> bool {
        matches!(self, Group::Children | Group::ChildrenLocked)
    }
}

/// Where the patterns begin: `PROVIDER:NAME` each, with `*`, `?` and `[…]`, and a NUL. A tracepoint that
/// is made at run time and that one of them names is [`WANTED_ALL`] from its first hit on, as long as its
/// own byte says nothing else. [`control::PATTERNS_USED`] says how many bytes there are.
pub const PATTERNS: usize = PAIRS + 16 * PAIRS_ROOM;
/// Bytes for patterns.
pub const PATTERNS_BYTES: usize = WANTED - PATTERNS;
/// A pattern that names nothing: whoever makes tracepoints at run time makes those it comes across.
pub const PATTERN_OF_NONE: &str = ":";

/// Walks patterns. What is no UTF-8 is left out.
pub fn patterns(area: &[u8]) -> impl Iterator<Item = &str> {
    area.split(|&byte| byte == 0)
        .filter_map(|pattern| core::str::from_utf8(pattern).ok())
        .filter(|pattern| !pattern.is_empty())
}

/// Where the losses begin: a row a ring. Only rings in restartable sequences have losses of their own; what
/// is lost in a locked ring is counted with its CPU. The rows of locked rings are those of [`filtered_offset`].
pub const LOSSES: usize = DIRECTORY + DIRECTORY_BYTES;
/// Bytes of losses for each ring.
pub const LOSSES_STRIDE: usize = 8192 * 4;

/// Bytes of the whole header area for so many rings: whole pages.
pub const fn header_bytes(rings: usize) -> usize {
    LOSSES + rings * LOSSES_STRIDE
}

/// Where an event's losses on a ring are counted.
pub const fn loss_offset(ring: usize, event: u16) -> usize {
    LOSSES + ring * LOSSES_STRIDE + event as usize * 4
}

/// Where an event's hits on a CPU are counted that its filter refused, or that are [`WANTED_COUNTED`]: the
/// process's own, or those of its children. `cpus` is [`Header::cpu_rings`].
pub const fn filtered_offset(of_children: bool, cpus: usize, cpu: usize, event: u16) -> usize {
    let row = if of_children {
        Group::ChildrenLocked
    } else {
        Group::OwnLocked
    };
    loss_offset(row.first(cpus) + cpu, event)
}

/// The header, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Rings in all: as many in each [`Group`].
    pub rings: u32,
    /// Rings of one group: one a CPU.
    pub cpu_rings: u32,
    /// Bytes of one ring's data.
    pub ring_bytes: u64,
    /// The process, as its own namespace numbers it.
    pub pid: u32,
    /// [`CLOCK_TSC`] or [`CLOCK_MONOTONIC`].
    pub clock: u32,
    /// [`MODE_DISCARD`] or [`MODE_OVERWRITE`].
    pub mode: u32,
    /// What a helper thread answers to: [`HELPER_SERVES`], [`HELPER_COUNTS`]; 0 where there is none.
    pub helper: u32,
}

/// Records carry time stamp counter ticks.
pub const CLOCK_TSC: u32 = 1;
/// Records carry nanoseconds of CLOCK_MONOTONIC.
pub const CLOCK_MONOTONIC: u32 = 2;
/// Full rings refuse.
pub const MODE_DISCARD: u32 = 1;
/// Full rings overwrite their oldest records.
pub const MODE_OVERWRITE: u32 = 2;

/// What the helper thread is called.
pub const HELPER_NAME: &str = "tracebraid";
/// Bit of [`Header::helper`]: it answers requests.
pub const HELPER_SERVES: u32 = 1;
/// Bit of [`Header::helper`]: it knows [`WANTED_COUNTED`].
pub const HELPER_COUNTS: u32 = 2;

/// Bytes of the encoded header.
pub const HEADER_BYTES: usize = 48;
/// Where in the header the u32 [`Header::helper`] is: the program takes it back when it can no longer see
/// who has the lock.
pub const HELPER: usize = 40;

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// Not a region.
    Magic,
    /// Of another version: the number it says. A larger one wants a newer bridge.
    Version(u32),
    /// Too few bytes.
    Short,
    /// A value that no program writes.
    Value,
}

impl Header {
    /// The header as bytes.
    pub const fn encode(&self) -> [u8; HEADER_BYTES] {
        let words = [
            MAGIC,
            VERSION as u64 | (self.rings as u64) << 32,
            self.cpu_rings as u64 | (self.pid as u64) << 32,
            self.ring_bytes,
            self.clock as u64 | (self.mode as u64) << 32,
            self.helper as u64,
        ];
        let mut bytes = [0; HEADER_BYTES];
        let mut at = 0;
        while at < HEADER_BYTES {
            bytes[at] = words[at / 8].to_le_bytes()[at % 8];
            at += 1;
        }
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`RegionError`] says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Header, RegionError> {
        let long = |at: usize| -> Result<u64, RegionError> {
            let bytes = bytes.get(at..at + 8).ok_or(RegionError::Short)?;
            Ok(u64::from_le_bytes(
                bytes.try_into().map_err(|_| RegionError::Short)?,
            ))
        };
        let word = |at: usize| Ok::<u32, RegionError>((long(at & !7)? >> (8 * (at & 7))) as u32);
        if long(0)? != MAGIC {
            return Err(RegionError::Magic);
        }
        match word(8)? {
            VERSION => {}
            other => return Err(RegionError::Version(other)),
        }
        let header = Header {
            rings: word(12)?,
            cpu_rings: word(16)?,
            pid: word(20)?,
            ring_bytes: long(24)?,
            clock: word(32)?,
            mode: word(36)?,
            helper: word(40)?,
        };
        let known = matches!(header.clock, CLOCK_TSC | CLOCK_MONOTONIC)
            && matches!(header.mode, MODE_DISCARD | MODE_OVERWRITE)
            && header.cpu_rings > 0
            && header.cpu_rings.checked_mul(Group::ALL.len() as u32) == Some(header.rings);
        if known {
            Ok(header)
        } else {
            Err(RegionError::Value)
        }
    }
}

/// Control words: u32, at [`CONTROL`] plus this.
pub mod control {
    /// The bridge counts it up after it changed what it wants.
    pub const ASKED: usize = 0;
    /// Futex. The helper makes it equal to `ASKED` when the text is as wanted.
    pub const ANSWERED: usize = 64;
    /// 1 while wishes of a bridge are in force, or are being erased by the helper.
    pub const SERVING: usize = 68;
    /// The bridge counts it up for a flush: after it, every append that began before is visible.
    pub const FLUSH_ASKED: usize = 128;
    /// Futex. The helper makes it equal to `FLUSH_ASKED` after its `membarrier`.
    pub const FLUSHED: usize = 192;
    /// Bytes of the directory that are written; counted up by the program.
    pub const DIRECTORY_USED: usize = 256;
    /// Tracepoints that found no room in the directory.
    pub const UNLISTED: usize = 320;
    /// Counted up by the program when it asks for a snapshot.
    pub const SNAPSHOT: usize = 384;
    /// Bytes of the snapshot's reason, then the reason itself, at most 60 bytes.
    pub const SNAPSHOT_REASON: usize = 448;
    /// Bytes of filters that are written.
    pub const FILTERS_USED: usize = 512;
    /// Errors that the helper met since the last request: sites that could not be switched.
    pub const SITES_STUCK: usize = 576;
    /// Events of the last request that stay off, since their filter is missing or cannot be read.
    pub const FILTERS_REFUSED: usize = 640;
    /// Children that have appended something; counted up before a child's first append.
    pub const CHILDREN: usize = 704;
    /// What the bridge wants full rings to do ([`MODE_DISCARD`](super::MODE_DISCARD) …); 0: what the
    /// program chose.
    pub const MODE_ASKED: usize = 768;
    /// What the process's own rings do when full. Rings begin anew when it changes.
    pub const MODE: usize = 832;
    /// Pairs of clocks that were written.
    pub const PAIRS: usize = 896;
    /// Futex, on which the helper sleeps. The bridge counts it up after `ASKED` or `FLUSH_ASKED`, and wakes
    /// it.
    pub const BELL: usize = 960;
    /// Bytes of patterns.
    pub const PATTERNS_USED: usize = 964;
}

/// The head of an entry, in the directory and among filters: `u32 length, u16 event, u16 0`, then the body,
/// zeros up to a multiple of 8. The length is all of it.
pub const ENTRY_HEAD: usize = 8;
/// In front of the schema in a directory entry's body: `u64`, the address of the tracepoint's row. It says
/// in which object the tracepoint is: a program and a library may each have one of the same name.
pub const ENTRY_ROW: usize = 8;

/// A tracepoint in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedPoint<'a> {
    /// Its event id.
    pub event: u16,
    /// Where its row is in the program's memory.
    pub row: u64,
    /// Its schema, and zeros.
    pub schema: &'a [u8],
}

/// Walks the directory.
pub fn listed(directory: &[u8]) -> impl Iterator<Item = ListedPoint<'_>> {
    entries(directory).map_while(|(event, body)| {
        let (row, schema) = body.split_first_chunk::<ENTRY_ROW>()?;
        Some(ListedPoint {
            event,
            row: u64::from_le_bytes(*row),
            schema,
        })
    })
}

/// Walks entries.
///
/// Gives `(event, body)`; ends at the first entry that makes no sense.
fn entries(directory: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut left = directory;
    core::iter::from_fn(move || {
        let head = left.get(..ENTRY_HEAD)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let event = u16::from_le_bytes([head[4], head[5]]);
        if length < ENTRY_HEAD
            || !length.is_multiple_of(8)
            || event == 0
            || event as usize > MAX_EVENTS
        {
            return None;
        }
        let entry = left.get(ENTRY_HEAD..length)?;
        left = &left[length..];
        Some((event, entry))
    })
}

/// Walks the filters: `(event, text)`. A filter is an entry whose body is the text. A text that is not UTF-8 is empty, which is no filter.
pub fn filters(area: &[u8]) -> impl Iterator<Item = (u16, &str)> {
    entries(area).map(|(event, body)| {
        let end = body.iter().position(|&byte| byte == 0);
        let text = &body[..end.unwrap_or(body.len())];
        (event, core::str::from_utf8(text).unwrap_or(""))
    })
}

/// Writes a filter's entry to the beginning of `area`. Its length; `None` where there is no room for it.
pub fn write_filter(area: &mut [u8], event: u16, text: &str) -> Option<usize> {
    let length = (ENTRY_HEAD + text.len()).next_multiple_of(8);
    let entry = area.get_mut(..length)?;
    entry.fill(0);
    entry[..4].copy_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
    entry[4..6].copy_from_slice(&event.to_le_bytes());
    entry[ENTRY_HEAD..ENTRY_HEAD + text.len()].copy_from_slice(text.as_bytes());
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_another_version_is_said() {
        let header = Header {
            rings: 16,
            cpu_rings: 4,
            ring_bytes: 1 << 20,
            pid: 42,
            clock: CLOCK_TSC,
            mode: MODE_DISCARD,
            helper: 1,
        };
        let mut bytes = header.encode();
        assert_eq!(Header::parse(&bytes), Ok(header));
        let mut odd = bytes;
        odd[12] = 15;
        assert_eq!(Header::parse(&odd), Err(RegionError::Value));
        bytes[HELPER] = 0;
        assert_eq!(
            Header::parse(&bytes),
            Ok(Header {
                helper: 0,
                ..header
            })
        );
        bytes[8] = 9;
        assert_eq!(Header::parse(&bytes), Err(RegionError::Version(9)));
        assert_eq!(Header::parse(&bytes[..20]), Err(RegionError::Version(9)));
        assert_eq!(Header::parse(&[0; 48]), Err(RegionError::Magic));
    }

    #[test]
    fn filters_read_back_and_what_has_no_room_is_not_written() {
        let mut area = [0xff_u8; 64];
        let mut used = 0;
        for (event, text) in [(7, "a == 1"), (8, "a == 1234567890"), (9, "")] {
            used += write_filter(&mut area[used..], event, text).unwrap();
        }
        assert_eq!(used, 48);
        assert_eq!(write_filter(&mut area[used..], 10, "a == 12345"), None);
        let read: std::vec::Vec<_> = filters(&area[..used]).collect();
        assert_eq!(read, [(7, "a == 1"), (8, "a == 1234567890"), (9, "")]);
        area[8] = 0xc3;
        assert_eq!(filters(&area[..used]).next(), Some((7, "")));
    }

    #[test]
    fn a_directory_with_any_byte_wrong_ends_and_does_not_loop() {
        let mut directory = [0u8; 64];
        for (at, event) in [(0, 1u8), (24, 2), (40, 3)] {
            directory[at] = if at == 0 { 24 } else { 16 };
            directory[at + 4] = event;
        }
        assert_eq!(listed(&directory).count(), 3);
        for at in 0..directory.len() {
            for value in 0..=u8::MAX {
                let mut bad = directory;
                bad[at] = value;
                assert!(listed(&bad).count() <= 8);
            }
        }
    }

    extern crate std;
}
