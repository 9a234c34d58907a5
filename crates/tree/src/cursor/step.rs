//! Steps: past the current key, and to the version that is visible.

// Source numbers come from the heap or the place, which were made from
// `sources` and are rebuilt whenever the sources change.
#![allow(clippy::indexing_slicing)]

use super::{Place, TreeCursor};
use crate::VersionCursor;
use crate::key_search::is_same_key;
use crate::merge::heap::Direction;
use std::sync::atomic::Ordering;
use teak_base::bytes::key_successor;
use teak_base::visibility::Visibility;
use teak_base::{Operation, StorageError, StorageResult, WriteId};

/// Entries passed between two looks for an interrupt: well under a
/// millisecond's work.
const PASSED_BETWEEN_LOOKS: u32 = 1024;

/// Fewer keys in a row are not counted.
const PASSED_KEYS_TOLD: u64 = 16;

/// What the versions of a key in one source come to.
enum Group {
    /// The source stands on the visible put.
    Put,
    /// Deleted here.
    Deleted,
    /// Nothing visible; the source has left the key.
    Passed,
}

impl<V: Visibility> TreeCursor<V> {
    #[inline]
    fn sees(&mut self, id: WriteId) -> bool {
        if id.is_settled() {
            return true;
        }
        if self.last_answer.0 != id {
            self.last_answer = (id, self.visibility.is_visible(id));
        }
        self.last_answer.1
    }

    /// Notes an entry that the reader does not see, and looks now and then
    /// whether it wants to stop.
    #[inline]
    fn pass(&mut self) -> StorageResult<()> {
        self.passed = self.passed.wrapping_add(1);
        if self.passed.is_multiple_of(PASSED_BETWEEN_LOOKS) {
            return self.look_for_interrupt();
        }
        Ok(())
    }

    /// # Errors
    /// `Interrupted` when the reader wants to stop.
    #[cold]
    pub(super) fn look_for_interrupt(&mut self) -> StorageResult<()> {
        if self.visibility.is_interrupted() {
            self.place = Place::Nowhere;
            return Err(StorageError::Interrupted);
        }
        Ok(())
    }

    /// The next key when one source alone is left in the leaf.
    #[inline]
    pub(super) fn next_of_single(&mut self, index: usize) -> StorageResult<bool> {
        self.place = Place::Nowhere;
        let source = &mut self.sources[index];
        source.leave_key(&mut self.key)?;
        if !self.is_live(index) {
            self.heap.remove_top(&self.sources);
            return self.continue_forward();
        }
        let source = &self.sources[index];
        let (id, operation) = (source.write_id(), source.operation());
        let ends = self.is_past_limit(source.key());
        if operation == Operation::Put && !ends && self.sees(id) {
            self.place = Place::Source(index);
            return Ok(true);
        }
        self.continue_forward()
    }

    /// The next key where steps along the sources lead to it.
    #[inline]
    pub(super) fn next_in_place(&mut self, index: usize) -> StorageResult<bool> {
        self.place = Place::Nowhere;
        debug_assert_eq!(self.heap.top(), Some(index), "the newest version is first");
        // Older versions are left first, as long as the newest shows the key.
        while let Some((place, other)) = self.heap.second_if_near(&self.sources)
            && is_same_key(self.sources[other].key(), self.sources[index].key())
        {
            self.sources[other].leave_key(&mut self.key)?;
            let is_live = self.is_live(other);
            self.heap.moved_behind_top(place, is_live, &self.sources);
        }
        self.sources[index].leave_key(&mut self.key)?;
        self.top_moved(index);
        self.continue_forward()
    }

    /// The next key, whatever the state.
    pub(super) fn next_of_many(&mut self) -> StorageResult<bool> {
        match self.place {
            Place::Nowhere | Place::AfterLast => return Ok(false),
            Place::BeforeFirst => return self.seek_first(),
            Place::Source(_) => {}
        }
        self.keep_key();
        let follow = self.must_follow();
        self.place = Place::Nowhere;
        if follow || self.direction == Direction::Backward {
            self.refresh();
            let after = key_successor(&self.key);
            return self.seek_forward(&after);
        }
        self.leave_key_forward()?;
        self.continue_forward()
    }

    /// The previous key, whatever the state.
    pub(super) fn step_back(&mut self) -> StorageResult<bool> {
        match self.place {
            Place::Nowhere | Place::BeforeFirst => return Ok(false),
            Place::AfterLast => return self.seek_last(),
            Place::Source(_) => {}
        }
        self.keep_key();
        let follow = self.must_follow();
        self.place = Place::Nowhere;
        if follow || self.direction == Direction::Forward {
            self.refresh();
            let before = self.key.clone();
            return self.seek_backward(Some(&before));
        }
        self.leave_key_backward()?;
        if self.find_backward()? {
            return Ok(true);
        }
        if self.range.lower.is_empty() || self.limits.0.as_deref() >= Some(&*self.range.lower) {
            self.place = Place::BeforeFirst;
            return Ok(false);
        }
        let before = self.range.lower.clone();
        self.refresh();
        self.seek_backward(Some(&before))
    }

