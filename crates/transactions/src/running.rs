//! The table of running transactions, in parts: each thread inserts into one part, so threads that
//! begin transactions rarely contend. Readers visit the parts one by one, so a list is not a
//! consistent snapshot.

use crate::handle::TransactionHandle;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, current_stripe};
use crate::transaction::Transaction;
use std::collections::BTreeMap;
use std::sync::Arc;
use teak_base::stripes::{CachePadded, Striped};
use teak_base::{Lsn, TransactionId};

type Part = BTreeMap<u64, Arc<TransactionHandle>>;

pub(crate) struct RunningTransactions {
    parts: Striped<Mutex<Part>>,
    next: CachePadded<AtomicU64>,
}

impl RunningTransactions {
    /// A table whose ids start at `next` (at least 1).
    pub(crate) fn new(next: u64) -> Self {
        Self {
            parts: Striped::default(),
            next: CachePadded(AtomicU64::new(next.max(1))),
        }
    }

    pub(crate) fn begin(&self) -> Transaction {
        self.begin_with(|id| Arc::new(TransactionHandle::new(id)))
    }

    /// Begins a transaction, and replaces the handle of an ended one by its handle.
    pub(crate) fn begin_again(&self, ended: &mut Arc<TransactionHandle>) -> Transaction {
        self.begin_with(|id| {
            TransactionHandle::renew(ended, id);
            Arc::clone(ended)
        })
    }

    fn begin_with(
        &self,
        handle_of: impl FnOnce(TransactionId) -> Arc<TransactionHandle>,
    ) -> Transaction {
        let stripe = current_stripe();
        // Allocates the id under the lock of the part. So a reader that sees a later id and then
        // locks the part finds this transaction.
        let mut part = self.parts.get(stripe).lock();
        let id = TransactionId(self.next.0.fetch_add(1, Ordering::AcqRel));
        let handle = handle_of(id);
        part.insert(id.0, Arc::clone(&handle));
        drop(part);
        Transaction::new(handle, stripe)
    }

    pub(crate) fn remove(&self, transaction: &Transaction) {
        let mut part = self.parts.get(transaction.stripe).lock();
        part.remove(&transaction.id().0);
    }

    /// The id of the next transaction.
    pub(crate) fn next(&self) -> TransactionId {
        TransactionId(self.next.0.load(Ordering::Acquire))
    }

    pub(crate) fn find(&self, id: TransactionId) -> Option<Arc<TransactionHandle>> {
        let mut parts = self.parts.iter();
        parts.find_map(|part| part.lock().get(&id.0).cloned())
    }

    /// All running transactions, in the order of their ids.
    pub(crate) fn list(&self) -> Vec<Arc<TransactionHandle>> {
        let mut list = Vec::new();
        for part in self.parts.iter() {
            list.extend(part.lock().values().cloned());
        }
        list.sort_unstable_by_key(|transaction| transaction.id());
        list
    }

    pub(crate) fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.lock().len() as u64).sum()
    }

    /// The id of the oldest running transaction; without any, that of the next one.
    pub(crate) fn oldest(&self) -> TransactionId {
        // Must be read first: then a transaction that begins during the scan has this id or a later
        // one.
        let next = self.next().0;
        let oldest = self
            .parts
            .iter()
            .filter_map(|part| part.lock().keys().next().copied())
            .fold(next, u64::min);
        TransactionId(oldest)
    }

    /// The lowest commit floor of a running transaction.
    pub(crate) fn commit_floor(&self) -> Option<Lsn> {
        self.parts
            .iter()
            .filter_map(|part| {
                let part = part.lock();
                part.values().filter_map(|other| other.commit_floor()).min()
            })
            .min()
    }

    /// The transaction whose locks take the most memory. Its list of write ids does not count: lock
    /// escalation cannot shorten it.
    pub(crate) fn largest_lock_holder(&self) -> Option<Arc<TransactionHandle>> {
        let largest_of = |part: &Mutex<Part>| {
            let part = part.lock();
            let largest = part
                .values()
                .max_by_key(|other| other.replaceable_lock_bytes());
            largest.map(Arc::clone)
        };
        let parts = self.parts.iter().filter_map(largest_of);
        parts.max_by_key(|other| other.replaceable_lock_bytes())
    }

    pub(crate) fn interrupt_all(&self) {
        for part in self.parts.iter() {
            for transaction in part.lock().values() {
                transaction.interrupt();
            }
        }
    }
}
