//! Explicit row locks: rows that a transaction has read for writing but not
//! written yet. A written row needs none: its newest version says who owns it.
//!
//! The table is sharded by lock id. A request that conflicts with a holder, or
//! that finds others waiting, queues; whoever releases hands the lock over, so
//! the order is first come, first served, and nobody polls. An upgrade from
//! shared to exclusive goes to the front, because its holder blocks the rest.
//!
//! Lock order: a latch, then the wait graph, then one shard, then a
//! transaction's bell.

use crate::hash::{LockId, PassBuild};
use crate::transaction::{TransactionId, TransactionShared};
use crate::wait_reports::Blockers;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 64;

/// Bytes that one lock costs: the table's bucket and the holder's entry.
pub(crate) const LOCK_BYTES: u64 = 128;

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Others may read for sharing; nobody writes.
    Shared,
    /// Nobody else locks or writes.
    Exclusive,
}

impl LockMode {
    fn conflicts(self, other: LockMode) -> bool {
        self == LockMode::Exclusive || other == LockMode::Exclusive
    }
}

struct Request {
    transaction: Arc<TransactionShared>,
    mode: LockMode,
}

#[derive(Default)]
struct Lock {
    holders: SmallVec<[(TransactionId, LockMode); 2]>,
    queue: VecDeque<Request>,
}

impl Lock {
    fn blocked(&self, transaction: TransactionId, mode: LockMode) -> bool {
        self.holders
            .iter()
            .any(|(holder, held)| *holder != transaction && held.conflicts(mode))
    }

    fn grant(&mut self, transaction: TransactionId, mode: LockMode) {
        match self
            .holders
            .iter_mut()
            .find(|(holder, _)| *holder == transaction)
        {
            Some((_, held)) => *held = (*held).max(mode),
            None => self.holders.push((transaction, mode)),
        }
    }

    /// Grants from the front while nothing conflicts.
    fn hand_over(&mut self) {
        while let Some(front) = self.queue.front() {
            if self.blocked(front.transaction.id(), front.mode) {
                return;
            }
            let Some(request) = self.queue.pop_front() else {
                return;
            };
            self.grant(request.transaction.id(), request.mode);
            request.transaction.ring();
        }
    }
}

type LockMap = HashMap<LockId, Lock, PassBuild>;

#[repr(align(64))]
#[derive(Default)]
struct Shard {
    /// Locks in the map. A writer that reads zero under the row's latch need
    /// not look: requests for that row are made under the same latch.
    count: AtomicU64,
    locks: Mutex<LockMap>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    Granted,
    Queued,
}

/// The lock table of one engine.
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
        let place = usize::try_from(lock.0 >> 48).unwrap_or(0) % SHARDS;
        match self.shards.get(place).or_else(|| self.shards.first()) {
            Some(shard) => shard,
            None => unreachable!("the table has shards"),
        }
    }

    /// Whether another transaction holds, or waits first for, a conflicting
    /// lock. Call under the row's latch.
    #[must_use]
    pub fn conflicts(&self, lock: LockId, transaction: TransactionId, mode: LockMode) -> bool {
        let shard = self.shard(lock);
        if shard.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let locks = shard.locks.lock();
        locks
            .get(&lock)
            .is_some_and(|found| found.blocked(transaction, mode))
    }

    /// Grants at once or queues the transaction, whose bell is armed first.
    pub(crate) fn request(
        &self,
        lock: LockId,
        transaction: &Arc<TransactionShared>,
        mode: LockMode,
    ) -> Requested {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let found = locks.entry(lock).or_insert_with(|| {
            shard.count.fetch_add(1, Ordering::SeqCst);
            Lock::default()
        });
        let holds = found
            .holders
            .iter()
            .any(|(holder, _)| *holder == transaction.id());
        if !found.blocked(transaction.id(), mode) && (holds || found.queue.is_empty()) {
            found.grant(transaction.id(), mode);
            return Requested::Granted;
        }
        transaction.arm();
        let request = Request {
            transaction: Arc::clone(transaction),
            mode,
        };
        if holds {
            found.queue.push_front(request);
        } else {
            found.queue.push_back(request);
        }
        Requested::Queued
    }

    /// Takes a request back. `false` when it has been granted meanwhile.
    pub(crate) fn withdraw(&self, lock: LockId, transaction: TransactionId) -> bool {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let Some(found) = locks.get_mut(&lock) else {
            return false;
        };
        let before = found.queue.len();
        found
            .queue
            .retain(|request| request.transaction.id() != transaction);
        let withdrawn = found.queue.len() < before;
        found.hand_over();
        Self::sweep(shard, &mut locks, lock);
        withdrawn
    }

    /// Releases a holder and hands the lock over.
    pub(crate) fn release(&self, lock: LockId, transaction: TransactionId) {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        if let Some(found) = locks.get_mut(&lock) {
            found.holders.retain(|(holder, _)| *holder != transaction);
            found.hand_over();
        }
        Self::sweep(shard, &mut locks, lock);
    }

    fn sweep(shard: &Shard, locks: &mut LockMap, lock: LockId) {
        let idle = locks
            .get(&lock)
            .is_some_and(|found| found.holders.is_empty() && found.queue.is_empty());
        if idle {
            locks.remove(&lock);
            shard.count.fetch_sub(1, Ordering::Release);
            if locks.is_empty() && locks.capacity() > 4096 {
                locks.shrink_to(64);
            }
        }
    }

    /// Whom a queued transaction waits for: conflicting holders, and the
    /// request just ahead of it (which in turn waits for the one ahead).
    pub(crate) fn blockers(
        &self,
        lock: LockId,
        transaction: TransactionId,
    ) -> SmallVec<[TransactionId; 4]> {
        let mut blockers = SmallVec::new();
        let locks = self.shard(lock).locks.lock();
        let Some(found) = locks.get(&lock) else {
            return blockers;
        };
        let Some(place) = found
            .queue
            .iter()
            .position(|request| request.transaction.id() == transaction)
        else {
            return blockers;
        };
        let mode = found
            .queue
            .get(place)
            .map_or(LockMode::Exclusive, |request| request.mode);
        for (holder, held) in &found.holders {
            if *holder != transaction && held.conflicts(mode) {
                blockers.push(*holder);
            }
        }
        if let Some(ahead) = place
            .checked_sub(1)
            .and_then(|place| found.queue.get(place))
        {
            blockers.push(ahead.transaction.id());
        }
        blockers
    }

    /// Everyone whom a queued transaction may come to wait for: all holders, and
    /// all requests ahead of it, whatever their modes.
    pub(crate) fn ahead_of(&self, lock: LockId, transaction: TransactionId) -> Blockers {
        let locks = self.shard(lock).locks.lock();
        let Some(found) = locks.get(&lock) else {
            return Blockers::new();
        };
        let holders = found.holders.iter().map(|(holder, _)| *holder);
        let queue = found.queue.iter().map(|request| request.transaction.id());
        holders
            .chain(queue.take_while(|id| *id != transaction))
            .filter(|id| *id != transaction)
            .collect()
    }

    /// Whether somebody holds a lock besides one who holds `held`. Who marks a
    /// range and asks then knows that whoever locks a row later sees the mark.
    #[must_use]
    pub fn any_beside(&self, held: usize) -> bool {
        let counts = self.shards.iter().map(|shard| &shard.count);
        let all: u64 = counts.map(|count| count.load(Ordering::SeqCst)).sum();
        all > held as u64
    }

    /// Rows locked explicitly, by anyone.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.count.load(Ordering::Relaxed))
            .sum()
    }

    /// Bytes the locks take.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.count() * LOCK_BYTES
    }
}
