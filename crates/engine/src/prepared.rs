//! Two-phase commit: transactions that have promised to outlive a crash, and
//! end only when their coordinator says how.
//!
//! A prepared transaction is listed here from its prepare record until its
//! outcome is published. The catalogue carries the list, so a transaction that
//! nobody ends does not hold the log. Around each of its records the
//! transaction's floor keeps the log from before the record on: a catalogue
//! written meanwhile either has the outcome or leaves it to the replay.
//!
//! Its rows need no locks to be restored: their newest versions are undecided,
//! which locks them. Rows that it only read are not locked after a crash.

use crate::core::EngineCore;
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::rollback;
use crate::transaction::EngineTransaction;
use std::sync::Arc;
use std::time::Duration;
use teak_base::WriteId;
use teak_transactions::TransactionHandle;
use teak_write_ahead_log::Record;

/// Longest name of a prepared transaction, in bytes.
pub const XID_BYTES_MAX: usize = 1024;

/// Logs the end of a prepared transaction, durably if commits are. A full disk
/// takes nothing, and then nothing holds the log back.
fn log_end(
    inner: &EngineCore,
    shared: &TransactionHandle,
    record: &Record<'_>,
) -> EngineResult<()> {
    shared.set_commit_floor(inner.log.end());
    let waits = inner.log_sync.commit_sync();
    let appended = inner.log.append(record);
    let logged = appended.and_then(|lsn| inner.log_sync.sync_or_defer(&inner.log, lsn, waits));
    if let Err(error) = &logged
        && error.is_no_space()
    {
        shared.clear_commit_floor();
    }
    Ok(logged?)
}

fn abort_record(write_ids: &[WriteId]) -> Record<'_> {
    Record::Abort {
        write_ids: write_ids.into(),
    }
}

impl EngineTransaction {
    /// Promises that the transaction survives a crash until it is committed or
    /// rolled back, here or by its name `xid`. No further write is taken. A
    /// transaction without writes promises nothing and is not listed.
    ///
    /// # Errors
    /// `InvalidArgument` when the name is too long or in use; those of the log,
    /// after which the transaction must be rolled back.
    pub fn prepare(&mut self, xid: &[u8]) -> EngineResult<()> {
        if xid.len() > XID_BYTES_MAX {
            return Err(EngineError::InvalidArgument(
                "the name of a prepared transaction is too long".into(),
            ));
        }
        let inner = Arc::clone(&self.inner);
        let core = self.core()?;
        if !core.has_writes() {
            return Ok(());
        }
        let write_ids = core.write_ids().to_vec();
        let transaction = core.id().0;
        inner.log_counters()?;
        inner.prepared.reserve(xid)?;
        let waits = self.waits_for_disk();
        self.handle().set_commit_floor(inner.log.end());
        let logged = inner
            .log
            .append(&Record::Prepare {
                transaction,
                xid,
                write_ids: write_ids.as_slice().into(),
            })
            .and_then(|lsn| inner.log_sync.sync_or_defer(&inner.log, lsn, waits));
        if let Err(error) = logged {
            inner.prepared.remove(xid);
            return Err(error.into());
        }
        inner.prepared.set_writes(xid, write_ids);
        self.handle().clear_commit_floor();
        self.handle().set_prepared_as(xid);
        self.prepared = Some(xid.into());
        Ok(())
    }

    /// Commits a prepared transaction, in the order of the calls, without
    /// waiting for the disk: the coordinator can tell its outcome after a
    /// crash. On success the transaction has ended.
    ///
    /// # Errors
    /// Those of the log; the transaction stays prepared.
    pub fn commit_ordered(&mut self) -> EngineResult<()> {
        if self.prepared.is_none() && self.has_writes() {
            return Err(EngineError::Internal(
                "a transaction that was not prepared is committed in order".into(),
            ));
        }
        self.commit_logged(None)
    }

    /// Gives the handle up and leaves a prepared transaction to whoever knows
    /// its name. One that was not prepared is rolled back.
    pub fn detach(&mut self) {
        let Some(xid) = self.prepared.take() else {
            self.rollback();
            return;
        };
        self.handle().forget_owner();
        self.hand_over();
        if let Some(core) = self.take_core() {
            core.handle().set_thread(0);
            self.inner.prepared.detach(&xid, core);
        }
    }

    /// Undoes a prepared transaction and ends it.
    ///
    /// # Errors
    /// Those of the log; the transaction stays prepared.
    pub(crate) fn roll_back_prepared(&mut self) -> EngineResult<()> {
        let inner = Arc::clone(&self.inner);
        let core = self.core()?;
        log_end(&inner, core.handle(), &abort_record(core.write_ids()))?;
        self.hand_over();
        if let Some(core) = self.take_core() {
            rollback::abort((&*inner).into(), core);
        }
        self.forget_prepared();
        Ok(())
    }

    /// Takes the transaction off the list, its outcome being published.
    pub(crate) fn forget_prepared(&mut self) {
        if let Some(xid) = self.prepared.take() {
            self.inner.prepared.remove(&xid);
        }
    }
}

impl Engine {
    /// Names of the prepared transactions that no handle owns: those found at
    /// opening, and those detached since.
    #[must_use]
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.core.prepared.detached()
    }

    /// Commits a prepared transaction by its name. One that a handle owns is
    /// waited for, until its handle is given up.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Wait` when a handle still owned it when
    /// `patience` was over; those of the log. It stays prepared.
    pub fn commit_prepared(&self, xid: &[u8], patience: Duration) -> EngineResult<()> {
        self.end_prepared(xid, patience, true)
    }

    /// Rolls a prepared transaction back by its name.
    ///
    /// # Errors
    /// As [`Engine::commit_prepared`].
    pub fn rollback_prepared(&self, xid: &[u8], patience: Duration) -> EngineResult<()> {
        self.end_prepared(xid, patience, false)
    }

    fn end_prepared(&self, xid: &[u8], patience: Duration, commits: bool) -> EngineResult<()> {
        let inner = &self.core;
        let transaction = inner.prepared.take(xid, patience)?;
        let record = if commits {
            Record::Commit {
                transaction: transaction.id().0,
                write_ids: transaction.write_ids().into(),
            }
        } else {
            abort_record(transaction.write_ids())
        };
        if let Err(error) = log_end(inner, transaction.handle(), &record) {
            inner.prepared.detach(xid, transaction);
            return Err(error);
        }
        if commits {
            inner.transactions.publish(transaction);
        } else {
            rollback::abort((&**inner).into(), transaction);
        }
        inner.prepared.remove(xid);
        Ok(())
    }
}
