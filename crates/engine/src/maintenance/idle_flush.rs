//! Making indexes durable although the log does not require it yet: on a busy
//! engine those of unused tables, so that the tables can be closed, and those whose
//! old write ids were settled, so that aborted ids can be forgotten.
//!
//! Each checkpoint of an index costs a sync of its file. The number of these
//! checkpoints per second is limited, so thousands of tables with few writes do
//! not keep the disk busy; the tables are queued. All checkpoints of a
//! pass share one sync of the log. No catalogue is written.

use super::checkpoint_plan::{Planned, Scope};
use super::checkpoint_round::BATCH_INDEXES;
use super::idle_tables::{IdleTables, OpenTrees, unflushed_indexes};
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

/// The same while little memory is left for the page cache, many aborted ids are registered, or
/// `IdleSweep::excess` is larger than the limit of open tables.
const URGENT_FILES_PER_SECOND: u32 = 64;

/// The same while the excess is more than `EXCESS_FACTOR_MAX` times the limit.
const FILES_PER_SECOND_MAX: u32 = 256;

/// The same while openings of tables wait: more than the disk can sync.
const UNLIMITED_FILES_PER_SECOND: u32 = 1 << 20;

/// Maximum of one pass, so that its tables are closed soon.
const FILES_PER_PASS: usize = 512;

/// Multiple of the limit of open tables. If `IdleSweep::excess` is larger, files are written at the
/// maximum rate.
const EXCESS_FACTOR_MAX: usize = 4;

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
    fn files_per_second(&self, excess: usize, is_urgent: bool) -> u32 {
        if self.open_trees() == OpenTrees::TooMany {
            UNLIMITED_FILES_PER_SECOND
        } else if excess > self.kept.saturating_mul(EXCESS_FACTOR_MAX) {
            FILES_PER_SECOND_MAX
        } else if is_urgent || excess > self.kept || self.flush.is_page_cache_short() {
            URGENT_FILES_PER_SECOND
        } else {
            FILES_PER_SECOND
        }
    }

    /// Writes some indexes and closes their tables if they are unused.
    ///
    /// # Errors
    /// Those of the log.
    pub(super) fn flush_some(
        &self,
        sweep: &mut IdleSweep,
        settled: &mut BTreeSet<FileId>,
        is_urgent: bool,
    ) -> EngineResult<()> {
        let rate = self.files_per_second(sweep.excess, is_urgent);
        let allowed = match self.flush.signals.has_threads() {
            true => sweep.pace.allowed(Instant::now(), rate).min(FILES_PER_PASS),
            false => usize::MAX,
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
        // An index whose write ids were settled may also belong to a waiting table. A batch that
        // contained it twice would wait for its own checkpoint.
        flush.indexes.sort_by_key(|index| index.entry.file);
        flush.indexes.dedup_by_key(|index| index.entry.file);
        let mut batch: Vec<Planned> = flush.indexes.iter().map(planned).collect();
        batch.sort_by_key(|planned| planned.oldest);
        // These references would keep the tables open.
        flush.indexes.clear();
        for batch in batch.chunks(BATCH_INDEXES) {
            // The failure of an index is stored in the index.
            self.flush.checkpoint_batch(batch, Scope::Due)?;
        }
        for (id, slot) in flush.tables {
            self.close_if_unused(id, &slot, SpaceGoal::Busy);
        }
        self.flush.signals.space_available();
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

    /// Takes the next unused table from the queue.
    fn take_waiting(&self, sweep: &mut IdleSweep, flush: &mut IdleFlush) -> bool {
        let after = (Bound::Excluded(sweep.flushed), Bound::Unbounded);
        let next = sweep.waiting.range(after).next();
        let next = next.or_else(|| sweep.waiting.first_key_value());
        let Some(id) = next.map(|(id, _)| *id) else {
            return false;
        };
        sweep.flushed = id;
        sweep.excess = sweep.excess.saturating_sub(1);
        let Some(slot) = sweep.waiting.remove(&id) else {
            return false;
        };
        // A table that was used again is left to the next sweep.
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
