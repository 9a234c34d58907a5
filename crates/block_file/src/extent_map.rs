//! An ordered map of extents in chunks. A clone shares all chunks, and a change
//! copies the chunk that it touches, so a checkpoint that captures the map of a
//! file with many holes copies one pointer for each chunk.

use crate::extent::Extent;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of extents in a chunk.
const CHUNK_EXTENTS_MAX: usize = if cfg!(test) { 6 } else { 256 };

/// Extents by offset. Does not check that they are disjoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtentMap {
    /// A key is at most the offset of the first extent of its chunk, and greater
    /// than the offset of any extent in the chunk before. No chunk is empty.
    chunks: BTreeMap<u64, Arc<Vec<Extent>>>,
}

impl ExtentMap {
    /// The extents, ordered by offset.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.chunks.values().flat_map(|chunk| chunk.iter().copied())
    }

    /// The extent that starts exactly at `offset`.
    pub fn get(&self, offset: u64) -> Option<Extent> {
        let (_, chunk) = self.chunks.range(..=offset).next_back()?;
        let position = chunk.binary_search_by_key(&offset, |extent| extent.offset);
        chunk.get(position.ok()?).copied()
    }

    /// The last extent that starts before `offset`.
    pub fn last_before(&self, offset: u64) -> Option<Extent> {
        let chunks = self.chunks.range(..offset).rev();
        // The first extent of a chunk may be after its key, so the chunk before
        // may have the answer.
        chunks.take(2).find_map(|(_, chunk)| {
            let before = chunk.partition_point(|extent| extent.offset < offset);
            chunk.get(before.checked_sub(1)?).copied()
        })
    }

    /// Adds an extent, or replaces the one that starts at the same offset.
    pub fn insert(&mut self, extent: Extent) {
        let offset = extent.offset;
        let before = self.chunks.range(..=offset).next_back();
        let key = match before.map(|(key, _)| *key) {
            Some(key) => key,
            None => {
                let first = self.chunks.pop_first();
                let chunk = first.map_or_else(Arc::default, |(_, chunk)| chunk);
                self.chunks.insert(offset, chunk);
                offset
            }
        };
        let Some(chunk) = self.chunks.get_mut(&key) else {
            return;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.binary_search_by_key(&offset, |extent| extent.offset) {
            Ok(position) => {
                if let Some(old) = chunk.get_mut(position) {
                    *old = extent;
                }
            }
            Err(position) => chunk.insert(position, extent),
        }
        if chunk.len() > CHUNK_EXTENTS_MAX {
            let half = chunk.split_off(CHUNK_EXTENTS_MAX / 2);
            if let Some(first) = half.first() {
                self.chunks.insert(first.offset, Arc::new(half));
            }
        }
    }

    /// Removes the extent that starts exactly at `offset`.
    pub fn remove(&mut self, offset: u64) {
        let Some((&key, chunk)) = self.chunks.range_mut(..=offset).next_back() else {
            return;
        };
        let Ok(position) = chunk.binary_search_by_key(&offset, |extent| extent.offset) else {
            return;
        };
        let chunk = Arc::make_mut(chunk);
        chunk.remove(position);
        let left = chunk.len();
        if left == 0 {
            self.chunks.remove(&key);
        } else if left < CHUNK_EXTENTS_MAX / 4 {
            self.join_next(key, left);
        }
    }

    /// Joins a small chunk with the next one, unless more than half of the maximum would result.
    fn join_next(&mut self, key: u64, length: usize) {
        let mut after = self.chunks.range(key..).skip(1);
        let Some((&next, _)) = after
            .next()
            .filter(|(_, chunk)| length + chunk.len() <= CHUNK_EXTENTS_MAX / 2)
        else {
            return;
        };
        let moved = self.chunks.remove(&next).unwrap_or_default();
        if let Some(chunk) = self.chunks.get_mut(&key) {
            Arc::make_mut(chunk).extend_from_slice(&moved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(offset: u64) -> Extent {
        Extent {
            offset,
            bytes: offset + 1,
        }
    }

    #[test]
    fn a_change_after_a_clone_copies_one_chunk() {
        let mut map = ExtentMap::default();
        for offset in 0..200 {
            map.insert(extent(offset));
        }
        let captured = map.clone();
        map.remove(100);
        let shared = |(key, chunk): (&u64, &Arc<Vec<Extent>>)| {
            let other = captured.chunks.get(key);
            other.is_some_and(|other| Arc::ptr_eq(chunk, other))
        };
        let count = map.chunks.iter().filter(|entry| shared(*entry)).count();
        assert!(map.chunks.len() > 20);
        assert_eq!(count, map.chunks.len() - 1);
        assert_eq!(captured.get(100), Some(extent(100)));
        assert_eq!(map.get(100), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            steps in proptest::collection::vec((any::<bool>(), 0u64..90), 0..300)
        ) {
            let mut map = ExtentMap::default();
            let mut model = BTreeMap::new();
            for (add, offset) in steps {
                if add {
                    map.insert(extent(offset));
                    model.insert(offset, extent(offset));
                } else {
                    map.remove(offset);
                    model.remove(&offset);
                }
                prop_assert!(map.iter().eq(model.values().copied()));
                for at in 0..=90 {
                    prop_assert_eq!(map.get(at), model.get(&at).copied());
                    let before = model.range(..at).next_back();
                    prop_assert_eq!(map.last_before(at), before.map(|(_, found)| *found));
                }
                let chunks = map.chunks.values();
                prop_assert!(chunks.clone().all(|chunk| !chunk.is_empty()));
                prop_assert!(chunks.clone().all(|chunk| chunk.len() <= CHUNK_EXTENTS_MAX));
            }
        }
    }
}
