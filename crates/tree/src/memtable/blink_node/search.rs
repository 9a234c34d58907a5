//! Comparisons of keys with a node's bounds and slots.

// Slots below `count <= CAPACITY` index arrays of CAPACITY elements.
#![allow(clippy::indexing_slicing)]

use super::{BlinkNode, COMMON_BYTES};
use crate::key_search::{order_after_prefix, prefix_at};
use crate::memtable::entry::Entry;
use crate::memtable::sync::atomic::Ordering;
use std::cmp::Ordering as KeyOrder;

/// A slot, and whether its entry has the key that was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memtable) struct Slot {
    pub number: usize,
    pub is_equal: bool,
}

impl<'a> BlinkNode<'a> {
    /// Compares the node's high key with `key`; `Greater` if the node has no high key.
    #[inline]
    pub(in crate::memtable) fn high_order(self, key: &[u8]) -> KeyOrder {
        let Some(high) = self.high() else {
            return KeyOrder::Greater;
        };
        let skip = self.skip();
        self.common_order(key, skip, high)
            .then_with(|| {
                let prefix = self.fields().high_prefix.load(Ordering::Relaxed);
                prefix.cmp(&prefix_at(key, skip))
            })
            .then_with(|| order_after_prefix(high.key(), key, skip))
    }

    /// Compares the node's `skip` common bytes with the first bytes of a key. `high`, the node's
    /// high key, provides the common bytes that do not fit into `common`.
    #[inline]
    fn common_order(self, key: &[u8], skip: usize, high: Entry<'_>) -> KeyOrder {
        if skip == 0 {
            return KeyOrder::Equal;
        }
        let common = &self.fields().common;
        for (number, word) in common.iter().enumerate() {
            let other = prefix_at(key, number * 8) & common_mask(skip, number);
            match word.load(Ordering::Relaxed).cmp(&other) {
                KeyOrder::Equal => {}
                order => return order,
            }
        }
        if skip <= COMMON_BYTES {
            return KeyOrder::Equal;
        }
        // A key that ends within the common bytes is padded with zeros. If they are then equal, the
        // next comparison takes the lengths into account.
        let padding = std::iter::repeat(&0u8);
        let own = high.key().iter().take(skip).skip(COMMON_BYTES);
        own.cmp(key.iter().chain(padding).take(skip).skip(COMMON_BYTES))
    }

    /// Whether the node covers the key, and the key is not before the first
    /// entry.
    #[inline]
    pub(in crate::memtable) fn has_inside(self, key: &[u8]) -> bool {
        if self.high_order(key) != KeyOrder::Greater {
            return false;
        }
        let skip = self.skip();
        let (Some(first), true) = (self.entry(0), self.count() > 0) else {
            return false;
        };
        // A node without a high key has no common bytes.
        let common = match self.high() {
            Some(high) => self.common_order(key, skip, high),
            None => KeyOrder::Equal,
        };
        common
            .then_with(|| {
                let prefix = self.fields().prefixes[0].load(Ordering::Relaxed);
                prefix.cmp(&prefix_at(key, skip))
            })
            .then_with(|| order_after_prefix(first.key(), key, skip))
            .is_le()
    }

    /// Whether the last key is less than `key`, which the node covers.
    #[inline]
    pub(in crate::memtable) fn ends_before(self, key: &[u8]) -> bool {
        let Some(slot) = self.count().checked_sub(1) else {
            return true;
        };
        let skip = self.skip();
        let prefix = self.fields().prefixes[slot].load(Ordering::Relaxed);
        match prefix.cmp(&prefix_at(key, skip)) {
            KeyOrder::Equal => self
                .entry(slot)
                .is_some_and(|last| order_after_prefix(last.key(), key, skip) == KeyOrder::Less),
            order => order == KeyOrder::Less,
        }
    }

    /// The first slot from `from` on whose key is at or after `key`, which the
    /// node covers; `count` when there is none.
    #[inline]
    pub(in crate::memtable) fn search(self, key: &[u8], from: usize) -> Slot {
        let fields = self.fields();
        let skip = self.skip();
        let prefix = prefix_at(key, skip);
        let count = self.count();
        let prefix_of = |slot: usize| fields.prefixes[slot].load(Ordering::Relaxed);
        let mut low = from;
        let mut length = count.saturating_sub(from);
        // The loop has no unpredictable branches.
        while length > 1 {
            let half = length / 2;
            if prefix_of(low + half - 1) < prefix {
                low += half;
            }
            length -= half;
        }
        if length == 1 && prefix_of(low) < prefix {
            low += 1;
        }
        if low >= count || prefix_of(low) != prefix {
            return Slot {
                number: low,
                is_equal: false,
            };
        }
        self.search_ties(key, prefix, skip, low, count)
    }

    /// Continues [`BlinkNode::search`] among slots with the key's prefix, of
    /// which `low` is the first.
    #[inline]
    fn search_ties(
        self,
        key: &[u8],
        prefix: u64,
        skip: usize,
        mut low: usize,
        mut high: usize,
    ) -> Slot {
        let order_of = |slot: usize| match self.entry(slot) {
            Some(entry) => order_after_prefix(entry.key(), key, skip),
            // An inconsistent read. The caller detects and discards it.
            None => KeyOrder::Greater,
        };
        match order_of(low) {
            KeyOrder::Less => low += 1,
            order => {
                return Slot {
                    number: low,
                    is_equal: order == KeyOrder::Equal,
                };
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let order = self.fields().prefixes[middle]
                .load(Ordering::Relaxed)
                .cmp(&prefix)
                .then_with(|| order_of(middle));
            match order {
                KeyOrder::Less => low = middle + 1,
                KeyOrder::Greater => high = middle,
                KeyOrder::Equal => {
                    return Slot {
                        number: middle,
                        is_equal: true,
                    };
                }
            }
        }
        Slot {
            number: low,
            is_equal: false,
        }
    }
}

/// The mask of the bits that the first `skip` bytes occupy in a word of the common bytes.
#[inline]
pub(super) fn common_mask(skip: usize, word: usize) -> u64 {
    match skip.saturating_sub(word * 8) {
        bytes @ 1..8 => u64::MAX << (64 - 8 * bytes),
        0 => 0,
        _ => u64::MAX,
    }
}
