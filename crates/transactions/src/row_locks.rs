//! Explicit row locks: rows that a transaction has read for writing but not
//! written yet. A written row needs none: its newest version says who owns it.
//!
//! The table is sharded by lock id. A request that conflicts with a holder, or
//! that finds others waiting, queues; whoever releases hands the lock over, so
//! the order is first come, first served, and nobody polls. An upgrade from
//! shared to exclusive goes to the front, because its holder blocks the rest.
//!
//! A transaction that holds very many may have given them up for one range of
//! their index (see `range_locks`). Whoever asks for a row looks there too,
//! within the row's shard; the range comes before its rows' locks go, so one
//! of the two is always seen.
//!
//! Lock order: a latch, then the wait graph, then one shard, then an index's
//! ranges, then a transaction's bell.

use crate::hash::{LockId, PassBuild};
use crate::range_locks::RangeLocks;
use crate::report::{LockExtent, LockReport};
use crate::shared::TransactionHandle;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transaction::HeldLock;
use crate::wait_listener::Blockers;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use teak_base::FileId;
use teak_base::TransactionId;

const SHARDS: usize = 64;

/// Key bytes kept within a lock.
const KEY_BYTES_INLINE: usize = 24;

/// Bytes that one lock costs besides a long key: the table's bucket and the
/// holder's entry, in hash tables that are two thirds full.
pub(crate) const LOCK_BYTES: u64 =
    ((size_of::<(LockId, Lock)>() + size_of::<(LockId, HeldLock)>() + 2) * 3 / 2) as u64;

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Others may read for sharing; nobody writes.
    Shared,
    /// Nobody else locks or writes.
    Exclusive,
}

impl LockMode {
    pub(crate) fn conflicts(self, other: LockMode) -> bool {
        self == LockMode::Exclusive || other == LockMode::Exclusive
    }
}

/// A row as locks know it.
#[derive(Clone, Copy, Debug)]
pub struct RowName<'a> {
    /// Its lock.
    pub lock: LockId,
    /// The ranges of its index.
    pub index: &'a Arc<RangeLocks>,
    /// Its key.
    pub key: &'a [u8],
}

impl<'a> RowName<'a> {
    /// The row of `key` in an index.
    #[must_use]
    pub fn new(index: &'a Arc<RangeLocks>, key: &'a [u8]) -> Self {
        Self {
            lock: LockId::new(index.file(), key),
            index,
            key,
        }
    }

    /// Bytes that a lock of it costs.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_with(self.key.len())
    }
}

fn bytes_with(key_bytes: usize) -> u64 {
    let apart = if key_bytes > KEY_BYTES_INLINE {
        key_bytes as u64
    } else {
        0
    };
    LOCK_BYTES + apart
}

struct Request {
    transaction: Arc<TransactionHandle>,
    mode: LockMode,
    index: Arc<RangeLocks>,
    key: Box<[u8]>,
}

struct Lock {
    file: FileId,
    key: SmallVec<[u8; KEY_BYTES_INLINE]>,
    /// Rows of other names have the same hash.
    ambiguous: bool,
    holders: SmallVec<[(TransactionId, LockMode); 1]>,
    queue: VecDeque<Request>,
}

impl Lock {
    fn new(row: &RowName<'_>) -> Self {
        Self {
            file: row.index.file(),
            key: SmallVec::from_slice(row.key),
            ambiguous: false,
            holders: SmallVec::new(),
            queue: VecDeque::new(),
        }
    }

