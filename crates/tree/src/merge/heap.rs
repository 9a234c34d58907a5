//! A binary heap of cursors, ordered by their current keys. It stores
//! eight-byte key prefixes, so that most comparisons read neither the cursors
//! nor their pages. Of equal keys the newer (lower-numbered) source comes
//! first. Merges and tree cursors use it, in both directions.

// Heap positions are derived from the length of `heads`. Source numbers come
// from the slice passed to `rebuild`, which callers keep unchanged.
#![allow(clippy::indexing_slicing)]

use crate::VersionCursor;
use crate::key_search::{order_after_prefix, prefix_at};
use std::cmp::Ordering;

/// The direction in which a heap orders keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    prefix: u64,
    source: usize,
}

/// Sources ordered by the current keys of their cursors.
#[derive(Debug)]
pub(crate) struct KeyHeap {
    heads: Vec<Head>,
    direction: Direction,
}

impl KeyHeap {
    pub(crate) fn new() -> Self {
        Self {
            heads: Vec::new(),
            direction: Direction::Forward,
        }
    }

    /// Rebuilds the heap from the sources for which `live` returns true; they
    /// must be valid.
    pub(crate) fn rebuild<C: VersionCursor>(
        &mut self,
        sources: &[C],
        direction: Direction,
        live: impl Fn(usize, &C) -> bool,
    ) {
        self.direction = direction;
        self.heads.clear();
        for (source, cursor) in sources.iter().enumerate() {
            if live(source, cursor) {
                let prefix = self.oriented_prefix(cursor.key());
                self.heads.push(Head { prefix, source });
            }
        }
        for position in (0..self.heads.len() / 2).rev() {
            self.sift_down(position, sources);
        }
    }

    /// The source with the first key in the heap's direction.
    #[inline]
    pub(crate) fn top(&self) -> Option<usize> {
        self.heads.first().map(|head| head.source)
    }

    /// The source with the first key, if this key may be equal to `key`. If only one source is
    /// left, it is returned in any case: callers advance a single source without updating the heap,
    /// so its prefix may be outdated.
    #[inline]
    pub(crate) fn top_if_near(&self, key: &[u8]) -> Option<usize> {
        let head = self.heads.first()?;
        let is_near = self.heads.len() == 1 || head.prefix == self.oriented_prefix(key);
        is_near.then_some(head.source)
    }

    /// The position and the source of the first key after the top's, if the two
    /// keys may be equal.
    #[inline]
    pub(crate) fn second_if_near<C: VersionCursor>(&self, sources: &[C]) -> Option<(usize, usize)> {
        let place = self.second_place(sources)?;
        let second = self.heads[place];
        (second.prefix == self.heads[0].prefix).then_some((place, second.source))
    }

    /// The source with the first key after the top's.
    #[inline]
    pub(crate) fn second<C: VersionCursor>(&self, sources: &[C]) -> Option<usize> {
        let place = self.second_place(sources)?;
        Some(self.heads[place].source)
    }

    #[inline]
    fn second_place<C: VersionCursor>(&self, sources: &[C]) -> Option<usize> {
        match *self.heads.as_slice() {
            [] | [_] => None,
            [_, _] => Some(1),
            [_, a, b, ..] => Some(1 + usize::from(self.precedes(b, a, sources))),
        }
    }

    /// Restores the order after the cursor at `place` moved to a later key or, if it is not
    /// `is_live`, ended. The top remains the top.
    #[inline]
    pub(crate) fn moved_behind_top<C: VersionCursor>(
        &mut self,
        place: usize,
        is_live: bool,
        sources: &[C],
    ) {
        if is_live {
            self.heads[place].prefix =
                self.oriented_prefix(sources[self.heads[place].source].key());
        } else {
            self.heads.swap_remove(place);
        }
        self.sift_down(place, sources);
    }

    /// The number of sources left.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Restores the order after the top's cursor moved to another key.
    #[inline]
    pub(crate) fn top_moved<C: VersionCursor>(&mut self, sources: &[C]) {
        let prefix = self.oriented_prefix(sources[self.heads[0].source].key());
        self.heads[0].prefix = prefix;
        self.sift_down(0, sources);
    }

    /// Removes the top, after its cursor ended or left the range of keys.
    pub(crate) fn remove_top<C: VersionCursor>(&mut self, sources: &[C]) {
        self.heads.swap_remove(0);
        self.sift_down(0, sources);
    }

    #[inline]
    fn oriented_prefix(&self, key: &[u8]) -> u64 {
        match self.direction {
            Direction::Forward => prefix_at(key, 0),
            Direction::Backward => !prefix_at(key, 0),
        }
    }

    #[inline]
    fn precedes<C: VersionCursor>(&self, a: Head, b: Head, sources: &[C]) -> bool {
        if a.prefix != b.prefix {
            return a.prefix < b.prefix;
        }
        let order = order_after_prefix(sources[a.source].key(), sources[b.source].key(), 0);
        let order = match self.direction {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        };
        match order {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => a.source < b.source,
        }
    }

    #[inline]
    fn sift_down<C: VersionCursor>(&mut self, mut position: usize, sources: &[C]) {
        let len = self.heads.len();
        loop {
            let left = 2 * position + 1;
            if left >= len {
                return;
            }
            let right = left + 1;
            let child =
                if right < len && self.precedes(self.heads[right], self.heads[left], sources) {
                    right
                } else {
                    left
                };
            if !self.precedes(self.heads[child], self.heads[position], sources) {
                return;
            }
            self.heads.swap(child, position);
            position = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::vec_cursor::VecCursor;
    use proptest::prelude::*;
    use teak_base::{Operation, StorageResult, WriteId};

    fn cursor(keys: &[Vec<u8>]) -> VecCursor {
        let entries = keys
            .iter()
            .map(|key| (key.clone(), WriteId(1), Operation::Put, Vec::new()));
        VecCursor::new(entries.collect())
    }

    proptest! {
        #![proptest_config(crate::test_support::proptest_config(256))]
        #[test]
        fn sources_come_in_key_order_and_newest_first(
            lists in proptest::collection::vec(
                proptest::collection::btree_set(proptest::collection::vec(0u8..3, 0..11), 0..20), 0..7),
            backward: bool,
        ) {
            let mut sources: Vec<VecCursor> = lists
                .iter()
                .map(|list| cursor(&list.iter().cloned().collect::<Vec<_>>()))
                .collect();
            let mut expected: Vec<(Vec<u8>, usize)> = lists
                .iter()
                .enumerate()
                .flat_map(|(source, list)| list.iter().map(move |key| (key.clone(), source)))
                .collect();
            expected.sort();
            if backward {
                expected.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            }
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let merged: StorageResult<Vec<(Vec<u8>, usize)>> = (|| {
                for source in &mut sources {
                    if backward { source.seek_last()? } else { source.seek_first()? }
                }
                let mut heap = KeyHeap::new();
                heap.rebuild(&sources, direction, |_, cursor| cursor.valid());
                let mut merged = Vec::new();
                while let Some(top) = heap.top() {
                    merged.push((sources[top].key().to_vec(), top));
                    if backward { sources[top].previous_key()? } else { sources[top].next_version()? }
                    if sources[top].valid() { heap.top_moved(&sources) } else { heap.remove_top(&sources) }
                }
                Ok(merged)
            })();
            prop_assert_eq!(merged.unwrap(), expected);
        }
    }
}
