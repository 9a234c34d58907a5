//! Reads without locks: they return the versions that the transaction's view sees.

use super::bounds::Motion;
use super::position::{CursorMemory, Found, IndexPosition, Row, Rows, Scanned, no_tree};
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::transaction::EngineTransaction;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_aggregate::Condition;
use teak_base::StorageResult;
use teak_transactions::{ReadView, ViewKind};
use teak_tree::{ColumnChoice, ColumnRows, Projection, TreeCursor, ZoneReader};

pub(super) struct SnapshotCursor {
    position: IndexPosition,
    /// Whether the cursor reads the newest committed versions, not those of the snapshot.
    reads_newest: bool,
    scan: WholeScan,
}

/// The progress of a scan of a whole index.
#[derive(Default)]
struct WholeScan {
    /// Whether the cursor has moved from the first entry forward, without bounds and under one view.
    is_whole: bool,
    /// The number of entries found.
    entries: u64,
}

impl WholeScan {
    /// After a scan of all entries their number is that of the rows, unless the transaction may have
    /// changed it.
    #[cold]
    fn end(&mut self, scanned: &Scanned<'_>, transaction: &EngineTransaction) {
        let may_differ = transaction.row_changes.has_written() || transaction.is_past_snapshot();
        if std::mem::take(&mut self.is_whole) && !may_differ {
            scanned.learn_row_count(&transaction.core, self.entries);
        }
    }
}

impl SnapshotCursor {
    pub(super) fn new(position: IndexPosition) -> Self {
        Self {
            position,
            reads_newest: false,
            scan: WholeScan::default(),
        }
    }

    pub(super) fn into_memory(self) -> CursorMemory {
        self.position.into_memory()
    }

    pub(super) fn index(&self) -> &Index {
        &self.position.index
    }

    pub(super) fn index_number(&self) -> IndexNumber {
        self.position.number
    }

    pub(super) fn read_newest(&mut self) {
        self.reads_newest = true;
    }

