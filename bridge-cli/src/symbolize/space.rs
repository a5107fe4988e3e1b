//! What a process had mapped at a moment: where code is, and which file it is from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use framehop::{Unwinder as _, UnwinderNative};

use super::module::Module;

/// A mapping of code.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// Run-time addresses.
    pub(super) range: Range<u64>,
    /// Of the first byte, in the file.
    pub(super) offset: u64,
    pub(super) backing: Backing,
}

/// What a mapping of code is of.
#[derive(Clone, Debug)]
pub(super) enum Backing {
    Module(Arc<Module>),
    /// Memory that the program fills by itself, as compilers at run time do; with the kernel's name of it.
    Memory(Arc<str>),
}

/// See the module's page.
#[derive(Clone, Default)]
pub(super) struct Space {
    regions: BTreeMap<u64, Region>,
    /// It was looked at then: what happened before is in it.
    since: u64,
    /// Made of the regions when it is needed.
    unwinder: Option<UnwinderNative<Arc<[u8]>, framehop::MayAllocateDuringUnwind>>,
}

impl Space {
    /// As it was seen at that time.
    pub(super) fn seen(since: u64, regions: impl IntoIterator<Item = Region>) -> Space {
        let mut space = Space {
            since,
            ..Space::default()
        };
        regions.into_iter().for_each(|region| space.map(region));
        space
    }

    /// Whether what happened then is in it already.
    pub(super) fn knows(&self, time: u64) -> bool {
        time <= self.since
    }

    /// A new mapping takes the place of what was there.
    pub(super) fn map(&mut self, new: Region) {
        self.unwinder = None;
        let Range { start, end } = new.range;
        let over: Vec<u64> = self
            .regions
            .range(..end)
            .rev()
            .take_while(|(_, region)| region.range.end > start)
            .map(|(&at, _)| at)
            .collect();
        for at in over {
            let Some(old) = self.regions.remove(&at) else {
                continue;
            };
            if old.range.start < start {
                let mut before = old.clone();
                before.range.end = start;
                self.regions.insert(at, before);
            }
            if old.range.end > end {
                let mut behind = old;
                behind.offset = behind.offset.wrapping_add(end - behind.range.start);
                behind.range.start = end;
                self.regions.insert(end, behind);
            }
        }
        self.regions.insert(start, new);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The mapping that an address lies in.
    pub(super) fn region(&self, address: u64) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        region.range.contains(&address).then_some(region)
    }

    /// The unwinder for all that is mapped.
    pub(super) fn unwinder(
        &mut self,
    ) -> &UnwinderNative<Arc<[u8]>, framehop::MayAllocateDuringUnwind> {
        let regions = &self.regions;
        self.unwinder.get_or_insert_with(|| {
            let mut unwinder = UnwinderNative::new();
            for region in regions.values() {
                let Backing::Module(module) = &region.backing else {
                    continue;
                };
                let Some(contents) = module.contents() else {
                    continue;
                };
                let tables = contents.tables.as_ref();
                if let (Some(tables), Some(address)) = (tables, contents.address(region.offset)) {
                    let base = region.range.start.wrapping_sub(address);
                    unwinder.add_module(tables.at(&module.name, region.range.clone(), base));
                }
            }
            unwinder
        })
    }
}

impl Region {
    /// Where an address of it is in the file.
    pub(super) fn file_offset(&self, address: u64) -> u64 {
        self.offset.wrapping_add(address - self.range.start)
    }

    /// Whether the caller of what runs at an address is found by the frame pointer, if that is known.
    pub(super) fn has_frame_pointer(&self, address: u64) -> Option<bool> {
        let Backing::Module(module) = &self.backing else {
            return None;
        };
        let contents = module.contents()?;
        let virtual_address = contents.address(self.file_offset(address))?;
        contents.tables.as_ref()?.has_frame_pointer(virtual_address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(range: Range<u64>, offset: u64) -> Region {
        Region {
            range,
            offset,
            backing: Backing::Memory("".into()),
        }
    }

    fn rows(space: &Space) -> Vec<(Range<u64>, u64)> {
        let rows = space.regions.values();
        rows.map(|region| (region.range.clone(), region.offset))
            .collect()
    }

    #[test]
    fn a_new_mapping_takes_the_place_of_what_it_covers_and_leaves_the_rest() {
        let mut space = Space::seen(5, [region(0x1000..0x9000, 0x100_0000)]);
        space.map(region(0x3000..0x5000, 7));
        let left = [
            (0x1000..0x3000, 0x100_0000),
            (0x3000..0x5000, 7),
            (0x5000..0x9000, 0x100_4000),
        ];
        assert_eq!(rows(&space), left);
        space.map(region(0x2000..0x6000, 9));
        let left = [
            (0x1000..0x2000, 0x100_0000),
            (0x2000..0x6000, 9),
            (0x6000..0x9000, 0x100_5000),
        ];
        assert_eq!(rows(&space), left);
        space.map(region(0..0x10000, 1));
        assert_eq!(rows(&space), [(0..0x10000, 1)]);
    }

    #[test]
    fn an_address_is_in_the_mapping_around_it_or_in_none() {
        let space = Space::seen(5, [region(0x1000..0x2000, 0x40), region(0x3000..0x4000, 0)]);
        let offset = |address| Some(space.region(address)?.file_offset(address));
        assert_eq!(offset(0x1010), Some(0x50));
        assert_eq!(offset(0x2000), None);
        assert_eq!(offset(0xfff), None);
        assert_eq!(offset(0x3fff), Some(0xfff));
        assert!(space.knows(5) && !space.knows(6));
    }
}
