//! Closing the files of tables that are not used: open trees take memory and file
//! descriptors.
//!
//! - When many tables were opened, tables without handles are closed until the
//!   number of open tables is not above a limit.
//! - A sweep over all open tables closes those that were not used since the
//!   previous sweep. Handles of a closed table open it again when they use it.
//!
//! A table can be closed when all its changes are in its files. While nothing is
//! written to the log, unused tables are flushed so that they can be closed, some
//! at a time. On a busy engine they are flushed at a limited rate (`idle_flush`), as
//! are tables without handles above the limit.

use super::flusher::FlushContext;
use crate::core::backup_files::BackupFiles;
use crate::core::index::Index;
use crate::core::maintenance_state::IdleSweep;
use crate::core::table::Table;
use crate::core::tables::{Slot, Tables};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_tree::{SpaceAction, SpaceGoal};

/// Number of open tables that one maintenance pass examines.
const TABLES_PER_PASS: usize = 512;

/// Number of unused tables that one maintenance pass flushes.
const FLUSHES_PER_PASS: usize = 128;

/// Time without log records after which unused tables are flushed.
const QUIET_PERIOD: Duration = Duration::from_secs(2);

/// Factor by which sweeps are more frequent while many tables are opened.
const URGENT_SWEEPS: u32 = 6;

/// The period of sweeps while many trees are open.
const SHORT_PERIOD: Duration = Duration::from_secs(1);

/// The number of open trees, compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenTrees {
    Few,
    /// Idle tables are closed early.
    Many,
    /// Idle tables are closed as fast as possible, and openings wait.
    TooMany,
}

/// The parts of an engine that closing idle tables needs.
pub(super) struct IdleTables<'a> {
    pub backup: &'a BackupFiles,
    pub tables: &'a Mutex<Tables>,
    pub flush: FlushContext<'a>,
    /// Tables without handles are closed while more tables than this are open.
    pub kept: usize,
    /// The period of sweeps. A table that was not used between two sweeps is idle.
    pub idle_after: Duration,
}

fn has_no_handle(slot: &Slot) -> bool {
    let table = slot.lock();
    table.as_ref().is_some_and(|table| !table.has_handles())
}

/// Whether closing an index would lose merges that no checkpoint has made durable.
fn needs_checkpoint(index: &Index) -> bool {
    index.registered.load(Ordering::Acquire) && index.tree.needs_checkpoint()
}

fn is_unflushed(index: &Index) -> bool {
    index.tree.oldest_unflushed_lsn().is_some() || needs_checkpoint(index)
}

/// Whether a file of the table is to be made smaller.
fn is_too_large(table: &Table, goal: SpaceGoal) -> bool {
    let open = table.open_indexes();
    let mut indexes = open.iter().flat_map(|indexes| indexes.iter());
    indexes.any(|index| index.tree.space_action(goal) != SpaceAction::Nothing)
}

/// The indexes of a table that must be flushed and checkpointed before it can be
/// closed.
pub(super) fn unflushed_indexes(slot: &Slot) -> Vec<Arc<Index>> {
    let open = slot.lock().as_ref().and_then(|table| table.open_indexes());
    let indexes = open.iter().flat_map(|indexes| indexes.iter());
    indexes
        .filter(|index| is_unflushed(index))
        .cloned()
        .collect()
}

