//! Two-phase commit: a prepared transaction survives a crash and ends only when
//! its coordinator commits it or rolls it back.
//!
//! A prepared transaction is in a list from its prepare record until its outcome is published. The
//! catalogue contains the list, so a prepared transaction does not prevent the log from being
//! trimmed. While its prepare or end record is being appended, a commit floor retains the log from
//! before that record. So either a concurrent catalogue contains the new state, or recovery replays
//! the record.
//!
//! After a crash the locks of rows that it wrote need not be restored: the newest versions of these
//! rows belong to an active transaction, and so are implicit locks. Its other row locks and its
//! range locks are lost.

use crate::core::EngineCore;
use crate::core::id_records::append_with_ids;
use crate::core::prepared::Detached;
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::rollback;
use crate::transaction::EngineTransaction;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use teak_transactions::Transaction;
use teak_write_ahead_log::{IdParts, Record, WriteIds};

/// Maximum length of the name (XID) of a prepared transaction, in bytes.
pub const XID_BYTES_MAX: usize = 1024;

/// Logs the end of a prepared transaction, durably if the engine's commits are durable. After
/// `NoSpace` the log has revoked the record, so the commit floor is released.
fn log_end<'a>(
    core: &EngineCore,
    transaction: &'a Transaction,
    record: impl FnOnce(IdParts, WriteIds<'a>) -> Record<'a>,
) -> EngineResult<()> {
    let handle = transaction.handle();
    handle.set_commit_floor(core.log.end());
    let waits = core.log_sync.commit_sync();
    let appended = append_with_ids(
        transaction.write_ids(),
        core.options.log_id_ranges_max,
        |record| core.log.append(record),
        record,
    );
    let logged = appended.and_then(|lsn| core.log_sync.sync_or_defer(&core.log, lsn, waits));
    if let Err(error) = &logged
        && error.is_no_space()
    {
        handle.clear_commit_floor();
    }
    Ok(logged?)
}

fn abort_record<'a>(parts: IdParts, write_ids: WriteIds<'a>) -> Record<'a> {
    Record::Abort { parts, write_ids }
}

impl EngineTransaction {
    /// Prepares the transaction. It survives a crash until it is committed or rolled back, through
    /// this handle or by its XID, and accepts no more writes. Has no effect on a transaction
    /// without writes, or with writes of temporary tables only.
    ///
    /// # Errors
    /// `InvalidArgument` when the name is too long or in use; errors of the log,
    /// after which the transaction must be rolled back.
    pub fn prepare(&mut self, xid: &[u8]) -> EngineResult<()> {
        if xid.len() > XID_BYTES_MAX {
            return Err(EngineError::InvalidArgument(
                "the name of a prepared transaction is too long".into(),
            ));
        }
        let core = Arc::clone(&self.core);
        if !self.must_be_logged() {
            return Ok(());
        }
        let transaction = self.transaction()?;
        transaction.close_write_ids();
        let write_ids = Arc::new(transaction.write_ids().clone());
        let id = transaction.id().0;
        core.log_counters()?;
        core.prepared.reserve(xid)?;
        let waits = self.waits_for_disk();
        self.handle().set_commit_floor(core.log.end());
        let appended = append_with_ids(
            &write_ids,
            core.options.log_id_ranges_max,
            |record| core.log.append(record),
            |parts, write_ids| Record::Prepare {
                transaction: id,
                xid,
                parts,
                write_ids,
            },
        );
        let logged = appended.and_then(|lsn| core.log_sync.sync_or_defer(&core.log, lsn, waits));
        if let Err(error) = logged {
            core.prepared.remove(xid);
            return Err(error.into());
        }
        core.prepared.set_writes(xid, write_ids);
        self.handle().clear_commit_floor();
        self.handle().set_prepared_as(xid);
        self.prepared = Some(xid.into());
        Ok(())
    }

