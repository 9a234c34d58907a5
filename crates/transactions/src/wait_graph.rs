//! The waits-for graph, and how deadlocks are resolved.
//!
//! The graph stores only the target of each wait. The transactions that block it
//! are read from the lock tables and the id table when a wait begins, so an edge
//! is never stale. A wait begins as follows:
//! 1. Add the wait to the graph.
//! 2. Search for a cycle through the new wait. All members of a cycle wait, so the last one to
//!    begin its wait finds the cycle.
//! 3. In a cycle, abort the member that is cheapest to roll back: lowest weight,
//!    then fewest rows written, then fewest row locks, then the requester, then
//!    the youngest.
//! 4. If the victim is the requester, stop: its wait fails. Otherwise wake the
//!    victim with the error and continue with step 2, because one wait may close
//!    several cycles.
//!
//! Lock order: the graph, then a shard of row locks or the range locks of an
//! index, then a transaction's waker.

use crate::handle::TransactionHandle;
use crate::lock_id::LockId;
use crate::lock_types::{BlockerKind, Blockers, Blocking};
use crate::range_locks::RangeLocks;
use crate::report::{DeadlockMember, DeadlockReport, LockRequest, Participant};
use crate::row_locks::RowLocks;
use crate::sync::Mutex;
use crate::write_ids::WriteIdTable;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use teak_base::{TransactionId, WriteId};

/// The object that a transaction waits for.
#[derive(Clone, Debug)]
pub(crate) enum WaitTarget {
    /// The end of a write.
    Write(WriteId),
    /// A row lock.
    Row(LockId),
    /// The range locks of an index. The waiter is a blocked write or a request for a range lock.
    Range(Arc<RangeLocks>),
}

#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub handle: Arc<TransactionHandle>,
    pub target: WaitTarget,
    pub request: LockRequest,
    pub since: Instant,
}

impl Wait {
    /// A wait that begins now.
    pub(crate) fn new(
        handle: &Arc<TransactionHandle>,
        target: WaitTarget,
        request: LockRequest,
    ) -> Self {
        Self {
            handle: Arc::clone(handle),
            target,
            request,
            since: Instant::now(),
        }
    }

    /// The transactions that block it at this moment.
    pub(crate) fn blockers(&self, locks: &RowLocks, ids: &WriteIdTable) -> Blockers {
        self.blockers_that_count(locks, ids, |_| true)
    }

    /// Like [`Wait::blockers`]. Of the transactions ahead in the queue of a row lock, includes only
    /// the last for which `counts` returns true.
    fn blockers_that_count(
        &self,
        locks: &RowLocks,
        ids: &WriteIdTable,
        counts: impl Fn(TransactionId) -> bool,
    ) -> Blockers {
        match &self.target {
            WaitTarget::Write(id) => {
                let writer = ids.active_owner(*id).into_iter();
                let kind = BlockerKind::Written;
                writer
                    .map(|transaction| Blocking { transaction, kind })
                    .collect()
            }
            WaitTarget::Row(lock) => locks.blockers(*lock, self.handle.id(), counts),
            WaitTarget::Range(ranges) => ranges.blockers(self.handle.id()),
        }
    }

    fn member(&self, blocked_by: BlockerKind) -> DeadlockMember {
        DeadlockMember {
            participant: Participant {
                transaction: self.handle.id(),
                thread: self.handle.thread(),
            },
            request: self.request.clone(),
            blocked_by,
            waited: self.since.elapsed(),
            rows_written: self.handle.rows_written(),
            row_locks: self.handle.row_locks(),
        }
    }
}

/// The cost of aborting a member of a cycle; the minimum is the victim.
fn abort_cost(
    transaction: &TransactionHandle,
    requester: TransactionId,
) -> (u32, u64, u64, bool, Reverse<TransactionId>) {
    (
        transaction.weight(),
        transaction.rows_written(),
        transaction.row_locks(),
        transaction.id() != requester,
        Reverse(transaction.id()),
    )
}

type Waits = HashMap<TransactionId, Wait>;

/// The current waits, by transaction.
#[derive(Default)]
pub(crate) struct WaitGraph {
    waits: Mutex<Waits>,
}

impl WaitGraph {
    /// Adds a wait and resolves the deadlocks that it causes. Returns a report of each deadlock. If
    /// the requester is the victim of the last one, its wait is not in the graph afterwards.
    pub(crate) fn begin(
        &self,
        wait: Wait,
        locks: &RowLocks,
        ids: &WriteIdTable,
    ) -> Vec<DeadlockReport> {
        let me = wait.handle.id();
        let mut reports = Vec::new();
        let mut waits = self.waits.lock();
        waits.insert(me, wait);
        while let Some(cycle) = cycle_through(me, &waits, locks, ids) {
            let members = cycle
                .iter()
                .filter_map(|edge| Some((waits.get(&edge.waiter)?, edge.blocked_by)));
            let victim = members
                .clone()
                .min_by_key(|(member, _)| abort_cost(&member.handle, me))
                .map_or(me, |(member, _)| member.handle.id());
            reports.push(DeadlockReport {
                at: SystemTime::now(),
                members: members
                    .map(|(member, blocked_by)| member.member(blocked_by))
                    .collect(),
                victim,
            });
            let failed = waits.remove(&victim);
            if victim == me {
                break;
            }
            if let Some(failed) = failed {
                failed.handle.waker().abort_as_victim();
            }
        }
        reports
    }

    pub(crate) fn end(&self, transaction: TransactionId) {
        self.waits.lock().remove(&transaction);
    }

    /// A copy of the current waits.
    pub(crate) fn list(&self) -> Vec<Wait> {
        self.waits.lock().values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.waits.lock().len()
    }
}

/// An edge of the graph: a transaction that waits, and how it is blocked.
#[derive(Clone, Copy)]
struct Edge {
    waiter: TransactionId,
    blocked_by: BlockerKind,
}

/// A cycle through `start`: each member waits for the next.
fn cycle_through(
    start: TransactionId,
    waits: &Waits,
    locks: &RowLocks,
    ids: &WriteIdTable,
) -> Option<Vec<Edge>> {
    let mut reached_by: HashMap<TransactionId, Edge> = HashMap::new();
    let mut next: SmallVec<[TransactionId; 8]> = SmallVec::new();
    next.push(start);
    while let Some(waiter) = next.pop() {
        let Some(wait) = waits.get(&waiter) else {
            continue;
        };
        // Ignores transactions that are in the queue but not in the graph. Such a transaction
        // either leaves the queue (as the victim of another cycle, or because its wait failed), or
        // is about to begin its wait, and will then search for cycles.
        let counts = |id| waits.contains_key(&id);
        for blocking in wait.blockers_that_count(locks, ids, counts).iter() {
            let blocker = blocking.transaction;
            let mut edge = Edge {
                waiter,
                blocked_by: blocking.kind,
            };
            if blocker == start {
                let mut cycle = vec![edge];
                while edge.waiter != start {
                    let Some(before) = reached_by.get(&edge.waiter) else {
                        break;
                    };
                    edge = *before;
                    cycle.push(edge);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if let Entry::Vacant(unseen) = reached_by.entry(blocker) {
                unseen.insert(edge);
                next.push(blocker);
            }
        }
    }
    None
}
