//! Estimates of the number of keys in a range.

use super::{BlinkTree, Position};
use crate::memtable::blink_node::{BlinkNode, CAPACITY};
use std::cmp::Ordering as KeyOrder;

impl BlinkTree {
    /// Estimates the number of keys from `lower` (inclusive) to `upper`
    /// (exclusive). `total` is the number of keys in the tree, approximately.
    pub(in crate::memtable) fn estimate(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        total: u64,
    ) -> u64 {
        let Some(root) = self.root() else { return 0 };
        let start = match lower {
            Some(lower) => self.lower_bound(lower),
            None => self.first(),
        };
        let Some(start) = start else { return 0 };
        if let Some(near) = Self::count_near(&start, upper) {
            return near;
        }
        let from = lower.map_or(0.0, |key| Self::rank(root, key));
        let to = upper.map_or(1.0, |key| Self::rank(root, key));
        // Ranks are between 0 and 1, and a memtable has at most u32::MAX keys.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let estimate = ((to - from).max(0.0) * total as f64) as u64;
        estimate
    }

    /// Counts the keys from a position to `upper`; `None` when they are on more than a few leaves.
    /// The count may be wrong if a leaf changes at the same time.
    fn count_near(start: &Position<'_>, upper: Option<&[u8]>) -> Option<u64> {
        const LEAVES_MAX: usize = 32;
        let mut leaf = start.leaf;
        let mut first = start.slot;
        let mut count = 0;
        for _ in 0..LEAVES_MAX {
            let end = match upper {
                Some(upper) if leaf.high_order(upper) == KeyOrder::Greater => {
                    let end = leaf.search(upper, 0).number;
                    return Some(count + end.saturating_sub(first) as u64);
                }
                _ => leaf.count(),
            };
            count += end.saturating_sub(first) as u64;
            first = 0;
            let Some(next) = leaf.next() else {
                return Some(count);
            };
            leaf = next;
        }
        None
    }

    /// The relative position of a key, from 0 (first) to 1 (last), as if the
    /// children of each node held the same number of keys.
    fn rank(root: BlinkNode<'_>, key: &[u8]) -> f64 {
        let mut rank = 0.0;
        let mut share = 1.0;
        let mut node = root;
        loop {
            let from = usize::from(node.level() > 0);
            let slot = node.search(key, from);
            // At most CAPACITY.
            #[allow(clippy::cast_precision_loss)]
            let count = node.count().max(1) as f64;
            if node.level() == 0 {
                #[allow(clippy::cast_precision_loss)]
                let number = slot.number as f64;
                return rank + share * number / count;
            }
            let number = slot.number - usize::from(!slot.is_equal);
            #[allow(clippy::cast_precision_loss)]
            let before = number as f64;
            rank += share * before / count;
            share /= count;
            match node.child(number.min(CAPACITY - 1)) {
                Some(child) => node = child,
                None => return rank,
            }
        }
    }
}
