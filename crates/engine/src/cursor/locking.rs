//! Locking reads: the newest committed rows, locked.
//!
//! 1. The tree's cursor reads through a view that records writes of other
//!    active transactions.
//! 2. If a move encountered such a write, the cursor waits until that transaction has ended and
//!    repeats the move, so it does not miss rows that commit.
//! 3. If the read locks gaps, a move over keys whose gaps have not been locked is repeated after
//!    they have been locked (see `gap_locks`).
//! 4. On the rows' index the row found is locked under its latch and read again, because it may
//!    have changed before it was locked. If the row was deleted, it is skipped and its lock is
//!    released. A range lock can make the row lock unnecessary.
//!
//! [`LockPolicy`] can replace the waits; [`RowRetention`] sets how long rows are protected.

use super::bounds::Motion;
use super::gap_locks::{LockedInterval, Move, lock_absent_key};
use super::policy::{LockPolicy, RowRetention};
use super::position::{CursorMemory, Found, IndexPosition, Row, Rows};
use crate::core::index::Index;
use crate::error::EngineResult;
use crate::newest_version::{LockedRead, LockingRead};
use crate::transaction::{EngineTransaction, Isolation};
use std::sync::Arc;
use teak_transactions::{LockId, LockMode, RangeLockKind, RowName};

/// The lock of the row last returned.
#[derive(Clone, Copy, Default)]
enum ReturnedLock {
    /// No row was returned, or the row has no lock of its own: the transaction has written it, a range
    /// lock covers it, or it is an entry of a secondary index.
    #[default]
    None,
    Get(LockId),
    Scan(LockId),
    /// The row returned is its last committed version, and is not locked.
    Unlocked,
}

pub(super) struct LockingCursor {
    position: IndexPosition,
    mode: LockMode,
    policy: LockPolicy,
    retention: RowRetention,
    /// `Some` if the isolation level or `lock_gaps` demands gap locks: the interval locked last.
    gap_locks: Option<LockedInterval>,
    returned_lock: ReturnedLock,
}

impl LockingCursor {
    pub(super) fn new(position: IndexPosition, mode: LockMode, isolation: Isolation) -> Self {
        let locks_gaps = isolation >= Isolation::RepeatableRead;
        Self {
            position,
            mode,
            policy: LockPolicy::default(),
            retention: RowRetention::default(),
            gap_locks: locks_gaps.then(LockedInterval::default),
            returned_lock: ReturnedLock::None,
        }
    }

