//! The write of one planned row: the steps of `write`, repeated until no other
//! transaction is in conflict.

use super::plan::{IndexOperation, KeyCheck, KeyRequirement, RowPlan};
use crate::core::index::Index;
use crate::core::sorts::storage_error_of;
use crate::core::unique_build::Noting;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::maintenance::log_space::reserve_write;
use crate::newest_version::{NewestVersion, OlderVersion, find_newest_version};
use crate::transaction::TransactionContext;
use smallvec::SmallVec;
use std::time::Instant;
use teak_base::WriteId;
use teak_transactions::{LatchGuard, LockId, LockMode, RangeQueuePositions};
use teak_tree::WriteGuard;
use teak_write_ahead_log::{LogReservation, Record, WriteOperation};

/// The reason why the write of a row must wait.
enum WriteConflict<'a> {
    /// Another active transaction has written the key.
    ActiveWrite(WriteId, &'a KeyCheck<'a>),
    /// Another transaction has locked the key.
    KeyLock(&'a KeyCheck<'a>),
    /// Another transaction holds a range lock at the key.
    RangeLock(&'a IndexOperation<'a>),
    /// The keys must be checked again: the entries of existing rows have been added to a unique index
    /// that is being built.
    BaseAdded,
}

/// The result of checking keys.
enum Checked<'a> {
    /// `is_row_owned`: the transaction had locked or written the row before this write. Since then,
    /// locking reads of other transactions have to wait for the row. So this write need not check
    /// for range locks against writes of the row.
    Passed {
        is_row_owned: bool,
    },
    Blocked(WriteConflict<'a>),
    /// The check needs a block that is not in memory.
    MustRead(&'a KeyCheck<'a>),
    /// The key was deleted after the snapshot was taken. Whether that is a conflict is checked
    /// without the latches.
    DeletedAfterSnapshot(&'a KeyCheck<'a>),
}

