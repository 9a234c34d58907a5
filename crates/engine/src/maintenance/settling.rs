//! Settling old write ids, so that aborted ids can be forgotten while the server is busy.
//!
//! An aborted id is forgotten when no memtable or file has entries of aborted writes up to it.
//! Merges drop such entries, but a leaf that receives no more entries is not merged, and idle
//! compaction waits for idle time. So each maintenance pass works on a limited number of runs, in
//! sweeps over all tables:
//! 1. Set the goal: the newest aborted id that is below the decided watermark.
//! 2. In each pass examine some tables. Open a closed one if its files may have entries of aborted
//!    writes up to the goal.
//! 3. In each pass run jobs on their indexes: some that mark runs as settled or as purged, or one
//!    that merges runs. Freeze a memtable that has contained such ids since the sweep before.
//! 4. Make the indexes durable, at the pace of `idle_flush`. Unused tables are closed then.
//! 5. After the sweep, pause.
//!
//! While many aborted ids are registered, each pass does more of 2 and 3, and there is no pause.
//!
//! If a closed table cannot be opened, only the ids that its files may contain remain registered
//! because of it: those that were allocated before the first attempt to open it.

use super::flusher::FlushContext;
use crate::core::files::IndexFiles;
use crate::core::index::Index;
use crate::core::maintenance_state::SettlingState;
use crate::core::opening::{entry_of, open_closed};
use crate::core::table::Table;
use crate::core::tables::{Slot, Tables};
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{WriteId, WriteIdRange};
use teak_disk::{IoPurpose, IoUrgency};
use teak_tree::{FlushJob, JobKind};

/// Tables that one pass examines.
const EXAMINED_MAX: usize = 512;

/// When the time for merges is over, a pass ends after this many jobs, even if all of them
/// only marked runs as settled.
const MARKS_MAX: u32 = 64;

/// Passes that are skipped between two sweeps.
const PAUSE_PASSES: u32 = 10;

/// What one pass may do.
struct Limits {
    /// Closed tables to open.
    opened: usize,
    /// Memtables to freeze.
    frozen: usize,
    /// Time after which the pass ends with its next merge, or its next failed job.
    merging: Duration,
    /// Whether indexes are merged for which [`teak_tree::Tree::affords_optional_jobs`] is false.
    merges_all: bool,
    /// Whether writers may soon be slowed because of aborted ids.
    urgency: IoUrgency,
}

const NORMAL_LIMITS: Limits = Limits {
    opened: 1,
    frozen: 4,
    merging: Duration::ZERO,
    merges_all: false,
    urgency: IoUrgency::OptionalOnBusyThread,
};

const URGENT_LIMITS: Limits = Limits {
    opened: 16,
    frozen: 64,
    merging: Duration::from_millis(250),
    merges_all: true,
    urgency: IoUrgency::Due,
};

/// The parts of an engine that settling needs.
pub(super) struct Settling<'a> {
    pub flush: FlushContext<'a>,
    pub tables: &'a Mutex<Tables>,
    pub files: &'a IndexFiles,
}

/// The outcome of examining a table.
enum Examined {
    /// The table is open: its indexes that contain old ids.
    Indexes(Vec<Arc<Index>>),
    /// The table is closed, and its files contain old ids.
    Closed,
    Nothing,
}

