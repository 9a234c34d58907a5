//! Steps of a cursor: it moves past the current key and to the next visible version.

// Source numbers come from the heap or the position. When `sources` changes, the position is reset
// and the heap is rebuilt before they are used again.
#![allow(clippy::indexing_slicing)]

use super::{CursorPosition, TreeCursor};
use crate::VersionCursor;
use crate::key_search::is_same_key;
use crate::merge::heap::Direction;
use teak_base::bytes::key_successor;
use teak_base::visibility::Visibility;
use teak_base::{Operation, StorageError, StorageResult, WriteId};

/// Invisible entries between two checks for an interrupt. In memory, passing them takes less than a
/// millisecond.
const INTERRUPT_CHECK_ENTRIES: u32 = 1024;

/// Shorter sequences of invisible keys are not added to the count of the tree.
const PASSED_KEYS_MIN: u64 = 16;

/// The result of reading the versions of a key in one source.
enum Group {
    /// The source is on the visible put.
    Put,
    /// The visible version is a delete.
    Deleted,
    /// No version is visible; the source has moved past the key.
    Passed,
}

impl<V: Visibility> TreeCursor<V> {
    #[inline]
    pub(super) fn sees(&mut self, id: WriteId) -> bool {
        if id.is_settled() {
            return true;
        }
        if self.last_visibility.0 != id {
            self.last_visibility = (id, self.visibility.is_visible(id));
        }
        self.last_visibility.1
    }

    /// Counts an invisible entry, and checks for an interrupt after every [`INTERRUPT_CHECK_ENTRIES`]
    /// entries.
    #[inline]
    fn pass(&mut self) -> StorageResult<()> {
        self.passed = self.passed.wrapping_add(1);
        if self.passed.is_multiple_of(INTERRUPT_CHECK_ENTRIES) {
            return self.check_interrupt();
        }
        Ok(())
    }

    /// # Errors
    /// `Interrupted` when the visibility reports it.
    #[cold]
    pub(super) fn check_interrupt(&mut self) -> StorageResult<()> {
        if self.visibility.is_interrupted() {
            self.position = CursorPosition::None;
            return Err(StorageError::Interrupted);
        }
        Ok(())
    }

    /// Moves to the next key when only one source is left in the leaf.
    #[inline]
    pub(super) fn next_of_single(&mut self, index: usize) -> StorageResult<bool> {
        if self.is_within_range(index) && self.next_in_page(index) {
            if !self.is_past_limit(self.sources[index].key()) {
                return Ok(true);
            }
            self.position = CursorPosition::None;
            return self.continue_forward();
        }
        self.position = CursorPosition::None;
        let source = &mut self.sources[index];
        source.skip_key(&mut self.key)?;
        if !self.is_live(index) {
            self.heap.remove_top(&self.sources);
            return self.continue_forward();
        }
        let source = &self.sources[index];
        let (id, operation) = (source.write_id(), source.operation());
        let ends = self.is_past_limit(source.key());
        if operation == Operation::Put && !ends && self.sees(id) {
            self.position = CursorPosition::Source(index);
            return Ok(true);
        }
        self.continue_forward()
    }

    /// Moves to the next key with steps of the sources, without a seek.
    #[inline]
    pub(super) fn next_in_place(&mut self, index: usize) -> StorageResult<bool> {
        self.position = CursorPosition::None;
        debug_assert_eq!(self.heap.top(), Some(index), "the newest version is first");
        // Moves the sources with older versions past the key first, because the newest source still
        // provides the key for comparison.
        while let Some((place, other)) = self.heap.second_if_near(&self.sources)
            && is_same_key(self.sources[other].key(), self.sources[index].key())
        {
            self.sources[other].skip_key(&mut self.key)?;
            let is_live = self.is_live(other);
            self.heap.moved_behind_top(place, is_live, &self.sources);
        }
        self.sources[index].skip_key(&mut self.key)?;
        self.top_moved(index);
        self.continue_forward()
    }

