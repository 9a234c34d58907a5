//! Free extents that can be allocated now, indexed by offset and by size.
//!
//! This module does not record why space is free, or where the file ends.

use crate::extents::{Extent, ExtentSet, Joined, Overlap};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    extents: ExtentSet,
    /// The extents as (bytes, offset), for best fit; among equal sizes, the lowest offset first.
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeSpace {
    /// Free bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.bytes()
    }

    /// The free extents by offset.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter()
    }

    /// Adds free space and returns the extent that contains it now.
    pub fn insert(&mut self, extent: Extent) -> Result<Extent, Overlap> {
        let Joined {
            before,
            after,
            whole,
        } = self.extents.insert(extent)?;
        for joined in [before, after].into_iter().flatten() {
            self.by_size.remove(&(joined.bytes, joined.offset));
        }
        self.by_size.insert((whole.bytes, whole.offset));
        Ok(whole)
    }

    /// Removes a range. If it is not completely free, changes nothing and returns false.
    pub fn remove(&mut self, extent: Extent) -> bool {
        let Some(holder) = self.extents.remove(extent) else {
            return false;
        };
        self.by_size.remove(&(holder.bytes, holder.offset));
        let front = Extent::between(holder.offset, extent.offset);
        let back = Extent::between(extent.end(), holder.end());
        for rest in [front, back] {
            if rest.bytes > 0 {
                self.by_size.insert((rest.bytes, rest.offset));
            }
        }
        true
    }

    /// The smallest extent of at least `bytes`.
    pub fn best_fit(&self, bytes: u64) -> Option<Extent> {
        let &(bytes, offset) = self.by_size.range((bytes, 0)..).next()?;
        Some(Extent { offset, bytes })
    }

    /// The largest extent.
    pub fn largest(&self) -> Option<Extent> {
        let &(bytes, offset) = self.by_size.last()?;
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
        fn both_indexes_hold_the_same_extents(
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
                let fit = free.iter().filter(|e| e.bytes >= bytes).min_by_key(|e| e.bytes);
                prop_assert_eq!(free.best_fit(bytes).map(|e| e.bytes), fit.map(|e| e.bytes));
            }
        }
    }
}
