//! The list of prepared transactions, by XID.

use super::row_changes::RowChanges;
use crate::catalogue::PreparedEntry;
use crate::error::{EngineError, EngineResult};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use teak_base::{CommitSequence, WriteId, WriteIdRanges, WriteStatus};
use teak_transactions::{Transaction, TransactionSystem, WaitError};

/// A transaction that no handle owns.
pub(crate) struct Detached {
    pub(crate) transaction: Transaction,
    /// How many rows it has added to each table. `None`: not known, because recovery has found it.
    pub(crate) rows: Option<RowChanges>,
}

struct Registered {
    write_ids: Arc<WriteIdRanges>,
    /// The transaction, if no handle owns it and the coordinator has not begun to end it.
    detached: Option<Detached>,
    /// Whether only the coordinator can end the transaction, because no handle owns it.
    is_orphan: bool,
}

/// The prepared transactions of an engine.
#[derive(Default)]
pub(crate) struct PreparedList {
    by_xid: Mutex<BTreeMap<Vec<u8>, Registered>>,
    /// A transaction was detached or removed.
    changed: Condvar,
    /// The newest commit of a transaction that recovery has found.
    untracked_commit: AtomicU64,
}

impl PreparedList {
    /// The newest commit of a transaction of which it is not known how many rows it has added to which
    /// table.
    pub(crate) fn untracked_commit(&self) -> CommitSequence {
        CommitSequence(self.untracked_commit.load(Ordering::Acquire))
    }

    /// Called in the order of the commits.
    pub(crate) fn set_untracked_commit(&self, at: CommitSequence) {
        self.untracked_commit.store(at.0, Ordering::Release);
    }

    /// The entries for the catalogue. The caller must have read the active write ids before.
    pub(crate) fn entries(&self) -> Vec<PreparedEntry> {
        let list = self.by_xid.lock();
        list.iter()
            .filter(|(_, registered)| !registered.write_ids.is_empty())
            .map(|(xid, registered)| PreparedEntry {
                xid: xid.clone(),
                write_ids: Arc::clone(&registered.write_ids),
            })
            .collect()
    }

    /// The XIDs of transactions that no handle owns and that the coordinator has
    /// not begun to end.
    pub(crate) fn detached(&self) -> Vec<Vec<u8>> {
        let list = self.by_xid.lock();
        list.iter()
            .filter(|(_, registered)| registered.detached.is_some())
            .map(|(xid, _)| xid.clone())
            .collect()
    }

    /// The write ids of each transaction that only its coordinator can end and that
    /// has a write id from `min` to `max`.
    pub(crate) fn orphaned_writes(&self, min: WriteId, max: WriteId) -> Vec<Arc<WriteIdRanges>> {
        let list = self.by_xid.lock();
        list.values()
            .filter(|registered| registered.is_orphan)
            .filter(|registered| registered.write_ids.intersects(min, max))
            .map(|registered| Arc::clone(&registered.write_ids))
            .collect()
    }

    /// Reserves an XID. The catalogue contains the transaction only after
    /// [`PreparedList::set_writes`].
    ///
    /// # Errors
    /// `InvalidArgument` when the XID is in use.
    pub(crate) fn reserve(&self, xid: &[u8]) -> EngineResult<()> {
        let mut list = self.by_xid.lock();
        if list.contains_key(xid) {
            return Err(EngineError::InvalidArgument(
                "a prepared transaction of this name exists".into(),
            ));
        }
        let registered = Registered {
            write_ids: Arc::default(),
            detached: None,
            is_orphan: false,
        };
        list.insert(xid.to_vec(), registered);
        Ok(())
    }

    /// Records the writes of a transaction whose prepare record is logged.
    pub(crate) fn set_writes(&self, xid: &[u8], write_ids: Arc<WriteIdRanges>) {
        if let Some(registered) = self.by_xid.lock().get_mut(xid) {
            registered.write_ids = write_ids;
        }
    }

    pub(crate) fn remove(&self, xid: &[u8]) {
        self.by_xid.lock().remove(xid);
        self.changed.notify_all();
    }

    /// Takes a detached transaction in order to end it; it remains in the list. If a handle owns
    /// the transaction, waits up to `patience` until the handle detaches it: a coordinator may use
    /// the XID before the session has detached.
    ///
    /// # Errors
    /// `NotFound` for an unknown XID, `Wait(Timeout)`.
    pub(crate) fn take(&self, xid: &[u8], patience: Duration) -> EngineResult<Detached> {
        let mut list = self.by_xid.lock();
        let is_owned = |list: &mut BTreeMap<Vec<u8>, Registered>| {
            list.get(xid)
                .is_some_and(|registered| registered.detached.is_none())
        };
        self.changed.wait_while_for(&mut list, is_owned, patience);
        let registered = list.get_mut(xid).ok_or(EngineError::NotFound)?;
        let detached = registered.detached.take();
        Ok(detached.ok_or(WaitError::Timeout)?)
    }

    /// Leaves a transaction to its coordinator.
    pub(crate) fn detach(&self, xid: &[u8], detached: Detached) {
        if let Some(registered) = self.by_xid.lock().get_mut(xid) {
            registered.detached = Some(detached);
            registered.is_orphan = true;
        }
        self.changed.notify_all();
    }

    /// Registers the transactions that recovery found prepared and still
    /// active. Returns their number.
    pub(crate) fn restore(
        &self,
        transactions: &TransactionSystem,
        found: Vec<PreparedEntry>,
    ) -> usize {
        let ids = transactions.ids();
        let mut list = self.by_xid.lock();
        for entry in found {
            let is_active = |id| matches!(ids.status(id), WriteStatus::Active(_));
            if !entry.write_ids.iter().any(is_active) {
                continue;
            }
            let mut transaction = transactions.begin();
            transactions.adopt(&mut transaction, &entry.write_ids);
            transaction.handle().set_prepared_as(&entry.xid);
            let registered = Registered {
                write_ids: entry.write_ids,
                detached: Some(Detached {
                    transaction,
                    rows: None,
                }),
                is_orphan: true,
            };
            list.insert(entry.xid, registered);
        }
        list.len()
    }
}
