//! A transaction of the engine: isolation, statements, savepoints, commit and
//! rollback. Its writes are in `write`, its reads in `cursor`.

use crate::core::EngineCore;
use crate::core::counts::RowCounts;
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::rollback;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{CommitSequence, WriteId, WriteStatus};
use teak_transactions::ViewKind;
use teak_transactions::report::FailedWait;
use teak_transactions::{
    LockMode, Owner, ReadView, RowName, Savepoint, Transaction, TransactionHandle, TransactionId,
    WaitError,
};
use teak_write_ahead_log::Record;

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Uncommitted writes too.
    ReadUncommitted,
    /// What was committed when the statement began.
    ReadCommitted,
    /// What was committed at the first read.
    RepeatableRead,
    /// As repeatable read; the caller reads with shared locks.
    Serializable,
}

/// The entry that refused a write.
#[derive(Debug, Default)]
pub struct Duplicate {
    /// The index that refused.
    pub index: u32,
    /// The existing key.
    pub key: Vec<u8>,
    /// The existing value.
    pub value: Vec<u8>,
}

/// A transaction. Dropping it rolls it back.
pub struct EngineTransaction {
    pub(crate) inner: Arc<EngineCore>,
    /// Gone once committed or rolled back.
    core: Option<Transaction>,
    shared: Arc<TransactionHandle>,
    pub(crate) isolation: Isolation,
    pub(crate) lock_timeout: Duration,
    pub(crate) snapshot_isolation: bool,
    view: Option<Arc<ReadView>>,
    /// The last mark that was given out, and the rows written until then.
    last_savepoint: (u64, u64),
    /// Changes whenever what the transaction sees changes.
    pub(crate) view_serial: u64,
    duplicate: Duplicate,
    /// Bytes written since the last report to the budget.
    pub(crate) unreported_bytes: u64,
    pub(crate) rows: RowCounts,
    /// The commit record may or may not be durable.
    in_doubt: bool,
    /// The coordinator's name, once the transaction is prepared.
    pub(crate) prepared: Option<Box<[u8]>>,
    /// Whether the commit waits for the disk, if the engine's commits do.
    waits_for_disk: bool,
}

impl Engine {
    /// The newest commit that is visible.
    #[must_use]
    pub fn newest_commit(&self) -> CommitSequence {
        self.core.transactions.newest()
    }

    /// The oldest running transaction, prepared ones included, or else the next
    /// one; and a number that every transaction begun before the call is below.
    /// One that is not below it began after the call did, and sees what the
    /// caller had written before.
    #[must_use]
    pub fn running_transactions(&self) -> (TransactionId, TransactionId) {
        // In this order: who is listed after the scan has its number after it.
        let oldest = self.core.transactions.oldest_running();
        (oldest, self.core.transactions.next_transaction())
    }

    /// Starts a transaction.
    #[must_use]
    pub fn begin(&self, isolation: Isolation) -> EngineTransaction {
        let core = self.core.transactions.begin();
        core.handle().set_isolation(isolation as u8);
        EngineTransaction {
            inner: Arc::clone(&self.core),
            shared: Arc::clone(core.handle()),
            core: Some(core),
            isolation,
            lock_timeout: self.core.options.lock_timeout,
            snapshot_isolation: false,
            view: None,
            last_savepoint: (0, 0),
            view_serial: 0,
            duplicate: Duplicate::default(),
            unreported_bytes: 0,
            rows: RowCounts::default(),
            in_doubt: false,
            prepared: None,
            waits_for_disk: true,
        }
    }
}

/// A transaction's state beside the engine, borrowed apart, so that no row
/// touches the engine's reference count.
pub(crate) struct Parts<'a> {
    pub inner: &'a EngineCore,
    pub core: &'a mut Transaction,
    pub duplicate: &'a mut Duplicate,
    pub snapshot_isolation: bool,
    timeout: Duration,
}

