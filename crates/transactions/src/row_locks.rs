//! The table of explicit row locks, for rows that are locked but not written. A written row needs
//! no entry, because its newest version names its writer (implicit lock).
//!
//! The table has shards, chosen by lock id. A request is handled under the lock
//! of its shard:
//! 1. If there is no conflict and no queue, it is granted. A transaction that already holds a
//!    lock of the row, or a row range that contains the row, ignores the queue.
//! 2. Otherwise it enters the queue: such a transaction at the front, others at the end. Requests
//!    are granted in the order of the queue.
//! 3. A release grants requests from the front of the queue and wakes their transactions.
//!
//! After lock escalation a transaction holds one row range of the index in place of its row locks
//! (see `range_locks`). Requests check row ranges while they hold the row's shard. The row range is
//! added before the row locks are released, so a request sees at least one of them.
//!
//! Lock order: a latch, then the waits-for graph, then one shard, then the range
//! locks of an index, then a transaction's waker.

mod lock;

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
pub(crate) use self::lock::LOCK_BYTES;
use self::lock::Lock;
pub(crate) use self::lock::{LockKey, lock_bytes};
use crate::handle::TransactionHandle;
use crate::lock_id::{IdentityBuild, LockId};
use crate::lock_types::{Blockers, LockMode};
use crate::report::LockReport;
use crate::row_name::RowName;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::{FileId, TransactionId};

const SHARDS: usize = 64;

type LockMap = HashMap<LockId, Lock, IdentityBuild>;

#[repr(align(64))]
#[derive(Default)]
struct Shard {
    /// Number of locks in the map. If it is zero under the row's latch, a writer skips the map: a
    /// transaction that locks the row later checks the newest version under the same latch, and
    /// finds the write.
    count: AtomicU64,
    bytes: AtomicU64,
    locks: Mutex<LockMap>,
}

/// A request for a row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowRequest {
    pub mode: LockMode,
    /// Whether a row range of the transaction contains the row. Then no lock is recorded, unless
    /// the transaction holds a lock of the row too, or must wait for a lock of another transaction.
    pub is_covered: bool,
    /// Whether to enter the queue on a conflict.
    pub may_queue: bool,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowRequestOutcome {
    Granted,
    /// The transaction's row range is sufficient.
    Covered,
    Queued,
    Refused,
}

/// The row lock table of one engine.
pub struct RowLocks {
    shards: Box<[Shard]>,
}

impl Default for RowLocks {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }
}

impl RowLocks {
    fn shard(&self, lock: LockId) -> &Shard {
        let index = usize::try_from(lock.hash() >> 48).unwrap_or(0) % SHARDS;
        match self.shards.get(index).or_else(|| self.shards.first()) {
            Some(shard) => shard,
            None => unreachable!("the table has shards"),
        }
    }

    /// Whether another transaction holds a conflicting lock of the row, or a
    /// conflicting row range that contains it. Call under the row's latch.
    #[must_use]
    pub fn conflicts(&self, row: RowName<'_>, transaction: TransactionId, mode: LockMode) -> bool {
        // Row locks are checked first, because an escalation adds the row range before it releases
        // them.
        self.row_conflicts(row.lock, transaction, mode)
            || row.index.blocks_row(row.key, transaction, mode)
    }

    /// Like [`RowLocks::conflicts`], without row ranges. A row range does not
    /// block a transaction that locked the row exclusively, or wrote it, before
    /// the range was added.
    #[must_use]
    pub fn row_conflicts(&self, lock: LockId, transaction: TransactionId, mode: LockMode) -> bool {
        let shard = self.shard(lock);
        if shard.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let locks = shard.locks.lock();
        locks
            .get(&lock)
            .is_some_and(|found| found.blocks(transaction, mode))
    }

    /// Grants a request; on a conflict, enqueues it if it may queue, or refuses it.
    pub(crate) fn request(
        &self,
        row: RowName<'_>,
        transaction: &Arc<TransactionHandle>,
        request: RowRequest,
    ) -> RowRequestOutcome {
        let shard = self.shard(row.lock);
        let me = transaction.id();
        let mut locks = shard.locks.lock();
        if request.is_covered && !locks.contains_key(&row.lock) {
            return RowRequestOutcome::Covered;
        }
        let found = locks.entry(row.lock).or_insert_with(|| {
            shard.count.fetch_add(1, Ordering::SeqCst);
            shard
                .bytes
                .fetch_add(lock_bytes(row.key), Ordering::Relaxed);
            Lock::new(&row)
        });
        found.check_name(&row);
        let is_holder = found.is_held_by(me);
        let holds = is_holder || request.is_covered;
        let is_next = !found.blocks(me, request.mode) && (holds || !found.has_queue());
        if is_next && !row.index.blocks_row(row.key, me, request.mode) {
            if request.is_covered && !is_holder {
                Self::remove_if_idle(shard, &mut locks, row.lock);
                return RowRequestOutcome::Covered;
            }
            found.grant(me, request.mode);
            return RowRequestOutcome::Granted;
        }
        if !request.may_queue {
            Self::remove_if_idle(shard, &mut locks, row.lock);
            return RowRequestOutcome::Refused;
        }
        found.enqueue(&row, transaction, request.mode, holds);
        // If a row range blocks the request, registers the lock with it. If that range has been
        // released since, grants the request.
        found.grant_queued(row.lock);
        RowRequestOutcome::Queued
    }

