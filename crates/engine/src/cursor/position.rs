//! The position of a cursor in one index: the tree's cursor, the view that it
//! reads through, and the key from which to continue when either is replaced.

use super::bounds::{Bounds, Motion};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::core::table::{OpenIndexes, Table};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::open_files::open_indexes;
use crate::table_handle::TableHandle;
use crate::transaction::ViewSerial;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::StorageResult;
use teak_transactions::{ReadView, ViewKind};
use teak_tree::{PageRows, Projection, TreeCursor};

/// A row that was found; borrowed until the cursor is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether the value is large and was not read, and `value` is empty; see
    /// [`Cursor::skip_large_values`](crate::Cursor::skip_large_values).
    pub is_value_skipped: bool,
}

impl<'a> Row<'a> {
    #[inline]
    fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            key,
            value,
            is_value_skipped: false,
        }
    }

    /// The row that a tree's cursor is on.
    #[inline]
    pub(super) fn of_tree(
        tree: &'a mut TreeCursor<Arc<ReadView>>,
        skips_large_values: bool,
    ) -> StorageResult<Self> {
        if skips_large_values && tree.is_separate() {
            return Ok(Self {
                key: tree.key(),
                value: &[],
                is_value_skipped: true,
            });
        }
        let (key, value) = tree.entry()?;
        Ok(Self::new(key, value))
    }
}

/// Consecutive rows, at least one; borrowed until the cursor is used again.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// One row.
    One(Row<'a>),
    /// Rows of one page.
    InPage(PageRows<'a>),
}

impl<'a> Rows<'a> {
    /// The number of rows.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // It is never empty.
    pub fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::InPage(rows) => rows.len(),
        }
    }

    /// The rows, in key order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Row<'a>> {
        let rows = *self;
        (0..rows.len()).map(move |number| match rows {
            Self::One(row) => row,
            Self::InPage(rows) => {
                let (key, value) = rows.get(number);
                Row::new(key, value)
            }
        })
    }
}

/// Where the row at the position is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// In the tree's cursor.
    InTree,
    /// In the position's buffers: the key in `saved_key`, and the value in `value` if a locking
    /// read has read it.
    InBuffer,
}

/// An index that was scanned, and the view of the scan.
pub(super) struct Scanned<'a> {
    pub(super) table: &'a Table,
    pub(super) index: &'a Index,
    pub(super) view: Option<&'a ReadView>,
}

impl Scanned<'_> {
    /// Notes that the view sees `rows` entries in the index, so that the number of rows is known.
    pub(super) fn learn_row_count(&self, core: &EngineCore, rows: u64) {
        if let Some(ViewKind::Snapshot(snapshot)) = self.view.map(ReadView::kind)
            && let Some(indexes) = self.table.open_indexes()
            && indexes
                .iter()
                .any(|index| std::ptr::eq(&**index, self.index))
            && let Some(index) = indexes.first()
            && index.created_at.load(Ordering::Acquire) <= snapshot.0
        {
            let (count, untracked) = (&self.table.counters.rows, core.prepared.untracked_commit());
            count.learn(index.entry.file, snapshot, untracked, rows);
        }
    }
}

/// The memory of a closed cursor, which another one can use.
#[derive(Debug, Default)]
pub struct CursorMemory {
    saved_key: Vec<u8>,
    value: Vec<u8>,
    get_key: Vec<u8>,
}

impl CursorMemory {
    /// Larger buffers are freed, in bytes: thousands of tables may have parked cursors, and their memory is not part of the
    /// budget.
    const BUFFER_MAX: usize = 1 << 10;

    fn of(position: IndexPosition) -> Self {
        let emptied = |mut buffer: Vec<u8>| {
            buffer.clear();
            match buffer.capacity() <= Self::BUFFER_MAX {
                true => buffer,
                false => Vec::new(),
            }
        };
        Self {
            saved_key: emptied(position.saved_key),
            value: emptied(position.value),
            get_key: emptied(position.get_key),
        }
    }
}

/// The state that both kinds of cursors share.
pub(super) struct IndexPosition {
    pub(super) index: Arc<Index>,
    pub(super) table: Arc<Table>,
    pub(super) number: IndexNumber,
    pub(super) view: Option<Arc<ReadView>>,
    serial: ViewSerial,
    /// Created at the first move, and again after a change of the view or the index. Boxed, because it is large and
    /// look-ups have none.
    pub(super) tree: Option<Box<TreeCursor<Arc<ReadView>>>>,
    pub(super) bounds: Bounds,
    pub(super) found: Found,
    /// The key from which the next step starts, unless `found` is `InTree`.
    pub(super) saved_key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The key of the last `get`, which does not change the position.
    get_key: Vec<u8>,
    pub(super) skips_large_values: bool,
    /// The columns of values that the caller needs; `None`: all.
    pub(super) projection: Option<Projection>,
}

