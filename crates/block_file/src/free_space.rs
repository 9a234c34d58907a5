//! Free extents that can be allocated now, indexed by offset and by size.
//!
//! The lowest extent of at least a given size is found through classes of sizes,
//! one for each power of two: every extent of a higher class is large enough, so
//! only the class of the size itself is searched, and only for a few steps.
//!
//! This module does not record why space is free, or where the file ends.

use crate::extents::{Extent, ExtentSet, Joined, Overlap};
use std::collections::BTreeSet;

/// Maximum number of extents that a search examines in the class of the requested size. Any of them
/// may be too small.
const PROBES_MAX: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    extents: ExtentSet,
    /// The extents as (bytes, offset), for best fit; among equal sizes, the lowest offset first.
    by_size: BTreeSet<(u64, u64)>,
    /// The extents as (class, offset). Class `n` has the sizes from `2^n` (inclusive) to `2^(n + 1)`
    /// (exclusive).
    by_class: BTreeSet<(u32, u64)>,
}

fn class_of(bytes: u64) -> u32 {
    bytes.checked_ilog2().unwrap_or(0)
}

impl FreeSpace {
    /// Free bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.bytes()
    }

    /// The free extents, ordered by offset.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter()
    }

    /// The free extents. A clone shares their memory.
    pub fn extents(&self) -> &ExtentSet {
        &self.extents
    }

    /// Adds free space and returns the extent that contains it now.
    pub fn insert(&mut self, extent: Extent) -> Result<Extent, Overlap> {
        let Joined {
            before,
            after,
            whole,
        } = self.extents.insert(extent)?;
        for joined in [before, after].into_iter().flatten() {
            self.drop_sizes(joined);
        }
        self.add_sizes(whole);
        Ok(whole)
    }

    /// Removes a range. If it is not completely free, changes nothing and returns false.
    pub fn remove(&mut self, extent: Extent) -> bool {
        let Some(holder) = self.extents.remove(extent) else {
            return false;
        };
        self.drop_sizes(holder);
        let front = Extent::between(holder.offset, extent.offset);
        let back = Extent::between(extent.end(), holder.end());
        for rest in [front, back] {
            if rest.bytes > 0 {
                self.add_sizes(rest);
            }
        }
        true
    }

    fn add_sizes(&mut self, extent: Extent) {
        self.by_size.insert((extent.bytes, extent.offset));
        self.by_class
            .insert((class_of(extent.bytes), extent.offset));
    }

    fn drop_sizes(&mut self, extent: Extent) {
        self.by_size.remove(&(extent.bytes, extent.offset));
        self.by_class
            .remove(&(class_of(extent.bytes), extent.offset));
    }

    /// An extent of at least `bytes`, if there is one. It is the lowest one, unless `PROBES_MAX`
    /// extents of the same class that are too small are before it.
    pub fn lowest(&self, bytes: u64) -> Option<Extent> {
        let class = class_of(bytes);
        let larger = self.first_of_classes(class + 1).min();
        let larger = larger.and_then(|offset| self.starting_at(offset));
        let before = larger.map_or(u64::MAX, |extent| extent.offset);
        let same = self.by_class.range((class, 0)..(class, before));
        let same = same
            .take(PROBES_MAX)
            .filter_map(|(_, offset)| self.starting_at(*offset))
            .find(|extent| extent.bytes >= bytes);
        same.or(larger).or_else(|| self.best_fit(bytes))
    }

    /// The lowest offset in each class from `class` on that has extents.
    fn first_of_classes(&self, class: u32) -> impl Iterator<Item = u64> + '_ {
        let first_from = |class| self.by_class.range((class, 0)..).next().copied();
        let classes =
            std::iter::successors(first_from(class), move |(class, _)| first_from(class + 1));
        classes.map(|(_, offset)| offset)
    }

    /// The smallest extent of at least `bytes`.
    fn best_fit(&self, bytes: u64) -> Option<Extent> {
        let &(bytes, offset) = self.by_size.range((bytes, 0)..).next()?;
        Some(Extent { offset, bytes })
    }

    /// The extent that starts exactly at `offset`.
    pub fn starting_at(&self, offset: u64) -> Option<Extent> {
        self.extents.starting_at(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_indexes_hold_the_same_extents(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 1u64..12), 0..120)
        ) {
            let mut free = FreeSpace::default();
            for (add, offset, bytes) in steps {
                let range = Extent { offset, bytes };
                if add {
                    let _ = free.insert(range);
                } else {
                    let _ = free.remove(range);
                }
                let by_offset: BTreeSet<_> = free.iter().map(|e| (e.bytes, e.offset)).collect();
                prop_assert_eq!(&by_offset, &free.by_size);
                let classes: BTreeSet<_> =
                    free.iter().map(|e| (class_of(e.bytes), e.offset)).collect();
                prop_assert_eq!(&classes, &free.by_class);
                // There are fewer extents than a search examines.
                let lowest = free.iter().find(|e| e.bytes >= bytes);
                prop_assert_eq!(free.lowest(bytes), lowest);
            }
        }
    }
}
