//! Closing tables that have no handle: open trees take memory that the budget
//! does not count.

use super::flusher::FlushContext;
use crate::core::index::Index;
use crate::core::table::Table;
use crate::core::tables::{Slot, Tables};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::WriteId;

/// The parts of an engine that closing idle tables needs.
pub(super) struct IdleTables<'a> {
    pub tables: &'a Mutex<Tables>,
    pub flush: FlushContext<'a>,
    /// Number of tables to keep open.
    pub kept: usize,
}

fn has_no_handle(slot: &Slot) -> bool {
    let table = slot.lock();
    let handles = table.as_ref().map(|table| &table.handles);
    handles.is_some_and(|handles| handles.load(Ordering::Acquire) == 0)
}

/// Whether closing an index would lose merges that are not in its file yet.
fn needs_checkpoint(index: &Index) -> bool {
    index.registered.load(Ordering::Acquire) && index.tree.needs_checkpoint()
}

impl IdleTables<'_> {
    /// The open tables that may be closed. A temporary table remains open: its
    /// file does not contain everything.
    fn open_slots(&self) -> Vec<(u64, Slot)> {
        let slots: Vec<(u64, Slot)> = {
            let tables = self.tables.lock();
            let states = tables.durable();
            states
                .map(|(id, state)| (*id, Arc::clone(&state.slot)))
                .collect()
        };
        let is_open = |(_, slot): &(u64, Slot)| slot.lock().is_some();
        slots.into_iter().filter(is_open).collect()
    }

    /// Closes tables without handles while more than `kept` are open. Returns
    /// how many tables must be flushed before they can be closed.
    pub(super) fn close(&self) -> usize {
        let slots = self.open_slots();
        let mut excess = slots.len().saturating_sub(self.kept);
        let mut unflushed = 0;
        for (id, slot) in slots {
            if excess == 0 {
                break;
            }
            if !has_no_handle(&slot) {
                continue;
            }
            excess -= 1;
            if !self.close_if_idle(id, &slot) {
                unflushed += 1;
            }
        }
        unflushed
    }

    /// The indexes of `count` tables without handles that must be flushed and
    /// checkpointed before the tables can be closed.
    pub(super) fn unflushed(&self, mut count: usize) -> Vec<Arc<Index>> {
        let mut unflushed = Vec::new();
        for (_, slot) in self.open_slots() {
            if count == 0 {
                break;
            }
            if !has_no_handle(&slot) {
                continue;
            }
            let Some(table) = slot.lock().clone() else {
                continue;
            };
            let before = unflushed.len();
            let indexes = table.indexes.load();
            let is_unflushed = |index: &&Arc<Index>| {
                index.tree.oldest_unflushed_lsn().is_some() || needs_checkpoint(index)
            };
            unflushed.extend(indexes.iter().filter(is_unflushed).cloned());
            count -= usize::from(unflushed.len() > before);
        }
        unflushed
    }

    fn is_idle(&self, table: &Table, indexes: &[Arc<Index>]) -> bool {
        table.handles.load(Ordering::Acquire) == 0
            && !table.damaged.load(Ordering::Acquire)
            && indexes.iter().all(|index| {
                // Transactions with locks on the index hold references to `ranges`.
                Arc::strong_count(&index.ranges) == 1
                    && !needs_checkpoint(index)
                    && index.log_needed_from(|| self.flush.log.end()).is_none()
            })
    }

    /// Closes a table if it has no handle and all its changes are in its files.
    fn close_if_idle(&self, id: u64, slot: &Slot) -> bool {
        let mut open = slot.lock();
        let Some(table) = &*open else {
            return false;
        };
        let indexes = table.indexes.load_full();
        if !self.is_idle(table, &indexes)
            || !self.flush.written.remove_unused(self.flush.work, &indexes)
        {
            return false;
        }
        let oldest: Vec<WriteId> = indexes
            .iter()
            .map(|index| index.oldest_write_id())
            .collect();
        for index in indexes.iter() {
            self.flush.counts.add_closed(index);
        }
        // While the slot is locked: a thread that finds the table closed reads these.
        if let Some(state) = self.tables.lock().by_id.get_mut(&id) {
            for (index, oldest) in state.entry.indexes.iter_mut().zip(oldest) {
                index.oldest_write_id = oldest;
            }
        }
        *open = None;
        true
    }
}
