//! Locks and changes of a node.

// Slots below `count <= CAPACITY` index arrays of CAPACITY elements.
#![allow(clippy::indexing_slicing)]

use super::search::common_mask;
use super::{BlinkNode, CAPACITY, LOCKED, ReadVersion};
use crate::key_search::{common_bytes, prefix_at};
use crate::memtable::arena::Arena;
use crate::memtable::entry::Entry;
use crate::memtable::sync::atomic::{Ordering, fence};
use std::ptr;

/// A locked node, until [`LockedNode::unlock`] or
/// [`LockedNode::unlock_unchanged`].
pub(in crate::memtable) struct LockedNode<'a> {
    pub node: BlinkNode<'a>,
    version: u64,
}

impl<'a> BlinkNode<'a> {
    /// Locks the node if it has not changed since `begin`.
    #[inline]
    pub(in crate::memtable) fn lock_at(self, version: ReadVersion) -> Option<LockedNode<'a>> {
        // Acquire: this thread must see all writes of the last writer.
        let locked = self.fields().version.compare_exchange(
            version.0,
            version.0 | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Release, before all writes: a reader that sees one of the writes
        // finds the node locked or its version changed.
        fence(Ordering::Release);
        locked.is_ok().then_some(LockedNode {
            node: self,
            version: version.0,
        })
    }

    /// Locks the node.
    pub(in crate::memtable) fn lock(self) -> LockedNode<'a> {
        loop {
            if let Some(locked) = self.lock_at(self.begin()) {
                return locked;
            }
        }
    }
}

impl<'a> LockedNode<'a> {
    /// Unlocks the node with a new version.
    #[inline]
    pub(in crate::memtable) fn unlock(self) {
        // Release: a reader that loads this version sees all writes.
        self.node
            .fields()
            .version
            .store(self.version + 2, Ordering::Release);
    }

    /// Unlocks the node with its old version. For changes of a single pointer only: readers may use
    /// either pointer.
    #[inline]
    pub(in crate::memtable) fn unlock_unchanged(self) {
        self.node
            .fields()
            .version
            .store(self.version, Ordering::Release);
    }

    /// Replaces the entry of a slot by one of the same key.
    #[inline]
    pub(in crate::memtable) fn replace(&self, slot: usize, entry: Entry<'a>) {
        self.node.fields().entries[slot].store(entry.as_ptr(), Ordering::Release);
    }

    /// Whether there is no free slot.
    #[inline]
    pub(in crate::memtable) fn is_full(&self) -> bool {
        self.node.count() == CAPACITY
    }

    /// Inserts an entry, or a child and its low key, before `slot`. The node
    /// must not be full.
    #[inline]
    pub(in crate::memtable) fn insert(
        &self,
        slot: usize,
        entry: Entry<'a>,
        child: Option<BlinkNode<'a>>,
    ) {
        let fields = self.node.fields();
        let count = self.node.count();
        assert!(slot <= count && count < CAPACITY);
        for number in (slot..count).rev() {
            let prefix = fields.prefixes[number].load(Ordering::Relaxed);
            fields.prefixes[number + 1].store(prefix, Ordering::Relaxed);
        }
        for number in (slot..count).rev() {
            let moved = fields.entries[number].load(Ordering::Relaxed);
            // Release: a reader may load the pointer from this store.
            fields.entries[number + 1].store(moved, Ordering::Release);
        }
        if let Some(child) = child {
            let children = self.node.children();
            for number in (slot..count).rev() {
                let moved = children[number].load(Ordering::Relaxed);
                children[number + 1].store(moved, Ordering::Release);
            }
            children[slot].store(child.as_ptr(), Ordering::Release);
        }
        let prefix = prefix_at(entry.key(), self.node.skip());
        fields.prefixes[slot].store(prefix, Ordering::Relaxed);
        fields.entries[slot].store(entry.as_ptr(), Ordering::Release);
        self.set_count(count + 1);
    }

    /// Adds a first child, without a low key.
    pub(in crate::memtable) fn insert_first(&self, child: BlinkNode<'a>) {
        assert!(self.node.count() == 0);
        self.node.children()[0].store(child.as_ptr(), Ordering::Release);
        self.set_count(1);
    }

    fn set_count(&self, count: usize) {
        // The conversion does not fail: a count is at most CAPACITY.
        let count = u32::try_from(count).unwrap_or(0);
        self.node.fields().count.store(count, Ordering::Relaxed);
    }

    /// Moves the slots from `slot` on to a new node after this one, and returns
    /// the new node locked. `low` is its low key.
    pub(in crate::memtable) fn split(
        &self,
        arena: &'a Arena,
        slot: usize,
        low: Entry<'a>,
    ) -> LockedNode<'a> {
        let left = self.node.fields();
        let right = BlinkNode::create(arena, left.level, false).lock();
        let count = self.node.count();
        right.set_skip(self.node.skip(), low);
        let fields = right.node.fields();
        for (to, from) in (slot..count).enumerate() {
            let prefix = left.prefixes[from].load(Ordering::Relaxed);
            fields.prefixes[to].store(prefix, Ordering::Relaxed);
            let moved = left.entries[from].load(Ordering::Relaxed);
            fields.entries[to].store(moved, Ordering::Release);
            if left.level > 0 {
                let moved = self.node.children()[from].load(Ordering::Relaxed);
                right.node.children()[to].store(moved, Ordering::Release);
            }
        }
        right.set_count(count - slot);
        right.set_high(self.node.high());
        let next = left.next.load(Ordering::Relaxed);
        fields.next.store(next, Ordering::Release);
        right.shorten_prefixes(Some(low));

        self.set_count(slot);
        self.set_high(Some(low));
        let own_low = (!left.leftmost).then(|| self.node.entry(0)).flatten();
        self.shorten_prefixes(own_low);
        // Last: this link makes the new node reachable.
        left.next.store(right.node.as_ptr(), Ordering::Release);
        right
    }

    /// Sets the number of common bytes. `any` is a key of the node.
    fn set_skip(&self, skip: usize, any: Entry<'a>) {
        let fields = self.node.fields();
        for (number, word) in fields.common.iter().enumerate() {
            let common = prefix_at(any.key(), number * 8) & common_mask(skip, number);
            word.store(common, Ordering::Relaxed);
        }
        // The conversion does not fail: keys are far shorter than 4 GiB.
        let skip = u32::try_from(skip).unwrap_or(0);
        fields.skip.store(skip, Ordering::Relaxed);
    }

    fn set_high(&self, high: Option<Entry<'a>>) {
        let fields = self.node.fields();
        let prefix = high.map_or(0, |high| prefix_at(high.key(), self.node.skip()));
        let pointer = high.map_or(ptr::null_mut(), Entry::as_ptr);
        fields.high_prefix.store(prefix, Ordering::Relaxed);
        fields.high.store(pointer, Ordering::Release);
    }

    /// Increases `skip` to the common prefix of the bounds, if the gain justifies reading all
    /// entries.
    fn shorten_prefixes(&self, low: Option<Entry<'a>>) {
        const GAIN_BYTES_MIN: usize = 4;
        let (Some(low), Some(high)) = (low, self.node.high()) else {
            return;
        };
        let skip = common_bytes(low.key(), high.key());
        if skip < self.node.skip() + GAIN_BYTES_MIN {
            return;
        }
        self.set_skip(skip, low);
        self.set_high(Some(high));
        let fields = self.node.fields();
        for slot in 0..self.node.count() {
            if let Some(entry) = self.node.entry(slot) {
                fields.prefixes[slot].store(prefix_at(entry.key(), skip), Ordering::Relaxed);
            }
        }
    }
}
