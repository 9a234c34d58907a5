//! Writing one row.
//!
//! 1. Reserve space for the log record, unless the table is temporary. Wait while
//!    the log has reached its bound.
//! 2. Latch the keys to check: the keys are hashed to latches, which are taken in
//!    the order of their stripes.
//! 3. Find the newest version of each of these keys. If this needs a block that is
//!    not in memory: release the latches, read the version, and go back to step 2.
//!    If another active transaction has written or locked the key: release the
//!    latches and the reserved space, queue for the key's lock, wait, and start
//!    again. A live entry of a unique key is a duplicate: the write fails, and
//!    nothing has been written.
//! 4. Take the write guards of all written indexes, in ascending order of their
//!    numbers, and check for range locks of other transactions: gap locks at the
//!    keys that are inserted, and locks against writes of the row. If there is one:
//!    release everything, wait, and start again.
//! 5. Append one log record for the row, in the reserved space.
//! 6. Insert into the memtables.
//!
//! After step 4 only the append of the log record can fail, and then nothing has been inserted.
//!
//! The keys of non-unique indexes contain the primary key, so the lock of the row protects them.
//! Steps 2 and 3 leave them out.

mod delete_range;
mod plan;
mod writer;

pub(crate) use self::plan::check_sizes;

use self::plan::{IndexOperation, KeyRequirement, RowPlan};
use self::writer::RowWriter;
use crate::error::EngineResult;
use crate::index_number::IndexNumber;
use crate::maintenance::admission::{admit, must_admit};
use crate::maintenance::flusher::FlushContext;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_base::Operation;

/// The entry of one index for a row to insert or delete.
#[derive(Clone, Copy, Debug)]
pub struct RowEntry<'a> {
    /// The index.
    pub index: IndexNumber,
    /// Whether a live entry with the same key is a duplicate. Ignored by a delete.
    pub unique: bool,
    /// The key.
    pub key: &'a [u8],
    /// The value. Ignored by a delete.
    pub value: &'a [u8],
}

/// The change of one index by the update of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowChange<'a> {
    /// The index.
    pub index: IndexNumber,
    /// Whether a live entry with the new key is a duplicate.
    pub unique: bool,
    /// The entry to delete, if any.
    pub old_key: Option<&'a [u8]>,
    /// The entry to insert, if any.
    pub new_key: Option<&'a [u8]>,
    /// The value of the new entry.
    pub new_value: &'a [u8],
}

