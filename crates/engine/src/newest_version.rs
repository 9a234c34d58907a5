//! Finds and locks the newest version of a key, for writers and locking reads.
//!
//! A thread that holds the latch of a key reads no block. If the search for the newest version needs
//! a block that is not in memory, it is divided:
//! 1. Without the latch, [`OlderVersion::read`] finds the newest version that is not in the active
//!    memtable.
//! 2. With the latch again, [`find_newest_version`] looks for a newer one in memtables. If a
//!    memtable that may contain one has been flushed since, or the transaction that had written the
//!    version of step 1 has ended, step 1 is repeated.

use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::EngineResult;
use crate::transaction::TransactionContext;
use std::time::Instant;
use teak_base::{CommitSequence, Operation, StorageResult, WriteId, WriteRangeStatus, WriteStatus};
use teak_transactions::{LockId, LockMode, RangeQueuePositions, RowName, TransactionId};
use teak_tree::{OlderVersions, StoredValue, Visit};

/// The newest version of a key, rolled back versions excluded.
#[derive(Clone, Copy)]
pub(crate) enum NewestVersion {
    /// A version of another active transaction.
    Uncommitted(WriteId),
    /// A live entry, committed or written by the transaction itself.
    Live(WriteId),
    /// No live entry. Contains the write id of the delete, if the index still has it. Merges drop
    /// a delete if no snapshot sees an older version.
    Absent(Option<WriteId>),
}

/// Searches the versions of a key, newest first.
struct Search<'a> {
    core: &'a EngineCore,
    me: TransactionId,
    /// Receives the value of a live entry; if it is `None`, the value is not read.
    value: Option<&'a mut Vec<u8>>,
    /// Whether separate values may be read.
    reads_values: bool,
    found: Option<NewestVersion>,
    /// Whether the value was copied; `false` if it would have had to be read.
    copied: StorageResult<bool>,
}

impl<'a> Search<'a> {
    fn new(
        core: &'a EngineCore,
        me: TransactionId,
        value: Option<&'a mut Vec<u8>>,
        reads_values: bool,
    ) -> Self {
        Self {
            core,
            me,
            value,
            reads_values,
            found: None,
            copied: Ok(true),
        }
    }

    fn visit(&mut self, id: WriteId, operation: Operation, stored: &StoredValue<'_>) -> Visit {
        if !id.is_settled() {
            match self.core.transactions.ids().status_for(id, self.me) {
                WriteStatus::Aborted => return Visit::Continue,
                WriteStatus::Active(owner) if owner != self.me => {
                    self.found = Some(NewestVersion::Uncommitted(id));
                    return Visit::Stop;
                }
                _ => {}
            }
        }
        self.found = Some(match operation {
            Operation::Delete => NewestVersion::Absent(Some(id)),
            Operation::Put => {
                if let Some(value) = self.value.as_deref_mut() {
                    value.clear();
                    self.copied = match stored {
                        StoredValue::Separate(..) if !self.reads_values => Ok(false),
                        stored => stored.append_to(value).map(|()| true),
                    };
                }
                NewestVersion::Live(id)
            }
        });
        Visit::Stop
    }
}

/// Finds the newest version of a key for transaction `me`. `value` receives the
/// value of a live entry; if it is `None`, the value is not read. May read blocks, so the caller
/// must not hold the latch of the key.
pub(crate) fn read_newest_version(
    core: &EngineCore,
    index: &Index,
    key: &[u8],
    me: TransactionId,
    value: Option<&mut Vec<u8>>,
) -> EngineResult<NewestVersion> {
    let mut search = Search::new(core, me, value, true);
    let visited = index.tree.visit(key, &mut |id, operation, stored| {
        search.visit(id, operation, &stored)
    });
    core.checked(index, visited.and(search.copied))?;
    Ok(search.found.unwrap_or(NewestVersion::Absent(None)))
}

/// The newest version of a key that was not in the active memtable when it was read.
pub(crate) struct OlderVersion {
    visited: OlderVersions,
    found: NewestVersion,
    /// The value of a live entry, if it was asked for.
    value: Vec<u8>,
}

impl OlderVersion {
    /// Reads the version. The caller must not hold the latch of the key.
    pub(crate) fn read(
        core: &EngineCore,
        index: &Index,
        key: &[u8],
        me: TransactionId,
        reads_value: bool,
    ) -> EngineResult<Self> {
        let mut value = Vec::new();
        let mut search = Search::new(core, me, reads_value.then_some(&mut value), true);
        let visited = index.tree.visit_older(key, &mut |id, operation, stored| {
            search.visit(id, operation, &stored)
        });
        let Search { found, copied, .. } = search;
        let visited = visited.and_then(|visited| copied.map(|_| visited));
        Ok(Self {
            visited: core.checked(index, visited)?,
            found: found.unwrap_or(NewestVersion::Absent(None)),
            value,
        })
    }

