//! Waits for the end of another transaction's write.
//!
//! 1. The waiter increments the count of waiters, locks the shard of the write
//!    id, and checks the id's status again. If the write is still active, it
//!    registers.
//! 2. The transaction that ends sets the status of its write ids, then reads the
//!    count. If it is not zero, it wakes the registered waiters.
//!
//! The count and the id's status are sequentially consistent, so at least one
//! of the two threads sees the other's change. Without waiters, ending a write
//! costs only one load here.

use crate::handle::TransactionHandle;
use crate::lock_id::IdentityBuild;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::write_ids::WriteIdTable;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::{TransactionId, WriteId, WriteIdRanges};

const SHARDS: usize = 16;

type Waiters = HashMap<u64, Vec<Arc<TransactionHandle>>, IdentityBuild>;

/// The transactions that wait for active writes, by write id.
#[derive(Default)]
pub(crate) struct WriteWaits {
    waiting: AtomicU64,
    shards: [Mutex<Waiters>; SHARDS],
}

impl WriteWaits {
    fn shard(&self, id: WriteId) -> Option<&Mutex<Waiters>> {
        self.shards
            .get(usize::try_from(id.0 % SHARDS as u64).unwrap_or(0))
    }

    /// Registers a waiter and prepares its waker. Returns false if the write is
    /// no longer active.
    pub(crate) fn register(
        &self,
        id: WriteId,
        transaction: &Arc<TransactionHandle>,
        ids: &WriteIdTable,
    ) -> bool {
        let Some(shard) = self.shard(id) else {
            return false;
        };
        transaction.waker().prepare_wait();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut waiters = shard.lock();
        if ids.active_owner(id).is_none() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        waiters
            .entry(id.0)
            .or_default()
            .push(Arc::clone(transaction));
        true
    }

    /// Removes a waiter.
    pub(crate) fn unregister(&self, id: WriteId, transaction: TransactionId) {
        let Some(shard) = self.shard(id) else {
            return;
        };
        let mut waiters = shard.lock();
        if let Some(list) = waiters.get_mut(&id.0) {
            list.retain(|other| other.id() != transaction);
            if list.is_empty() {
                waiters.remove(&id.0);
            }
        }
        drop(waiters);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the transactions that wait for one of the ended writes.
    pub(crate) fn wake(&self, ids: &WriteIdRanges) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        if ids.len() > SHARDS as u64 {
            for shard in &self.shards {
                let shard = shard.lock();
                let ended = shard.iter().filter(|(id, _)| ids.contains(WriteId(**id)));
                ended.for_each(|(_, list)| wake_all(list));
            }
            return;
        }
        for id in ids.iter() {
            if let Some(shard) = self.shard(id)
                && let Some(list) = shard.lock().get(&id.0)
            {
                wake_all(list);
            }
        }
    }
}

fn wake_all(waiters: &[Arc<TransactionHandle>]) {
    for transaction in waiters {
        transaction.waker().wake();
    }
}
