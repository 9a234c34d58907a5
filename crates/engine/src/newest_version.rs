//! Finds and locks the newest version of a key, for writers and locking reads.

use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::EngineResult;
use crate::transaction::TransactionContext;
use std::time::Instant;
use teak_base::{Operation, WriteId, WriteStatus};
use teak_transactions::{LockId, LockMode, RangeQueuePositions, RowName, TransactionId};
use teak_tree::Visit;

/// The newest version of a key, rolled back versions excluded.
pub(crate) enum NewestVersion {
    /// A version of another active transaction.
    Uncommitted(WriteId),
    /// A live entry, committed or written by the transaction itself.
    Live(WriteId),
    /// No live entry. Contains the write id of the delete, if the index still has it.
    Absent(Option<WriteId>),
}

/// Finds the newest version of a key for transaction `me`. `value` receives the
/// value of a live entry; if it is `None`, the value is not read.
pub(crate) fn find_newest_version(
    core: &EngineCore,
    index: &Index,
    key: &[u8],
    me: TransactionId,
    mut value: Option<&mut Vec<u8>>,
) -> EngineResult<NewestVersion> {
    let ids = core.transactions.ids();
    let mut found = NewestVersion::Absent(None);
    let mut copied = Ok(());
    let visited = index.tree.visit(key, &mut |id, operation, stored| {
        if !id.is_settled() {
            match ids.status_for(id, me) {
                WriteStatus::Aborted => return Visit::Continue,
                WriteStatus::Active(owner) if owner != me => {
                    found = NewestVersion::Uncommitted(id);
                    return Visit::Stop;
                }
                _ => {}
            }
        }
        match operation {
            Operation::Delete => found = NewestVersion::Absent(Some(id)),
            Operation::Put => {
                if let Some(value) = value.as_deref_mut() {
                    value.clear();
                    copied = stored.append_to(value);
                }
                found = NewestVersion::Live(id);
            }
        }
        Visit::Stop
    });
    core.checked(index, visited.and(copied))?;
    Ok(found)
}

/// The result of a locking read of one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockedRead {
    Live,
    Absent,
    /// Another active transaction has written or locked the row, or holds a range
    /// lock that blocks writes of the row, and the read must not wait.
    Busy,
}

/// A locking read of one key:
/// 1. Latch the row and find its newest version.
/// 2. If another active transaction has written it: queue for the row's lock,
///    wait for that transaction, and start again.
/// 3. If the lock mode is exclusive and another transaction holds a range lock that blocks writes
///    of the row: wait for that transaction, and start again. A row that the transaction had
///    locked or written before is not checked.
/// 4. Lock the row, unless the transaction has written it. If the lock is not
///    free: wait for it without the latch, and start again.
///
/// Keys of secondary indexes are neither latched nor locked: the read only finds the newest
/// version, and waits for an active transaction that has written it.
pub(crate) struct LockingRead<'a> {
    pub index: &'a Index,
    pub locks_row: bool,
    pub row: RowName<'a>,
    pub mode: LockMode,
    pub waits: bool,
}

/// The result of one pass through the steps.
enum Pass {
    Done(LockedRead),
    Repeat,
    BlockedByWrite(WriteId),
    BlockedByRange,
    BlockedByLock,
}

/// The locks that a locking read has acquired so far.
struct Progress {
    /// The transaction held the row's lock before this read.
    is_owned: bool,
    /// This read has locked the row.
    is_locked: bool,
    deadline: Option<Instant>,
    queue: RangeQueuePositions,
}

