//! Who waits for whom, and what is done when the answer is a circle.
//!
//! The graph keeps only what each transaction waits for; who blocks it is asked
//! of the lock table and the id table when a wait begins, so an edge is never
//! stale. A circle needs all its members to wait, and the last to begin finds
//! it. Of its members the cheapest to undo fails: of the least weight, then with
//! the fewest rows written, then with the fewest locks, then the one that asks,
//! then the youngest. When that is not the one that asks, it is woken with the
//! error, and the search goes on, for one wait may close several circles.
//!
//! Lock order: the graph, then a shard of row locks or an index's ranges, then
//! a transaction's bell.

use crate::hash::LockId;
use crate::range_locks::RangeLocks;
use crate::report::{DeadlockMember, DeadlockReport, LockRequest, Party};
use crate::row_locks::RowLocks;
use crate::shared::TransactionHandle;
use crate::sync::Mutex;
use crate::wait_listener::Blockers;
use crate::write_ids::WriteIdTable;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use teak_base::TransactionId;
use teak_base::WriteId;

/// What a transaction waits for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Write(WriteId),
    Lock(LockId),
    Range(Arc<RangeLocks>),
}

/// One wait.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub shared: Arc<TransactionHandle>,
    pub target: Target,
    pub request: LockRequest,
    pub since: Instant,
}

impl Waiting {
    /// A wait that begins now.
    pub(crate) fn new(
        shared: &Arc<TransactionHandle>,
        target: Target,
        request: LockRequest,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            target,
            request,
            since: Instant::now(),
        }
    }

    /// Whom it waits for at this moment.
    pub(crate) fn blockers(&self, locks: &RowLocks, ids: &WriteIdTable) -> Blockers {
        self.blockers_but(locks, ids, |_| true)
    }

    /// The same. Of a queue, the one ahead is the first for whom `counts` holds.
    fn blockers_but(
        &self,
        locks: &RowLocks,
        ids: &WriteIdTable,
        counts: impl Fn(TransactionId) -> bool,
    ) -> Blockers {
        match &self.target {
            Target::Write(id) => ids.active_owner(*id).into_iter().collect(),
            Target::Lock(lock) => locks.blockers(*lock, self.shared.id(), counts),
            Target::Range(ranges) => ranges.blockers(self.shared.id()),
        }
    }

    fn member(&self) -> DeadlockMember {
        DeadlockMember {
            party: Party {
                transaction: self.shared.id(),
                thread: self.shared.thread(),
            },
            request: self.request.clone(),
            waited: self.since.elapsed(),
            rows_written: self.shared.rows_written(),
            row_locks: self.shared.row_locks(),
        }
    }
}

/// What fails first when a circle must be broken that `closing` has closed.
fn cost(
    transaction: &TransactionHandle,
    closing: TransactionId,
) -> (u32, u64, u64, bool, Reverse<TransactionId>) {
    (
        transaction.weight(),
        transaction.rows_written(),
        transaction.row_locks(),
        transaction.id() != closing,
        Reverse(transaction.id()),
    )
}

type Waits = HashMap<TransactionId, Waiting>;

/// Who waits for what.
#[derive(Default)]
pub(crate) struct WaitGraph {
    waiting: Mutex<Waits>,
}

impl WaitGraph {
    /// Notes the wait, and breaks the circles that it closes. The reports of
    /// those; the wait is not noted when the transaction is a victim itself,
    /// which is the last report's then.
    pub(crate) fn begin(
        &self,
        wait: Waiting,
        locks: &RowLocks,
        ids: &WriteIdTable,
    ) -> Vec<DeadlockReport> {
        let me = wait.shared.id();
        let mut reports = Vec::new();
        let mut waiting = self.waiting.lock();
        waiting.insert(me, wait);
        while let Some(circle) = circle_through(me, &waiting, locks, ids) {
            let members = circle.iter().filter_map(|id| waiting.get(id));
            let victim = members
                .clone()
                .min_by_key(|member| cost(&member.shared, me))
                .map_or(me, |member| member.shared.id());
            reports.push(DeadlockReport {
                at: SystemTime::now(),
                members: members.map(Waiting::member).collect(),
                victim,
            });
            let failed = waiting.remove(&victim);
            if victim == me {
                break;
            }
            if let Some(failed) = failed {
                failed.shared.doom();
            }
        }
        reports
    }

    pub(crate) fn end(&self, transaction: TransactionId) {
        self.waiting.lock().remove(&transaction);
    }

    /// The waits that go on, copied.
    pub(crate) fn list(&self) -> Vec<Waiting> {
        self.waiting.lock().values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.waiting.lock().len()
    }
}

/// A circle through `start`, each member waiting for the next.
fn circle_through(
    start: TransactionId,
    waiting: &Waits,
    locks: &RowLocks,
    ids: &WriteIdTable,
) -> Option<Vec<TransactionId>> {
    let mut reached_from: HashMap<TransactionId, TransactionId> = HashMap::new();
    let mut next: SmallVec<[TransactionId; 8]> = SmallVec::new();
    next.push(start);
    while let Some(waiter) = next.pop() {
        let Some(wait) = waiting.get(&waiter) else {
            continue;
        };
        // Who stands in a queue and does not wait is about to leave it, as the
        // victim of another circle does, or to begin, and will look then.
        let counts = |id| waiting.contains_key(&id);
        for blocker in wait.blockers_but(locks, ids, counts) {
            if blocker == start {
                let mut circle = vec![waiter];
                let mut member = waiter;
                while member != start {
                    let Some(from) = reached_from.get(&member) else {
                        break;
                    };
                    member = *from;
                    circle.push(member);
                }
                circle.reverse();
                return Some(circle);
            }
            if let Entry::Vacant(unseen) = reached_from.entry(blocker) {
                unseen.insert(waiter);
                next.push(blocker);
            }
        }
    }
    None
}
