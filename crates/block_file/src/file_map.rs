//! What the parts of a file are used for at a moment. The caller, which knows the live blocks, takes them out of the map.

use crate::address::BlockAddress;
use crate::extents::{Extent, ExtentSet};
use crate::layout::BLOCKS_START;

/// What a range of a file is used for, apart from live blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUse {
    /// The superblocks.
    Superblocks,
    /// The space map of the last checkpoint.
    SpaceMap,
    /// Free: the next blocks may be written there.
    Free,
    /// Reserved by writers, or freed but needed by a pin or until a later checkpoint.
    Unavailable,
}

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl From<Extent> for FileRange {
    fn from(extent: Extent) -> Self {
        Self {
            offset: extent.offset,
            bytes: extent.bytes,
        }
    }
}

/// The map of a file, see [`BlockFile::map`](crate::BlockFile::map).
#[derive(Debug)]
pub struct FileMap {
    file_bytes: u64,
    end: u64,
    free: ExtentSet,
    not_live: ExtentSet,
    space_map: Vec<Extent>,
    /// Live space without the blocks that were taken.
    live: ExtentSet,
}

/// The parts of a range that are not in the set.
fn gaps(set: &ExtentSet, range: Extent) -> impl Iterator<Item = Extent> {
    let ends = set
        .iter()
        .chain([Extent::between(range.end(), range.end())]);
    let mut at = range.offset;
    ends.filter_map(move |extent| {
        let gap = Extent::between(at, extent.offset);
        at = at.max(extent.end());
        (gap.bytes > 0).then_some(gap)
    })
}

impl FileMap {
    /// The map of a file with these sets, of which the second contains the first.
    pub(crate) fn new(
        file_bytes: u64,
        end: u64,
        (free, not_live): (ExtentSet, ExtentSet),
        space_map: Vec<Extent>,
    ) -> Self {
        let mut live = ExtentSet::default();
        for gap in gaps(&not_live, Extent::between(BLOCKS_START, end)) {
            // Gaps do not overlap.
            let _ = live.insert(gap);
        }
        Self {
            file_bytes,
            end,
            free,
            not_live,
            space_map,
            live,
        }
    }

    /// Takes a live block out of the map. Returns `false` if its space is not live, or was taken before.
    pub fn take(&mut self, block: BlockAddress) -> bool {
        let extent = block.extent();
        extent.is_some_and(|extent| self.live.remove(extent).is_some())
    }

    /// The live ranges without the blocks that were taken, in the order of offsets.
    pub fn live(&self) -> impl Iterator<Item = FileRange> {
        self.live.iter().map(FileRange::from)
    }

    /// Calls `visit` for the ranges that are not live. Those of one use are in the order of offsets.
    pub fn visit_others(&self, visit: &mut dyn FnMut(RangeUse, FileRange)) {
        visit(
            RangeUse::Superblocks,
            Extent::between(0, BLOCKS_START).into(),
        );
        let mut unavailable = self.not_live.clone();
        for extent in &self.space_map {
            if unavailable.remove(*extent).is_some() {
                visit(RangeUse::SpaceMap, (*extent).into());
            }
        }
        for extent in self.free.iter() {
            unavailable.remove_overlaps(extent);
            visit(RangeUse::Free, extent.into());
        }
        for extent in unavailable.iter() {
            visit(RangeUse::Unavailable, extent.into());
        }
        let tail = Extent::between(self.end, self.file_bytes);
        if tail.bytes > 0 {
            visit(RangeUse::Free, tail.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(extents: &[(u64, u64)]) -> ExtentSet {
        let mut set = ExtentSet::default();
        for (offset, bytes) in extents {
            let extent = Extent {
                offset: BLOCKS_START + offset,
                bytes: *bytes,
            };
            set.insert(extent).unwrap();
        }
        set
    }

    #[test]
    fn every_byte_has_one_use() {
        let (free, not_live) = (set(&[(256, 128)]), set(&[(0, 128), (256, 384)]));
        let space_map = vec![Extent {
            offset: BLOCKS_START,
            bytes: 128,
        }];
        let end = BLOCKS_START + 1024;
        let mut map = FileMap::new(end + 512, end, (free, not_live), space_map);
        let block = BlockAddress {
            offset: BLOCKS_START + 640,
            bytes: 100,
        };
        assert!(map.take(block));
        assert!(!map.take(block), "taken before");
        let pending = BlockAddress {
            offset: BLOCKS_START + 384,
            bytes: 100,
        };
        assert!(!map.take(pending), "not live");
        let mut ranges = vec![(block.offset, 128)];
        ranges.extend(map.live().map(|range| (range.offset, range.bytes)));
        assert_eq!(ranges.len(), 3);
        let mut uses = Vec::new();
        map.visit_others(&mut |of, range| {
            uses.push((of, range.bytes));
            ranges.push((range.offset, range.bytes));
        });
        let expected = [
            (RangeUse::Superblocks, BLOCKS_START),
            (RangeUse::SpaceMap, 128),
            (RangeUse::Free, 128),
            (RangeUse::Unavailable, 256),
            (RangeUse::Free, 512),
        ];
        assert_eq!(uses, expected);
        ranges.sort_unstable();
        let mut at = 0;
        for (offset, bytes) in ranges {
            assert_eq!(offset, at);
            at += bytes;
        }
        assert_eq!(at, end + 512);
    }
}
