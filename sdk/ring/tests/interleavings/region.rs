//! A region for the model checker: the same control blocks and words, without the shared memory.

use crate::geometry::{Control, Geometry};
use crate::sync::{AtomicU64, Ordering};

/// Control blocks and data areas.
pub(crate) struct Region {
    geometry: Geometry,
    controls: Vec<Control>,
    data: Vec<Vec<AtomicU64>>,
}

impl Region {
    /// A region of zeros, in a model.
    pub(crate) fn modelled(geometry: Geometry) -> Region {
        let rings = 0..geometry.rings();
        let words = || (0..geometry.ring_bytes() / 8).map(|_| AtomicU64::new(0));
        Region {
            controls: rings.clone().map(|_| Control::new()).collect(),
            data: rings.map(|_| words().collect()).collect(),
            geometry,
        }
    }

    /// The region's sizes.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The control block of a ring.
    pub(crate) fn control(&self, ring: usize) -> &Control {
        &self.controls[ring]
    }

    pub(crate) fn write(&self, ring: usize, at: u64, words: &[u64]) {
        for (place, &word) in (at as usize / 8..).zip(words) {
            let data = &self.data[ring];
            data[place % data.len()].store(word, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self, ring: usize, at: u64, words: &mut [u64]) {
        for (place, word) in (at as usize / 8..).zip(words) {
            let data = &self.data[ring];
            *word = data[place % data.len()].load(Ordering::Relaxed);
        }
    }
}