/// The result of an attempt to write the row.
enum Applied<'a> {
    /// With this id. The keys are to be noted when the latches have been released.
    Written(WriteId, UnknownKeys<'a>),
    Blocked(WriteConflict<'a>),
}

type UnknownKeys<'a> = SmallVec<[(&'a KeyCheck<'a>, &'a Index, Noting<'a>); 1]>;

fn write_record<'a>(write_id: WriteId, writes: &'a [WriteOperation<'a>]) -> Record<'a> {
    Record::Write {
        write_id,
        operations: writes.into(),
    }
}

/// Locks the existing row that makes an insert fail, under the latch of its key, as a locking read
/// would ([`crate::newest_version::LockingRead`]). Does not wait: returns `false` if the lock is not
/// free. `is_mine`: the transaction itself has written the row, which locks it.
fn lock_duplicate(
    context: &mut TransactionContext<'_>,
    index: &Index,
    check: &KeyCheck<'_>,
    id: WriteId,
    is_mine: bool,
) -> EngineResult<bool> {
    const MODE: LockMode = LockMode::Exclusive;
    let me = context.transaction.id();
    let name = check.row_name(index);
    // A later write of the row would have to wait for such a range lock.
    let is_range_locked = || index.ranges.blocks(check.key, false, me);
    if !is_mine {
        let is_owned = context.transaction.holds(name, MODE);
        let transactions = &context.core.transactions;
        if (!is_owned && is_range_locked())
            || !transactions.try_lock(context.transaction, name, MODE)?
        {
            return Ok(false);
        }
        // Another transaction may have locked the range before it could see this lock.
        if is_range_locked() {
            transactions.unlock(context.transaction, check.lock);
            return Ok(false);
        }
    }
    if context.is_newer_than_snapshot(id)
        && let Err(conflict) = context.accept_newer_than_snapshot()
    {
        if !is_mine {
            let transactions = &context.core.transactions;
            transactions.unlock(context.transaction, check.lock);
        }
        return Err(conflict);
    }
    Ok(true)
}

/// If a key cannot be noted, the building of its index fails, not the write.
fn note_unknown(unknown: UnknownKeys<'_>, write_id: WriteId) {
    for (check, index, noting) in unknown {
        if let Err(error) = noting.note(check.key, write_id) {
            index.fail_build(&storage_error_of(&error));
        }
    }
}

pub(super) struct RowWriter<'a, 'p> {
    context: TransactionContext<'a>,
    row: &'a RowPlan<'p>,
    /// Key locks that this write has acquired to queue for keys. Released if the write fails.
    queued: SmallVec<[LockId; 2]>,
    /// Positions in the queues of range locks, kept until the row is written or
    /// the write has failed.
    range_queue: RangeQueuePositions,
    deadline: Option<Instant>,
    /// The versions of keys that were read without the latches.
    older: Vec<(&'a KeyCheck<'a>, OlderVersion)>,
    /// Keys that were deleted after the snapshot was taken, without a conflict.
    deleted: Vec<&'a KeyCheck<'a>>,
    /// Keys of unique indexes that are being built, for which neither an entry nor a delete was found
    /// ([`crate::core::unique_build`]).
    unknown: SmallVec<[&'a KeyCheck<'a>; 1]>,
}

impl<'a, 'p> RowWriter<'a, 'p> {
    pub(super) fn new(context: TransactionContext<'a>, row: &'a RowPlan<'p>) -> Self {
        Self {
            context,
            row,
            queued: SmallVec::new(),
            range_queue: RangeQueuePositions::default(),
            deadline: None,
            older: Vec::new(),
            deleted: Vec::new(),
            unknown: SmallVec::new(),
        }
    }

    pub(super) fn write(mut self) -> EngineResult<()> {
        let outcome = self.write_when_unblocked();
        let transactions = &self.context.core.transactions;
        let transaction = self.context.transaction;
        match outcome {
            Ok(()) => {
                transaction.handle().note_row_written();
                // The new versions are implicit locks of the keys, so the explicit locks are
                // released.
                if transaction.locks_held() > 0 {
                    for check in &self.row.checks {
                        transactions.unlock_written(transaction, check.lock);
                    }
                }
            }
            Err(_) => {
                for lock in self.queued {
                    transactions.unlock(transaction, lock);
                }
            }
        }
        outcome
    }

    fn write_when_unblocked(&mut self) -> EngineResult<()> {
        let operations = self.row.operations.iter();
        let writes: SmallVec<[WriteOperation<'_>; 8]> = operations.map(|o| o.write).collect();
        while let Some(conflict) = self.try_write(&writes)? {
            // The older versions must not retain memory and disk space during a wait.
            self.older.clear();
            match conflict {
                WriteConflict::ActiveWrite(id, check) => {
                    self.lock_key(check)?;
                    self.wait_for_write(id, check)?;
                }
                WriteConflict::KeyLock(check) => self.lock_key(check)?,
                WriteConflict::RangeLock(operation) => self.wait_for_range(operation)?,
                WriteConflict::BaseAdded => {}
            }
        }
        Ok(())
    }

    /// Runs the steps of `write` once. Returns the first conflict, after the latches,
    /// the guards and the reserved space have been released.
    fn try_write(
        &mut self,
        writes: &[WriteOperation<'_>],
    ) -> EngineResult<Option<WriteConflict<'a>>> {
        let transactions = &self.context.core.transactions;
        transactions.admit_write(self.context.transaction)?;
        let space = self.reserve(writes)?;
        loop {
            let latches = self.latch_keys();
            match self.check_keys()? {
                Checked::Passed { is_row_owned } => {
                    let applied = self.apply(writes, space, is_row_owned)?;
                    drop(latches);
                    return Ok(match applied {
                        Applied::Written(write_id, unknown) => {
                            note_unknown(unknown, write_id);
                            None
                        }
                        Applied::Blocked(conflict) => Some(conflict),
                    });
                }
                Checked::Blocked(conflict) => return Ok(Some(conflict)),
                Checked::MustRead(check) => {
                    drop(latches);
                    self.read_older(check)?;
                }
                Checked::DeletedAfterSnapshot(check) => {
                    drop(latches);
                    let index = self.row.index(check.index)?;
                    let context = &mut self.context;
                    context.accept_deleted_after_snapshot(index, check.key)?;
                    self.deleted.push(check);
                }
            }
        }
    }

    /// Reads the version of a key that a check needs, without the latches.
    fn read_older(&mut self, check: &'a KeyCheck<'a>) -> EngineResult<()> {
        self.older.retain(|(of, _)| !std::ptr::eq(*of, check));
        let (core, me) = (self.context.core, self.context.transaction.id());
        let index = self.row.index(check.index)?;
        let reads_value = check.requirement == KeyRequirement::Absent;
        let older = OlderVersion::read(core, index, check.key, me, reads_value)?;
        self.older.push((check, older));
        Ok(())
    }

    /// Step 1.
    fn reserve(&self, writes: &[WriteOperation<'_>]) -> EngineResult<Option<LogReservation<'a>>> {
        let (core, handle) = (self.context.core, self.context.transaction.handle());
        // The size of the reserved space does not depend on the write id.
        let record = write_record(WriteId::SETTLED, writes);
        reserve_write(core, handle, self.row.is_logged(), &record)
    }

    /// Step 2.
    fn latch_keys(&self) -> Option<LatchGuard<'a>> {
        let latches = self.context.core.transactions.latches();
        match self.row.checks.as_slice() {
            [] => None,
            [one] => Some(latches.one(one.lock)),
            several => Some(latches.several(several.iter().map(|check| check.lock))),
        }
    }

    /// Step 3, under the latches.
    fn check_keys(&mut self) -> EngineResult<Checked<'a>> {
        let mut is_row_owned = false;
        let row = self.row;
        self.unknown.clear();
        for check in &row.checks {
            match self.check_key(check)? {
                Checked::Passed { is_row_owned: true } => is_row_owned = true,
                Checked::Passed { .. } => {}
                stopped => return Ok(stopped),
            }
        }
        Ok(Checked::Passed { is_row_owned })
    }

    fn check_key(&mut self, check: &'a KeyCheck<'a>) -> EngineResult<Checked<'a>> {
        const MODE: LockMode = LockMode::Exclusive;
        let (context, row) = (&mut self.context, self.row);
        let transactions = &context.core.transactions;
        let is_row = check.requirement == KeyRequirement::Writable;
        // While this write waited for the lock, another transaction may have written the row.
        let is_queued = self.queued.contains(&check.lock);
        if is_row && !is_queued && context.transaction.holds_unwritten(check.lock, MODE) {
            // No other transaction can have written the row since this one locked it.
            return Ok(Checked::Passed { is_row_owned: true });
        }
        let me = context.transaction.id();
        let index = row.index(check.index)?;
        let name = check.row_name(index);
        // Also applies to unique keys: a transaction that had to wait for one holds its lock until
        // it has written the row.
        if transactions.locks().row_conflicts(check.lock, me, MODE) {
            return Ok(Checked::Blocked(WriteConflict::KeyLock(check)));
        }
        let is_locked = context.transaction.holds(name, MODE);
        // Read before the key is looked up: a key that is not found may be one of the base.
        let lacks_base = !is_row && index.unique_build().is_some_and(|build| !build.has_base());
        let value = (!is_row).then_some(&mut context.duplicate.value);
        let older = self.older.iter().find(|(of, _)| std::ptr::eq(*of, check));
        let older = older.map(|(_, older)| older);
        let found = find_newest_version(context.core, index, check.key, me, value, older)?;
        let Some(found) = found else {
            return Ok(Checked::MustRead(check));
        };
        let is_mine = match found {
            NewestVersion::Live(id) | NewestVersion::Absent(Some(id)) => {
                transactions.ids().active_owner(id) == Some(me)
            }
            NewestVersion::Uncommitted(_) | NewestVersion::Absent(None) => false,
        };
        // Rows that this transaction has locked or written are not checked: a lock escalation of
        // another transaction may have created a row range over them afterwards.
        if !is_locked && !is_mine && index.ranges.blocks_row(check.key, me, MODE) {
            return Ok(Checked::Blocked(WriteConflict::KeyLock(check)));
        }
        match found {
            NewestVersion::Uncommitted(id) => {
                let conflict = WriteConflict::ActiveWrite(id, check);
                return Ok(Checked::Blocked(conflict));
            }
            NewestVersion::Live(id) if is_row => {
                let is_row_owned = is_mine || context.transaction.covers(&name, MODE);
                if context.is_newer_than_snapshot(id) {
                    // Without a lock acquired before, the caller cannot have read this version.
                    if !is_locked || is_queued {
                        return Err(context.snapshot_conflict());
                    }
                    context.accept_newer_than_snapshot()?;
                }
                return Ok(Checked::Passed { is_row_owned });
            }
            NewestVersion::Live(_) if index.unique_build().is_some() => {
                index.fail_unique_build(check.key, &context.duplicate.value);
            }
            NewestVersion::Live(id) => {
                context.duplicate.index = check.index;
                context.duplicate.key.clear();
                context.duplicate.key.extend_from_slice(check.key);
                context.duplicate.is_locked = row.locks_duplicate
                    && check.index.is_rows()
                    && lock_duplicate(context, index, check, id, is_mine)?;
                return Err(EngineError::DuplicateKey);
            }
            NewestVersion::Absent(deleted_by) if !is_row && index.unique_build().is_some() => {
                // No reader uses the index yet, so the snapshot does not matter.
                if deleted_by.is_none() && lacks_base {
                    self.unknown.push(check);
                }
            }
            NewestVersion::Absent(deleted_by) => {
                let is_accepted = || self.deleted.iter().any(|of| std::ptr::eq(*of, check));
                if deleted_by.is_some_and(|id| context.is_newer_than_snapshot(id)) && !is_accepted()
                {
                    return Ok(Checked::DeletedAfterSnapshot(check));
                }
                if is_row {
                    return Err(EngineError::NotFound);
                }
            }
        }
        Ok(Checked::Passed {
            is_row_owned: false,
        })
    }

    /// Steps 4 to 6. Range locks are checked under the guards: a reader that
    /// locks a range waits for the guards that are held at that time.
    fn apply(
        &mut self,
        writes: &[WriteOperation<'_>],
        space: Option<LogReservation<'_>>,
        is_row_owned: bool,
    ) -> EngineResult<Applied<'a>> {
        let core = self.context.core;
        let me = self.context.transaction.id();
        let row = self.row;
        let Some(unknown) = self.begin_noting()? else {
            return Ok(Applied::Blocked(WriteConflict::BaseAdded));
        };
        // One guard for each index: an index may have two operations, a delete and a put.
        let mut guards: SmallVec<[(IndexNumber, WriteGuard<'_>); 8]> = SmallVec::new();
        for operation in &row.operations {
            let index = row.index(operation.index)?;
            if guards
                .last()
                .is_none_or(|(number, _)| *number != operation.index)
            {
                guards.push((operation.index, index.tree.write_guard()));
                if !index.access.is_open() && !core.begin_writes(index)? {
                    guards.pop();
                }
            }
            // A delete in a secondary index needs no check: the lock of the row protects the entry.
            let is_insert = operation.is_insert;
            let must_check = is_insert || (operation.index.is_rows() && !is_row_owned);
            if must_check && index.ranges.blocks(operation.write.key, is_insert, me) {
                return Ok(Applied::Blocked(WriteConflict::RangeLock(operation)));
            }
        }
        // Takes the write id only after all checks, so that a write that fails a check, or must
        // wait, takes none.
        let write_id = core.transactions.write_id(self.context.transaction);
        if let Some(space) = space {
            let record = write_record(write_id, writes);
            let lsn = core.log.append_reserved(space, &record)?;
            for (_, guard) in &guards {
                guard.set_lsn(lsn);
            }
        }
        let mut remaining = guards.iter();
        let mut current = remaining.next();
        for IndexOperation { index, write, .. } in &row.operations {
            while let Some((number, _)) = current
                && number < index
            {
                current = remaining.next();
            }
            // There is no guard for an index whose building was ended: it gets no entries.
            if let Some((number, guard)) = current
                && number == index
            {
                guard.insert(write_id, write.operation, write.key, write.value);
            }
        }
        Ok(Applied::Written(write_id, unknown))
    }

    /// The unknown keys with their indexes. `None`: one of them must be checked again.
    fn begin_noting(&self) -> EngineResult<Option<UnknownKeys<'a>>> {
        let mut unknown = UnknownKeys::new();
        for check in &self.unknown {
            let index = self.row.index(check.index)?;
            // If its build has ended, its writers are not noted.
            if let Some(build) = index.unique_build() {
                match build.begin_noting() {
                    Some(noting) => unknown.push((*check, index, noting)),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(unknown))
    }

    /// Locks a key, so that conflicting requests for it are granted in order.
    fn lock_key(&mut self, check: &KeyCheck<'_>) -> EngineResult<()> {
        if self.queued.contains(&check.lock) {
            return Ok(());
        }
        let name = check.row_name(self.row.index(check.index)?);
        let timeout = self.context.remaining_timeout(&mut self.deadline);
        let transactions = &self.context.core.transactions;
        transactions.lock(self.context.transaction, name, LockMode::Exclusive, timeout)?;
        self.queued.push(check.lock);
        Ok(())
    }

    fn wait_for_write(&mut self, id: WriteId, check: &KeyCheck<'_>) -> EngineResult<()> {
        let name = check.row_name(self.row.index(check.index)?);
        let timeout = self.context.remaining_timeout(&mut self.deadline);
        let transactions = &self.context.core.transactions;
        transactions.wait_for_write(self.context.transaction, id, name, timeout)?;
        Ok(())
    }

    /// Waits for the transactions that hold a range lock at the key.
    fn wait_for_range(&mut self, operation: &IndexOperation<'_>) -> EngineResult<()> {
        let ranges = &self.row.index(operation.index)?.ranges;
        let timeout = self.context.remaining_timeout(&mut self.deadline);
        self.context.core.transactions.wait_for_range_lock(
            self.context.transaction,
            &mut self.range_queue,
            ranges,
            operation.write.key,
            operation.is_insert,
            timeout,
        )?;
        Ok(())
    }
}
