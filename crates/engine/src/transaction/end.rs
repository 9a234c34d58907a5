//! Savepoints, commit and rollback.

use super::{Duplicate, EngineTransaction, ended};
use crate::core::id_records::append_with_ids;
use crate::core::row_changes::RowChanges;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::rollback;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::WriteIdRanges;
use teak_transactions::{Savepoint, Transaction};
use teak_write_ahead_log::Record;

impl EngineTransaction {
    /// Sets a savepoint. Returns its number for
    /// [`EngineTransaction::rollback_to_savepoint`].
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn savepoint(&mut self) -> EngineResult<u64> {
        let transaction = self.transaction()?;
        let savepoint = transaction.savepoint().0;
        let rows = transaction.handle().rows_written();
        self.last_savepoint = (savepoint, rows);
        Ok(savepoint)
    }

    /// Rolls back every write since the savepoint.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction; `InvalidArgument` when it is
    /// prepared.
    pub fn rollback_to_savepoint(&mut self, savepoint: u64) -> EngineResult<()> {
        self.check_open()?;
        let transaction = self.transaction.as_mut().ok_or_else(ended)?;
        let (last, rows_before_last) = self.last_savepoint;
        let rows_before = if savepoint == last {
            rows_before_last
        } else {
            0
        };
        let rows_written = transaction.handle().rows_written();
        let rows = rows_written.saturating_sub(rows_before);
        let transactions = &self.core.transactions;
        let aborted = transactions.rollback_to(transaction, Savepoint(savepoint));
        if !aborted.is_empty() {
            self.serial.change_view();
            self.row_changes.roll_back_to(savepoint);
            if self.has_logged_writes {
                self.log_abort(&aborted);
            }
            rollback::clean_up((&*self.core).into(), rows, &aborted);
        }
        Ok(())
    }

    /// Logs aborted writes. A failure does no harm: recovery aborts every write that belongs to
    /// neither a commit record nor a prepared transaction.
    fn log_abort(&self, aborted: &WriteIdRanges) {
        let log = &self.core.log;
        let logged = append_with_ids(
            aborted,
            self.core.options.log_id_ranges_max,
            |record| log.append_best_effort(record),
            |parts, write_ids| Record::Abort { parts, write_ids },
        );
        if let Err(error) = logged
            && !error.is_no_space()
        {
            let text = format!("could not log a rollback: {error}");
            self.core.messages.warning(&text);
        }
    }

    /// Commits. On success the transaction has ended; after an error it must be
    /// rolled back. The commit of a transaction without writes, or with writes of
    /// temporary tables only, is not logged and does not wait for the disk.
    ///
    /// # Errors
    /// Errors of the log. After `NoSpace` nothing was committed. After a failed
    /// sync the outcome is unknown until the engine is opened again: a rollback then
    /// releases the handle, and aborts nothing.
    pub fn commit(&mut self) -> EngineResult<()> {
        self.commit_logged(Some(self.waits_for_disk()))
    }

    /// Whether commit and prepare return only after their record is durable.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk && self.core.log_sync.commit_sync()
    }

    /// Commits. `Some(true)`: the record is synced before the call returns. `Some(false)`: its sync
    /// is deferred. `None`: no sync is requested, because the coordinator's binary log decides the
    /// outcome after a crash.
    pub(crate) fn commit_logged(&mut self, waits: Option<bool>) -> EngineResult<()> {
        self.transaction.as_ref().ok_or_else(ended)?;
        if self.is_in_doubt {
            return Err(EngineError::Internal("the commit is in doubt".into()));
        }
        if self.must_be_logged() {
            self.log_commit(waits)?;
        }
        self.report_counts();
        if let Some(transaction) = self.transaction.take() {
            let (transactions, rows) = (&self.core.transactions, &self.row_changes);
            transactions.publish_with(transaction, |at| rows.publish(at));
            rows.fold(|| transactions.live_snapshots());
        }
        self.forget_writes();
        self.remove_prepared();
        Ok(())
    }

    fn log_commit(&mut self, waits: Option<bool>) -> EngineResult<()> {
        let since = Instant::now();
        let core = &self.core;
        let transaction = self.transaction.as_mut().ok_or_else(ended)?;
        transaction.close_write_ids();
        core.log_counters()?;
        self.handle.set_commit_floor(core.log.end());
        let is_prepared = self.prepared.is_some();
        let lsn = append_with_ids(
            transaction.write_ids(),
            core.options.log_id_ranges_max,
            |record| core.log.append(record),
            |parts, write_ids| Record::Commit {
                transaction: if is_prepared { transaction.id().0 } else { 0 },
                parts,
                write_ids,
            },
        )?;
        core.counts.log_commits.fetch_add(1, Ordering::Relaxed);
        if let Some(waits) = waits
            && let Err(error) = core.log_sync.sync_or_defer(&core.log, lsn, waits)
        {
            // After `NoSpace` the log has revoked the record: nothing was committed.
            self.is_in_doubt = !error.is_no_space();
            return Err(error.into());
        }
        core.counts.commit_times.record(since.elapsed());
        Ok(())
    }

    /// Rolls back and ends the transaction. If the abort record of a prepared transaction cannot
    /// be logged, the transaction remains prepared, and the handle is detached from it.
    ///
    /// # Errors
    /// Errors of the log, if it was prepared.
    pub fn try_rollback(&mut self) -> EngineResult<()> {
        if self.prepared.is_some() && !self.is_in_doubt {
            return self.roll_back_prepared().inspect_err(|_| self.detach());
        }
        self.roll_back_unprepared();
        Ok(())
    }

    /// Rolls back and ends the transaction. If a prepared transaction could not
    /// be rolled back, a message reports it.
    pub fn rollback(&mut self) {
        if let Err(error) = self.try_rollback() {
            let text = format!("could not roll back a prepared transaction: {error}");
            self.core.messages.error(&text);
        }
    }

    fn roll_back_unprepared(&mut self) {
        self.report_counts();
        self.forget_writes();
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        if self.is_in_doubt {
            self.core.transactions.abandon(transaction);
            return;
        }
        let aborted = rollback::abort((&*self.core).into(), transaction);
        if !aborted.is_empty() && self.has_logged_writes {
            self.log_abort(&aborted);
        }
    }

    pub(crate) fn take_transaction(&mut self) -> Option<Transaction> {
        self.transaction.take()
    }

    /// Called when the transaction ends or is detached: drops the view, and adds the number of rows
    /// written to the engine's counts.
    pub(crate) fn report_counts(&mut self) {
        if let Some(mut view) = self.view.take()
            && let Some(only) = Arc::get_mut(&mut view)
        {
            only.end();
            self.ended_view = Some(view);
        }
        self.flush_rows();
    }

    /// Called when the transaction ends: the next one in its memory has not written anything, and needs no memory for it.
    pub(crate) fn forget_writes(&mut self) {
        self.row_changes = RowChanges::default();
        self.duplicate = Duplicate::default();
    }

    /// Adds the number of rows written to the engine's counts.
    pub(crate) fn flush_rows(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        self.core.counts.add_rows(&rows);
    }
}

impl Drop for EngineTransaction {
    fn drop(&mut self) {
        if self.prepared.is_some() && !self.is_in_doubt {
            // The transaction remains prepared and can be ended by its XID.
            self.detach();
        } else {
            self.rollback();
        }
    }
}