    pub(super) fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        self.position.set_bounds(lower, upper);
    }

    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        self.position.set_prefix(prefix);
    }

    pub(super) fn set_projection(&mut self, projection: Option<Projection>) {
        self.position.set_projection(projection);
    }

    /// As `set_projection`, before the first read.
    pub(super) fn set_choice(&mut self, projection: Projection) {
        self.position.projection = Some(projection);
    }

    pub(super) fn skip_large_values(&mut self, skip: bool) {
        self.position.skips_large_values = skip;
    }

    pub(super) fn clear_position(&mut self) {
        self.position.found = Found::Nothing;
    }

    pub(super) fn get(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
    ) -> EngineResult<Option<Row<'_>>> {
        self.position
            .refresh(&transaction.core, transaction.serial)?;
        if !self.position.bounds.contain(key) {
            return Ok(None);
        }
        self.ensure_view(transaction)?;
        let position = &mut self.position;
        let Some(view) = &position.view else {
            return Err(no_tree());
        };
        let tree = &position.index.tree;
        let projection = position.projection.as_ref();
        let found = tree.get_into(key, &**view, projection, &mut position.value);
        let is_found = transaction.core.checked(&position.index, found)?;
        Ok(is_found.then(|| self.position.row_of_get(key)))
    }

    pub(super) fn move_to(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        key: Option<&[u8]>,
    ) -> EngineResult<Option<Row<'_>>> {
        self.open(transaction)?;
        self.position.found = Found::Nothing;
        let moved = self.position.seek(&transaction.core, motion, key)?;
        self.position.accept(motion, moved);
        let is_whole = key.is_none() && self.position.bounds.is_unbounded();
        let has_found = self.position.found != Found::Nothing;
        self.scan = WholeScan {
            is_whole: is_whole && motion == Motion::Forward && !self.reads_newest,
            entries: u64::from(has_found),
        };
        if !has_found {
            let IndexPosition {
                table, index, view, ..
            } = &self.position;
            let view = view.as_deref();
            self.scan.end(&Scanned { table, index, view }, transaction);
        }
        self.position.row(&transaction.core)
    }

    #[inline]
    pub(super) fn step(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        if self.position.found != Found::InTree || !self.position.is_current(transaction.serial) {
            return self.step_from_saved_key(transaction, motion);
        }
        let tree = self.position.tree()?;
        let moved = match motion {
            Motion::Forward => tree.next(),
            Motion::Backward => tree.previous(),
        };
        let moved = self.checked(transaction, moved)?;
        let position = &mut self.position;
        let Some(tree) = &mut position.tree else {
            return Err(no_tree());
        };
        if !moved || !position.bounds.contain_ahead(tree.key(), motion) {
            position.found = Found::Nothing;
            if motion == Motion::Forward {
                let (table, index) = (&*position.table, &*position.index);
                let view = position.view.as_deref();
                self.scan.end(&Scanned { table, index, view }, transaction);
            }
            return Ok(None);
        }
        match motion {
            Motion::Forward => self.scan.entries += 1,
            Motion::Backward => self.scan.is_whole = false,
        }
        let row = Row::of_tree(tree, position.skips_large_values);
        transaction.core.checked(&position.index, row).map(Some)
    }

    /// See [`Cursor::next_rows`](super::Cursor::next_rows).
    #[inline]
    pub(super) fn next_rows(
        &mut self,
        transaction: &mut EngineTransaction,
        passed: usize,
        max: usize,
    ) -> EngineResult<Option<Rows<'_>>> {
        self.pass_rows(passed)?;
        if self.step(transaction, Motion::Forward)?.is_none() {
            return Ok(None);
        }
        self.rows_here(transaction, max)
    }

    /// Moves forward over rows of a page, fewer than those that `rows_here` has returned.
    #[inline]
    pub(super) fn pass_rows(&mut self, rows: usize) -> EngineResult<()> {
        if rows == 0 {
            return Ok(());
        }
        let is_in_tree = self.position.found == Found::InTree;
        let tree = self.position.tree.as_mut().filter(|_| is_in_tree);
        if !tree.is_some_and(|tree| tree.pass_page_rows(rows)) {
            let text = "the last call on the cursor did not return the rows to pass";
            return Err(EngineError::InvalidArgument(text.into()));
        }
        self.scan.entries += rows as u64;
        Ok(())
    }

    /// The row at the position, and rows that follow it in its page, at most `max` in all.
    #[inline]
    pub(super) fn rows_here(
        &mut self,
        transaction: &EngineTransaction,
        max: usize,
    ) -> EngineResult<Option<Rows<'_>>> {
        let is_in_tree = self.position.found == Found::InTree;
        let tree = self.position.tree.as_ref().filter(|_| is_in_tree);
        let Some(len) = tree
            .and_then(|tree| tree.page_rows(max))
            .map(|rows| rows.len())
        else {
            return Ok(self.position.row(&transaction.core)?.map(Rows::One));
        };
        let tree = self.position.tree.as_ref();
        match tree.and_then(|tree| tree.counted_page_rows(len)) {
            Some(rows) => Ok(Some(Rows::InPage(rows))),
            // `None` would be the end of the scan.
            None => {
                let text = "the page does not have the rows that were counted";
                Err(EngineError::Internal(text.into()))
            }
        }
    }

    /// The columns of the page after the position, if all of its rows are the next ones. The next step moves to the
    /// row after them.
    pub(super) fn next_columns(
        &mut self,
        transaction: &EngineTransaction,
        choice: &ColumnChoice,
    ) -> EngineResult<Option<ColumnRows>> {
        let Some(tree) = self.tree_before_page(transaction)? else {
            return Ok(None);
        };
        let columns = tree.next_columns(choice);
        let columns = self.checked(transaction, columns)?;
        if let Some(columns) = &columns {
            self.scan.entries += columns.rows() as u64;
        }
        Ok(columns)
    }

    /// Passes over this page if `may_pass` returns true for it. Returns whether it has passed one.
    pub(super) fn pass_page_if(
        &mut self,
        transaction: &EngineTransaction,
        choice: &ColumnChoice,
        may_pass: &mut dyn FnMut(&mut ColumnRows) -> StorageResult<bool>,
    ) -> EngineResult<bool> {
        let Some(tree) = self.tree_before_page(transaction)? else {
            return Ok(false);
        };
        let passed = tree.pass_page_if(choice, may_pass);
        let passed = self.checked(transaction, passed)?;
        self.scan.entries += passed.unwrap_or(0) as u64;
        Ok(passed.is_some())
    }

    /// Passes over this page if no row can match the condition according to the zones of the columns that it counts. Returns
    /// whether it has passed one.
    pub(super) fn pass_page_by_zones(
        &mut self,
        transaction: &EngineTransaction,
        zones: &mut ZoneReader,
        condition: &Condition,
    ) -> EngineResult<bool> {
        let Some(tree) = self.tree_before_page(transaction)? else {
            return Ok(false);
        };
        let passed = tree.pass_page_by_zones(zones, &mut |page| {
            !condition.may_match(&|column| page.column(column))
        });
        let passed = self.checked(transaction, passed)?;
        self.scan.entries += passed.unwrap_or(0) as u64;
        Ok(passed.is_some())
    }

    /// As `EngineCore::checked`. After an error the cursor has no position, and the entries found are not all.
    #[inline]
    fn checked<T>(
        &mut self,
        transaction: &EngineTransaction,
        result: StorageResult<T>,
    ) -> EngineResult<T> {
        let result = transaction.core.checked(&self.position.index, result);
        if result.is_err() {
            self.position.found = Found::Nothing;
            self.scan.is_whole = false;
        }
        result
    }

    /// The tree's cursor, if a whole page may be the next one of the scan.
    fn tree_before_page(
        &mut self,
        transaction: &EngineTransaction,
    ) -> EngineResult<Option<&mut TreeCursor<Arc<ReadView>>>> {
        let position = &mut self.position;
        if position.found != Found::InTree || !position.is_current(transaction.serial) {
            return Ok(None);
        }
        match &mut position.tree {
            Some(tree) => Ok(Some(tree.as_mut())),
            None => Err(no_tree()),
        }
    }

    /// The first step after a change of the bounds, the view or the index: it starts from the key
    /// of the last row.
    fn step_from_saved_key(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        self.scan.is_whole = false;
        if self.position.found == Found::Nothing {
            return Ok(None);
        }
        self.open(transaction)?;
        let core = &transaction.core;
        let moved = self.position.step_from_saved_key(core, motion)?;
        self.position.accept(motion, moved);
        self.position.row(&transaction.core)
    }

    fn ensure_view(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        let position = &mut self.position;
        if position.view.is_none() {
            let view = match self.reads_newest {
                true => transaction.newest_view()?,
                false => transaction.view()?,
            };
            position.set_view(view, transaction.serial);
        }
        if let Some(view) = &position.view
            && let ViewKind::Snapshot(snapshot) = view.kind()
            && snapshot.0 < position.index.created_at.load(Ordering::Relaxed)
        {
            // The index was created after the snapshot, so it may lack versions that the snapshot
            // must see.
            return Err(EngineError::TableChanged);
        }
        Ok(())
    }

    fn open(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        self.position
            .refresh(&transaction.core, transaction.serial)?;
        self.ensure_view(transaction)?;
        let position = &mut self.position;
        if position.tree.is_none() {
            // A snapshot does not see what others insert later. So the tree's cursor searches for
            // new entries only if the transaction has writes. The transaction's first write changes
            // the serial, and then the tree's cursor is opened again.
            position.open_tree(transaction.has_writes());
        }
        Ok(())
    }
}