impl Settling<'_> {
    /// Does the settling work of one maintenance pass. An engine without threads does not pause
    /// between sweeps. Returns whether the pass has ended a sweep.
    pub(super) fn run_pass(&self, state: &mut SettlingState) -> bool {
        let is_urgent = self.flush.aborted.is_urgent(self.flush.transactions);
        if !state.is_sweeping {
            if state.paused > 0 && !is_urgent && self.flush.signals.has_threads() {
                state.paused -= 1;
                return false;
            }
            if !self.begin_sweep(state) {
                state.paused = PAUSE_PASSES;
                return false;
            }
        }
        let mut limits = if is_urgent {
            URGENT_LIMITS
        } else {
            NORMAL_LIMITS
        };
        let end = Instant::now() + limits.merging;
        let mut examined = 0;
        let mut marks = 0;
        loop {
            if state.indexes.is_empty() {
                match self.examine_next(state, &mut examined, &mut limits) {
                    Next::Found => {}
                    Next::Later => return false,
                    Next::End => break,
                }
            }
            if !self.run_jobs(state, &mut marks, end, &mut limits) {
                return false;
            }
        }
        state.is_sweeping = false;
        state.paused = PAUSE_PASSES;
        true
    }

    fn begin_sweep(&self, state: &mut SettlingState) -> bool {
        let Some(newest) = self.flush.transactions.ids().newest_aborted() else {
            return false;
        };
        state.previous_goal = state.goal;
        state.goal = WriteId(newest.0 + 1);
        state.last = None;
        state.is_sweeping = true;
        true
    }

    /// Finds the next table with old ids, and opens it if it is closed.
    fn examine_next(
        &self,
        state: &mut SettlingState,
        examined: &mut usize,
        limits: &mut Limits,
    ) -> Next {
        while *examined < EXAMINED_MAX {
            let Some((id, slot)) = self.table_after(state.last) else {
                return Next::End;
            };
            *examined += 1;
            match self.examine(state, id, &slot) {
                Examined::Nothing => {}
                Examined::Closed if limits.opened == 0 => return Next::Later,
                Examined::Closed => {
                    limits.opened -= 1;
                    if let Some(table) = self.open(id, &slot)
                        && let Some(indexes) = table.readable_indexes()
                    {
                        state.indexes = indexes.to_vec();
                    }
                }
                Examined::Indexes(indexes) => state.indexes = indexes,
            }
            state.last = Some(id);
            if !state.indexes.is_empty() {
                return Next::Found;
            }
        }
        Next::Later
    }

    /// The first table, or the next one after an id.
    fn table_after(&self, id: Option<u64>) -> Option<(u64, Slot)> {
        let first = id.map_or(Bound::Unbounded, Bound::Excluded);
        let tables = self.tables.lock();
        let (id, state) = tables.by_id.range((first, Bound::Unbounded)).next()?;
        Some((*id, Arc::clone(&state.slot)))
    }

    fn examine(&self, state: &SettlingState, id: u64, slot: &Slot) -> Examined {
        let is_old = |oldest: WriteId| !oldest.is_settled() && oldest < state.goal;
        let open = slot.lock();
        if let Some(table) = &*open
            && table.is_open()
        {
            let indexes = table.readable_indexes();
            let indexes = indexes.iter().flat_map(|indexes| indexes.iter());
            let indexes: Vec<_> = indexes
                .filter(|index| is_old(index.oldest_recoverable_write_id()))
                .cloned()
                .collect();
            return match indexes.is_empty() {
                true => Examined::Nothing,
                false => Examined::Indexes(indexes),
            };
        }
        match entry_of(self.tables, id) {
            Some(entry)
                if entry.retained.is_none()
                    && entry.indexes.iter().any(|one| is_old(one.oldest_write_id)) =>
            {
                Examined::Closed
            }
            _ => Examined::Nothing,
        }
    }

    /// Opens a closed table. If that fails, notes the ids that its files may contain.
    fn open(&self, id: u64, slot: &Slot) -> Option<Arc<Table>> {
        let mut used = slot.lock();
        if let Some(table) = &*used
            && table.is_open()
        {
            return Some(Arc::clone(table));
        }
        let (entry, counters) = {
            let tables = self.tables.lock();
            let found = tables.by_id.get(&id)?;
            if !Arc::ptr_eq(&found.slot, slot) || found.entry.retained.is_some() {
                return None;
            }
            (found.entry.clone(), Arc::clone(&found.counters))
        };
        let table = match &*used {
            Some(table) => Arc::clone(table),
            None => Arc::new(Table::closed(&entry, &counters)),
        };
        // The statement that uses the table reports why it cannot be opened.
        if open_closed(self.tables, self.files, &table, &entry).is_err() {
            let oldest = entry.indexes.iter().map(|index| index.oldest_write_id);
            let first = oldest.filter(|oldest| !oldest.is_settled()).min()?;
            let next = self.flush.transactions.ids().next();
            let count = next.0.saturating_sub(first.0);
            if let Some(found) = self.tables.lock().by_id.get_mut(&id) {
                let range = WriteIdRange { first, count };
                found.unreadable.get_or_insert(range);
            }
            return None;
        }
        *used = Some(Arc::clone(&table));
        self.flush.signals.note_opened();
        Some(table)
    }

    /// Runs jobs on the indexes in `state.indexes`. Returns false when this pass has done enough.
    fn run_jobs(
        &self,
        state: &mut SettlingState,
        marks: &mut u32,
        end: Instant,
        limits: &mut Limits,
    ) -> bool {
        while let Some(index) = state.indexes.last().cloned() {
            // Not older than necessary: jobs take their own.
            let horizon = self.flush.transactions.horizon();
            let may_try = index.may_try(Instant::now());
            let find = || index.tree.next_settling_job(&horizon, state.goal);
            let job = may_try.then(|| self.flush.found(&index, find()));
            let may_merge = limits.merges_all || index.tree.affords_optional_jobs();
            let is_affordable = |job: &FlushJob| may_merge || job.kind() == JobKind::Mark;
            let Some(job) = job.flatten().filter(is_affordable) else {
                self.end_index(state, &index, limits);
                state.indexes.pop();
                continue;
            };
            self.flush.written.register(&index);
            *marks += 1;
            let is_mark = job.kind() == JobKind::Mark;
            // The index keeps the failure.
            let ran = self
                .flush
                .run_job_for(&index, job, IoPurpose::Settling, limits.urgency);
            let failed = ran.is_err();
            let is_over = Instant::now() >= end;
            if is_over && (failed || !is_mark || *marks >= MARKS_MAX) {
                return false;
            }
        }
        true
    }

    /// Called when no run of an index can be settled now.
    fn end_index(&self, state: &mut SettlingState, index: &Arc<Index>, limits: &mut Limits) {
        if index.is_dropped() {
            return;
        }
        let oldest = index.tree.oldest_memtable_write_id();
        if limits.frozen > 0 && oldest.is_some_and(|oldest| oldest < state.previous_goal) {
            limits.frozen -= 1;
            self.flush.freeze(index);
            self.flush.signals.wake_flushers();
        }
        if index.tree.needs_checkpoint() && !index.is_temporary() {
            self.flush.written.register(index);
            state.settled.insert(index.entry.file);
        }
    }
}

/// What [`Settling::examine_next`] found.
enum Next {
    /// Indexes with old ids, which are in `SettlingState::indexes` now.
    Found,
    /// This pass has examined enough tables, or may open no more.
    Later,
    /// All tables were examined.
    End,
}