impl IdleTables<'_> {
    /// The open tables that may be closed. A temporary table is not among them,
    /// because its changes are not logged. Empties the slots of tables with neither
    /// open files nor handles.
    fn open_slots(&self) -> Vec<(u64, Slot)> {
        let slots: Vec<(u64, Slot)> = {
            let tables = self.tables.lock();
            let states = tables.durable();
            states
                .map(|(id, state)| (*id, Arc::clone(&state.slot)))
                .collect()
        };
        let is_open = |(_, slot): &(u64, Slot)| {
            let mut slot = slot.lock();
            match &*slot {
                Some(table) if table.is_open() => true,
                Some(table) if !table.has_handles() => {
                    *slot = None;
                    false
                }
                _ => false,
            }
        };
        slots.into_iter().filter(is_open).collect()
    }

    pub(super) fn open_trees(&self) -> OpenTrees {
        let count = self.flush.memtables().trees();
        let max = self.flush.budget.open_trees_max();
        match () {
            () if count > max => OpenTrees::TooMany,
            () if count > max / 2 => OpenTrees::Many,
            () => OpenTrees::Few,
        }
    }

    /// Closes tables without handles while more than `kept` are open; all if there are too many
    /// trees. Returns the number of tables without handles above this limit, which could not be
    /// closed, usually because they must be flushed first.
    pub(super) fn close(&self, open_trees: OpenTrees) -> usize {
        let slots = self.open_slots();
        let kept = match open_trees {
            OpenTrees::Few => self.kept,
            OpenTrees::Many | OpenTrees::TooMany => 0,
        };
        let mut excess = slots.len().saturating_sub(kept);
        let mut refused = 0;
        for (id, slot) in slots {
            if excess == 0 {
                break;
            }
            if !has_no_handle(&slot) {
                continue;
            }
            if self.close_if_idle(id, &slot) {
                excess -= 1;
            } else {
                refused += 1;
            }
        }
        excess.min(refused)
    }

    /// Adds to `sweep.waiting` up to `count` tables without handles that must be flushed before
    /// they can be closed.
    pub(super) fn queue_unflushed(&self, sweep: &mut IdleSweep, mut count: usize) {
        sweep.excess = count;
        for (id, slot) in self.open_slots() {
            if count == 0 {
                break;
            }
            if !has_no_handle(&slot) || unflushed_indexes(&slot).is_empty() {
                continue;
            }
            // A table that is used from now on remains open.
            if let Some(table) = &*slot.lock() {
                table.take_use();
            }
            sweep.waiting.insert(id, slot);
            count -= 1;
        }
    }

    /// Continues the sweep, or begins one that is due: closes tables that were
    /// not used since the previous sweep. Returns those that must be flushed first,
    /// some at a time. While the engine is busy, adds them to `sweep.waiting` instead.
    pub(super) fn sweep(&self, sweep: &mut IdleSweep, open_trees: OpenTrees) -> Vec<(u64, Slot)> {
        let end = self.flush.log.end();
        if end != sweep.log_end {
            sweep.log_end = end;
            sweep.quiet_since = Instant::now();
        }
        let signals = self.flush.signals;
        let is_quiet = !signals.has_threads() || sweep.quiet_since.elapsed() >= QUIET_PERIOD;
        if sweep.rest.is_empty() {
            let period = match (open_trees, sweep.is_urgent) {
                (OpenTrees::TooMany, _) => Duration::ZERO,
                (OpenTrees::Many, _) => SHORT_PERIOD.min(self.idle_after),
                (OpenTrees::Few, true) => self.idle_after / URGENT_SWEEPS,
                (OpenTrees::Few, false) => self.idle_after,
            };
            if sweep.began.elapsed() < period {
                return Vec::new();
            }
            sweep.rest = self.open_slots();
            sweep.began = Instant::now();
            sweep.is_urgent = false;
        }
        let mut unflushed = Vec::new();
        for _ in 0..TABLES_PER_PASS {
            if unflushed.len() == FLUSHES_PER_PASS {
                break;
            }
            let Some((id, slot)) = sweep.rest.pop() else {
                break;
            };
            let goal = match is_quiet {
                true => SpaceGoal::Idle,
                false => SpaceGoal::Busy,
            };
            if self.close_if_unused(id, &slot, goal) || unflushed_indexes(&slot).is_empty() {
                continue;
            }
            if is_quiet {
                unflushed.push((id, slot));
            } else if open_trees != OpenTrees::Many || self.is_long_unused(&slot) {
                sweep.waiting.insert(id, slot);
            }
        }
        unflushed
    }

    /// Whether a table was not used for the whole period. While there are many trees, sweeps are so
    /// frequent that they find tables which will soon be used again. Closing those would save
    /// little memory, and cost a checkpoint of each file.
    fn is_long_unused(&self, slot: &Slot) -> bool {
        let table = slot.lock();
        table
            .as_ref()
            .is_some_and(|table| table.unused_for() >= self.idle_after)
    }

    /// The indexes of some tables that must be flushed and checkpointed.
    pub(super) fn unflushed_of(&self, tables: &[(u64, Slot)]) -> Vec<Arc<Index>> {
        let slots = tables.iter().map(|(_, slot)| slot);
        slots.flat_map(unflushed_indexes).collect()
    }

    /// Closes a table that was not used since the last call for it. Returns true
    /// if the table is closed now, was used, or has a file that is to be made
    /// smaller first. Otherwise it may have to be flushed.
    pub(super) fn close_if_unused(&self, id: u64, slot: &Slot, goal: SpaceGoal) -> bool {
        let is_used = slot
            .lock()
            .as_ref()
            .is_none_or(|table| table.take_use() || is_too_large(table, goal));
        is_used || self.close_if_idle(id, slot)
    }

    fn is_idle(&self, indexes: &[Arc<Index>]) -> bool {
        indexes.iter().all(|index| {
            // Transactions with locks on the index hold references to `ranges`.
            Arc::strong_count(&index.ranges) == 1
                && !index.is_log_retained()
                && !needs_checkpoint(index)
                && index.log_needed_from(|| self.flush.log.end()).is_none()
        })
    }

    /// Closes a table if no thread uses its indexes and all its changes are in
    /// its files.
    fn close_if_idle(&self, id: u64, slot: &Slot) -> bool {
        let mut used = slot.lock();
        let Some(table) = &*used else {
            return false;
        };
        if table.altering.load(Ordering::Acquire) || table.damaged.load(Ordering::Acquire) {
            return false;
        }
        let Some((indexes, is_used)) = table.withdraw_indexes() else {
            return false;
        };
        // A file that is opened again does not know the pins of a backup.
        let is_used = is_used || self.backup.wants_any(&indexes);
        // An alteration may have begun since the first check, and have installed its list.
        if is_used
            || table.altering.load(Ordering::Acquire)
            || !self.is_idle(&indexes)
            || !self.flush.written.remove_unused(self.flush.work, &indexes)
        {
            table.restore_indexes(indexes);
            return false;
        }
        // While the slot is locked, because a thread that finds the table closed reads these
        // values.
        if let Some(state) = self.tables.lock().by_id.get_mut(&id) {
            for (entry, index) in state.entry.indexes.iter_mut().zip(indexes.iter()) {
                index.update(entry);
            }
            state.unreadable = None;
        }
        if !table.has_handles() {
            *used = None;
        }
        true
    }
}
