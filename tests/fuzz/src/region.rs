//! A region with a process's rings, in which the input writes: a word at a place for each twelve bytes.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use bridge::filter::Hits;
use bridge::source::sdk_ring;
use tracebraid_ring::{Consumer, Geometry, Region};
use tracebraid_wire::record;
use tracebraid_wire::region::{
    self, CLOCK_MONOTONIC, ENTRY_HEAD, ENTRY_ROW, Group, Header, control,
};

const RINGS: usize = Group::ALL.len();
const RING_BYTES: usize = 16 * 1024;
/// Bytes of one write in the input: a part, a place in it, how to make the word, the word.
const WRITE: usize = 12;

fn geometry() -> Geometry {
    let header = region::header_bytes(RINGS).next_multiple_of(Geometry::PAGE);
    Geometry::new(header, RINGS, RING_BYTES).expect("sizes that can be")
}

/// A region as a program makes it, and what to put it back to.
struct Good {
    file: File,
    region: Region,
}

thread_local! {
    static GOOD: RefCell<Good> = RefCell::new(Good::new());
}

/// Two tracepoints and some records of theirs.
fn directory() -> Vec<u8> {
    let mut bytes = Vec::new();
    let points = [
        crate::schema_of("app", "all", "a={a} {text}", crate::FIELDS),
        crate::schema_of("app", "tick", "", &[(4, "seq"), (15, "who")]),
    ];
    for (schema, event) in points.iter().zip(1_u16..) {
        let length = (ENTRY_HEAD + ENTRY_ROW + schema.len()).next_multiple_of(8);
        let end = bytes.len() + length;
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend(event.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(0x40_0000_u64.to_le_bytes());
        bytes.extend(schema);
        bytes.resize(end, 0);
    }
    bytes
}

impl Good {
    fn new() -> Good {
        let region = Region::create(c"tracebraid", geometry()).expect("a memfd");
        let file = File::from(region.file().try_clone_to_owned().expect("a descriptor"));
        let good = Good { file, region };
        good.write();
        good
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.file
            .write_all_at(bytes, at as u64)
            .expect("a memfd takes what is within it");
    }

    /// Writes all that a program would have.
    fn write(&self) {
        let header = Header {
            rings: RINGS as u32,
            cpu_rings: 1,
            ring_bytes: RING_BYTES as u64,
            pid: 1,
            clock: CLOCK_MONOTONIC,
            mode: region::MODE_DISCARD,
            helper: 0,
        };
        self.put(0, &header.encode());
        self.put(region::CONTROL, &[0; region::WANTED - region::CONTROL]);
        let directory = directory();
        self.put(region::DIRECTORY, &directory);
        self.put(
            region::CONTROL + control::DIRECTORY_USED,
            &(directory.len() as u32).to_le_bytes(),
        );
        let data = geometry().data_offset(0);
        self.put(
            geometry().header_bytes(),
            &vec![0; data - geometry().header_bytes()],
        );
        // Of a tick: header, time, a number, a text.
        let mut words = Vec::new();
        for seq in 0..40_u64 {
            let text = 3 | u64::from_le_bytes(*b"\0\0abc\0\0\0");
            words.extend([record::Header::word(4, 2, 7), 1000 + seq, seq, text]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for ring in 0..RINGS {
            self.put(geometry().data_offset(ring), &bytes);
            let control = geometry().header_bytes() + 256 * ring;
            self.put(control, &(bytes.len() as u64).to_le_bytes());
        }
    }
}

/// Where the input writes: the parts of a region.
fn parts() -> [(usize, usize); 8] {
    let geometry = geometry();
    [
        (0, 48),
        (region::CONTROL, region::WANTED - region::CONTROL),
        (region::DIRECTORY, 512),
        (region::LOSSES, 4096),
        (geometry.header_bytes(), 256 * RINGS),
        (geometry.data_offset(0), 2048),
        (geometry.data_offset(0), RING_BYTES),
        (geometry.data_offset(1), RINGS * RING_BYTES - RING_BYTES),
    ]
}

/// Reads what a region holds, in each of the ways there are, after the input's words were written to it.
pub fn check(data: &[u8]) {
    let parts = parts();
    GOOD.with_borrow(|good| {
        let mut touched = Vec::new();
        for write in data.chunks_exact(WRITE).take(256) {
            let (start, length) = parts[usize::from(write[0]) % parts.len()];
            let place = usize::from(u16::from_le_bytes([write[1], write[2]])) % (length - 7);
            let number: [u8; 8] = write[4..].try_into().expect("eight bytes");
            let width = match write[3] % 4 {
                0 => 1,
                1 => 2,
                2 => 4,
                _ => 8,
            };
            touched.push(start + place);
            good.put(start + place, &number[..width]);
        }
        read(&good.region);
        for at in touched {
            good.put(at, &[0; 8]);
        }
        good.write();
    });
}

fn read(region: &Region) {
    let copy = || {
        let file = region.file().try_clone_to_owned().expect("a descriptor");
        Region::open(file, geometry()).expect("the size is sealed")
    };
    // As a snapshot of a dead process's rings.
    if let Ok(held) = sdk_ring::held_of(copy(), 1, &mut |_| Hits::All) {
        assert!(held.warnings.len() <= 4 * RINGS, "{:?}", held.warnings);
        held.events.iter().take(64).for_each(crate::print);
    }
    // As an attached bridge takes them.
    for ring in 0..RINGS {
        let mut consumer = Consumer::new(region, ring);
        let head = consumer.head();
        let mut records = 0;
        let each = |record: &[u64]| {
            records += 1;
            let _ = record::Header::parse(record[0], record[1]);
            let _ = record::Introduction::parse(&record[2..]);
        };
        let first = consumer.drain(head, each);
        assert!(records <= RING_BYTES / 16);
        if first.is_err() {
            assert!(consumer.is_damaged());
            assert_eq!(consumer.drain(head, |_| panic!("after the damage")), Ok(()));
        }
        let mut consumer = Consumer::new(region, ring);
        let _ = consumer.snapshot(|_| ());
        let _ = consumer.news(head, |_| ());
        let _ = consumer.news(u64::MAX, |_| ());
    }
}

/// Nothing wrong, and something wrong in each part.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for part in 0..8_u8 {
        for (place, word) in [
            (0_u16, u64::MAX),
            (8, 1 << 33),
            (36, 2),
            (128, 24),
            (256, 0x5_0005),
        ] {
            let mut seed = vec![part];
            seed.extend(place.to_le_bytes());
            seed.push(part % 4);
            seed.extend(word.to_le_bytes());
            seeds.push(seed);
        }
    }
    seeds
}
