//! Who runs, holds and waits, for people. Shards are visited one by one, and
//! nothing is locked while the caller looks at an answer; so an answer is a
//! picture of several moments.

use super::TransactionSystem;
use crate::report::{DeadlockReport, Party, WaitReport};
use crate::shared::TransactionHandle;
use std::sync::Arc;
use teak_base::TransactionId;

impl TransactionSystem {
    /// The running transaction of an id.
    #[must_use]
    pub fn find(&self, id: TransactionId) -> Option<Arc<TransactionHandle>> {
        let mut shards = self.running.iter();
        shards.find_map(|shard| shard.lock().get(&id.0).cloned())
    }

    /// The running transactions, prepared ones included, by id.
    #[must_use]
    pub fn running(&self) -> Vec<Arc<TransactionHandle>> {
        let mut list = Vec::new();
        for shard in self.running.iter() {
            list.extend(shard.lock().values().cloned());
        }
        list.sort_unstable_by_key(|transaction| transaction.id());
        list
    }

    pub(super) fn party(&self, transaction: TransactionId) -> Party {
        Party {
            transaction,
            thread: self.find(transaction).map_or(0, |found| found.thread()),
        }
    }

    /// The waits that go on, by requester.
    #[must_use]
    pub fn lock_waits(&self) -> Vec<WaitReport> {
        let mut waits = self.graph.list();
        waits.sort_unstable_by_key(|wait| wait.shared.id());
        let report = |wait: &crate::wait_graph::Waiting| WaitReport {
            requester: Party {
                transaction: wait.shared.id(),
                thread: wait.shared.thread(),
            },
            request: wait.request.clone(),
            waited: wait.since.elapsed(),
            blockers: wait
                .blockers(&self.locks, &self.ids)
                .iter()
                .map(|id| self.party(*id))
                .collect(),
        };
        waits.iter().map(report).collect()
    }

    /// The deadlock found last.
    #[must_use]
    pub fn last_deadlock(&self) -> Option<Arc<DeadlockReport>> {
        self.last_deadlock.lock().clone()
    }
}
