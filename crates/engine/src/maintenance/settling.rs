//! Settling old write ids, so that aborted ids can be forgotten while the server is busy.
//!
//! An aborted id is forgotten when no run contains an unsettled id up to it. Merges settle ids, but
//! a leaf that receives no more entries is not merged, and idle compaction waits for idle time. So
//! each maintenance pass does a limited amount of such work:
//! 1. Set the goal: the newest aborted id that is below the settled watermark. List the open
//!    indexes that contain unsettled ids up to it.
//! 2. In each pass run jobs on the listed indexes: some that mark runs as settled, or one that
//!    merges runs.
//! 3. When the list is empty, open one closed table whose files contain such ids, if there is one.
//!    Otherwise pause.

use super::flusher::FlushContext;
use crate::core::files::IndexFiles;
use crate::core::index::Index;
use crate::core::maintenance_state::SettlingState;
use crate::core::opening::open_closed;
use crate::core::table::Table;
use crate::core::tables::{Slot, Tables};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use teak_base::WriteId;
use teak_tree::JobKind;

/// Runs marked in one pass.
const MARKS_MAX: u32 = 64;

/// Passes without work after a goal was reached, or had no work.
const PAUSE_PASSES: u32 = 10;

/// The parts of an engine that settling needs.
pub(super) struct Settling<'a> {
    pub flush: FlushContext<'a>,
    pub tables: &'a Mutex<Tables>,
    pub files: &'a IndexFiles,
}

impl Settling<'_> {
    /// The work of one maintenance pass. An engine without threads does not pause.
    pub(super) fn run_pass(&self, state: &mut SettlingState) {
        if state.indexes.is_empty() {
            if state.paused > 0 && self.flush.signals.has_threads() {
                state.paused -= 1;
                return;
            }
            self.set_goal(state);
        }
        self.run_jobs(state);
        if state.indexes.is_empty() {
            state.paused = PAUSE_PASSES;
        }
    }

    fn set_goal(&self, state: &mut SettlingState) {
        let Some(newest) = self.flush.transactions.ids().newest_aborted() else {
            return;
        };
        state.goal = WriteId(newest.0 + 1);
        let goal = state.goal;
        state.indexes = self.open_indexes();
        state.indexes.retain(|index| {
            let ids = index.tree.write_id_range();
            ids.is_some_and(|(oldest, _)| oldest < goal)
        });
        if state.indexes.is_empty()
            && let Some(table) = self.open_closed(goal)
            && let Some(indexes) = table.open_indexes()
        {
            state.indexes = indexes.to_vec();
        }
    }

    fn run_jobs(&self, state: &mut SettlingState) {
        let now = Instant::now();
        let mut horizon = None;
        let mut marks = 0;
        while let Some(index) = state.indexes.last().cloned() {
            let horizon = horizon.get_or_insert_with(|| self.flush.transactions.horizon());
            let may_try = index.may_try(now);
            let job = may_try.then(|| index.tree.next_settling_job(&*horizon, state.goal));
            let Some(job) = job.flatten() else {
                state.indexes.pop();
                continue;
            };
            self.flush.written.register(&index);
            marks += 1;
            let is_mark = job.kind() == JobKind::Mark;
            // The index keeps the failure.
            let failed = self.flush.run_job(&index, job).is_err();
            if failed || !is_mark || marks == MARKS_MAX {
                return;
            }
        }
    }

    fn slots(&self, which: impl Fn(WriteId) -> bool) -> Vec<(u64, Slot)> {
        let tables = self.tables.lock();
        let states = tables.by_id.iter();
        states
            .filter(|(_, state)| {
                let mut indexes = state.entry.indexes.iter();
                indexes.any(|index| which(index.oldest_write_id))
            })
            .map(|(id, state)| (*id, Arc::clone(&state.slot)))
            .collect()
    }

    fn open_indexes(&self) -> Vec<Arc<Index>> {
        let slots = self.slots(|_| true).into_iter();
        let tables = slots.filter_map(|(_, slot)| slot.lock().clone());
        tables
            .filter_map(|table| table.readable_indexes())
            .flat_map(|indexes| indexes.to_vec())
            .collect()
    }

    /// Opens a closed table whose files contain unsettled ids below `goal`.
    fn open_closed(&self, goal: WriteId) -> Option<Arc<Table>> {
        let is_older = |oldest: WriteId| !oldest.is_settled() && oldest < goal;
        for (id, slot) in self.slots(is_older) {
            let mut used = slot.lock();
            if used.as_ref().is_some_and(|table| table.is_open()) {
                continue;
            }
            let (entry, counters) = {
                let tables = self.tables.lock();
                let Some(state) = tables.by_id.get(&id) else {
                    continue;
                };
                if !Arc::ptr_eq(&state.slot, &slot) || state.entry.retained.is_some() {
                    continue;
                }
                (state.entry.clone(), Arc::clone(&state.counters))
            };
            let table = match &*used {
                Some(table) => Arc::clone(table),
                None => Arc::new(Table::closed(&entry, &counters)),
            };
            // The statement that uses the table reports why it cannot be opened.
            if open_closed(self.tables, self.files, &table, &entry).is_err() {
                continue;
            }
            *used = Some(Arc::clone(&table));
            self.flush.signals.note_opened();
            return Some(table);
        }
        None
    }
}
