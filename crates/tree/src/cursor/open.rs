//! Opens the sources of a leaf, and moves from leaf to leaf.

use super::{CursorPosition, TreeCursor};
use crate::merge::heap::Direction;
use crate::node::{KeyRange, LeafPath};
use crate::source::{Source, run_tombstones};
use crate::{ReadPattern, VersionCursor};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::visibility::Visibility;
use teak_base::{StorageResult, WriteId};

impl<V: Visibility> TreeCursor<V> {
    /// Loads the current version. If it is a new one, the sources must be opened again.
    pub(super) fn refresh(&mut self) {
        self.generation = self.tree.generation.load(Ordering::Acquire);
        let current = self.tree.load_version();
        let same = self
            .version
            .as_ref()
            .is_some_and(|version| Arc::ptr_eq(version, &current));
        if !same {
            self.sources.clear();
            self.version = Some(Arc::clone(&current));
        }
    }

    /// Whether an entry may have been inserted that the current sources would miss.
    #[inline]
    pub(super) fn must_follow(&self) -> bool {
        self.follow
            && (self.tree.generation.load(Ordering::Relaxed) != self.generation
                || self.insertions() != self.active_insertions)
    }

    #[inline]
    fn insertions(&self) -> u32 {
        self.version
            .as_ref()
            .map_or(0, |version| version.active.memtable.insertions())
    }

    /// Opens the sources of a path. After an error the cursor has no sources, so that the next seek
    /// reads the path again.
    fn open_path(&mut self, path: StorageResult<LeafPath>) -> StorageResult<()> {
        self.sources.clear();
        self.open(&path?);
        Ok(())
    }

    /// Opens the sources of a path.
    fn open(&mut self, path: &LeafPath) {
        let Some(version) = self.version.clone() else {
            return;
        };
        self.range = path.range.clone();
        self.sources.clear();
        self.memtables.clear();
        self.layers.clear();
        self.bounded.clear();
        self.has_skipped = false;
        for slot in version.memtables() {
            // The active memtable may still receive writes that the reader sees.
            let is_frozen = !Arc::ptr_eq(slot, &version.active);
            if is_frozen && self.hides(slot.memtable.only_write_ids()) {
                self.has_skipped = true;
                continue;
            }
            self.sources.push(Source::memtable(slot));
            self.memtables.push(Arc::clone(slot));
            self.bounded.push(true);
        }
        for run in &path.runs {
            if self.hides(run.handle.only_write_ids()) {
                self.has_skipped = true;
                continue;
            }
            let tombstones = run_tombstones(run);
            if !tombstones.is_empty() {
                self.layers.push((self.sources.len(), tombstones));
            }
            let mut source = Source::run(run, ReadPattern::Random);
            source.set_projection(self.projection.clone());
            source.take_rows();
            self.sources.push(source);
            self.bounded.push(!self.range.covers(&run.range()));
        }
    }

    /// Whether none of these writes can ever be visible to the reader.
    fn hides(&self, ids: Option<(WriteId, WriteId)>) -> bool {
        ids.is_some_and(|(min, max)| self.visibility.hides_all(min, max))
    }

    /// Reloads the range tombstones of memtables, because the active memtable may have received
    /// more.
    fn refresh_memtable_layers(&mut self) {
        let Some(version) = self.version.clone() else {
            return;
        };
        self.active_insertions = version.active.memtable.insertions();
        let memtables = self.memtables.len();
        let runs_from = self.layers.partition_point(|layer| layer.0 < memtables);
        self.layers.drain(..runs_from);
        let mut layers = Vec::new();
        for (source, slot) in self.memtables.iter().enumerate() {
            let tombstones = slot.memtable.range_tombstones();
            if !tombstones.is_empty() {
                layers.push((source, tombstones));
            }
        }
        if !layers.is_empty() {
            layers.append(&mut self.layers);
            self.layers = layers;
        }
    }

