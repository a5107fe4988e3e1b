//! The region of a program that runs, written from outside.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use tracebraid_ring::Geometry;
use tracebraid_wire::region::{self, Group, Header};

/// A program's region, written from outside.
pub(crate) struct Region {
    pub(crate) file: File,
    pub(crate) header: Header,
}

impl Region {
    pub(crate) fn of(pid: u32) -> Region {
        let folder = format!("/proc/{pid}/fd");
        let path = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| {
                std::fs::read_link(path)
                    .is_ok_and(|link| link.ends_with("memfd:tracebraid (deleted)"))
            })
            .expect("a region");
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut bytes = [0; region::HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let header = Header::parse(&bytes).unwrap();
        Region { file, header }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        let rings = self.header.rings as usize;
        let header = region::header_bytes(rings).next_multiple_of(Geometry::PAGE);
        Geometry::new(header, rings, self.header.ring_bytes as usize).unwrap()
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).unwrap();
    }

    /// The head of a ring's control block.
    pub(crate) fn head(&self, ring: usize) -> usize {
        self.geometry().header_bytes() + 256 * ring
    }

    pub(crate) fn rings(&self, group: Group) -> std::ops::Range<usize> {
        let cpus = self.header.cpu_rings as usize;
        group.first(cpus)..group.first(cpus) + cpus
    }
}
