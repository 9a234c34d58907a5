//! Savepoints, commit and rollback.

use super::{EngineTransaction, ended};
use crate::core::id_records::append_with_ids;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::rollback;
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
            if self.has_logged_writes {
                self.log_abort(&aborted);
            }
            rollback::clean_up((&*self.core).into(), rows, &aborted);
        }
        Ok(())
    }

    /// Logs aborted writes. Recovery aborts every write without a commit record, so a failure here
    /// is harmless.
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
    /// rolled back. A transaction that wrote temporary tables only is not logged,
    /// and does not wait for the disk.
    ///
    /// # Errors
    /// Errors of the log. After `NoSpace` nothing was committed. After a failed
    /// sync the transaction is in doubt until the engine is opened again; rolling
    /// it back ends only the handle.
    pub fn commit(&mut self) -> EngineResult<()> {
        self.commit_logged(Some(self.waits_for_disk()))
    }

    /// Whether COMMIT and PREPARE return only after their record is durable.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk && self.core.log_sync.commit_sync()
    }

    /// Commits. `waits`: whether to sync the record now or later. `None`: the coordinator's binary
    /// log decides the outcome after a crash, so no sync is needed.
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
            self.core.transactions.publish(transaction);
        }
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
            // On a full disk the record was revoked: nothing was committed.
            self.is_in_doubt = !error.is_no_space();
            return Err(error.into());
        }
        core.counts.commit_times.record(since.elapsed());
        Ok(())
    }

    /// Rolls back and ends the transaction. A prepared transaction remains prepared if its abort
    /// record cannot be logged.
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

    /// At the end of the transaction: drops the view and adds its counts to the engine's.
    pub(crate) fn report_counts(&mut self) {
        self.view = None;
        self.flush_rows();
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
