//! Reading rows: exact lookups and scans, with and without locks.
//!
//! There are two kinds of [`Cursor`]:
//! - `SnapshotCursor` reads the versions that the transaction's view sees. It takes no row or range
//!   locks, and does not wait for those of others.
//! - `LockingCursor` reads the newest committed entries and the transaction's own. In the index of
//!   the rows it locks the rows that it reads. Under some isolation levels it locks gaps, too.

mod bounds;
mod column_scan;
mod gap_locks;
mod locking;
mod page_filter;
mod policy;
mod position;
mod snapshot;

pub use self::bounds::Seek;
pub(crate) use self::column_scan::{ColumnBatch, ColumnScan};
pub use self::page_filter::PageFilter;
pub(crate) use self::page_filter::{OpenedPage, suits_columns};
pub use self::policy::{LockPolicy, RowRetention};
pub use self::position::{CursorMemory, Row, Rows};

use self::bounds::Motion;
use self::locking::LockingCursor;
use self::position::IndexPosition;
use self::snapshot::SnapshotCursor;
use crate::error::EngineResult;
use crate::index_number::IndexNumber;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_aggregate::TextRules;
use teak_base::bytes::prefix_successor;
use teak_transactions::LockMode;
use teak_tree::Projection;

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The versions that the transaction's view sees, without locks: those of its snapshot and its
    /// own; under READ UNCOMMITTED the newest ones, committed or not.
    Snapshot,
    /// The newest committed rows, locked against writes of other transactions. Entries of a
    /// secondary index are not locked: the caller locks their rows.
    Shared,
    /// The newest committed rows, locked against writes and locks of other transactions. Entries
    /// of a secondary index are not locked.
    Exclusive,
}

/// A cursor over one index of a table.
pub struct Cursor {
    kind: Kind,
}

enum Kind {
    Snapshot(SnapshotCursor),
    Locking(LockingCursor),
}

impl EngineTransaction {
    /// Opens a cursor. The first read of a cursor in mode `Snapshot` takes the
    /// transaction's snapshot, unless the transaction has one already.
    ///
    /// # Errors
    /// `NoSuchIndex`; `TableDamaged` when the table was opened only to be salvaged;
    /// errors of opening the table's files. In mode `Exclusive` also `Wait` and the
    /// errors of flushes, when writers of the table are delayed.
    pub fn cursor(
        &mut self,
        table: &TableHandle,
        index: IndexNumber,
        mode: ReadMode,
    ) -> EngineResult<Cursor> {
        self.cursor_in(CursorMemory::default(), table, index, mode)
    }

    /// Opens a cursor as [`EngineTransaction::cursor`], in the memory of a closed one.
    ///
    /// # Errors
    /// The same.
    pub fn cursor_in(
        &mut self,
        memory: CursorMemory,
        table: &TableHandle,
        index: IndexNumber,
        mode: ReadMode,
    ) -> EngineResult<Cursor> {
        let position = IndexPosition::new(memory, table, index)?;
        table.require_readable(&position.index)?;
        if mode == ReadMode::Exclusive {
            // The caller is about to write the rows. A writer is delayed before it locks them,
            // so that no other transaction waits for the locks during the delay.
            self.admit_to(table)?;
        }
        let locking = |position, lock_mode| {
            Kind::Locking(LockingCursor::new(position, lock_mode, self.isolation))
        };
        let kind = match mode {
            ReadMode::Snapshot => Kind::Snapshot(SnapshotCursor::new(position)),
            ReadMode::Shared => locking(position, LockMode::Shared),
            ReadMode::Exclusive => locking(position, LockMode::Exclusive),
        };
        Ok(Cursor { kind })
    }
}

impl Cursor {
    /// Closes the cursor, and returns its memory.
    #[must_use]
    pub fn into_memory(self) -> CursorMemory {
        match self.kind {
            Kind::Snapshot(cursor) => cursor.into_memory(),
            Kind::Locking(cursor) => cursor.into_memory(),
        }
    }