impl EngineTransaction {
    /// Inserts the entries of one row, all or none.
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`EngineTransaction::duplicate`] returns the existing entry;
    /// `Conflict` under snapshot isolation, when a unique key that the snapshot sees was deleted;
    /// `TableReadOnly`, `LogFull`, `Wait`, `Storage`, `NoSuchIndex`; `InvalidArgument` when the
    /// transaction is prepared.
    pub fn insert(&mut self, table: &TableHandle, entries: &[RowEntry<'_>]) -> EngineResult<()> {
        self.insert_planned(table, entries, false)
    }

    /// As [`EngineTransaction::insert`]. If an existing row has the same key in the rows' index,
    /// also locks that row exclusively, as a locking read would, and thus saves this read: the insert
    /// has found the row's newest version. Does not wait for the lock: if it is not free,
    /// [`Duplicate::is_locked`](crate::Duplicate::is_locked) is `false`, and the caller has to read
    /// the row.
    ///
    /// # Errors
    /// Those of [`EngineTransaction::insert`]; `Conflict` under snapshot isolation, when the
    /// existing row is newer than the snapshot.
    pub fn insert_or_lock(
        &mut self,
        table: &TableHandle,
        entries: &[RowEntry<'_>],
    ) -> EngineResult<()> {
        self.insert_planned(table, entries, true)
    }

    fn insert_planned(
        &mut self,
        table: &TableHandle,
        entries: &[RowEntry<'_>],
        locks_duplicate: bool,
    ) -> EngineResult<()> {
        let indexes = table.indexes()?;
        let mut row = RowPlan::new(&indexes);
        row.locks_duplicate = locks_duplicate;
        for entry in entries {
            let file = row.file_of(entry.index)?;
            if entry.unique {
                row.check(KeyRequirement::Absent, entry.index, file, entry.key);
            }
            row.operations.push(IndexOperation::new(
                entry.index,
                file,
                Operation::Put,
                entry.key,
                entry.value,
            ));
        }
        self.write_row(table, row)?;
        self.rows.inserted += 1;
        self.note_rows(table, &indexes, 1);
        Ok(())
    }

    /// Deletes one row, given all its entries.
    ///
    /// # Errors
    /// `NotFound` when the row does not exist. `Conflict` when the row was changed
    /// after the snapshot and the transaction has not locked it; under snapshot
    /// isolation also when it has locked it, or when a row that the snapshot sees was
    /// deleted. `TableReadOnly`, `LogFull`, `Wait`, `Storage`, `NoSuchIndex`;
    /// `InvalidArgument` when the transaction is prepared.
    pub fn delete(&mut self, table: &TableHandle, entries: &[RowEntry<'_>]) -> EngineResult<()> {
        let indexes = table.indexes()?;
        let mut row = RowPlan::new(&indexes);
        for entry in entries {
            let file = row.file_of(entry.index)?;
            if entry.index.is_rows() {
                row.check(KeyRequirement::Writable, entry.index, file, entry.key);
            }
            let operation =
                IndexOperation::new(entry.index, file, Operation::Delete, entry.key, &[]);
            row.operations.push(operation);
        }
        self.write_row(table, row)?;
        self.rows.deleted += 1;
        self.note_rows(table, &indexes, -1);
        Ok(())
    }

    /// Updates one row, given the entries that change.
    ///
    /// # Errors
    /// Errors of [`EngineTransaction::insert`] and [`EngineTransaction::delete`].
    pub fn update(&mut self, table: &TableHandle, changes: &[RowChange<'_>]) -> EngineResult<()> {
        let indexes = table.indexes()?;
        let mut row = RowPlan::new(&indexes);
        for change in changes {
            let (index, file) = (change.index, row.file_of(change.index)?);
            let is_same_key = change.old_key == change.new_key;
            if let Some(old) = change.old_key {
                if index.is_rows() {
                    row.check(KeyRequirement::Writable, index, file, old);
                }
                if !is_same_key {
                    let delete = IndexOperation::new(index, file, Operation::Delete, old, &[]);
                    row.operations.push(delete);
                }
            }
            if let Some(new) = change.new_key {
                if change.unique && !is_same_key {
                    row.check(KeyRequirement::Absent, index, file, new);
                }
                let mut put =
                    IndexOperation::new(index, file, Operation::Put, new, change.new_value);
                put.is_insert = !is_same_key;
                row.operations.push(put);
            }
        }
        self.write_row(table, row)?;
        self.rows.updated += 1;
        Ok(())
    }

    fn write_row(&mut self, table: &TableHandle, mut row: RowPlan<'_>) -> EngineResult<()> {
        self.check_interrupt()?;
        self.check_open()?;
        let bytes = row.check_sizes()?;
        self.unreported_bytes += bytes;
        self.admit_to(table)?;
        row.sort();
        self.serial.note_write();
        self.has_logged_writes |= row.is_logged();
        RowWriter::new(self.context()?, &row).write()
    }

    /// Called before the transaction locks or writes a row. If background work is
    /// behind, delays the transaction before its first row in a table, and again
    /// each time it has written `report_bytes`.
    ///
    /// # Errors
    /// Those of [`admit`]; errors of opening the table's files.
    #[inline]
    pub(crate) fn admit_to(&mut self, table: &TableHandle) -> EngineResult<()> {
        if self.unreported_bytes < self.report_bytes && self.admitted_to.contains(&table.table.id) {
            return Ok(());
        }
        self.admit_again(table)
    }

    /// As [`EngineTransaction::admit_to`], for a write that adds runs: always checks the backlog.
    #[cold]
    pub(crate) fn admit_again(&mut self, table: &TableHandle) -> EngineResult<()> {
        if self.unreported_bytes >= self.report_bytes {
            self.unreported_bytes = 0;
            self.admitted_to.clear();
            self.flush_rows();
        }
        let context: FlushContext<'_> = (&*self.core).into();
        if context.budget.must_lend_less(context.memtables().used()) {
            context.fit_budget();
        }
        let indexes = table.indexes()?;
        let must_admit = must_admit(context, &indexes);
        if must_admit {
            let has_written = self.has_writes();
            let timeout = self.lock_timeout;
            admit(context, self.handle(), &indexes, timeout, has_written)?;
        }
        self.report_bytes = self.core.budget.report_bytes(must_admit);
        self.admitted_to.push(table.table.id);
        Ok(())
    }
}
