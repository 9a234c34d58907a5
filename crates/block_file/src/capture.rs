//! The space of a file as a checkpoint records it. Computed from a captured copy
//! of the allocation state, so no lock is held.

use crate::extents::{Extent, ExtentSet, coalesce};

/// The space at the moment of a capture.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The version of the capture.
    pub version: u64,
    /// One past the last byte in use.
    end: u64,
    /// Everything below `end` that is not live.
    not_live: ExtentSet,
    /// Live space that no earlier capture contained.
    fresh: ExtentSet,
}

impl Capture {
    pub fn new(version: u64, end: u64, not_live: ExtentSet, fresh: ExtentSet) -> Self {
        Self {
            version,
            end,
            not_live,
            fresh,
        }
    }

    /// Everything that is not live, ordered by offset.
    pub fn not_live(&self) -> impl Iterator<Item = Extent> + '_ {
        self.not_live.iter()
    }

    /// Extends the state to `end`: all space after the old end was unused.
    fn extend_to(&mut self, end: u64) {
        let tail = Extent::between(self.end, end);
        if tail.bytes > 0 {
            let added = self.not_live.insert(tail);
            assert!(added.is_ok(), "no space is in use after the end");
            self.end = end;
        }
    }

    /// Adds blocks that were written after the capture although they belong to
    /// it, and removes freed ones.
    pub fn publish(&mut self, written: &[Extent], freed: &[Extent]) {
        for &extent in written {
            self.extend_to(extent.end());
            let live = self.not_live.remove(extent).is_some();
            assert!(live, "space written after a capture was free or reserved");
            // Fresh space is live, so no writer can have reserved it.
            let added = self.fresh.insert(extent);
            assert!(added.is_ok(), "written space was not live");
        }
        for &extent in freed {
            // A range that was not live is reported by `Space::publish_captured`.
            let _ = self.not_live.insert(extent);
            self.fresh.remove_overlaps(extent);
        }
    }

    /// The live space that no earlier capture contained, and the space map `map`,
    /// ordered by offset.
    pub fn new_extents(&self, map: &[Extent]) -> Vec<Extent> {
        let extents = self.fresh.iter().chain(map.iter().copied()).collect();
        let joined = coalesce(extents);
        assert!(joined.is_ok(), "a space map is not among live blocks");
        joined.unwrap_or_default()
    }

    /// The holes that the checkpoint records, ordered by offset, and one past its
    /// last live byte. `map` is the space of its space map.
    pub fn holes(&mut self, map: &[Extent]) -> (Vec<Extent>, u64) {
        let mut map: Vec<Extent> = map.to_vec();
        map.sort_unstable();
        if let Some(last) = map.last() {
            self.extend_to(last.end());
        }
        let mut holes = Vec::new();
        let mut map = map.into_iter().peekable();
        for extent in self.not_live.iter() {
            let mut start = extent.offset;
            while let Some(hole) = map.next_if(|hole| hole.offset < extent.end()) {
                holes.push(Extent::between(start, hole.offset));
                start = hole.end();
            }
            holes.push(Extent::between(start, extent.end()));
        }
        holes.retain(|extent| extent.bytes > 0);
        let mut end = self.end;
        if let Some(last) = holes.pop_if(|last| last.end() == end) {
            end = last.offset;
        }
        (holes, end)
    }
}