    pub(super) fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        self.position.set_bounds(lower, upper);
    }

    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        self.position.set_prefix(prefix);
    }

    pub(super) fn into_memory(self) -> CursorMemory {
        self.position.into_memory()
    }

    pub(super) fn index(&self) -> &Index {
        &self.position.index
    }

    pub(super) fn policy(&self) -> LockPolicy {
        self.policy
    }

    pub(super) fn set_policy(&mut self, policy: LockPolicy) {
        let may_return_unlocked = self.position.is_rows_index() && self.gap_locks.is_none();
        self.policy = match (policy, self.policy) {
            (LockPolicy::SemiConsistent, current) if !may_return_unlocked => match current {
                LockPolicy::SemiConsistent => LockPolicy::Wait,
                current => current,
            },
            (policy, _) => policy,
        };
    }

    pub(super) fn lock_gaps(&mut self) {
        self.gap_locks.get_or_insert_default();
        self.set_policy(self.policy);
    }

    pub(super) fn set_retention(&mut self, retention: RowRetention) {
        if self.gap_locks.is_some() {
            self.retention = retention;
        }
    }

    pub(super) fn is_unlocked(&self) -> bool {
        matches!(self.returned_lock, ReturnedLock::Unlocked)
    }

    pub(super) fn clear_position(&mut self) {
        self.position.found = Found::Nothing;
    }

    pub(super) fn get(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
    ) -> EngineResult<Option<Row<'_>>> {
        let serial = transaction.serial.without_writes();
        self.position.refresh(&transaction.core, serial)?;
        self.returned_lock = ReturnedLock::None;
        if !self.position.bounds.contain(key) {
            return Ok(None);
        }
        let waits = self.policy != LockPolicy::SkipLocked;
        let mut found = self.read_locked(transaction, key, waits)?;
        if found.0 != LockedRead::Live && self.lock_absent_key(transaction, key)? {
            // The row may have been inserted before the gap was locked.
            found = self.read_locked(transaction, key, waits)?;
        }
        if let Some(lock) = found.1 {
            self.returned_lock = ReturnedLock::Get(lock);
        }
        let is_found = found.0 == LockedRead::Live;
        Ok(is_found.then(|| self.position.row_of_get(key)))
    }

    /// Locks a key that a lookup has not found against insertion, if the read locks gaps. `true` if
    /// it has done so: the lookup must be repeated.
    fn lock_absent_key(
        &self,
        transaction: &mut EngineTransaction,
        key: &[u8],
    ) -> EngineResult<bool> {
        if !self.locks_gaps() {
            return Ok(false);
        }
        lock_absent_key(transaction, &self.position.index, key)?;
        Ok(true)
    }

    pub(super) fn move_to(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        key: Option<&[u8]>,
    ) -> EngineResult<Option<Row<'_>>> {
        self.open(transaction)?;
        self.position.found = Found::Nothing;
        self.returned_lock = ReturnedLock::None;
        loop {
            let moved = self.position.seek(&transaction.core, motion, key)?;
            if self.wait_for_active_write(transaction)?
                || !self.lock_gap_of_move(transaction, motion, key, moved)?
            {
                continue;
            }
            if !self.position.accept(motion, moved) {
                return Ok(None);
            }
            if self.lock_row_found(transaction)? {
                return self.position.row(&transaction.core);
            }
            return self.advance(transaction, motion);
        }
    }

    /// The next row: each row is locked before it is returned.
    pub(super) fn next_row(
        &mut self,
        transaction: &mut EngineTransaction,
    ) -> EngineResult<Option<Rows<'_>>> {
        let row = self.step(transaction, Motion::Forward)?;
        Ok(row.map(Rows::One))
    }

    pub(super) fn step(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        if self.position.found == Found::Nothing {
            return Ok(None);
        }
        self.position.save_key();
        self.open(transaction)?;
        self.returned_lock = ReturnedLock::None;
        self.advance(transaction, motion)
    }

    /// Releases the lock of the row last returned, if it may be released.
    pub(super) fn unlock(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        let returned = std::mem::take(&mut self.returned_lock);
        let (ReturnedLock::Get(lock) | ReturnedLock::Scan(lock)) = returned else {
            self.returned_lock = returned;
            return Ok(());
        };
        let is_covered_by_range =
            matches!(returned, ReturnedLock::Scan(_)) && self.range_kind() == RangeLockKind::Write;
        if self.retention == RowRetention::UntilUnlocked || is_covered_by_range {
            let context = transaction.context()?;
            context.core.transactions.unlock(context.transaction, lock);
        }
        Ok(())
    }

    fn open(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        let serial = transaction.serial.without_writes();
        self.position.refresh(&transaction.core, serial)?;
        let position = &mut self.position;
        if position.view.is_none() {
            let serial = transaction.serial.without_writes();
            position.set_view(transaction.newest_view()?, serial);
        }
        if position.tree.is_none() {
            position.open_tree(true);
        }
        Ok(())
    }

    /// Moves past the saved key until a row is found and locked.
    fn advance(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        loop {
            let core = &transaction.core;
            let moved = self.position.step_from_saved_key(core, motion)?;
            if self.wait_for_active_write(transaction)? {
                continue;
            }
            let from = std::mem::take(&mut self.position.saved_key);
            let is_locked = self.lock_gap_of_move(transaction, motion, Some(&from), moved);
            self.position.saved_key = from;
            if !is_locked? {
                continue;
            }
            if !self.position.accept(motion, moved) {
                return Ok(None);
            }
            if self.lock_row_found(transaction)? {
                return self.position.row(&transaction.core);
            }
            transaction.check_interrupt()?;
        }
    }

    /// Waits for a write of another active transaction that the last move
    /// encountered. `true` when it waited: the move must be repeated.
    fn wait_for_active_write(&mut self, transaction: &mut EngineTransaction) -> EngineResult<bool> {
        let position = &mut self.position;
        let (Some(view), Some(tree)) = (&position.view, &mut position.tree) else {
            return Ok(false);
        };
        let Some(id) = view.take_conflicting_write() else {
            return Ok(false);
        };
        match self.policy {
            LockPolicy::SkipLocked => return Ok(false),
            LockPolicy::SemiConsistent => {
                // Discards the write status that the tree's cursor has cached: the write may be
                // committed by now.
                tree.reset_visibility();
                return Ok(false);
            }
            LockPolicy::Wait => {}
        }
        // Reports of the wait show this key. The conflicting write is at or near the end of the
        // move.
        let near = if tree.valid() {
            tree.key()
        } else {
            &position.saved_key
        };
        let row = RowName::new(&position.index.ranges, near);
        let context = transaction.context()?;
        let timeout = context.remaining_timeout(&mut None);
        let transactions = &context.core.transactions;
        transactions.wait_for_write(context.transaction, id, row, timeout)?;
        // Resets the write status that the tree's cursor has cached.
        tree.set_visibility(Arc::clone(view));
        Ok(true)
    }

    /// Locks the gaps between the start and the end of a move. `false` if they were not locked
    /// before: the move must be repeated.
    fn lock_gap_of_move(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        from: Option<&[u8]>,
        moved: bool,
    ) -> EngineResult<bool> {
        if !self.locks_gaps() {
            return Ok(true);
        }
        let kind = self.range_kind();
        let Some(locked) = &mut self.gap_locks else {
            return Ok(true);
        };
        let is_on_key = moved && self.position.is_within(motion);
        let made = Move {
            motion,
            from,
            is_on_key,
        };
        locked.cover_move(&mut self.position, transaction, kind, made)
    }

    /// Whether the read locks gaps. A SKIP LOCKED read does not: it need not return the same rows
    /// when it is executed again.
    fn locks_gaps(&self) -> bool {
        self.gap_locks.is_some() && self.policy != LockPolicy::SkipLocked
    }

    /// Locks the row that a scan of the rows' index has found, and reads it again.
    /// `false` when it must be skipped. On a secondary index nothing is locked.
    fn lock_row_found(&mut self, transaction: &mut EngineTransaction) -> EngineResult<bool> {
        if !self.position.is_rows_index() || self.needs_no_row_lock(transaction) {
            return Ok(true);
        }
        self.position.save_key();
        let key = std::mem::take(&mut self.position.saved_key);
        let found = self.read_locked(transaction, &key, self.policy == LockPolicy::Wait);
        self.position.saved_key = key;
        let (found, lock) = found?;
        match found {
            LockedRead::Live => {}
            LockedRead::Busy if self.policy == LockPolicy::SemiConsistent => {
                // The tree's cursor is on the last committed version.
                self.returned_lock = ReturnedLock::Unlocked;
                return Ok(true);
            }
            LockedRead::Absent | LockedRead::Busy => return Ok(false),
        }
        self.position.found = Found::InBuffer;
        if let Some(lock) = lock {
            self.returned_lock = ReturnedLock::Scan(lock);
        }
        if self.is_covered_by_range_lock() {
            self.unlock(transaction)?;
        }
        Ok(true)
    }

    /// Reads the newest committed version of a key into the position's buffer. On
    /// the rows' index a live row is locked; the lock is returned unless the row
    /// needs none.
    fn read_locked(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
        waits: bool,
    ) -> EngineResult<(LockedRead, Option<LockId>)> {
        let mut context = transaction.context()?;
        let position = &mut self.position;
        let read = LockingRead {
            index: &position.index,
            locks_row: position.is_rows_index(),
            row: RowName::new(&position.index.ranges, key),
            mode: self.mode,
            waits,
            needs_value: true,
        };
        read.run(&mut context, &mut position.value)
    }

    /// The operations that the range locks of this scan block.
    fn range_kind(&self) -> RangeLockKind {
        if self.retention == RowRetention::UntilTransactionEnd
            && self.position.is_rows_index()
            && self.policy != LockPolicy::SkipLocked
        {
            RangeLockKind::Write
        } else {
            RangeLockKind::Gap
        }
    }

    /// Whether the range lock of a scan protects the row, so that the row's own
    /// lock can be released once it has been read.
    fn is_covered_by_range_lock(&self) -> bool {
        self.mode == LockMode::Shared && self.range_kind() == RangeLockKind::Write
    }

    /// Whether the range lock of a shared scan makes a row lock unnecessary: no other transaction
    /// held a row lock when the range was locked, so the version found is the newest. Under
    /// snapshot isolation the row is locked nevertheless, because that detects a version newer than
    /// the snapshot.
    fn needs_no_row_lock(&self, transaction: &EngineTransaction) -> bool {
        let locked = self.gap_locks.as_ref();
        self.is_covered_by_range_lock()
            && !transaction.snapshot_isolation
            && locked.is_some_and(LockedInterval::had_no_row_locks)
    }
}
