//! The memory of locks, and what is done when it runs out.
//!
//! From seven eighths of the bound on, whoever asks for a lock looks who holds
//! most. That transaction escalates: at once when it is the one that asks, else
//! at its own next request. In each index its insertion ranges become one from
//! the first to the last, and its row locks one range of rows, exclusive if any
//! of them was. Nobody else is stopped meanwhile:
//! 1. The range is listed. From here on requests of others for its rows are
//!    stopped by it; what others have locked or written there stays theirs.
//! 2. The row locks go, one by one; those that somebody waits for stay.
//!
//! Two ranges of different transactions that conflict would let neither go on,
//! so where another has one, the rows stay locked one by one.
//!
//! At the bound, whoever asks escalates too. If that frees too little, the
//! request is refused.

use super::TransactionSystem;
use crate::error::WaitError;
use crate::hash::LockId;
use crate::range_locks::{Resized, RowRange};
use crate::row_locks::LockMode;
use crate::shared::TransactionHandle;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transaction::Transaction;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use teak_base::FileId;

/// Fewer locks in an index are not worth a range.
const ROWS_MIN: usize = 4;

/// Below so many bytes a shard holds too few locks to speak for all.
const EXACT_BELOW: u64 = 1 << 20;

/// The bound, and what ranges take of it; row locks are counted by their table.
pub(super) struct LockMemory {
    bytes_max: AtomicU64,
    range_bytes: AtomicU64,
    /// Who holds most is looked for again when this many bytes are taken.
    look_again: AtomicU64,
}

impl Default for LockMemory {
    fn default() -> Self {
        Self {
            bytes_max: AtomicU64::new(u64::MAX),
            range_bytes: AtomicU64::new(0),
            look_again: AtomicU64::new(0),
        }
    }
}

impl LockMemory {
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Escalation begins here.
    fn bytes_soft(&self) -> u64 {
        let bytes_max = self.bytes_max();
        bytes_max - bytes_max / 8
    }