    /// Withdraws a queued request. Returns false if it was already granted.
    pub(crate) fn withdraw(&self, lock: LockId, transaction: TransactionId) -> bool {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let Some(found) = locks.get_mut(&lock) else {
            return false;
        };
        let withdrawn = found.dequeue(transaction);
        found.grant_queued(lock);
        Self::remove_if_idle(shard, &mut locks, lock);
        withdrawn
    }

    /// Removes a holder and grants requests in the queue. Returns the memory of the holder's lock
    /// in bytes.
    pub(crate) fn release(&self, lock: LockId, transaction: TransactionId) -> u64 {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let mut bytes = 0;
        if let Some(found) = locks.get_mut(&lock) {
            bytes = found.bytes();
            found.remove_holder(transaction);
            found.grant_queued(lock);
        }
        Self::remove_if_idle(shard, &mut locks, lock);
        bytes
    }

    /// Grants requests in the queue of a lock, after a row range that blocked them was released.
    pub(crate) fn grant_queued(&self, lock: LockId) {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        if let Some(found) = locks.get_mut(&lock) {
            found.grant_queued(lock);
        }
    }

    /// Releases a row lock that a row range of the holder replaces, unless a
    /// request waits for it. Returns the memory of the holder's lock in bytes if
    /// it was released.
    pub(crate) fn release_to_range(&self, lock: LockId, transaction: TransactionId) -> Option<u64> {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let found = locks.get_mut(&lock)?;
        if found.has_queue() {
            return None;
        }
        let bytes = found.bytes();
        found.remove_holder(transaction);
        Self::remove_if_idle(shard, &mut locks, lock);
        Some(bytes)
    }

    /// The index and key of a lock, unless several rows share it.
    pub(crate) fn name_of(&self, lock: LockId) -> Option<(FileId, LockKey)> {
        let locks = self.shard(lock).locks.lock();
        locks.get(&lock)?.name()
    }

    fn remove_if_idle(shard: &Shard, locks: &mut LockMap, lock: LockId) {
        if locks.get(&lock).is_some_and(Lock::is_idle) {
            if let Some(removed) = locks.remove(&lock) {
                shard.bytes.fetch_sub(removed.bytes(), Ordering::Relaxed);
            }
            shard.count.fetch_sub(1, Ordering::SeqCst);
            if locks.is_empty() && locks.capacity() > 4096 {
                locks.shrink_to(64);
            }
        }
    }

    /// The transactions that block a queued transaction: conflicting holders and
    /// row ranges and, of the transactions ahead of it in the queue for which
    /// `counts` returns true, the last.
    pub(crate) fn blockers(
        &self,
        lock: LockId,
        transaction: TransactionId,
        counts: impl Fn(TransactionId) -> bool,
    ) -> Blockers {
        let locks = self.shard(lock).locks.lock();
        locks.get(&lock).map_or_else(Blockers::default, |found| {
            found.blockers(transaction, counts)
        })
    }

    /// All transactions that a queued transaction may have to wait for: every
    /// holder and every request ahead of it, in any mode, and conflicting row ranges.
    pub(crate) fn ahead_of(&self, lock: LockId, transaction: TransactionId) -> Blockers {
        let locks = self.shard(lock).locks.lock();
        locks
            .get(&lock)
            .map_or_else(Blockers::default, |found| found.ahead_of(transaction))
    }

    /// Whether more rows are locked than the `held` ones of the caller. If it returns false after a
    /// reader has added a range lock, each transaction that locks a row later sees that range lock.
    /// The caller must check row ranges after this call, not before it.
    #[must_use]
    pub fn any_held_by_others(&self, held: usize) -> bool {
        let counts = self.shards.iter().map(|shard| &shard.count);
        let all: u64 = counts.map(|count| count.load(Ordering::SeqCst)).sum();
        all > held as u64
    }

    /// Number of rows that transactions have locked explicitly.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.count.load(Ordering::Relaxed))
            .sum()
    }

    /// Memory of the locks, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.bytes.load(Ordering::Relaxed))
            .sum()
    }

    /// Estimates the memory of all locks in bytes: the memory of `lock`'s shard
    /// times the number of shards.
    pub(crate) fn estimated_bytes(&self, lock: LockId) -> u64 {
        self.shard(lock).bytes.load(Ordering::Relaxed) * SHARDS as u64
    }

    /// Calls `sink` with every lock held. Locks one shard at a time, and none
    /// while `sink` runs.
    pub fn for_each(&self, sink: &mut dyn FnMut(LockReport)) {
        for shard in &self.shards {
            if shard.count.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut copied = Vec::new();
            for lock in shard.locks.lock().values() {
                copied.extend(lock.reports());
            }
            copied.into_iter().for_each(&mut *sink);
        }
    }
}