impl Parts<'_> {
    /// What is left of the lock timeout. The first wait of a row sets the
    /// deadline of all.
    pub(crate) fn remaining(&self, deadline: &mut Option<Instant>) -> Duration {
        let now = Instant::now();
        let deadline = *deadline.get_or_insert_with(|| now + self.timeout);
        deadline.saturating_duration_since(now)
    }

    /// Locks a row unless it is `held` already, waiting for who has it.
    pub(crate) fn hold(
        &mut self,
        row: RowName<'_>,
        mode: LockMode,
        held: &mut bool,
        deadline: &mut Option<Instant>,
    ) -> EngineResult<()> {
        if !*held {
            let timeout = self.remaining(deadline);
            let transactions = &self.inner.transactions;
            transactions.lock(self.core, row, mode, timeout)?;
            *held = true;
        }
        Ok(())
    }

    /// Whether a row may be taken, to write it, that changed after the snapshot.
    pub(crate) fn take_past_snapshot(&mut self) -> EngineResult<()> {
        if self.snapshot_isolation {
            return Err(self.conflict());
        }
        self.core.go_past_snapshot();
        Ok(())
    }

    /// A row changed after the snapshot: counts it.
    pub(crate) fn conflict(&self) -> EngineError {
        let conflicts = &self.inner.counts.conflicts;
        conflicts.fetch_add(1, Ordering::Relaxed);
        EngineError::Conflict
    }

    /// Whether a committed write is later than the snapshot, if there is one.
    pub(crate) fn is_after_snapshot(&self, id: WriteId) -> bool {
        let Some(snapshot) = self.core.snapshot() else {
            return false;
        };
        match self.inner.transactions.ids().status(id) {
            WriteStatus::Committed(sequence) => sequence > snapshot,
            _ => false,
        }
    }
}

impl EngineTransaction {
    pub(crate) fn core(&mut self) -> EngineResult<&mut Transaction> {
        self.core.as_mut().ok_or_else(ended)
    }