    /// Moves to the next key. Slow path, for any state.
    pub(super) fn next_of_many(&mut self) -> StorageResult<bool> {
        match self.position {
            CursorPosition::None | CursorPosition::AfterLast => return Ok(false),
            CursorPosition::BeforeFirst => return self.seek_first(),
            CursorPosition::Source(_) | CursorPosition::PassedPage(_) => {}
        }
        self.keep_key();
        let must_seek = self.must_follow() || !self.valid();
        self.position = CursorPosition::None;
        if must_seek || self.direction == Direction::Backward {
            self.refresh();
            let after = key_successor(&self.key);
            return self.seek_forward(&after);
        }
        self.skip_key_forward()?;
        self.continue_forward()
    }

    /// Moves to the previous key, in any state.
    pub(super) fn step_back(&mut self) -> StorageResult<bool> {
        match self.position {
            CursorPosition::None | CursorPosition::BeforeFirst => return Ok(false),
            CursorPosition::AfterLast => return self.seek_last(),
            // Moves forward precede a passed page, so a seek follows.
            CursorPosition::Source(_) | CursorPosition::PassedPage(_) => {}
        }
        self.keep_key();
        let follow = self.must_follow();
        self.position = CursorPosition::None;
        if follow || self.direction == Direction::Forward {
            self.refresh();
            let before = self.key.clone();
            return self.seek_backward(Some(&before));
        }
        self.skip_key_backward()?;
        if self.find_backward()? {
            return Ok(true);
        }
        if self.range.lower.is_empty() || self.limits.0.as_deref() >= Some(&*self.range.lower) {
            self.position = CursorPosition::BeforeFirst;
            return Ok(false);
        }
        let before = self.range.lower.clone();
        self.refresh();
        self.seek_backward(Some(&before))
    }

    /// Saves a copy of the current key, before the sources move past it.
    pub(super) fn keep_key(&mut self) {
        if let CursorPosition::Source(index) = self.position {
            self.key.clear();
            self.key.extend_from_slice(self.sources[index].key());
        }
    }

    /// Finds the next visible key from the sources' positions, in this leaf or a following one.
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
                self.position = CursorPosition::AfterLast;
                Ok(false)
            }
        }
    }

    /// Moves every source that is on the saved key past it.
    fn skip_key_forward(&mut self) -> StorageResult<()> {
        while let Some(top) = self.heap.top_if_near(&self.key) {
            let source = &mut self.sources[top];
            if !is_same_key(source.key(), &self.key) {
                return Ok(());
            }
            source.skip_key(&mut self.key)?;
            self.top_moved(top);
        }
        Ok(())
    }

    /// Moves every source that is on the saved key before it.
    fn skip_key_backward(&mut self) -> StorageResult<()> {
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

    /// Finds the first visible key of the leaf from the sources' positions.
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
                    self.position = CursorPosition::Source(top);
                    self.note_passed(passed);
                    return Ok(true);
                }
            }
            if self.find_in_group(top)? {
                self.note_passed(passed);
                return Ok(true);
            }
            self.pass()?;
            self.skip_key_forward()?;
            passed += 1;
        }
        self.note_passed(passed);
        Ok(false)
    }

    /// Adds a sequence of invisible keys to the tree's count, unless it is short.
    #[inline]
    fn note_passed(&self, keys: u64) {
        if keys >= PASSED_KEYS_MIN {
            self.tree.count_passed(keys, &self.key);
        }
    }

    /// Finds the last visible key of the leaf from the sources' positions.
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
            self.skip_key_backward()?;
            passed += 1;
        }
        self.note_passed(passed);
        Ok(false)
    }

    /// Reads the versions of the key at source `top`, newest source first.
    /// Returns true when a visible value is found; the cursor is then on it.
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
                    self.position = CursorPosition::Source(top);
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

    /// Whether a visible range tombstone of a source newer than `source` covers the saved key.
    /// `layer` is the first layer that has not been checked, and is advanced.
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

    /// Reads the versions of the saved key in the top source.
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
