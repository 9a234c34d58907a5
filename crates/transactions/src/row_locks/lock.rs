//! One row lock: its holders and its wait queue.

use crate::handle::TransactionHandle;
use crate::lock_id::LockId;
use crate::lock_types::{BlockerKind, Blockers, HeldLock, LockMode};
use crate::range_locks::RangeLocks;
use crate::report::{LockExtent, LockReport};
use crate::row_name::RowName;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use teak_base::{FileId, TransactionId};

/// Key bytes stored inside a lock; longer keys are allocated.
const KEY_BYTES_INLINE: usize = 24;

pub(crate) type LockKey = SmallVec<[u8; KEY_BYTES_INLINE]>;

/// Memory of one lock without a long key, in bytes: the bucket of the lock table
/// and the holder's entry, in hash tables that are two thirds full.
pub(crate) const LOCK_BYTES: u64 =
    ((size_of::<(LockId, Lock)>() + size_of::<(LockId, HeldLock)>() + 2) * 3 / 2) as u64;

/// Memory of one lock, in bytes.
pub(crate) fn lock_bytes(key: &[u8]) -> u64 {
    let allocated = if key.len() > KEY_BYTES_INLINE {
        key.len() as u64
    } else {
        0
    };
    LOCK_BYTES + allocated
}

struct QueuedRequest {
    transaction: Arc<TransactionHandle>,
    mode: LockMode,
    index: Arc<RangeLocks>,
    key: Box<[u8]>,
}

pub(super) struct Lock {
    file: FileId,
    key: LockKey,
    /// Whether rows with the same hash share the lock.
    ambiguous: bool,
    holders: SmallVec<[(TransactionId, LockMode); 1]>,
    queue: VecDeque<QueuedRequest>,
}

impl Lock {
    pub(super) fn new(row: &RowName<'_>) -> Self {
        Self {
            file: row.index.file(),
            key: SmallVec::from_slice(row.key),
            ambiguous: false,
            holders: SmallVec::new(),
            queue: VecDeque::new(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        lock_bytes(&self.key)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Detects rows with the same hash.
    pub(super) fn check_name(&mut self, row: &RowName<'_>) {
        if self.file != row.index.file() || *self.key != *row.key {
            self.ambiguous = true;
        }
    }

    /// The index and key, unless several rows share the lock.
    pub(super) fn name(&self) -> Option<(FileId, LockKey)> {
        (!self.ambiguous).then(|| (self.file, self.key.clone()))
    }

    pub(super) fn is_held_by(&self, transaction: TransactionId) -> bool {
        self.holders
            .iter()
            .any(|(holder, _)| *holder == transaction)
    }

    /// Whether another holder conflicts with the request.
    pub(super) fn blocks(&self, transaction: TransactionId, mode: LockMode) -> bool {
        self.holders
            .iter()
            .any(|(holder, held)| *holder != transaction && held.conflicts(mode))
    }

    pub(super) fn grant(&mut self, transaction: TransactionId, mode: LockMode) {
        match self
            .holders
            .iter_mut()
            .find(|(holder, _)| *holder == transaction)
        {
            Some((_, held)) => *held = (*held).max(mode),
            None => self.holders.push((transaction, mode)),
        }
    }

    pub(super) fn remove_holder(&mut self, transaction: TransactionId) {
        self.holders.retain(|(holder, _)| *holder != transaction);
    }

    /// Enqueues a request and prepares the transaction's waker. The request of a transaction that
    /// holds the lock, or a row range that contains the row, is put at the front (`is_upgrade`),
    /// because that transaction blocks the other requests.
    pub(super) fn enqueue(
        &mut self,
        row: &RowName<'_>,
        transaction: &Arc<TransactionHandle>,
        mode: LockMode,
        is_upgrade: bool,
    ) {
        transaction.waker().prepare_wait();
        let request = QueuedRequest {
            transaction: Arc::clone(transaction),
            mode,
            index: Arc::clone(row.index),
            key: row.key.into(),
        };
        if is_upgrade {
            self.queue.push_front(request);
        } else {
            self.queue.push_back(request);
        }
    }

    /// Removes the transaction's request. Returns false if it was not in the queue.
    pub(super) fn dequeue(&mut self, transaction: TransactionId) -> bool {
        let before = self.queue.len();
        self.queue
            .retain(|request| request.transaction.id() != transaction);
        self.queue.len() < before
    }

    /// Grants requests from the front of the queue until one conflicts.
    pub(super) fn grant_queued(&mut self, lock: LockId) {
        while let Some(front) = self.queue.front() {
            let id = front.transaction.id();
            if self.blocks(id, front.mode)
                || front.index.blocks_queued(&front.key, id, front.mode, lock)
            {
                return;
            }
            let Some(request) = self.queue.pop_front() else {
                return;
            };
            self.grant(id, request.mode);
            request.transaction.waker().wake();
        }
    }

    /// The transactions that block a queued transaction: conflicting holders and
    /// row ranges and, of the transactions ahead of it for which `counts` returns
    /// true, the last (which in turn waits for those ahead of it).
    pub(super) fn blockers(
        &self,
        transaction: TransactionId,
        counts: impl Fn(TransactionId) -> bool,
    ) -> Blockers {
        let mut blockers = Blockers::default();
        let mut queue = self.queue.iter();
        let Some(position) = queue.position(|request| request.transaction.id() == transaction)
        else {
            return blockers;
        };
        let Some(request) = self.queue.get(position) else {
            return blockers;
        };
        for (holder, held) in &self.holders {
            if *holder != transaction && held.conflicts(request.mode) {
                blockers.add(*holder, BlockerKind::Row);
            }
        }
        request
            .index
            .add_row_blockers(&request.key, transaction, request.mode, &mut blockers);
        let ahead = self.queue.iter().take(position).rev();
        let mut ahead = ahead.map(|request| request.transaction.id());
        if let Some(nearest) = ahead.find(|id| counts(*id)) {
            blockers.add(nearest, BlockerKind::Row);
        }
        blockers
    }

    /// All transactions that a queued transaction may have to wait for: every
    /// holder and every request ahead of it, in any mode, and conflicting row ranges.
    pub(super) fn ahead_of(&self, transaction: TransactionId) -> Blockers {
        let holders = self.holders.iter().map(|(holder, _)| *holder);
        let queue = self.queue.iter().map(|request| request.transaction.id());
        let others = holders.chain(queue.take_while(|id| *id != transaction));
        let mut ahead = Blockers::default();
        for other in others.filter(|id| *id != transaction) {
            ahead.add(other, BlockerKind::Row);
        }
        let mut queue = self.queue.iter();
        if let Some(own) = queue.find(|request| request.transaction.id() == transaction) {
            own.index
                .add_row_blockers(&own.key, transaction, own.mode, &mut ahead);
        }
        ahead
    }

    /// A report for each holder.
    pub(super) fn reports(&self) -> impl Iterator<Item = LockReport> {
        self.holders.iter().map(|(holder, mode)| {
            let key = (!self.ambiguous).then(|| self.key.as_slice().into());
            LockReport {
                transaction: *holder,
                file: self.file,
                extent: LockExtent::Row(key),
                mode: *mode,
            }
        })
    }
}
