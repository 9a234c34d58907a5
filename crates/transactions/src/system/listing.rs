//! Copies of the running transactions, waits and the last deadlock for
//! monitoring. Tables are copied part by part, and no lock is held while the
//! caller reads a copy, so a list is not a consistent snapshot.

use super::TransactionSystem;
use crate::handle::TransactionHandle;
use crate::lock_types::Blocking;
use crate::report::{Blocker, DeadlockReport, Participant, WaitReport};
use crate::wait_graph::Wait;
use std::sync::Arc;
use teak_base::TransactionId;

impl TransactionSystem {
    /// The running transaction with this id.
    #[must_use]
    pub fn find(&self, id: TransactionId) -> Option<Arc<TransactionHandle>> {
        self.running.find(id)
    }

    /// The running transactions, including prepared ones, in the order of their ids.
    #[must_use]
    pub fn running(&self) -> Vec<Arc<TransactionHandle>> {
        self.running.list()
    }

    pub(super) fn participant(&self, transaction: TransactionId) -> Participant {
        Participant {
            transaction,
            thread: self.find(transaction).map_or(0, |found| found.thread()),
        }
    }

    pub(super) fn blocker(&self, blocking: &Blocking) -> Blocker {
        Blocker {
            participant: self.participant(blocking.transaction),
            kind: blocking.kind,
        }
    }

    /// The current waits, in the order of the requesters' ids.
    #[must_use]
    pub fn lock_waits(&self) -> Vec<WaitReport> {
        let mut waits = self.graph.list();
        waits.sort_unstable_by_key(|wait| wait.handle.id());
        let report = |wait: &Wait| WaitReport {
            requester: Participant {
                transaction: wait.handle.id(),
                thread: wait.handle.thread(),
            },
            request: wait.request.clone(),
            waited: wait.since.elapsed(),
            blockers: wait
                .blockers(&self.locks, &self.ids)
                .iter()
                .map(|blocking| self.blocker(blocking))
                .collect(),
        };
        waits.iter().map(report).collect()
    }

    /// The last deadlock.
    #[must_use]
    pub fn last_deadlock(&self) -> Option<Arc<DeadlockReport>> {
        self.last_deadlock.lock().clone()
    }
}