    /// Whether the version is still what [`OlderVersion::read`] has found. A version of an active
    /// transaction may have been committed or aborted.
    fn is_current(&self, core: &EngineCore, me: TransactionId) -> bool {
        match self.found {
            NewestVersion::Uncommitted(id) => {
                let status = core.transactions.ids().status_for(id, me);
                matches!(status, WriteStatus::Active(_))
            }
            NewestVersion::Live(_) | NewestVersion::Absent(_) => true,
        }
    }
}

/// As [`read_newest_version`], for a caller that holds the latch of the key. Reads no block. Returns
/// `None` if a block must be read: then the caller releases the latch, reads the older version, and
/// calls this again with it.
pub(crate) fn find_newest_version(
    core: &EngineCore,
    index: &Index,
    key: &[u8],
    me: TransactionId,
    value: Option<&mut Vec<u8>>,
    older: Option<&OlderVersion>,
) -> EngineResult<Option<NewestVersion>> {
    let mut search = Search::new(core, me, value, false);
    let mut visitor = |id, operation, stored: StoredValue<'_>| search.visit(id, operation, &stored);
    let visited = match older {
        None => index.tree.visit_in_memory(key, &mut visitor),
        Some(older) => Ok(index.tree.visit_newer(&older.visited, key, &mut visitor)),
    };
    let Search {
        found,
        value,
        copied,
        ..
    } = search;
    if !core.checked(index, visited)? || !core.checked(index, copied)? {
        return Ok(None);
    }
    match (found, older) {
        (Some(found), _) => Ok(Some(found)),
        (None, None) => Ok(Some(NewestVersion::Absent(None))),
        (None, Some(older)) if older.is_current(core, me) => {
            if let (NewestVersion::Live(_), Some(value)) = (older.found, value) {
                value.clear();
                value.extend_from_slice(&older.value);
            }
            Ok(Some(older.found))
        }
        (None, Some(_)) => Ok(None),
    }
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
/// 1. Latch the row and find its newest version. If this needs a block that is not in memory:
///    release the latch, read the version, and start again.
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
    /// Whether the row is read. Otherwise its value is not returned, and filters may show that it exists.
    pub needs_value: bool,
}

/// Whether filters say, without reading a block, that a key of which no version is in memtables exists, and that the
/// transaction sees all of its versions in runs. So no other transaction has written it. If the key is nowhere, filters may
/// be wrong.
fn is_known_to_exist(context: &TransactionContext<'_>, index: &Index, key: &[u8]) -> bool {
    let snapshot = context.transaction.snapshot();
    let newest = snapshot.unwrap_or(CommitSequence(u64::MAX));
    let ids = context.core.transactions.ids();
    index.tree.has_settled_key(key, &|min, max| {
        ids.range_status(min, max, newest) == WriteRangeStatus::Settled
    })
}

/// The result of one pass through the steps.
enum Pass {
    Done(LockedRead),
    /// The row was deleted after the snapshot was taken.
    DeletedAfterSnapshot,
    Repeat,
    MustRead,
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
    /// The version that was read without the latch.
    older: Option<OlderVersion>,
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
            older: None,
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
            let pass = self.pass(context, value, progress)?;
            // The older version must not retain memory and disk space during a wait.
            progress.older = None;
            match pass {
                Pass::Done(found) => return Ok(found),
                Pass::DeletedAfterSnapshot => {
                    context.accept_deleted_after_snapshot(self.index, self.row.key)?;
                    return Ok(LockedRead::Absent);
                }
                Pass::Repeat => {}
                Pass::MustRead => {
                    let (core, me) = (context.core, context.transaction.id());
                    let older = OlderVersion::read(core, self.index, self.row.key, me, true)?;
                    progress.older = Some(older);
                }
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
        let (index, key) = (self.index, self.row.key);
        let latches = core.transactions.latches();
        let _latch = self.locks_row.then(|| latches.one(self.row.lock));
        let found = if self.locks_row {
            let older = progress.older.as_ref();
            find_newest_version(core, index, key, me, Some(value), older)?
        } else {
            Some(read_newest_version(core, index, key, me, Some(value))?)
        };
        let found = match found {
            Some(found) => found,
            // Newer versions would be in memtables, or in runs that are not settled.
            None if !self.needs_value && is_known_to_exist(context, index, key) => {
                NewestVersion::Live(WriteId::SETTLED)
            }
            None => return Ok(Pass::MustRead),
        };
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
        Ok(match found {
            NewestVersion::Live(id) => {
                if context.is_newer_than_snapshot(id) {
                    context.accept_newer_than_snapshot()?;
                }
                Pass::Done(LockedRead::Live)
            }
            NewestVersion::Absent(Some(id)) if context.is_newer_than_snapshot(id) => {
                Pass::DeletedAfterSnapshot
            }
            _ => Pass::Done(LockedRead::Absent),
        })
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
