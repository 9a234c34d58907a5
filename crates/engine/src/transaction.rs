//! A transaction of the engine: its isolation, statements and views.
//!
//! Its other methods: writes in `write`, reads in `cursor`, counts of rows in
//! `transaction/count_rows`, savepoints, commit and rollback in `transaction/end`, two-phase commit
//! in `prepared`, counter locks in `counter_locks`, locks of absent keys in `lock_absent`.

mod context;
mod count_rows;
mod end;
mod view_serial;

pub(crate) use self::context::TransactionContext;
pub(crate) use self::view_serial::ViewSerial;

use crate::core::EngineCore;
use crate::core::counts::RowCounts;
use crate::core::row_changes::RowChanges;
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use teak_base::CommitSequence;
use teak_transactions::report::FailedWait;
use teak_transactions::{
    Owner, ReadView, Transaction, TransactionHandle, TransactionId, ViewKind, WaitError,
};

/// The isolation level: which writes of other transactions the plain reads of a transaction see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Committed and uncommitted writes.
    ReadUncommitted,
    /// The writes committed before the statement's first read.
    ReadCommitted,
    /// The writes committed before the transaction's first read.
    RepeatableRead,
    /// As [`Isolation::RepeatableRead`]. The caller opens its cursors in
    /// [`ReadMode::Shared`](crate::ReadMode) instead of `Snapshot`.
    Serializable,
}

/// An existing entry that caused a duplicate-key error.
#[derive(Debug, Default)]
pub struct Duplicate {
    /// Its index.
    pub index: IndexNumber,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Whether the entry is a row that the failed write has locked; see
    /// [`EngineTransaction::insert_or_lock`]. Its key and value are then those of its newest
    /// version.
    pub is_locked: bool,
}

impl Duplicate {
    /// An entry that is not locked.
    pub(crate) fn found(index: IndexNumber, key: &[u8], value: &[u8]) -> Self {
        Self {
            index,
            key: key.to_vec(),
            value: value.to_vec(),
            is_locked: false,
        }
    }
}

/// A transaction. Dropping it rolls it back, unless it is prepared: then it remains and can be
/// ended by its XID.
pub struct EngineTransaction {
    pub(crate) core: Arc<EngineCore>,
    /// `None` after a commit, a rollback or a detach.
    transaction: Option<Transaction>,
    handle: Arc<TransactionHandle>,
    pub(crate) isolation: Isolation,
    pub(crate) lock_timeout: Duration,
    pub(crate) snapshot_isolation: bool,
    view: Option<Arc<ReadView>>,
    /// The view of an ended transaction, whose memory the next view uses.
    ended_view: Option<Arc<ReadView>>,
    /// The number of the last savepoint, and the number of rows written before it.
    last_savepoint: (u64, u64),
    pub(crate) serial: ViewSerial,
    duplicate: Duplicate,
    /// Bytes written since `admitted_to` was last cleared.
    pub(crate) unreported_bytes: u64,
    /// The number of `unreported_bytes` at which `admitted_to` is cleared.
    pub(crate) report_bytes: u64,
    /// The ids of the tables in which the transaction may write rows without another check for
    /// backpressure ([`crate::maintenance::admission`]).
    pub(crate) admitted_to: SmallVec<[u64; 4]>,
    pub(crate) rows: RowCounts,
    pub(crate) row_changes: RowChanges,
    /// Whether it has written, or tried to write, a table that is not temporary.
    pub(crate) has_logged_writes: bool,
    /// The commit failed, and its record may or may not be durable.
    is_in_doubt: bool,
    /// The XID, once the transaction is prepared.
    pub(crate) prepared: Option<Box<[u8]>>,
    /// Whether the commit waits for its sync. Has no effect if the engine's commits are not synced.
    waits_for_disk: bool,
}

/// # Transactions
impl Engine {
    /// The newest commit that is visible.
    #[must_use]
    pub fn newest_commit(&self) -> CommitSequence {
        self.core.transactions.newest()
    }