    /// Limits all further reads to `lower <= key < upper`; `None` is unbounded. The position of a
    /// scan does not change: the next step moves from there to the nearest key within the bounds,
    /// or finds nothing.
    pub fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.set_bounds(lower, upper),
            Kind::Locking(cursor) => cursor.set_bounds(lower, upper),
        }
    }

    /// Limits all further reads to the keys that start with `prefix`, as [`Cursor::set_bounds`].
    /// If the filters of the index have keys without a suffix, the prefix must be the whole part of
    /// these keys before the suffix. Then reads skip the runs whose filters exclude the prefix.
    pub fn set_prefix(&mut self, prefix: &[u8]) {
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.set_prefix(prefix),
            Kind::Locking(cursor) => cursor.set_prefix(prefix),
        }
    }

    /// Restricts the values that a cursor in mode [`ReadMode::Snapshot`] returns to some of the columns of
    /// the index, see [`TableHandle::projection`]; `None`: all columns. The values may have any bytes instead of other
    /// columns of fixed width, and empty strings instead of other variable columns. Locking cursors return whole values.
    pub fn set_projection(&mut self, projection: Option<Projection>) {
        if let Kind::Snapshot(cursor) = &mut self.kind {
            cursor.set_projection(projection);
        }
    }

    /// Sets how a locking read handles rows that another transaction has written
    /// or locked. [`LockPolicy::Wait`] is the default. Snapshot reads ignore it,
    /// and cursors of secondary indexes, or with gap locks, ignore
    /// [`LockPolicy::SemiConsistent`].
    pub fn set_lock_policy(&mut self, policy: LockPolicy) {
        if let Kind::Locking(cursor) = &mut self.kind {
            cursor.set_policy(policy);
        }
    }

    /// How a locking read handles rows that another transaction has written or
    /// locked.
    #[must_use]
    pub fn lock_policy(&self) -> LockPolicy {
        match &self.kind {
            Kind::Snapshot(_) => LockPolicy::Wait,
            Kind::Locking(cursor) => cursor.policy(),
        }
    }

    /// Whether the row last returned is its last committed version and not
    /// locked, under [`LockPolicy::SemiConsistent`].
    #[must_use]
    pub fn is_unlocked(&self) -> bool {
        match &self.kind {
            Kind::Snapshot(_) => false,
            Kind::Locking(cursor) => cursor.is_unlocked(),
        }
    }

    /// Makes a locking read lock the gaps that it reads under any isolation level, so that no other
    /// transaction inserts there. Under REPEATABLE READ and SERIALIZABLE locking reads do so
    /// without this call. With [`LockPolicy::SkipLocked`] no gaps are locked. Must be called before
    /// the first read.
    pub fn lock_gaps(&mut self) {
        if let Kind::Locking(cursor) = &mut self.kind {
            cursor.lock_gaps();
        }
    }

    /// Sets how long the rows that a locking read returned are protected from
    /// writes. Has an effect only where the read locks gaps. Must be called
    /// before the first read.
    pub fn set_row_retention(&mut self, retention: RowRetention) {
        if let Kind::Locking(cursor) = &mut self.kind {
            cursor.set_retention(retention);
        }
    }

    /// Makes a cursor in mode [`ReadMode::Snapshot`] read the newest committed versions and the
    /// transaction's own instead, under any isolation level, without a snapshot. It may return
    /// versions of different times, so it is for hints only. Must be called before the first read;
    /// other cursors ignore it.
    pub fn read_newest(&mut self) {
        if let Kind::Snapshot(cursor) = &mut self.kind {
            cursor.read_newest();
        }
    }

    /// Sets whether scans of a snapshot return rows with large values without reading the values,
    /// for a caller that needs only keys. Other reads ignore it.
    pub fn skip_large_values(&mut self, skip: bool) {
        if let Kind::Snapshot(cursor) = &mut self.kind {
            cursor.skip_large_values(skip);
        }
    }

    /// Returns the row with exactly this key, if the key is within the bounds. The position of a
    /// scan does not change.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn get(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
    ) -> EngineResult<Option<Row<'_>>> {
        transaction.check_interrupt()?;
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.get(transaction, key),
            Kind::Locking(cursor) => cursor.get(transaction, key),
        }
    }

    /// Begins to read in the background what [`Cursor::get`] of this key will read from the index
    /// file. A hint, which waits for nothing and has no errors.
    pub fn prefetch(&self, key: &[u8]) {
        let index = match &self.kind {
            Kind::Snapshot(cursor) => cursor.index(),
            Kind::Locking(cursor) => cursor.index(),
        };
        index.tree.prefetch(key);
    }

    /// Moves to the first key within the bounds.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn first(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<Row<'_>>> {
        self.move_to(transaction, Motion::Forward, None)
    }

    /// Moves to the last key within the bounds.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn last(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<Row<'_>>> {
        self.move_to(transaction, Motion::Backward, None)
    }

    /// Moves to a key near the given one.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn seek(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
        seek: Seek,
    ) -> EngineResult<Option<Row<'_>>> {
        match seek {
            Seek::AtOrAfter => self.move_to(transaction, Motion::Forward, Some(key)),
            Seek::Before => self.move_to(transaction, Motion::Backward, Some(key)),
            Seek::AfterPrefix => match prefix_successor(key) {
                Some(next) => self.move_to(transaction, Motion::Forward, Some(&next)),
                None => {
                    self.clear_position();
                    Ok(None)
                }
            },
            Seek::AtOrBeforePrefix => {
                let next = prefix_successor(key);
                self.move_to(transaction, Motion::Backward, next.as_deref())
            }
        }
    }

    fn clear_position(&mut self) {
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.clear_position(),
            Kind::Locking(cursor) => cursor.clear_position(),
        }
    }

    /// Moves to the first key at or after `key`, or to the last key before it.
    /// Without a key, to the first or last key within the bounds.
    fn move_to(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        key: Option<&[u8]>,
    ) -> EngineResult<Option<Row<'_>>> {
        transaction.check_interrupt()?;
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.move_to(transaction, motion, key),
            Kind::Locking(cursor) => cursor.move_to(transaction, motion, key),
        }
    }

    /// Moves to the next key.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    #[inline]
    pub fn next(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<Row<'_>>> {
        self.step(transaction, Motion::Forward)
    }

    /// Moves to the next key, and returns its row and rows that follow it, at most `max` in all, as
    /// far as they are in the same page and need no further checks. The cursor remains on the first
    /// of them. `passed`: before that, it moves forward over so many of the other rows that the last
    /// call returned; this must be 0 unless the last call on the cursor was this one. Rows that the
    /// transaction writes between two calls may be missing in the second one. A locking cursor
    /// returns one row.
    ///
    /// # Errors
    /// `Wait`, `Storage`; `InvalidArgument` when the page does not have the rows to pass.
    #[inline]
    pub fn next_rows(
        &mut self,
        transaction: &mut EngineTransaction,
        passed: usize,
        max: usize,
    ) -> EngineResult<Option<Rows<'_>>> {
        transaction.check_interrupt()?;
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.next_rows(transaction, passed, max),
            Kind::Locking(cursor) => cursor.next_row(transaction),
        }
    }

    /// As [`Cursor::next_rows`], but may leave out pages of which no row matches the filter's condition. It returns all other rows,
    /// also those that do not match. Only cursors in mode [`ReadMode::Snapshot`] leave out pages. `rules`: answers the
    /// conditions of byte strings.
    ///
    /// # Errors
    /// As [`Cursor::next_rows`]; `InvalidArgument` if the filter is one of another index.
    pub fn next_matching_rows(
        &mut self,
        transaction: &mut EngineTransaction,
        filter: &mut PageFilter,
        rules: &mut dyn TextRules,
        passed: usize,
        max: usize,
    ) -> EngineResult<Option<Rows<'_>>> {
        match &mut self.kind {
            Kind::Snapshot(cursor) => {
                cursor.pass_rows(passed)?;
                filter.pass_pages(cursor, transaction, rules, passed + 1)?;
                cursor.next_rows(transaction, 0, max)
            }
            Kind::Locking(cursor) => cursor.next_row(transaction),
        }
    }

    /// Moves to the previous key.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn previous(
        &mut self,
        transaction: &mut EngineTransaction,
    ) -> EngineResult<Option<Row<'_>>> {
        self.step(transaction, Motion::Backward)
    }

    #[inline]
    fn step(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        transaction.check_interrupt()?;
        match &mut self.kind {
            Kind::Snapshot(cursor) => cursor.step(transaction, motion),
            Kind::Locking(cursor) => cursor.step(transaction, motion),
        }
    }

    /// Releases the lock of the row last returned, if [`RowRetention`] permits it. A row that was
    /// locked several times remains locked until each lock has been released.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn unlock(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        match &mut self.kind {
            Kind::Snapshot(_) => Ok(()),
            Kind::Locking(cursor) => cursor.unlock(transaction),
        }
    }
}