impl IndexPosition {
    pub(super) fn new(
        memory: CursorMemory,
        table: &TableHandle,
        number: IndexNumber,
    ) -> EngineResult<Self> {
        Ok(Self {
            index: table.index(number)?,
            table: Arc::clone(&table.table),
            number,
            view: None,
            serial: ViewSerial::default(),
            tree: None,
            bounds: Bounds::default(),
            found: Found::Nothing,
            saved_key: memory.saved_key,
            value: memory.value,
            get_key: memory.get_key,
            skips_large_values: false,
            projection: None,
        })
    }

    pub(super) fn into_memory(self) -> CursorMemory {
        CursorMemory::of(self)
    }

    pub(super) fn is_rows_index(&self) -> bool {
        self.number.is_rows()
    }

    pub(super) fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        // After this, the next step starts from the saved key and respects both bounds.
        self.detach_from_tree();
        self.bounds.set(lower, upper);
        self.limit_tree();
    }

    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        self.detach_from_tree();
        self.bounds.set_prefix(prefix);
        self.limit_tree();
    }

    /// Limits the tree's cursor to the bounds, so that a read does not pass over invisible keys outside of the bounds,
    /// and does not wait for writes of them.
    fn limit_tree(&mut self) {
        let bounds = &self.bounds;
        if let Some(tree) = &mut self.tree {
            match bounds.prefix() {
                Some(prefix) => tree.set_prefix(Some(prefix)),
                None => tree.set_limits(bounds.lower(), bounds.upper()),
            }
        }
    }

    pub(super) fn set_projection(&mut self, projection: Option<Projection>) {
        self.detach_from_tree();
        self.projection = projection;
        if let Some(tree) = &mut self.tree {
            tree.set_projection(self.projection.clone());
        }
    }

    /// Creates the tree's cursor, if there is a view. `follow_inserts`: see
    /// [`TreeCursor::follow_inserts`].
    pub(super) fn open_tree(&mut self, follow_inserts: bool) {
        if let Some(view) = &self.view {
            let tree = self.index.tree.cursor(Arc::clone(view));
            let tree = self.tree.insert(Box::new(tree));
            tree.follow_inserts(follow_inserts);
            tree.set_projection(self.projection.clone());
            self.limit_tree();
        }
    }

    /// Whether the view was taken at this serial of the transaction.
    #[inline]
    pub(super) fn is_current(&self, serial: ViewSerial) -> bool {
        self.serial == serial
    }

    /// Drops the tree's cursor if the transaction's view has changed or the index was replaced, for
    /// example by TRUNCATE. In the first case drops the view, too.
    ///
    /// # Errors
    /// Those of opening the files of the replaced index.
    pub(super) fn refresh(&mut self, core: &EngineCore, serial: ViewSerial) -> EngineResult<()> {
        if self.index.is_dropped()
            && let Some(indexes) = self.indexes_now(core)?
            && let Some(index) = self.number.of(&indexes)
            && !Arc::ptr_eq(index, &self.index)
        {
            self.detach_from_tree();
            self.index = Arc::clone(index);
            self.tree = None;
        }
        if self.view.is_some() && !self.is_current(serial) {
            self.detach_from_tree();
            self.view = None;
            self.tree = None;
        }
        Ok(())
    }

    /// The table's indexes; `None` when it was dropped.
    fn indexes_now(&self, core: &EngineCore) -> EngineResult<Option<OpenIndexes>> {
        match open_indexes(core, &self.table) {
            Err(EngineError::NoSuchTable { .. }) => Ok(None),
            indexes => indexes.map(Some),
        }
    }

    pub(super) fn set_view(&mut self, view: Arc<ReadView>, serial: ViewSerial) {
        self.view = Some(view);
        self.serial = serial;
    }

    /// The tree's cursor.
    ///
    /// # Errors
    /// `Internal` if there is none.
    #[inline]
    pub(super) fn tree(&mut self) -> EngineResult<&mut TreeCursor<Arc<ReadView>>> {
        self.tree.as_deref_mut().ok_or_else(no_tree)
    }

    /// Copies the key of the tree's cursor to `saved_key`, if the current row is there.
    pub(super) fn save_key(&mut self) {
        if self.found == Found::InTree
            && let Some(tree) = &self.tree
            && let Some(key) = match tree.valid() {
                true => Some(tree.key()),
                false => tree.passed_key(),
            }
        {
            self.saved_key.clear();
            self.saved_key.extend_from_slice(key);
        }
    }

    /// Makes the next step start from the saved key.
    fn detach_from_tree(&mut self) {
        if self.found == Found::InTree {
            self.save_key();
            self.found = Found::InBuffer;
        }
    }

    /// Moves the tree's cursor to the first key at or after `key`, or to the last key before it;
    /// without a key, to the first or last within the bounds. `false` when there is none. Does not
    /// compare the bound in the direction of the move.
    pub(super) fn seek(
        &mut self,
        core: &EngineCore,
        motion: Motion,
        key: Option<&[u8]>,
    ) -> EngineResult<bool> {
        let Some(tree) = &mut self.tree else {
            return Err(no_tree());
        };
        let moved = match motion {
            Motion::Forward => match self.bounds.start_forward(key) {
                Some(start) => tree.seek(start),
                None => tree.seek_first(),
            },
            Motion::Backward => match self.bounds.start_backward(key) {
                Some(end) => tree.seek_before(end),
                None => tree.seek_last(),
            },
        };
        let moved = core.checked(&self.index, moved)?;
        if core.files.cache.memtables().has_slow_reads() {
            core.signals.wake_flushers();
        }
        Ok(moved)
    }

    /// Moves the tree's cursor past the saved key in the direction of the motion. If that key is
    /// before the bounds in this direction, moves to the first key within the bounds.
    pub(super) fn step_from_saved_key(
        &mut self,
        core: &EngineCore,
        motion: Motion,
    ) -> EngineResult<bool> {
        let Some(tree) = &mut self.tree else {
            return Err(no_tree());
        };
        let is_there = tree.valid() && tree.key() == self.saved_key;
        let position = self.saved_key.as_slice();
        let lower = self.bounds.lower().filter(|lower| *lower > position);
        let upper = self.bounds.upper().filter(|upper| *upper <= position);
        let moved = match (motion, is_there, lower, upper) {
            (Motion::Forward, _, Some(lower), _) => tree.seek(lower),
            (Motion::Backward, _, _, Some(upper)) => tree.seek_before(upper),
            (Motion::Forward, true, ..) => tree.next(),
            (Motion::Backward, true, ..) => tree.previous(),
            (Motion::Backward, false, ..) => tree.seek_before(&self.saved_key),
            (Motion::Forward, false, ..) => {
                // The next possible key is the saved key and a zero byte.
                self.saved_key.push(0);
                let moved = tree.seek(&self.saved_key);
                self.saved_key.pop();
                moved
            }
        };
        core.checked(&self.index, moved)
    }

    /// Accepts or rejects the key that the tree's cursor moved to.
    pub(super) fn accept(&mut self, motion: Motion, moved: bool) -> bool {
        let is_found = moved && self.is_within(motion);
        self.found = if is_found {
            Found::InTree
        } else {
            Found::Nothing
        };
        is_found
    }

    /// Whether the key of the tree's cursor is within the bound that the motion
    /// approaches.
    pub(super) fn is_within(&self, motion: Motion) -> bool {
        let tree = self.tree.as_ref();
        tree.is_some_and(|tree| self.bounds.contain_ahead(tree.key(), motion))
    }

    /// The row at the position.
    pub(super) fn row(&mut self, core: &EngineCore) -> EngineResult<Option<Row<'_>>> {
        match self.found {
            Found::Nothing => Ok(None),
            Found::InBuffer => Ok(Some(Row::new(&self.saved_key, &self.value))),
            Found::InTree => {
                let Some(tree) = &mut self.tree else {
                    return Ok(None);
                };
                let row = Row::of_tree(tree, self.skips_large_values);
                core.checked(&self.index, row).map(Some)
            }
        }
    }

    /// The row that a `get` of `key` has read into `value`.
    pub(super) fn row_of_get(&mut self, key: &[u8]) -> Row<'_> {
        self.get_key.clear();
        self.get_key.extend_from_slice(key);
        Row::new(&self.get_key, &self.value)
    }
}

pub(super) fn no_tree() -> EngineError {
    EngineError::Internal("the cursor has no tree".into())
}