    /// Two transaction ids. The first is the oldest active transaction, prepared ones included, or
    /// the next id if there is none. The second is above all transactions that began before the
    /// call: a transaction with this id or a later one sees all writes that were committed before
    /// the call.
    #[must_use]
    pub fn running_transactions(&self) -> (TransactionId, TransactionId) {
        // The order matters: the second id must be above every transaction that the first call
        // could have seen.
        let oldest = self.core.transactions.oldest_running();
        (oldest, self.core.transactions.next_transaction())
    }

    /// Starts a transaction.
    #[must_use]
    pub fn begin(&self, isolation: Isolation) -> EngineTransaction {
        let transaction = self.core.transactions.begin();
        transaction.handle().set_isolation(isolation as u8);
        EngineTransaction {
            core: Arc::clone(&self.core),
            handle: Arc::clone(transaction.handle()),
            transaction: Some(transaction),
            isolation,
            lock_timeout: self.core.options.lock_timeout,
            snapshot_isolation: false,
            view: None,
            ended_view: None,
            last_savepoint: (0, 0),
            serial: ViewSerial::default(),
            duplicate: Duplicate::default(),
            unreported_bytes: 0,
            report_bytes: 0,
            admitted_to: SmallVec::new(),
            rows: RowCounts::default(),
            row_changes: RowChanges::default(),
            has_logged_writes: false,
            is_in_doubt: false,
            prepared: None,
            waits_for_disk: true,
        }
    }
}

impl EngineTransaction {
    /// Begins another transaction in the memory of this one, which has ended. It has the same settings, but no owner.
    ///
    /// # Errors
    /// `Internal` if it has not ended.
    pub fn begin_again(&mut self, isolation: Isolation) -> EngineResult<()> {
        if self.transaction.is_some() || self.prepared.is_some() || self.is_in_doubt {
            let text = "the transaction has not ended";
            return Err(EngineError::Internal(text.into()));
        }
        // Names all fields, so that a new one is not forgotten here.
        let Self {
            core,
            transaction,
            handle,
            isolation: isolation_now,
            lock_timeout: _,
            snapshot_isolation: _,
            view: _,
            ended_view: _,
            last_savepoint,
            serial,
            duplicate: _,
            unreported_bytes,
            report_bytes,
            admitted_to,
            rows: _,
            row_changes: _,
            has_logged_writes,
            is_in_doubt: _,
            prepared: _,
            waits_for_disk: _,
        } = self;
        let begun = core.transactions.begin_again(handle);
        handle.set_isolation(isolation as u8);
        *transaction = Some(begun);
        *isolation_now = isolation;
        *last_savepoint = (0, 0);
        serial.change_view();
        *unreported_bytes = 0;
        *report_bytes = 0;
        admitted_to.clear();
        *has_logged_writes = false;
        Ok(())
    }

