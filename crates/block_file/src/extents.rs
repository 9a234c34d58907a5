//! Sets of byte ranges, kept coalesced and ordered by offset.

use crate::extent_map::ExtentMap;

pub(crate) use crate::extent::Extent;

/// Error: the range overlaps the set or is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overlap;

/// The result of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Joined {
    /// The adjacent extent before the range; now part of `whole`.
    pub before: Option<Extent>,
    /// The adjacent extent after the range; now part of `whole`.
    pub after: Option<Extent>,
    /// The extent that contains the inserted range.
    pub whole: Extent,
}

/// A set of byte ranges; adjacent ranges form one extent. A clone shares the
/// memory of the extents; a change of one set copies only the chunk that it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtentSet {
    by_offset: ExtentMap,
    bytes: u64,
}

impl ExtentSet {
    /// Bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The extents, ordered by offset.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.by_offset.iter()
    }

    /// The extent that starts exactly at `offset`.
    pub fn starting_at(&self, offset: u64) -> Option<Extent> {
        self.by_offset.get(offset)
    }

    fn last_before(&self, offset: u64) -> Option<Extent> {
        self.by_offset.last_before(offset)
    }

    /// Adds a range.
    pub fn insert(&mut self, extent: Extent) -> Result<Joined, Overlap> {
        if extent.bytes == 0 {
            return Err(Overlap);
        }
        let mut whole = extent;
        // If any extent overlaps the range, the last one that begins before the end of the range
        // does.
        let mut before = self.last_before(extent.end());
        if let Some(found) = before {
            if found.end() > extent.offset {
                return Err(Overlap);
            }
            if found.end() == extent.offset {
                whole = Extent::between(found.offset, whole.end());
            } else {
                before = None;
            }
        }
        let after = self.starting_at(extent.end());
        if let Some(found) = after {
            whole = Extent::between(whole.offset, found.end());
            self.by_offset.remove(found.offset);
        }
        self.by_offset.insert(whole);
        self.bytes += extent.bytes;
        Ok(Joined {
            before,
            after,
            whole,
        })
    }

    /// Removes a range and returns the extent that contained it. If no single extent contains all
    /// of it, changes nothing and returns `None`.
    pub fn remove(&mut self, extent: Extent) -> Option<Extent> {
        let holder = self.last_before(extent.offset.checked_add(1)?)?;
        if extent.bytes == 0 || holder.end() < extent.end() {
            return None;
        }
        if holder.offset == extent.offset {
            self.by_offset.remove(holder.offset);
        } else {
            self.by_offset
                .insert(Extent::between(holder.offset, extent.offset));
        }
        if holder.end() > extent.end() {
            self.by_offset
                .insert(Extent::between(extent.end(), holder.end()));
        }
        self.bytes -= extent.bytes;
        Some(holder)
    }

    /// Removes the parts of the range that are in the set.
    pub fn remove_overlaps(&mut self, extent: Extent) {
        while let Some(found) = self.last_before(extent.end()) {
            let part = Extent::between(
                found.offset.max(extent.offset),
                found.end().min(extent.end()),
            );
            if self.remove(part).is_none() {
                break;
            }
        }
    }
}

/// Sorts extents and joins adjacent ones.
///
/// # Errors
/// An extent that overlaps a previous one.
pub(crate) fn coalesce(mut extents: Vec<Extent>) -> Result<Vec<Extent>, Extent> {
    extents.sort_unstable();
    let mut joined: Vec<Extent> = Vec::new();
    for extent in extents {
        match joined.last_mut() {
            Some(last) if last.end() > extent.offset => return Err(extent),
            Some(last) if last.end() == extent.offset => last.bytes += extent.bytes,
            _ => joined.push(extent),
        }
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes }
    }

    #[test]
    fn touching_neighbours_become_one() {
        let mut set = ExtentSet::default();
        set.insert(extent(0, 10)).unwrap();
        set.insert(extent(20, 10)).unwrap();
        let joined = set.insert(extent(10, 10)).unwrap();
        assert_eq!(joined.before, Some(extent(0, 10)));
        assert_eq!(joined.after, Some(extent(20, 10)));
        assert_eq!(joined.whole, extent(0, 30));
        assert_eq!(set.iter().collect::<Vec<_>>(), vec![extent(0, 30)]);
    }

    #[test]
    fn overlapping_lists_do_not_coalesce() {
        assert_eq!(
            coalesce(vec![extent(5, 5), extent(0, 6)]),
            Err(extent(5, 5))
        );
        assert_eq!(
            coalesce(vec![extent(5, 5), extent(0, 5), extent(20, 1)]),
            Ok(vec![extent(0, 10), extent(20, 1)])
        );
    }

    proptest! {
        #[test]
        fn set_agrees_with_a_set_of_bytes(
            steps in proptest::collection::vec((0u8..3, 0u64..60, 0u64..12), 0..120)
        ) {
            let mut set = ExtentSet::default();
            let mut model = std::collections::BTreeSet::new();
            for (step, offset, bytes) in steps {
                let range = extent(offset, bytes);
                let inside: Vec<u64> =
                    (offset..range.end()).filter(|byte| model.contains(byte)).collect();
                match step {
                    0 => {
                        let done = set.insert(range).is_ok();
                        prop_assert_eq!(done, inside.is_empty() && bytes > 0);
                        if done {
                            model.extend(offset..range.end());
                        }
                    }
                    1 => {
                        let done = set.remove(range).is_some();
                        prop_assert_eq!(done, inside.len() as u64 == bytes && bytes > 0);
                        if done {
                            for byte in inside {
                                model.remove(&byte);
                            }
                        }
                    }
                    _ => {
                        set.remove_overlaps(range);
                        for byte in inside {
                            model.remove(&byte);
                        }
                    }
                }
                let held: Vec<u64> = set.iter().flat_map(|e| e.offset..e.end()).collect();
                prop_assert_eq!(set.bytes(), held.len() as u64);
                prop_assert!(held.into_iter().eq(model.iter().copied()));
                let ends: Vec<Extent> = set.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].end() < pair[1].offset));
            }
        }
    }
}
