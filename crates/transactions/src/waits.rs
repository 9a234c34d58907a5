//! Waiting for another writer to finish.
//!
//! A waiter for a write id puts its bell into a shard, then looks at the id
//! again; a finisher settles its ids, then rings whoever is listed. The count
//! of waiters and the id's slot are sequentially consistent, so one of the two
//! always sees the other, and a finisher without waiters pays one load.

use crate::hash::PassBuild;
use crate::shared::TransactionHandle;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::write_ids::WriteIdTable;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::TransactionId;
use teak_base::WriteId;

const SHARDS: usize = 16;

type Bells = HashMap<u64, Vec<Arc<TransactionHandle>>, PassBuild>;

/// Bells of transactions that wait for a write id to be decided.
#[derive(Default)]
pub(crate) struct WriteWaits {
    waiting: AtomicU64,
    shards: [Mutex<Bells>; SHARDS],
}

impl WriteWaits {
    fn shard(&self, id: WriteId) -> Option<&Mutex<Bells>> {
        self.shards
            .get(usize::try_from(id.0 % SHARDS as u64).unwrap_or(0))
    }

    /// Lists the bell unless the id is decided already. `false` when decided.
    pub(crate) fn enlist(
        &self,
        id: WriteId,
        transaction: &Arc<TransactionHandle>,
        ids: &WriteIdTable,
    ) -> bool {
        let Some(shard) = self.shard(id) else {
            return false;
        };
        transaction.arm();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut bells = shard.lock();
        if ids.active_owner(id).is_none() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        bells.entry(id.0).or_default().push(Arc::clone(transaction));
        true
    }

    /// Takes the bell off the list again.
    pub(crate) fn delist(&self, id: WriteId, transaction: TransactionId) {
        let Some(shard) = self.shard(id) else {
            return;
        };
        let mut bells = shard.lock();
        if let Some(list) = bells.get_mut(&id.0) {
            list.retain(|other| other.id() != transaction);
            if list.is_empty() {
                bells.remove(&id.0);
            }
        }
        drop(bells);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Rings everyone who waits for one of the decided ids.
    pub(crate) fn ring(&self, ids: &[WriteId]) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        for id in ids {
            if let Some(shard) = self.shard(*id)
                && let Some(list) = shard.lock().get(&id.0)
            {
                for transaction in list {
                    transaction.ring();
                }
            }
        }
    }
}