    /// Copies the current key, before the sources leave it.
    fn keep_key(&mut self) {
        if let Place::Source(index) = self.place {
            self.key.clear();
            self.key.extend_from_slice(self.sources[index].key());
        }
    }

    /// Finds the next visible key from where the sources stand.
    fn continue_forward(&mut self) -> StorageResult<bool> {
        if self.find_forward()? {
            return Ok(true);
        }
        match self.range.upper.clone() {
            Some(upper) if !self.is_past_limit(&upper) => {
                self.refresh();
                self.seek_forward(&upper)
            }
            _ => {
                self.place = Place::AfterLast;
                Ok(false)
            }
        }
    }

    /// Moves every source that stands on the kept key past it.
    fn leave_key_forward(&mut self) -> StorageResult<()> {
        while let Some(top) = self.heap.top_if_near(&self.key) {
            let source = &mut self.sources[top];
            if !is_same_key(source.key(), &self.key) {
                return Ok(());
            }
            source.leave_key(&mut self.key)?;
            self.top_moved(top);
        }
        Ok(())
    }

    /// Moves every source that stands on the kept key before it.
    fn leave_key_backward(&mut self) -> StorageResult<()> {
        while let Some(top) = self.heap.top_if_near(&self.key) {
            if !is_same_key(self.sources[top].key(), &self.key) {
                return Ok(());
            }
            self.sources[top].previous_key()?;
            self.top_moved(top);
        }
        Ok(())
    }

    #[inline]
    fn top_moved(&mut self, top: usize) {
        if self.is_live(top) {
            self.heap.top_moved(&self.sources);
        } else {
            self.heap.remove_top(&self.sources);
        }
    }

    /// The first visible key of the leaf from where the sources stand.
    pub(super) fn find_forward(&mut self) -> StorageResult<bool> {
        let mut passed = 0;
        while let Some(top) = self.heap.top() {
            if self.is_past_limit(self.sources[top].key()) {
                return Ok(false);
            }
            if self.layers.is_empty() {
                let source = &self.sources[top];
                let (id, operation) = (source.write_id(), source.operation());
                if operation == Operation::Put && self.sees(id) {
                    self.place = Place::Source(top);
                    self.note_passed(passed);
                    return Ok(true);
                }
            }
            if self.find_in_group(top)? {
                self.note_passed(passed);
                return Ok(true);
            }
            self.pass()?;
            self.leave_key_forward()?;
            passed += 1;
        }
        self.note_passed(passed);
        Ok(false)
    }

    /// Tells the tree of keys that were passed in vain. A few are none.
    #[inline]
    fn note_passed(&self, keys: u64) {
        if keys >= PASSED_KEYS_TOLD {
            self.tree.passed_keys.fetch_add(keys, Ordering::Relaxed);
        }
    }

    /// The last visible key of the leaf from where the sources stand.
    pub(super) fn find_backward(&mut self) -> StorageResult<bool> {
        let mut passed = 0;
        while let Some(top) = self.heap.top() {
            if self.is_before_limit(self.sources[top].key()) {
                return Ok(false);
            }
            if self.find_in_group(top)? {
                self.note_passed(passed);
                return Ok(true);
            }
            self.pass()?;
            self.leave_key_backward()?;
            passed += 1;
        }
        self.note_passed(passed);
        Ok(false)
    }

    /// Reads the versions of the key that `top` stands on, newest source
    /// first. True when the reader sees a value, and the cursor stands on it.
    fn find_in_group(&mut self, mut top: usize) -> StorageResult<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.sources[top].key());
        let mut layer = 0;
        loop {
            if self.is_covered(&mut layer, top) {
                return Ok(false);
            }
            match self.read_versions(top)? {
                Group::Put => {
                    self.place = Place::Source(top);
                    return Ok(true);
                }
                Group::Deleted => return Ok(false),
                Group::Passed => {}
            }
            match self.heap.top() {
                Some(next) if is_same_key(self.sources[next].key(), &self.key) => top = next,
                _ => return Ok(false),
            }
        }
    }

    /// Whether a visible range tombstone of a source newer than `source`, not
    /// looked at yet, covers the kept key.
    fn is_covered(&mut self, layer: &mut usize, source: usize) -> bool {
        while let Some((of, tombstones)) = self.layers.get(*layer) {
            if *of >= source {
                return false;
            }
            *layer += 1;
            for tombstone in tombstones {
                let id = tombstone.write_id;
                if tombstone.covers(&self.key)
                    && (id.is_settled() || self.visibility.is_visible(id))
                {
                    return true;
                }
            }
        }
        false
    }

    /// Reads the versions of the kept key in the top source.
    fn read_versions(&mut self, top: usize) -> StorageResult<Group> {
        loop {
            let source = &self.sources[top];
            let (id, operation) = (source.write_id(), source.operation());
            if self.sees(id) {
                return Ok(match operation {
                    Operation::Put => Group::Put,
                    Operation::Delete => Group::Deleted,
                });
            }
            let source = &mut self.sources[top];
            source.next_version()?;
            if source.valid() && is_same_key(source.key(), &self.key) {
                self.pass()?;
                continue;
            }
            if self.direction == Direction::Backward {
                source.seek_before(&self.key)?;
            }
            self.top_moved(top);
            return Ok(Group::Passed);
        }
    }
}