    /// The engine and the transaction's own state, to be used together.
    pub(crate) fn parts(&mut self) -> EngineResult<Parts<'_>> {
        Ok(Parts {
            inner: &self.inner,
            core: self.core.as_mut().ok_or_else(ended)?,
            duplicate: &mut self.duplicate,
            snapshot_isolation: self.snapshot_isolation,
            timeout: self.lock_timeout,
        })
    }

    /// The half that other threads may use, to interrupt it.
    #[must_use]
    pub fn handle(&self) -> &Arc<TransactionHandle> {
        &self.shared
    }

    /// Says who runs it, for reports of waits; forgotten when it ends or is
    /// detached.
    pub fn set_owner(&mut self, owner: Owner) {
        self.shared.set_owner(owner);
    }

    /// How long it waits for a row.
    pub fn set_lock_timeout(&mut self, timeout: Duration) {
        self.lock_timeout = timeout;
    }

    /// Whether the commit waits until it is durable, where the engine's commits
    /// do. At first it does.
    pub fn set_waits_for_disk(&mut self, waits: bool) {
        self.waits_for_disk = waits;
    }

    /// Whether a locking read of a row that changed after the snapshot, if
    /// there is one, ends in `Conflict` instead of reading the newest version.
    pub fn set_snapshot_isolation(&mut self, on: bool) {
        self.snapshot_isolation = on;
    }

    /// The entry that refused the last write.
    #[must_use]
    pub fn duplicate(&self) -> &Duplicate {
        &self.duplicate
    }

    /// Whether any of its writes counts.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        self.core.as_ref().is_some_and(Transaction::has_writes)
    }

    /// Why its last wait failed, once.
    #[must_use]
    pub fn take_failed_wait(&self) -> Option<Box<FailedWait>> {
        self.shared.take_failed_wait()
    }

    /// Rows it has locked explicitly, one by one.
    #[must_use]
    pub fn locks_held(&self) -> usize {
        self.core.as_ref().map_or(0, Transaction::locks_held)
    }

    /// Whether others may have to wait for it.
    #[must_use]
    pub fn holds_locks(&self) -> bool {
        self.core.as_ref().is_some_and(Transaction::holds_locks)
    }

    /// Whether an interrupt is pending.
    ///
    /// # Errors
    /// `Wait(Interrupted)` when one is.
    #[inline]
    pub(crate) fn check_interrupt(&self) -> EngineResult<()> {
        if self.shared.is_interrupted() {
            return Err(EngineError::Wait(WaitError::Interrupted));
        }
        Ok(())
    }

    /// Refuses what a prepared transaction has promised not to do.
    #[inline]
    pub(crate) fn check_open(&self) -> EngineResult<()> {
        if self.prepared.is_some() {
            return Err(EngineError::InvalidArgument(
                "the transaction is prepared".into(),
            ));
        }
        Ok(())
    }

    /// Whether entries of secondary indexes that the snapshot sees must be
    /// compared with their rows: the transaction may have written rows whose
    /// newest versions were later than its snapshot.
    #[must_use]
    pub fn is_past_snapshot(&self) -> bool {
        self.core
            .as_ref()
            .is_some_and(Transaction::is_past_snapshot)
    }

    /// The newest commit that its snapshot shows, once it has one.
    #[must_use]
    pub fn snapshot(&self) -> Option<CommitSequence> {
        self.core.as_ref().and_then(Transaction::snapshot)
    }

    /// Takes the snapshot now.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn take_snapshot(&mut self) -> EngineResult<()> {
        self.view().map(|_| ())
    }

    /// A statement starts: under read committed and below, what it sees is
    /// decided anew. Clears a pending interrupt.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn statement(&mut self) -> EngineResult<()> {
        self.shared.clear_interrupt();
        if self.isolation <= Isolation::ReadCommitted && self.view.take().is_some() {
            self.view_serial += 1;
            let core = self.core.as_mut().ok_or_else(ended)?;
            self.inner.transactions.drop_snapshot(core);
        }
        Ok(())
    }

    /// What the transaction sees without locks.
    pub(crate) fn view(&mut self) -> EngineResult<Arc<ReadView>> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        let core = self.core.as_mut().ok_or_else(ended)?;
        // A dirty reader registers a snapshot too: merges keep what it reads.
        let snapshot = self.inner.transactions.take_snapshot(core);
        let reads = match self.isolation {
            Isolation::ReadUncommitted => ViewKind::Uncommitted,
            _ => ViewKind::Snapshot(snapshot),
        };
        let view = Arc::new(self.inner.transactions.view(core, reads));
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }

    /// What a locking read sees: the newest committed rows.
    pub(crate) fn newest_view(&mut self) -> EngineResult<Arc<ReadView>> {
        let core = self.core.as_ref().ok_or_else(ended)?;
        Ok(Arc::new(
            self.inner.transactions.view(core, ViewKind::Committed),
        ))
    }

    /// A mark to return to.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn savepoint(&mut self) -> EngineResult<u64> {
        let core = self.core()?;
        let mark = core.savepoint().0;
        let rows = core.handle().rows_written();
        self.last_savepoint = (mark, rows);
        Ok(mark)
    }

    /// Undoes every write since the mark.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn rollback_to_savepoint(&mut self, mark: u64) -> EngineResult<()> {
        self.check_open()?;
        let core = self.core.as_mut().ok_or_else(ended)?;
        let (last, before) = self.last_savepoint;
        let before = if mark == last { before } else { 0 };
        let rows = core.handle().rows_written().saturating_sub(before);
        let aborted = self.inner.transactions.rollback_to(core, Savepoint(mark));
        if !aborted.is_empty() {
            self.view_serial += 1;
            self.log_abort(&aborted);
            rollback::clean_up((&*self.inner).into(), rows, &aborted);
        }
        Ok(())
    }

    /// The log hears of aborted writes for its readers' sake; recovery takes
    /// whatever is not committed as aborted, so a failure here loses nothing.
    fn log_abort(&self, aborted: &[WriteId]) {
        let record = Record::Abort {
            write_ids: aborted.into(),
        };
        if let Err(error) = self.inner.log.append_best_effort(&record)
            && !error.is_no_space()
        {
            let text = format!("a rollback was not logged: {error}");
            self.inner.messages.warning(&text);
        }
    }

    /// Commits. On success the transaction has ended; on an error it must be
    /// rolled back.
    ///
    /// # Errors
    /// Those of the log. After `NoSpace` nothing was committed; after a failed
    /// sync the outcome is known only when the engine is opened again; rolling
    /// back then ends the handle alone.
    pub fn commit(&mut self) -> EngineResult<()> {
        self.commit_logged(Some(self.waits_for_disk()))
    }

    /// Whether what the transaction promises is durable before it is promised.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.waits_for_disk && self.inner.log_sync.commit_sync()
    }

    /// Commits; `waits` is absent where somebody else, the binary log, tells of
    /// the commit after a crash.
    pub(crate) fn commit_logged(&mut self, waits: Option<bool>) -> EngineResult<()> {
        let core = self.core.as_ref().ok_or_else(ended)?;
        if self.in_doubt {
            return Err(EngineError::Internal("the commit is in doubt".into()));
        }
        if core.has_writes() {
            self.log_commit(waits)?;
        }
        self.hand_over();
        if let Some(core) = self.core.take() {
            self.inner.transactions.publish(core);
        }
        self.forget_prepared();
        Ok(())
    }

    fn log_commit(&mut self, waits: Option<bool>) -> EngineResult<()> {
        let inner = &self.inner;
        let core = self.core.as_ref().ok_or_else(ended)?;
        inner.log_counters()?;
        self.shared.set_commit_floor(inner.log.end());
        let is_prepared = self.prepared.is_some();
        let lsn = inner.log.append(&Record::Commit {
            transaction: if is_prepared { core.id().0 } else { 0 },
            write_ids: core.write_ids().into(),
        })?;
        inner.counts.log_commits.fetch_add(1, Ordering::Relaxed);
        if let Some(waits) = waits
            && let Err(error) = inner.log_sync.sync_or_defer(&inner.log, lsn, waits)
        {
            // On a full disk the record is void: nothing was committed.
            self.in_doubt = !error.is_no_space();
            return Err(error.into());
        }
        Ok(())
    }

    /// Undoes everything and ends the transaction. A prepared one stays
    /// prepared when the log does not take its end.
    ///
    /// # Errors
    /// Those of the log, if it was prepared.
    pub fn try_rollback(&mut self) -> EngineResult<()> {
        if self.prepared.is_some() && !self.in_doubt {
            return self.roll_back_prepared().inspect_err(|_| self.detach());
        }
        self.roll_back_open();
        Ok(())
    }

    /// Undoes everything and ends the transaction.
    pub fn rollback(&mut self) {
        if let Err(error) = self.try_rollback() {
            let text = format!("a prepared transaction was not rolled back: {error}");
            self.inner.messages.error(&text);
        }
    }

    fn roll_back_open(&mut self) {
        self.hand_over();
        let Some(core) = self.core.take() else {
            return;
        };
        if self.in_doubt {
            self.inner.transactions.abandon(core);
            return;
        }
        let aborted = rollback::abort((&*self.inner).into(), core);
        if !aborted.is_empty() {
            self.log_abort(&aborted);
        }
    }

    pub(crate) fn take_core(&mut self) -> Option<Transaction> {
        self.core.take()
    }

    /// What the engine must know when the transaction ends.
    pub(crate) fn hand_over(&mut self) {
        self.view = None;
        self.flush_rows();
        let bytes = std::mem::take(&mut self.unreported_bytes);
        self.inner.budget.add_unreported(bytes);
    }

    /// Adds the rows written to the engine's counts.
    pub(crate) fn flush_rows(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        self.inner.counts.add_rows(&rows);
    }
}

impl Drop for EngineTransaction {
    fn drop(&mut self) {
        if self.prepared.is_some() && !self.in_doubt {
            // The promise holds though nobody is there to keep it.
            self.detach();
        } else {
            self.rollback();
        }
    }
}

fn ended() -> EngineError {
    EngineError::Internal("the transaction has ended".into())
}
