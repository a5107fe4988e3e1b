//! Where the parts of a region are, and the control block of a ring.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes that two writers must be apart to not disturb one another (two cache lines are fetched at
/// once).
#[cfg(not(loom))]
const APART: usize = 128;

/// In [`Control::mode`]: a full ring refuses.
pub const MODE_DISCARD: u32 = 1;
/// In [`Control::mode`]: a full ring overwrites.
pub const MODE_OVERWRITE: u32 = 2;

/// The control block of one ring. Producer and consumer each write their own half.
#[repr(C, align(128))]
pub struct Control {
    /// Bytes ever appended. Written by the append's commit.
    pub head: AtomicU64,
    /// The time of the last record.
    pub time: AtomicU64,
    /// Bytes ever overwritten or about to be (overwrite mode): what is older is gone.
    pub oldest: AtomicU64,
    /// The lock of a locked ring: the thread that holds it, or 0.
    pub lock: AtomicU32,
    /// What a locked ring does when full: 0 as its producer was made, else [`MODE_DISCARD`] or
    /// [`MODE_OVERWRITE`]. Changed under the lock.
    pub mode: AtomicU32,
    unused: [u32; 24],
    /// Bytes ever consumed. Written by the consumer; producers take it for the room there is.
    pub tail: AtomicU64,
    reserved: [u64; 15],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Control>() == 2 * APART);
#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(Control, tail) == APART);

impl Control {
    /// That of an empty ring whose producer chooses the mode, in a model.
    #[cfg(loom)]
    #[allow(dead_code, reason = "the model makes its own")]
    pub(crate) fn new() -> Control {
        Control {
            head: AtomicU64::new(0),
            time: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            lock: AtomicU32::new(0),
            mode: AtomicU32::new(0),
            unused: [0; 24],
            tail: AtomicU64::new(0),
            reserved: [0; 15],
        }
    }

    /// Empties the ring, and begins its count of bytes at 0. Nobody may append meanwhile; whoever reads it
    /// has to begin anew too.
    pub fn begin_anew(&self) {
        self.tail.store(0, Ordering::Relaxed);
        self.oldest.store(0, Ordering::Relaxed);
        self.head.store(0, Ordering::Release);
    }
}

/// Sub-buffers of overwrite mode begin on a record, so that a reader finds one. Padding in front of the
/// next one has a length of 16 bits of words.
pub(crate) const fn sub_buffer_bytes(ring_bytes: usize) -> usize {
    const LARGEST: usize = 256 * 1024;
    if ring_bytes / 8 < LARGEST {
        ring_bytes / 8
    } else {
        LARGEST
    }
}

/// Sizes of a region. Both sides compute every address from these; a reader takes them from its own
/// checks, never from the region alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    header_bytes: usize,
    rings: usize,
    ring_bytes: usize,
}

/// Why sizes cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadGeometry {
    /// A ring's size is no power of two between [`Geometry::MIN_RING`] and [`Geometry::MAX_RING`].
    RingBytes,
    /// No ring, or more than [`Geometry::MAX_RINGS`].
    Rings,
    /// The header area is no multiple of a page, or larger than [`Geometry::MAX_HEADER`].
    Header,
}

impl Geometry {
    /// The smallest data area, bytes.
    pub const MIN_RING: usize = if cfg!(loom) { 64 } else { 16 * 1024 };
    /// The largest data area, bytes.
    pub const MAX_RING: usize = 1 << 30;
    /// The most rings in a region.
    pub const MAX_RINGS: usize = 16 * 1024;
    /// The largest header area, bytes.
    pub const MAX_HEADER: usize = 512 << 20;
    /// Pages, bytes.
    pub const PAGE: usize = 4096;

    /// Checks sizes.
    ///
    /// # Errors
    /// [`BadGeometry`] says which is out of range.
    pub const fn new(
        header_bytes: usize,
        rings: usize,
        ring_bytes: usize,
    ) -> Result<Geometry, BadGeometry> {
        if !header_bytes.is_multiple_of(Self::PAGE) || header_bytes > Self::MAX_HEADER {
            return Err(BadGeometry::Header);
        }
        if rings == 0 || rings > Self::MAX_RINGS {
            return Err(BadGeometry::Rings);
        }
        if !ring_bytes.is_power_of_two()
            || ring_bytes < Self::MIN_RING
            || ring_bytes > Self::MAX_RING
        {
            return Err(BadGeometry::RingBytes);
        }
        Ok(Geometry {
            header_bytes,
            rings,
            ring_bytes,
        })
    }

    /// How many rings.
    pub const fn rings(&self) -> usize {
        self.rings
    }

    /// Bytes of one data area.
    pub const fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Bytes of the header area.
    pub const fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Bytes of all control blocks, whole pages.
    pub const fn control_bytes(&self) -> usize {
        (self.rings * size_of::<Control>()).next_multiple_of(Self::PAGE)
    }

    /// Where the data area of a ring begins in the file.
    pub const fn data_offset(&self, ring: usize) -> usize {
        self.header_bytes + self.control_bytes() + ring * self.ring_bytes
    }

    /// Bytes of the file.
    pub const fn file_bytes(&self) -> usize {
        self.data_offset(self.rings)
    }
}