    /// # Errors
    /// `Internal` after the end of the transaction.
    pub(crate) fn transaction(&mut self) -> EngineResult<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(ended)
    }

    /// A handle for other threads, to interrupt the transaction or report its state.
    #[must_use]
    pub fn handle(&self) -> &Arc<TransactionHandle> {
        &self.handle
    }

    /// Sets the session that runs it, for reports of waits. Cleared when the
    /// transaction ends or is detached.
    pub fn set_owner(&mut self, owner: Owner) {
        self.handle.set_owner(owner);
    }

    /// Sets how long it waits for a lock.
    pub fn set_lock_timeout(&mut self, timeout: Duration) {
        self.lock_timeout = timeout;
    }

    /// Sets whether the commit waits until it is durable. Has no effect if the engine's commits are
    /// not synced. The default is `true`.
    pub fn set_waits_for_disk(&mut self, waits: bool) {
        self.waits_for_disk = waits;
    }

    /// Sets whether a locking read of a row that was changed or deleted after the
    /// snapshot returns `Conflict`, instead of the newest version or nothing. Also
    /// applies to writes of rows that the transaction has locked, or that were
    /// deleted. Rows that were both inserted and deleted after the snapshot are no
    /// conflict. A write of a row that was changed after the snapshot, and that the
    /// transaction has not locked, always returns `Conflict`.
    pub fn set_snapshot_isolation(&mut self, on: bool) {
        self.snapshot_isolation = on;
    }

    /// The existing entry that caused the last write's duplicate-key error.
    #[must_use]
    pub fn duplicate(&self) -> &Duplicate {
        &self.duplicate
    }

    /// Whether it has writes, without those rolled back to a savepoint.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        self.transaction
            .as_ref()
            .is_some_and(Transaction::has_writes)
    }

    /// Whether its end must be logged: it has writes, and not only in temporary tables.
    pub(crate) fn must_be_logged(&self) -> bool {
        self.has_logged_writes && self.has_writes()
    }

    /// Removes and returns the report of its last failed wait.
    #[must_use]
    pub fn take_failed_wait(&self) -> Option<Box<FailedWait>> {
        self.handle.take_failed_wait()
    }

    /// The number of explicit row locks that it holds. Range locks are not counted.
    #[must_use]
    pub fn locks_held(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::locks_held)
    }

    /// Whether it has row locks, range locks or writes, for which other transactions may wait.
    #[must_use]
    pub fn holds_locks(&self) -> bool {
        self.transaction
            .as_ref()
            .is_some_and(Transaction::holds_locks)
    }

    /// # Errors
    /// `Wait(Interrupted)` when an interrupt is pending.
    #[inline]
    pub(crate) fn check_interrupt(&self) -> EngineResult<()> {
        if self.handle.is_interrupted() {
            return Err(EngineError::Wait(WaitError::Interrupted));
        }
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` when the transaction is prepared: it may not write.
    #[inline]
    pub(crate) fn check_open(&self) -> EngineResult<()> {
        if self.prepared.is_some() {
            return Err(EngineError::InvalidArgument(
                "the transaction is prepared".into(),
            ));
        }
        Ok(())
    }

    /// Whether the transaction may have written rows whose newest versions were newer than its
    /// snapshot. If so, a secondary index entry that the snapshot sees may not match its row, and
    /// the caller must compare them.
    #[must_use]
    pub fn is_past_snapshot(&self) -> bool {
        self.transaction
            .as_ref()
            .is_some_and(Transaction::is_past_snapshot)
    }

    /// The newest commit that its snapshot sees, once it has one.
    #[must_use]
    pub fn snapshot(&self) -> Option<CommitSequence> {
        self.transaction.as_ref().and_then(Transaction::snapshot)
    }

    /// Takes the snapshot now.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn take_snapshot(&mut self) -> EngineResult<()> {
        self.view().map(|_| ())
    }

    /// Starts a statement: under READ COMMITTED and below, its first read takes a
    /// new snapshot. Clears a pending interrupt.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn begin_statement(&mut self) -> EngineResult<()> {
        self.handle.clear_interrupt();
        if self.isolation <= Isolation::ReadCommitted && self.view.take().is_some() {
            self.serial.change_view();
            let transaction = self.transaction.as_mut().ok_or_else(ended)?;
            self.core.transactions.drop_snapshot(transaction);
        }
        Ok(())
    }

    /// The view of plain reads.
    pub(crate) fn view(&mut self) -> EngineResult<Arc<ReadView>> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        let transaction = self.transaction.as_mut().ok_or_else(ended)?;
        // Under READ UNCOMMITTED a snapshot is registered, too, so that merges retain the versions
        // that the transaction reads.
        let snapshot = self.core.transactions.take_snapshot(transaction);
        let kind = match self.isolation {
            Isolation::ReadUncommitted => ViewKind::Uncommitted,
            _ => ViewKind::Snapshot(snapshot),
        };
        let transactions = &self.core.transactions;
        let mut view = self.ended_view.take();
        match view.as_mut().and_then(Arc::get_mut) {
            Some(ended) => transactions.renew_view(ended, transaction, kind),
            None => view = None,
        }
        let view = view.unwrap_or_else(|| Arc::new(transactions.view(transaction, kind)));
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }

    /// The view of locking reads: the newest committed rows.
    pub(crate) fn newest_view(&mut self) -> EngineResult<Arc<ReadView>> {
        let transaction = self.transaction.as_ref().ok_or_else(ended)?;
        let transactions = &self.core.transactions;
        Ok(Arc::new(
            transactions.view(transaction, ViewKind::Committed),
        ))
    }
}

fn ended() -> EngineError {
    EngineError::Internal("the transaction has ended".into())
}