    /// Moves to the first visible key at or after `key`, leaf by leaf.
    pub(super) fn seek_forward(&mut self, key: &[u8]) -> StorageResult<bool> {
        let mut from: Arc<[u8]> = match &self.prefix {
            Some(prefix) => key.max(prefix.bytes()).into(),
            None => key.into(),
        };
        loop {
            let Some(version) = &self.version else {
                return Ok(false);
            };
            if self.sources.is_empty() || !self.range.contains(&from) {
                let path = LeafPath::to_key(&version.root, &from, &self.tree.nodes);
                self.open_path(path)?;
            }
            self.refresh_memtable_layers();
            self.direction = Direction::Forward;
            for source in &mut self.sources {
                match &self.prefix {
                    Some(prefix) if source.leave_out(prefix)? => {}
                    _ => source.seek(&from)?,
                }
            }
            self.rebuild_heap();
            if self.find_forward()? {
                return Ok(true);
            }
            match self.range.upper.clone() {
                Some(upper) if !self.is_past_limit(&upper) => {
                    self.check_interrupt()?;
                    self.refresh();
                    from = upper;
                }
                _ => {
                    self.position = CursorPosition::AfterLast;
                    return Ok(false);
                }
            }
        }
    }

    /// Moves to the last visible key before `key`; without `key`, to the last visible key.
    pub(super) fn seek_backward(&mut self, key: Option<&[u8]>) -> StorageResult<bool> {
        let mut before: Option<Arc<[u8]>> = key.map(Into::into);
        if self.prefix.is_some()
            && let Some(after) = self.limits.1.as_deref()
            && before.as_deref().is_none_or(|before| before > after)
        {
            before = Some(after.into());
        }
        loop {
            let Some(version) = &self.version else {
                return Ok(false);
            };
            let is_open = !self.sources.is_empty()
                && match &before {
                    Some(before) => {
                        *self.range.lower < **before
                            && self
                                .range
                                .upper
                                .as_ref()
                                .is_none_or(|upper| before <= upper)
                    }
                    None => self.range.upper.is_none(),
                };
            if !is_open {
                let (root, nodes) = (&version.root, &self.tree.nodes);
                let path = match &before {
                    Some(before) => LeafPath::before(root, before, nodes),
                    None => LeafPath::to_last(root, nodes),
                };
                self.open_path(path)?;
            }
            self.refresh_memtable_layers();
            self.direction = Direction::Backward;
            for source in &mut self.sources {
                match (&self.prefix, &before) {
                    (Some(prefix), _) if source.leave_out(prefix)? => {}
                    (_, Some(before)) => source.seek_before(before)?,
                    (_, None) => source.seek_last()?,
                }
            }
            self.rebuild_heap();
            if self.find_backward()? {
                return Ok(true);
            }
            if self.range.lower.is_empty() || self.limits.0.as_deref() >= Some(&*self.range.lower) {
                self.position = CursorPosition::BeforeFirst;
                return Ok(false);
            }
            self.check_interrupt()?;
            before = Some(Arc::clone(&self.range.lower));
            self.refresh();
        }
    }

    fn rebuild_heap(&mut self) {
        let range: &KeyRange = &self.range;
        let direction = self.direction;
        let bounded = &self.bounded;
        self.heap
            .rebuild(&self.sources, direction, |index, source| {
                source.valid()
                    && (!bounded.get(index).copied().unwrap_or(true)
                        || in_range(range, direction, source.key()))
            });
    }

    /// Whether every key of a source is within the leaf's range.
    #[inline]
    pub(super) fn is_within_range(&self, index: usize) -> bool {
        self.bounded.get(index) == Some(&false)
    }

    /// Whether a source is still positioned inside the leaf's range after a
    /// move.
    #[inline]
    pub(super) fn is_live(&self, index: usize) -> bool {
        self.sources.get(index).is_some_and(|source| {
            source.valid()
                && (!self.bounded.get(index).copied().unwrap_or(true)
                    || in_range(&self.range, self.direction, source.key()))
        })
    }
}

/// Whether a key reached by a move in this direction is inside the range.
#[inline]
fn in_range(range: &KeyRange, direction: Direction, key: &[u8]) -> bool {
    match direction {
        Direction::Forward => !range.ends_at_or_before(key),
        Direction::Backward => *range.lower <= *key,
    }
}