    /// Commits a prepared transaction without waiting for the disk: if a crash loses the commit
    /// record, the coordinator commits the transaction again. Commits become visible in the order
    /// of the calls. On success the transaction has ended.
    ///
    /// # Errors
    /// Errors of the log; the transaction remains prepared.
    pub fn commit_ordered(&mut self) -> EngineResult<()> {
        if self.prepared.is_none() && self.must_be_logged() {
            return Err(EngineError::Internal(
                "a transaction committed in order was not prepared".into(),
            ));
        }
        self.commit_logged(None)
    }

    /// Releases the handle. A prepared transaction remains and can be ended by its XID; any other
    /// transaction is rolled back.
    pub fn detach(&mut self) {
        let Some(xid) = self.prepared.take() else {
            self.rollback();
            return;
        };
        self.handle().clear_owner();
        self.report_counts();
        if let Some(transaction) = self.take_transaction() {
            transaction.handle().set_thread(0);
            let rows = Some(std::mem::take(&mut self.row_changes));
            let detached = Detached { transaction, rows };
            self.core.prepared.detach(&xid, detached);
        }
    }

    /// Rolls back and ends a prepared transaction.
    ///
    /// # Errors
    /// Errors of the log; the transaction remains prepared.
    pub(crate) fn roll_back_prepared(&mut self) -> EngineResult<()> {
        let core = Arc::clone(&self.core);
        let transaction = self.transaction()?;
        log_end(&core, transaction, abort_record)?;
        self.report_counts();
        self.forget_writes();
        if let Some(transaction) = self.take_transaction() {
            rollback::abort((&*core).into(), transaction);
        }
        self.remove_prepared();
        Ok(())
    }

    /// Removes the transaction from the list, if it was prepared. Called after its outcome was
    /// published.
    pub(crate) fn remove_prepared(&mut self) {
        if let Some(xid) = self.prepared.take() {
            self.core.prepared.remove(&xid);
        }
    }
}

/// # Prepared transactions
impl Engine {
    /// The names of the prepared transactions that no handle owns: those found
    /// when the engine was opened, and those detached since.
    #[must_use]
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.core.prepared.detached()
    }

    /// Commits a prepared transaction by its name. If a handle owns it, waits up
    /// to `timeout` for the handle to be detached.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Wait` after the timeout; errors of the log. After an error the
    /// transaction remains prepared.
    pub fn commit_prepared(&self, xid: &[u8], timeout: Duration) -> EngineResult<()> {
        self.end_prepared(xid, timeout, true)
    }

    /// Rolls back a prepared transaction by its name, as [`Engine::commit_prepared`] commits it.
    ///
    /// # Errors
    /// As [`Engine::commit_prepared`].
    pub fn rollback_prepared(&self, xid: &[u8], timeout: Duration) -> EngineResult<()> {
        self.end_prepared(xid, timeout, false)
    }

    fn end_prepared(&self, xid: &[u8], timeout: Duration, commits: bool) -> EngineResult<()> {
        let core = &self.core;
        let Detached { transaction, rows } = core.prepared.take(xid, timeout)?;
        let id = transaction.id().0;
        let commit_record = |parts, write_ids| Record::Commit {
            transaction: id,
            parts,
            write_ids,
        };
        let logged = if commits {
            log_end(core, &transaction, commit_record)
        } else {
            log_end(core, &transaction, abort_record)
        };
        if let Err(error) = logged {
            core.prepared.detach(xid, Detached { transaction, rows });
            return Err(error);
        }
        if commits {
            core.counts.log_commits.fetch_add(1, Ordering::Relaxed);
            core.transactions
                .publish_with(transaction, |at| match &rows {
                    Some(rows) => rows.publish(at),
                    None => core.prepared.set_untracked_commit(at),
                });
            if let Some(rows) = &rows {
                rows.fold(|| core.transactions.live_snapshots());
            }
        } else {
            rollback::abort((&**core).into(), transaction);
        }
        core.prepared.remove(xid);
        Ok(())
    }
}
