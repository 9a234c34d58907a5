//! The wait queue of one index's range locks.
//!
//! Blocked writes and waiting range requests are ordered by tickets:
//! 1. A write that a range lock blocks gets a ticket for its key. It keeps the
//!    ticket until the write is done or cancelled, even while it is awake and
//!    retries. A write that is blocked at several keys has a ticket for each.
//! 2. A range request that would block a write with an earlier ticket waits for that write, unless
//!    a range lock of the requester already blocks the write.
//!
//! So an endless sequence of readers cannot starve a writer, and a reader waits
//! only for writers with earlier tickets.

use crate::handle::TransactionHandle;
use crate::lock_types::{BlockerKind, Blockers, Blocking, RangeLockKind};
use std::sync::Arc;
use teak_base::TransactionId;

/// The order of arrival.
type Ticket = u64;

/// A write that a range lock blocks, or has blocked, and that is not done.
struct BlockedWrite {
    transaction: Arc<TransactionHandle>,
    key: Box<[u8]>,
    is_insert: bool,
    ticket: Ticket,
    /// Whether the transaction sleeps because of this write. If not, it must not be woken.
    sleeps: bool,
}

/// A range request that waits for blocked writes.
struct WaitingRequest {
    transaction: Arc<TransactionHandle>,
    request: RangeRequest,
    ticket: Ticket,
}

/// A requested range lock on `low <= key < high`.
pub(super) struct RangeRequest {
    pub kind: RangeLockKind,
    pub low: Box<[u8]>,
    pub high: Option<Box<[u8]>>,
}

impl RangeRequest {
    /// Whether the range lock would block the write.
    fn blocks(&self, write: &BlockedWrite) -> bool {
        (write.is_insert || self.kind == RangeLockKind::Write)
            && *self.low <= *write.key
            && self.high.as_deref().is_none_or(|high| *write.key < *high)
    }
}

/// The wait queue. The lists are unordered; tickets define the order.
#[derive(Default)]
pub(super) struct RangeQueue {
    writes: Vec<BlockedWrite>,
    requests: Vec<WaitingRequest>,
    issued: Ticket,
}

impl RangeQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.requests.is_empty()
    }

    fn ticket(&mut self) -> Ticket {
        self.issued += 1;
        self.issued
    }

    /// Enqueues a write at a key and prepares the transaction's waker. A write that is already in
    /// the queue keeps its ticket.
    pub(super) fn enqueue_write(
        &mut self,
        key: &[u8],
        is_insert: bool,
        transaction: &Arc<TransactionHandle>,
    ) {
        transaction.waker().prepare_wait();
        let queued = self.writes.iter_mut().find(|write| {
            write.transaction.id() == transaction.id()
                && write.is_insert == is_insert
                && *write.key == *key
        });
        if let Some(write) = queued {
            write.sleeps = true;
            return;
        }
        let ticket = self.ticket();
        self.writes.push(BlockedWrite {
            transaction: Arc::clone(transaction),
            key: key.into(),
            is_insert,
            ticket,
            sleeps: true,
        });
    }

    /// Records that the transaction no longer sleeps for its writes. They keep
    /// their tickets.
    pub(super) fn note_awake(&mut self, transaction: TransactionId) {
        for write in &mut self.writes {
            if write.transaction.id() == transaction {
                write.sleeps = false;
            }
        }
    }

    /// Removes the transaction's writes and wakes the requests that wait for
    /// them.
    pub(super) fn remove_writes(&mut self, transaction: TransactionId) {
        self.writes.retain(|write| {
            if write.transaction.id() != transaction {
                return true;
            }
            for waiting in &self.requests {
                if waiting.request.blocks(write) {
                    waiting.transaction.waker().wake();
                }
            }
            false
        });
    }

    /// Wakes the writes for which `was_blocked` returns true, given the key and
    /// whether the write is an insert.
    pub(super) fn wake_writes(&self, was_blocked: impl Fn(&[u8], bool) -> bool) {
        for write in &self.writes {
            if write.sleeps && was_blocked(&write.key, write.is_insert) {
                write.transaction.waker().wake();
            }
        }
    }

    /// The write for which a transaction sleeps: its key, and whether it is an
    /// insert.
    pub(super) fn sleeping_write(&self, transaction: TransactionId) -> Option<(&[u8], bool)> {
        let mut writes = self.writes.iter();
        let write = writes.find(|write| write.sleeps && write.transaction.id() == transaction)?;
        Some((&write.key, write.is_insert))
    }

    /// Whether the range lock may be granted: every write of another transaction that it would
    /// block has a later ticket, or `blocked_by_own` returns true for it. Otherwise the request is
    /// enqueued and the transaction's waker prepared. A request that is already in the queue keeps
    /// its ticket.
    pub(super) fn admit_request(
        &mut self,
        transaction: &Arc<TransactionHandle>,
        request: RangeRequest,
        blocked_by_own: impl Fn(&[u8], bool) -> bool,
    ) -> bool {
        let id = transaction.id();
        let queued = self
            .requests
            .iter()
            .position(|waiting| waiting.transaction.id() == id);
        let ticket = match queued {
            Some(position) => self.requests.swap_remove(position).ticket,
            None => self.ticket(),
        };
        let waiting = WaitingRequest {
            transaction: Arc::clone(transaction),
            request,
            ticket,
        };
        if self.ahead_of(&waiting, blocked_by_own).next().is_none() {
            return true;
        }
        transaction.waker().prepare_wait();
        self.requests.push(waiting);
        false
    }

    /// Removes the transaction's request.
    pub(super) fn remove_request(&mut self, transaction: TransactionId) {
        self.requests
            .retain(|waiting| waiting.transaction.id() != transaction);
    }

    /// The writers with earlier tickets, for which a transaction's request waits.
    pub(super) fn ahead_of_request(
        &self,
        transaction: TransactionId,
        blocked_by_own: impl Fn(&[u8], bool) -> bool,
    ) -> Blockers {
        let mut requests = self.requests.iter();
        let waiting = requests.find(|waiting| waiting.transaction.id() == transaction);
        waiting.map_or_else(Blockers::default, |waiting| {
            self.ahead_of(waiting, blocked_by_own).collect()
        })
    }

    fn ahead_of<'a>(
        &'a self,
        waiting: &'a WaitingRequest,
        blocked_by_own: impl Fn(&[u8], bool) -> bool + 'a,
    ) -> impl Iterator<Item = Blocking> + 'a {
        let me = waiting.transaction.id();
        let writes = self.writes.iter().filter(move |write| {
            write.transaction.id() != me
                && write.ticket < waiting.ticket
                && waiting.request.blocks(write)
                && !blocked_by_own(&write.key, write.is_insert)
        });
        writes.map(|write| Blocking {
            transaction: write.transaction.id(),
            kind: BlockerKind::WaitingWrite,
        })
    }
}