impl LockingRead<'_> {
    /// Reads the key into `value`. Also returns the lock if this read acquired it. The lock of a
    /// row that is not live is released.
    pub(crate) fn run(
        &self,
        context: &mut TransactionContext<'_>,
        value: &mut Vec<u8>,
    ) -> EngineResult<(LockedRead, Option<LockId>)> {
        let mut progress = Progress {
            is_owned: self.locks_row && context.transaction.holds(self.row, self.mode),
            is_locked: false,
            deadline: None,
            queue: RangeQueuePositions::default(),
        };
        let found = self.read(context, value, &mut progress);
        if !progress.is_locked {
            return Ok((found?, None));
        }
        if matches!(found, Ok(LockedRead::Live)) {
            return Ok((LockedRead::Live, Some(self.row.lock)));
        }
        context
            .core
            .transactions
            .unlock(context.transaction, self.row.lock);
        Ok((found?, None))
    }

    fn read(
        &self,
        context: &mut TransactionContext<'_>,
        value: &mut Vec<u8>,
        progress: &mut Progress,
    ) -> EngineResult<LockedRead> {
        loop {
            match self.pass(context, value, progress)? {
                Pass::Done(found) => return Ok(found),
                Pass::Repeat => {}
                _ if !self.waits => return Ok(LockedRead::Busy),
                Pass::BlockedByWrite(id) => self.wait_for_write(context, id, progress)?,
                Pass::BlockedByRange => self.wait_for_range(context, progress)?,
                Pass::BlockedByLock => self.wait_for_lock(context, progress)?,
            }
        }
    }

    /// One pass through the steps, under the row's latch.
    fn pass(
        &self,
        context: &mut TransactionContext<'_>,
        value: &mut Vec<u8>,
        progress: &mut Progress,
    ) -> EngineResult<Pass> {
        let core = context.core;
        let me = context.transaction.id();
        let latches = core.transactions.latches();
        let _latch = self.locks_row.then(|| latches.one(self.row.lock));
        let found = find_newest_version(core, self.index, self.row.key, me, Some(value))?;
        let is_mine = match found {
            NewestVersion::Uncommitted(id) => return Ok(Pass::BlockedByWrite(id)),
            // The transaction's own uncommitted version is an implicit lock.
            NewestVersion::Live(id) => core.transactions.ids().active_owner(id) == Some(me),
            NewestVersion::Absent(_) => false,
        };
        if self.locks_row && !is_mine {
            if !progress.is_owned && self.is_range_locked_by_another(me) {
                // A later write of the row would have to wait for that range lock, so the read
                // waits for it now.
                return Ok(Pass::BlockedByRange);
            }
            if !progress.is_locked {
                if !core
                    .transactions
                    .try_lock(context.transaction, self.row, self.mode)?
                {
                    return Ok(Pass::BlockedByLock);
                }
                progress.is_locked = true;
                if self.is_range_locked_by_another(me) {
                    return Ok(Pass::Repeat);
                }
            }
        }
        if let NewestVersion::Live(id) | NewestVersion::Absent(Some(id)) = found
            && context.is_newer_than_snapshot(id)
        {
            context.accept_newer_than_snapshot()?;
        }
        Ok(Pass::Done(match found {
            NewestVersion::Live(_) => LockedRead::Live,
            _ => LockedRead::Absent,
        }))
    }

    /// Whether a range lock of another transaction blocks the write for which the
    /// row is read.
    fn is_range_locked_by_another(&self, me: TransactionId) -> bool {
        self.mode == LockMode::Exclusive && self.index.ranges.blocks(self.row.key, false, me)
    }

    fn wait_for_write(
        &self,
        context: &mut TransactionContext<'_>,
        id: WriteId,
        progress: &mut Progress,
    ) -> EngineResult<()> {
        if self.locks_row {
            // Queues for the lock before it waits, so that requests for the row are granted in
            // order.
            self.wait_for_lock(context, progress)?;
        }
        let timeout = context.remaining_timeout(&mut progress.deadline);
        let transactions = &context.core.transactions;
        transactions.wait_for_write(context.transaction, id, self.row, timeout)?;
        Ok(())
    }

    fn wait_for_range(
        &self,
        context: &mut TransactionContext<'_>,
        progress: &mut Progress,
    ) -> EngineResult<()> {
        let timeout = context.remaining_timeout(&mut progress.deadline);
        let queue = &mut progress.queue;
        let (ranges, key) = (&self.index.ranges, self.row.key);
        let transactions = &context.core.transactions;
        transactions.wait_for_range_lock(
            context.transaction,
            queue,
            ranges,
            key,
            false,
            timeout,
        )?;
        Ok(())
    }

    fn wait_for_lock(
        &self,
        context: &mut TransactionContext<'_>,
        progress: &mut Progress,
    ) -> EngineResult<()> {
        let Progress {
            is_locked,
            deadline,
            ..
        } = progress;
        context.lock_unless_locked(self.row, self.mode, is_locked, deadline)
    }
}