    fn bytes(&self) -> u64 {
        bytes_with(self.key.len())
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    fn is_held_by(&self, transaction: TransactionId) -> bool {
        self.holders
            .iter()
            .any(|(holder, _)| *holder == transaction)
    }

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
    fn hand_over(&mut self, lock: LockId) {
        while let Some(front) = self.queue.front() {
            let id = front.transaction.id();
            if self.blocked(id, front.mode)
                || front.index.stops_queued(&front.key, id, front.mode, lock)
            {
                return;
            }
            let Some(request) = self.queue.pop_front() else {
                return;
            };
            self.grant(id, request.mode);
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
    bytes: AtomicU64,
    locks: Mutex<LockMap>,
}

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub mode: LockMode,
    /// A range of the transaction's own holds the row: nothing is noted unless
    /// it must wait for an older lock of another.
    pub covered: bool,
    /// Whether to queue when it is not granted.
    pub queues: bool,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    Granted,
    /// The transaction's own range says it all.
    Covered,
    Queued,
    Refused,
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

    /// Whether another transaction holds a conflicting lock of the row, or of a
    /// range with the row. Call under the row's latch.
    #[must_use]
    pub fn conflicts(&self, row: RowName<'_>, transaction: TransactionId, mode: LockMode) -> bool {
        // Ranges behind the look at the rows: see the top of the file.
        self.row_conflicts(row.lock, transaction, mode)
            || row.index.blocks_row(row.key, transaction, mode)
    }

    /// The same without ranges. Those do not stop whoever had locked the row
    /// exclusively, or written it, before they came.
    #[must_use]
    pub fn row_conflicts(&self, lock: LockId, transaction: TransactionId, mode: LockMode) -> bool {
        let shard = self.shard(lock);
        if shard.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let locks = shard.locks.lock();
        locks
            .get(&lock)
            .is_some_and(|found| found.blocked(transaction, mode))
    }

    /// Grants at once or, if wished, queues the transaction, whose bell is armed
    /// first.
    pub(crate) fn request(
        &self,
        row: RowName<'_>,
        transaction: &Arc<TransactionHandle>,
        asked: Asked,
    ) -> Requested {
        let shard = self.shard(row.lock);
        let me = transaction.id();
        let mut locks = shard.locks.lock();
        if asked.covered && !locks.contains_key(&row.lock) {
            return Requested::Covered;
        }
        let found = locks.entry(row.lock).or_insert_with(|| {
            shard.count.fetch_add(1, Ordering::SeqCst);
            shard.bytes.fetch_add(row.bytes(), Ordering::Relaxed);
            Lock::new(&row)
        });
        if found.file != row.index.file() || *found.key != *row.key {
            found.ambiguous = true;
        }
        let is_holder = found.is_held_by(me);
        let holds = is_holder || asked.covered;
        let in_line = !found.blocked(me, asked.mode) && (holds || found.queue.is_empty());
        if in_line && !row.index.blocks_row(row.key, me, asked.mode) {
            if asked.covered && !is_holder {
                Self::sweep(shard, &mut locks, row.lock);
                return Requested::Covered;
            }
            found.grant(me, asked.mode);
            return Requested::Granted;
        }
        if !asked.queues {
            Self::sweep(shard, &mut locks, row.lock);
            return Requested::Refused;
        }
        transaction.arm();
        let request = Request {
            transaction: Arc::clone(transaction),
            mode: asked.mode,
            index: Arc::clone(row.index),
            key: row.key.into(),
        };
        if holds {
            found.queue.push_front(request);
        } else {
            found.queue.push_back(request);
        }
        // Lists the lock with the range that stops it, or grants after all.
        found.hand_over(row.lock);
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
        found.hand_over(lock);
        Self::sweep(shard, &mut locks, lock);
        withdrawn
    }

    /// Releases a holder and hands the lock over. Returns the bytes that the
    /// holder had for it.
    pub(crate) fn release(&self, lock: LockId, transaction: TransactionId) -> u64 {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let mut bytes = 0;
        if let Some(found) = locks.get_mut(&lock) {
            bytes = found.bytes();
            found.holders.retain(|(holder, _)| *holder != transaction);
            found.hand_over(lock);
        }
        Self::sweep(shard, &mut locks, lock);
        bytes
    }

    /// A range that stopped the lock's queue has gone: goes on with the queue.
    pub(crate) fn pass_on(&self, lock: LockId) {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        if let Some(found) = locks.get_mut(&lock) {
            found.hand_over(lock);
        }
    }

    /// Releases a row that a range of the holder's own holds now, unless
    /// somebody waits for it. The bytes that the holder had for it, if so.
    pub(crate) fn give_up_to_range(&self, lock: LockId, transaction: TransactionId) -> Option<u64> {
        let shard = self.shard(lock);
        let mut locks = shard.locks.lock();
        let found = locks.get_mut(&lock)?;
        if !found.queue.is_empty() {
            return None;
        }
        let bytes = found.bytes();
        found.holders.retain(|(holder, _)| *holder != transaction);
        Self::sweep(shard, &mut locks, lock);
        Some(bytes)
    }

    /// The index and key of a lock, if they are certain.
    pub(crate) fn name_of(&self, lock: LockId) -> Option<(FileId, SmallVec<[u8; 24]>)> {
        let locks = self.shard(lock).locks.lock();
        let found = locks.get(&lock)?;
        (!found.ambiguous).then(|| (found.file, found.key.clone()))
    }

    fn sweep(shard: &Shard, locks: &mut LockMap, lock: LockId) {
        if locks.get(&lock).is_some_and(Lock::is_idle) {
            if let Some(gone) = locks.remove(&lock) {
                shard.bytes.fetch_sub(gone.bytes(), Ordering::Relaxed);
            }
            shard.count.fetch_sub(1, Ordering::SeqCst);
            if locks.is_empty() && locks.capacity() > 4096 {
                locks.shrink_to(64);
            }
        }
    }

    /// Whom a queued transaction waits for: conflicting holders, and the next
    /// ahead of it that `counts` (which in turn waits for those ahead of it).
    pub(crate) fn blockers(
        &self,
        lock: LockId,
        transaction: TransactionId,
        counts: impl Fn(TransactionId) -> bool,
    ) -> Blockers {
        let mut blockers = Blockers::new();
        let locks = self.shard(lock).locks.lock();
        let Some(found) = locks.get(&lock) else {
            return blockers;
        };
        let mut queue = found.queue.iter();
        let Some(place) = queue.position(|request| request.transaction.id() == transaction) else {
            return blockers;
        };
        let Some(request) = found.queue.get(place) else {
            return blockers;
        };
        for (holder, held) in &found.holders {
            if *holder != transaction && held.conflicts(request.mode) {
                blockers.push(*holder);
            }
        }
        request
            .index
            .add_row_stoppers(&request.key, transaction, request.mode, &mut blockers);
        let ahead = found.queue.iter().take(place).rev();
        let mut ahead = ahead.map(|request| request.transaction.id());
        blockers.extend(ahead.find(|id| counts(*id)));
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
        let mut ahead: Blockers = holders
            .chain(queue.take_while(|id| *id != transaction))
            .filter(|id| *id != transaction)
            .collect();
        let mut queue = found.queue.iter();
        if let Some(own) = queue.find(|request| request.transaction.id() == transaction) {
            own.index
                .add_row_stoppers(&own.key, transaction, own.mode, &mut ahead);
        }
        ahead
    }

    /// Whether somebody holds a lock besides one who holds `held`. Who marks a
    /// range and asks then knows that whoever locks a row later sees the mark.
    /// Ranges in place of rows are to be asked for after this.
    #[must_use]
    pub fn any_held_by_others(&self, held: usize) -> bool {
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
        self.shards
            .iter()
            .map(|shard| shard.bytes.load(Ordering::Relaxed))
            .sum()
    }

    /// About the bytes that all locks take, judged by the shard of one.
    pub(crate) fn guessed_bytes(&self, lock: LockId) -> u64 {
        self.shard(lock).bytes.load(Ordering::Relaxed) * SHARDS as u64
    }

    /// Gives every lock held to `sink`; only one shard is locked at a time, and
    /// none while the sink works.
    pub fn for_each(&self, sink: &mut dyn FnMut(LockReport)) {
        for shard in &self.shards {
            if shard.count.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut copied = Vec::new();
            for lock in shard.locks.lock().values() {
                for (holder, mode) in &lock.holders {
                    let key = (!lock.ambiguous).then(|| lock.key.as_slice().into());
                    copied.push(LockReport {
                        transaction: *holder,
                        file: lock.file,
                        extent: LockExtent::Row(key),
                        mode: *mode,
                    });
                }
            }
            copied.into_iter().for_each(&mut *sink);
        }
    }
}
