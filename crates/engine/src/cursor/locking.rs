//! How locking reads meet what others write and have locked: steps 2 and 3 of
//! the cursor's.

use super::{Cursor, Found, ReadMode};
use crate::error::EngineResult;
use crate::transaction::{EngineTransaction, Parts};
use crate::write::{Newest, newest};
use std::sync::Arc;
use teak_transactions::{LockMode, RangeQueuePositions, RowName};

/// What a look for the newest version of a key, to lock it, came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Live,
    Gone,
    /// Another transaction writes it, has locked it or keeps it as it is.
    Busy,
}

impl Cursor {
    /// Waits for an undecided write that the last move met. `true` when it
    /// waited: the move must be repeated.
    pub(super) fn wait_for_met(
        &mut self,
        transaction: &mut EngineTransaction,
    ) -> EngineResult<bool> {
        if self.mode == ReadMode::Snapshot {
            return Ok(false);
        }
        let Some(view) = &self.view else {
            return Ok(false);
        };
        let Some(id) = view.take_conflicting_write() else {
            return Ok(false);
        };
        if self.skip_locked {
            return Ok(false);
        }
        if self.semi_consistent {
            if let Some(tree) = &mut self.tree {
                // What its writer wrote further on may be committed by then.
                tree.forget_answer();
            }
            return Ok(false);
        }
        let view = Arc::clone(view);
        let parts = transaction.parts()?;
        let timeout = parts.remaining(&mut None);
        let transactions = &parts.inner.transactions;
        // The move met it near where it ended.
        let near = match &self.tree {
            Some(tree) if tree.valid() => tree.key(),
            _ => &self.position,
        };
        let row = RowName::new(&self.index.ranges, near);
        transactions.wait_for_write(parts.core, id, row, timeout)?;
        if let Some(tree) = &mut self.tree {
            // It remembers the last answer, which has changed.
            tree.set_visibility(view);
        }
        Ok(true)
    }

    /// Locks the row found by a locking scan of the primary index and reads it
    /// again. `false` when it is gone.
    pub(super) fn lock_found(&mut self, transaction: &mut EngineTransaction) -> EngineResult<bool> {
        let mode = match self.mode.lock_mode() {
            Some(mode) if self.place == 0 => mode,
            _ => return Ok(true),
        };
        self.scanned = true;
        if self.needs_no_lock(transaction) {
            return Ok(true);
        }
        self.save_position();
        let key = std::mem::take(&mut self.position);
        let waits = !self.skip_locked && !self.semi_consistent;
        let look = self.read_locked(transaction, &key, mode, waits);
        self.position = key;
        match look? {
            Look::Live => {}
            Look::Busy if self.semi_consistent => {
                // The tree's cursor has the last committed version.
                self.unlocked = true;
                return Ok(true);
            }
            Look::Gone | Look::Busy => return Ok(false),
        }
        self.found = Found::Buffer;
        if self.is_kept_by_range() {
            self.unlock(transaction)?;
        }
        Ok(true)
    }

    /// Reads the newest committed version of a key into the buffer, waiting
    /// for undecided writers if it may; on the primary index with the row
    /// locked.
    pub(super) fn read_locked(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
        mode: LockMode,
        waits: bool,
    ) -> EngineResult<Look> {
        let mut parts = transaction.parts()?;
        let index = Arc::clone(&self.index);
        let row = RowName::new(&index.ranges, key);
        let lock = row.lock;
        let mut held = false;
        let outcome = self.read_newest(&mut parts, row, mode, waits, &mut held);
        if held {
            if matches!(outcome, Ok(Look::Live)) {
                self.locked = Some(lock);
            } else {
                parts.inner.transactions.unlock(parts.core, lock);
            }
        }
        outcome
    }

    fn read_newest(
        &mut self,
        parts: &mut Parts<'_>,
        row: RowName<'_>,
        mode: LockMode,
        waits: bool,
        held: &mut bool,
    ) -> EngineResult<Look> {
        let inner = parts.inner;
        let me = parts.core.id();
        let primary = self.place == 0;
        // Whoever marked a range since waits for the lock.
        let owned = primary && parts.core.holds(row, mode);
        let mut deadline = None;
        let mut queue_positions = RangeQueuePositions::default();
        loop {
            let latch = primary.then(|| inner.transactions.latches().one(row.lock));
            let found = newest(inner, &self.index, row.key, me, &mut self.value)?;
            if let Newest::Foreign(id) = found {
                drop(latch);
                if !waits {
                    return Ok(Look::Busy);
                }
                if primary {
                    // In line before waiting, so that readers and writers of
                    // one row are served in turn.
                    parts.hold(row, mode, held, &mut deadline)?;
                }
                let timeout = parts.remaining(&mut deadline);
                inner
                    .transactions
                    .wait_for_write(parts.core, id, row, timeout)?;
                continue;
            }
            let mine = match found {
                // One's own undecided version locks the row already.
                Newest::Live(id) => inner.transactions.ids().active_owner(id) == Some(me),
                _ => false,
            };
            if primary && !mine && !owned && self.is_kept_by_another(row.key, mode, me) {
                // A write would wait for it. Who reads to write does so now.
                drop(latch);
                if !waits {
                    return Ok(Look::Busy);
                }
                let timeout = parts.remaining(&mut deadline);
                let ranges = &self.index.ranges;
                let transactions = &inner.transactions;
                transactions.wait_for_range_lock(
                    parts.core,
                    &mut queue_positions,
                    ranges,
                    row.key,
                    false,
                    timeout,
                )?;
                continue;
            }
            if primary && !*held && !mine {
                if inner.transactions.try_lock(parts.core, row, mode)? {
                    *held = true;
                    if self.is_kept_by_another(row.key, mode, me) {
                        continue;
                    }
                } else if !waits {
                    return Ok(Look::Busy);
                } else {
                    drop(latch);
                    parts.hold(row, mode, held, &mut deadline)?;
                    continue;
                }
            }
            if let Newest::Live(id) | Newest::Gone(Some(id)) = found
                && parts.is_after_snapshot(id)
            {
                parts.take_past_snapshot()?;
            }
            return Ok(match found {
                Newest::Live(_) => Look::Live,
                _ => Look::Gone,
            });
        }
    }
}
