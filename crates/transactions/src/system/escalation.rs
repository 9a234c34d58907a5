//! Lock escalation: replaces many locks by few ranges when lock memory runs
//! out.
//!
//! At each lock request:
//! 1. Below seven eighths of the limit, nothing happens, except an escalation that step 2 of an
//!    earlier request has requested.
//! 2. Above, whenever lock memory has grown by 1/64 of the limit, the transaction with the most lock
//!    memory is looked up. It escalates: immediately if it is the requester, otherwise at its next
//!    lock request.
//! 3. At the limit, the requester escalates as well. If that frees too little,
//!    the request is refused with `TooManyLocks`.
//!
//! Escalation replaces, in each index, the transaction's range locks of each kind by one from the
//! first key to the last end, and its row locks by one row range, which is exclusive if one of them
//! was. It replaces row locks in these steps, during which other transactions continue:
//! 1. Add the row range. It blocks later requests of other transactions for its rows. Other
//!    transactions keep their existing locks and writes.
//! 2. Release the row locks one by one, except those that a request waits for.
//!
//! The row locks of an index are retained if they are few, or if the row range would conflict with
//! a range of another transaction.
//!
//! Lock order: escalation never holds a shard of row locks and the state of an index's range locks
//! at the same time.

use super::TransactionSystem;
use crate::error::WaitError;
use crate::lock_id::LockId;
use crate::lock_types::{LockMode, Resized};
use crate::range_locks::RowRange;
use crate::row_locks::LockKey;
use crate::sync::atomic::Ordering;
use crate::transaction::Transaction;
use std::collections::BTreeMap;
use std::sync::Arc;
use teak_base::FileId;
use teak_base::bytes::key_successor;

/// Minimum number of row locks in an index that are replaced by a row range.
const ROW_LOCKS_MIN: usize = 4;

/// If the limit of lock memory in bytes is below this, a shard has too few locks for an estimate.
const EXACT_BELOW_BYTES: u64 = 1 << 20;

/// A transaction's row locks in one index, and the range that covers them.
struct IndexRows {
    range: RowRange,
    locks: Vec<LockId>,
}

impl TransactionSystem {
    /// Sets the limit of [`TransactionSystem::lock_bytes`], in bytes.
    pub fn set_lock_bytes_max(&self, bytes: u64) {
        self.lock_memory.set_bytes_max(bytes);
    }

    /// Memory of all row locks, range locks and row ranges, and of each transaction's ranges of
    /// write ids beyond the first 1024, in bytes.
    #[must_use]
    pub fn lock_bytes(&self) -> u64 {
        self.locks.memory_bytes() + self.lock_memory.range_bytes()
    }

    pub(super) fn count_resized(&self, transaction: &Transaction, resized: Resized) {
        self.lock_memory.resize_ranges(resized);
        transaction.handle().subtract_lock_bytes(resized.before);
        transaction.handle().add_lock_bytes(resized.after);
    }

    /// Ensures that there is memory for one more lock. Adding up all shards takes longer than a
    /// lock request, so the use is estimated from one shard. All shards are added up only if the
    /// limit is small, the estimate is near it, or the transaction was asked to escalate.
    #[inline]
    pub(super) fn admit_lock(
        &self,
        transaction: &mut Transaction,
        lock: LockId,
    ) -> Result<(), WaitError> {
        let estimate = if self.lock_memory.bytes_max() < EXACT_BELOW_BYTES {
            self.lock_bytes()
        } else {
            self.locks.estimated_bytes(lock) + self.lock_memory.range_bytes()
        };
        if estimate <= self.lock_memory.bytes_soft() && !transaction.handle().must_escalate() {
            return Ok(());
        }
        self.free_lock_memory(transaction)
    }

    #[cold]
    pub(super) fn free_lock_memory(&self, transaction: &mut Transaction) -> Result<(), WaitError> {
        if transaction.handle().must_escalate() {
            self.escalate(transaction);
        }
        let used = self.lock_bytes();
        if used <= self.lock_memory.bytes_soft() {
            return Ok(());
        }
        if self.lock_memory.is_check_due(used)
            && let Some(largest) = self.running.largest_lock_holder()
        {
            if largest.id() == transaction.id() {
                self.escalate(transaction);
            } else {
                largest.request_escalation();
            }
        }
        let bytes_max = self.lock_memory.bytes_max();
        if self.lock_bytes() > bytes_max {
            self.escalate(transaction);
            if self.lock_bytes() > bytes_max {
                self.counters.lock_refusals.fetch_add(1, Ordering::Relaxed);
                return Err(WaitError::TooManyLocks);
            }
        }
        Ok(())
    }

    fn escalate(&self, transaction: &mut Transaction) {
        transaction.handle().clear_must_escalate();
        let id = transaction.id();
        for index in &transaction.range_locked_indexes {
            if let Some(resized) = index.merge(id) {
                self.count_resized(transaction, resized);
                self.count_escalation();
            }
        }
        for (file, rows) in self.rows_by_index(transaction) {
            let mut indexes = transaction.row_locked_indexes.iter();
            let Some(index) = indexes.find(|index| index.file() == file) else {
                continue;
            };
            let index = Arc::clone(index);
            let Some((range, resized)) = index.widen_rows(id, rows.range) else {
                continue;
            };
            self.count_resized(transaction, resized);
            let own = &mut transaction.row_ranges;
            own.retain(|(known, _)| !Arc::ptr_eq(known, &index));
            own.push((index, range));
            for lock in rows.locks {
                if let Some(bytes) = self.locks.release_to_range(lock, id) {
                    transaction.held.remove(&lock);
                    transaction.handle().subtract_lock_bytes(bytes);
                }
            }
            transaction.handle().set_row_locks(transaction.held.len());
            self.count_escalation();
        }
    }

    fn count_escalation(&self) {
        self.counters
            .lock_escalations
            .fetch_add(1, Ordering::Relaxed);
    }

    /// The row locks to replace, by index. Excludes locks that several rows share, and indexes with
    /// fewer than [`ROW_LOCKS_MIN`] locks.
    fn rows_by_index(&self, transaction: &Transaction) -> BTreeMap<FileId, IndexRows> {
        struct Found {
            low: LockKey,
            high: LockKey,
            mode: LockMode,
            locks: Vec<LockId>,
        }
        let mut by_index: BTreeMap<FileId, Found> = BTreeMap::new();
        for (lock, held) in &transaction.held {
            let Some((file, key)) = self.locks.name_of(*lock) else {
                continue;
            };
            let found = by_index.entry(file).or_insert_with(|| Found {
                low: key.clone(),
                high: key.clone(),
                mode: held.mode,
                locks: Vec::new(),
            });
            found.mode = found.mode.max(held.mode);
            found.locks.push(*lock);
            if key < found.low {
                found.low = key;
            } else if key > found.high {
                found.high = key;
            }
        }
        let worth = by_index
            .into_iter()
            .filter(|(_, found)| found.locks.len() >= ROW_LOCKS_MIN);
        worth
            .map(|(file, found)| {
                let range = RowRange {
                    low: found.low.as_slice().into(),
                    high: key_successor(&found.high).into(),
                    mode: found.mode,
                };
                let locks = found.locks;
                (file, IndexRows { range, locks })
            })
            .collect()
    }
}