    pub(super) fn take_ranges(&self, bytes: u64) {
        if bytes != 0 {
            self.range_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn resize_ranges(&self, resized: Resized) {
        if resized.after >= resized.before {
            let more = resized.after - resized.before;
            self.range_bytes.fetch_add(more, Ordering::Relaxed);
        } else {
            self.take_ranges(resized.before - resized.after);
        }
    }

    /// Whether it is time to look who holds most.
    fn is_time_to_look(&self, used: u64) -> bool {
        let again = self.look_again.load(Ordering::Relaxed);
        if used < again && again <= used.saturating_add(self.bytes_max() / 64) {
            return false;
        }
        let next = used.saturating_add(self.bytes_max() / 64);
        self.look_again.store(next, Ordering::Relaxed);
        true
    }
}

/// A transaction's row locks in one index.
struct Rows {
    range: RowRange,
    locks: Vec<LockId>,
}

fn behind(key: &[u8]) -> Box<[u8]> {
    key.iter().copied().chain([0]).collect()
}

impl TransactionSystem {
    /// Bounds the memory of all explicit locks, in bytes.
    pub fn set_lock_bytes_max(&self, bytes: u64) {
        self.lock_memory.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that row and range locks take.
    #[must_use]
    pub fn lock_bytes(&self) -> u64 {
        self.locks.memory_bytes() + self.lock_memory.range_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn resize(&self, transaction: &Transaction, resized: Resized) {
        self.lock_memory.resize_ranges(resized);
        transaction.handle().take_lock_bytes(resized.before);
        transaction.handle().add_lock_bytes(resized.after);
    }

    /// Makes sure that there is memory for one more lock. Adding up takes
    /// longer than locking, so one shard speaks for all as long as it says that
    /// there is plenty.
    #[inline]
    pub(super) fn admit_lock(
        &self,
        transaction: &mut Transaction,
        lock: LockId,
    ) -> Result<(), WaitError> {
        let guessed = if self.lock_memory.bytes_max() < EXACT_BELOW {
            self.lock_bytes()
        } else {
            let ranges = self.lock_memory.range_bytes.load(Ordering::Relaxed);
            self.locks.guessed_bytes(lock) + ranges
        };
        if guessed <= self.lock_memory.bytes_soft() && !transaction.handle().must_escalate() {
            return Ok(());
        }
        self.make_room(transaction)
    }

    #[cold]
    fn make_room(&self, transaction: &mut Transaction) -> Result<(), WaitError> {
        if transaction.handle().must_escalate() {
            self.escalate(transaction);
        }
        let used = self.lock_bytes();
        if used <= self.lock_memory.bytes_soft() {
            return Ok(());
        }
        if self.lock_memory.is_time_to_look(used)
            && let Some(biggest) = self.biggest_holder()
        {
            if biggest.id() == transaction.id() {
                self.escalate(transaction);
            } else {
                biggest.ask_to_escalate();
            }
        }
        let bytes_max = self.lock_memory.bytes_max();
        if self.lock_bytes() > bytes_max {
            self.escalate(transaction);
            if self.lock_bytes() > bytes_max {
                self.counts.lock_refusals.fetch_add(1, Ordering::Relaxed);
                return Err(WaitError::TooManyLocks);
            }
        }
        Ok(())
    }

    /// Who holds most lock memory, looked for shard by shard.
    fn biggest_holder(&self) -> Option<Arc<TransactionHandle>> {
        let biggest_of = |shard: &super::Mutex<super::Running>| {
            let shard = shard.lock();
            let biggest = shard.values().max_by_key(|other| other.lock_bytes());
            biggest.map(Arc::clone)
        };
        let shards = self.running.iter().filter_map(biggest_of);
        shards.max_by_key(|other| other.lock_bytes())
    }

    /// Replaces the transaction's locks by one range per index and kind, where
    /// that helps and nobody else's range is in the way.
    fn escalate(&self, transaction: &mut Transaction) {
        transaction.handle().clear_must_escalate();
        let id = transaction.id();
        for index in &transaction.marked {
            if let Some(resized) = index.join(id) {
                self.resize(transaction, resized);
                self.count_escalation();
            }
        }
        for (file, rows) in self.rows_by_index(transaction) {
            let mut locked_in = transaction.locked_in.iter();
            let Some(index) = locked_in.find(|index| index.file() == file) else {
                continue;
            };
            let index = Arc::clone(index);
            let Some((range, resized)) = index.widen(id, rows.range) else {
                continue;
            };
            self.resize(transaction, resized);
            let own = &mut transaction.row_ranges;
            own.retain(|(known, _)| !Arc::ptr_eq(known, &index));
            own.push((index, range));
            for lock in rows.locks {
                if let Some(bytes) = self.locks.give_up_to_range(lock, id) {
                    transaction.held.remove(&lock);
                    transaction.handle().take_lock_bytes(bytes);
                }
            }
            transaction.handle().note_row_locks(transaction.held.len());
            self.count_escalation();
        }
    }

    fn count_escalation(&self) {
        self.counts.lock_escalations.fetch_add(1, Ordering::Relaxed);
    }

    /// The row locks worth replacing. Locks of ambiguous names are left out.
    fn rows_by_index(&self, transaction: &Transaction) -> BTreeMap<FileId, Rows> {
        struct Found {
            low: SmallVec<[u8; 24]>,
            high: SmallVec<[u8; 24]>,
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
            .filter(|(_, found)| found.locks.len() >= ROWS_MIN);
        worth
            .map(|(file, found)| {
                let range = RowRange {
                    low: found.low.as_slice().into(),
                    high: behind(&found.high),
                    mode: found.mode,
                };
                let locks = found.locks;
                (file, Rows { range, locks })
            })
            .collect()
    }
}
