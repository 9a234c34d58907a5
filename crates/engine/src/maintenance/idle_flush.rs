//! Making indexes durable although the log does not require it yet: on a busy
//! engine those of unused tables, so that the tables can be closed, and those whose
//! old write ids were settled, so that aborted ids can be forgotten.
//!
//! Each checkpoint of an index costs a sync of its file. The number of these
//! checkpoints per second is limited, so thousands of tables with few writes do
//! not keep the disk busy; the tables wait for their turn. All checkpoints of a
//! pass share one sync of the log. No catalogue is written.

use super::checkpoint_plan::{Planned, Scope};
use super::checkpoint_round::BATCH_INDEXES;
use super::idle_tables::{IdleTables, unflushed_indexes};
use crate::core::index::Index;
use crate::core::maintenance_state::IdleSweep;
use crate::core::tables::Slot;
use crate::error::EngineResult;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;
use teak_base::{FileId, Lsn};
use teak_tree::SpaceGoal;

/// Checkpoints of index files per second.
const FILES_PER_SECOND: u32 = 16;

/// The same while little memory is left for the page cache, or many aborted ids
/// are registered.
const HURRIED_FILES_PER_SECOND: u32 = 64;

/// What one pass writes.
#[derive(Default)]
pub(super) struct IdleFlush {
    indexes: Vec<Arc<Index>>,
    tables: Vec<(u64, Slot)>,
}

fn planned(index: &Arc<Index>) -> Planned {
    Planned {
        oldest: index.tree.oldest_undurable_lsn().unwrap_or(Lsn(u64::MAX)),
        flush: index.tree.oldest_unflushed_lsn().is_some(),
        index: Arc::downgrade(index),
    }
}

impl IdleTables<'_> {
    /// Writes some indexes and closes their tables if they are unused.
    ///
    /// # Errors
    /// Those of the log.
    pub(super) fn flush_some(
        &self,
        sweep: &mut IdleSweep,
        settled: &mut BTreeSet<FileId>,
        must_hurry: bool,
    ) -> EngineResult<()> {
        let rate = match must_hurry || self.flush.is_page_cache_short() {
            true => HURRIED_FILES_PER_SECOND,
            false => FILES_PER_SECOND,
        };
        let allowed = match self.flush.signals.has_threads() {
            true => sweep.pace.allowed(Instant::now(), rate),
            false => BATCH_INDEXES,
        };
        let mut flush = IdleFlush::default();
        while flush.indexes.len() < allowed {
            let has_settled = self.take_settled(settled, &mut flush);
            if !has_settled && !self.take_waiting(sweep, &mut flush) {
                break;
            }
        }
        if flush.indexes.is_empty() {
            return Ok(());
        }
        sweep.pace.spend(flush.indexes.len(), rate);
        let mut batch: Vec<Planned> = flush.indexes.iter().map(planned).collect();
        batch.sort_by_key(|planned| planned.oldest);
        // These references would keep the tables open.
        flush.indexes.clear();
        // The failure of an index is stored in the index.
        self.flush.checkpoint_batch(&batch, Scope::Due)?;
        for (id, slot) in flush.tables {
            self.close_if_unused(id, &slot, SpaceGoal::Busy);
        }
        Ok(())
    }

    /// Takes the next index whose write ids were settled.
    fn take_settled(&self, settled: &mut BTreeSet<FileId>, flush: &mut IdleFlush) -> bool {
        let Some(file) = settled.pop_first() else {
            return false;
        };
        let index = self.flush.written.by_file(file);
        let now = Instant::now();
        let index = index.filter(|one| one.may_checkpoint(now) && one.tree.needs_checkpoint());
        flush.indexes.extend(index);
        true
    }

    /// Takes the next unused table that waits for its turn.
    fn take_waiting(&self, sweep: &mut IdleSweep, flush: &mut IdleFlush) -> bool {
        let after = (Bound::Excluded(sweep.flushed), Bound::Unbounded);
        let next = sweep.waiting.range(after).next();
        let next = next.or_else(|| sweep.waiting.first_key_value());
        let Some(id) = next.map(|(id, _)| *id) else {
            return false;
        };
        sweep.flushed = id;
        let Some(slot) = sweep.waiting.remove(&id) else {
            return false;
        };
        // A table that was used again waits for the next sweep.
        let is_unused = |slot: &Slot| {
            let table = slot.lock();
            table.as_ref().is_some_and(|table| !table.is_used())
        };
        if is_unused(&slot) {
            let now = Instant::now();
            let indexes = unflushed_indexes(&slot).into_iter();
            flush
                .indexes
                .extend(indexes.filter(|index| index.may_checkpoint(now)));
            flush.tables.push((id, slot));
        }
        true
    }
}
