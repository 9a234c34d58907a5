//! Checkpoints, and the maintenance pass that decides when one is due.
//!
//! A round of checkpoints makes changes durable in index files, so that recovery
//! does not need their log records, writes the catalogue, and trims the log.
//! Recovery relies on this order:
//! 1. Read the log's end.
//! 2. Checkpoint indexes (see `checkpoint_round`). This syncs first the log, and
//!    then the index files.
//! 3. Capture the catalogue: the active and aborted ids, and the position from
//!    which each index, and each transaction that is committing, still needs the
//!    log. No position is later than that of 1.
//! 4. Sync the log: commits that the catalogue treats as committed are durable.
//! 5. Write the catalogue.
//! 6. Trim the log.
//!
//! Steps 3 to 6 are valid at any time, so a long round repeats them between its
//! batches.

use super::catalogue_writer::CatalogueContext;
use super::checkpoint_plan::{Scope, plan};
use super::checkpoint_round::BATCH_INDEXES;
use super::failed_tables::FailedTables;
use super::flusher::FlushContext;
use super::idle_tables::{IdleTables, OpenTrees};
use super::settling::Settling;
use crate::core::EngineCore;
use crate::core::checkpoint_progress::Waiting;
use crate::core::counter_log::CounterLog;
use crate::core::index::Index;
use crate::core::log_stalls::TrimProgress;
use crate::core::maintenance_state::MaintenanceState;
use crate::error::{EngineError, EngineResult};
use crate::options::EngineOptions;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{Lsn, StorageError};
use teak_tree::SpaceGoal;

/// Maximum time for which the opening of a table waits until idle ones are closed.
const OPENING_DELAY_MAX: Duration = Duration::from_millis(100);

/// How often such a thread counts the open trees.
const OPENING_POLL_PERIOD: Duration = Duration::from_millis(10);

/// The parts of an engine that checkpoints and maintenance need.
pub(crate) struct CheckpointContext<'a> {
    flush: FlushContext<'a>,
    catalogue: CatalogueContext<'a>,
    idle_tables: IdleTables<'a>,
    settling: Settling<'a>,
    failed_tables: FailedTables<'a>,
    counter_log: &'a CounterLog,
    state: &'a Mutex<MaintenanceState>,
    closing_idle: &'a Mutex<()>,
    options: &'a EngineOptions,
}

impl<'a> From<&'a EngineCore> for CheckpointContext<'a> {
    fn from(core: &'a EngineCore) -> Self {
        Self {
            flush: core.into(),
            catalogue: core.into(),
            idle_tables: IdleTables {
                backup: &core.files.backup,
                tables: &core.tables,
                flush: core.into(),
                kept: core.options.open_tables_kept,
                idle_after: core.options.table_idle_period,
            },
            settling: Settling {
                flush: core.into(),
                tables: &core.tables,
                files: &core.files,
            },
            failed_tables: FailedTables {
                flush: core.into(),
                tables: &core.tables,
                catalogue: core.into(),
                retain: core.into(),
                log_bytes_max: core.log.log_use().bytes_max,
            },
            counter_log: &core.counter_log,
            state: &core.maintenance,
            closing_idle: &core.closing_idle,
            options: &core.options,
        }
    }
}

impl CheckpointContext<'_> {
    /// Flushes all memtables and checkpoints all changed indexes, except those of
    /// temporary tables.
    ///
    /// # Errors
    /// The first error of an index, after the others have been checkpointed;
    /// those of the log and the catalogue.
    pub(crate) fn checkpoint_all(&self, closing: bool) -> EngineResult<()> {
        let mut state = self.state.lock();
        self.counter_log.append_to(self.flush.log)?;
        let failed = self.run_round(&mut state, Scope::All, Vec::new(), closing)?;
        failed.map_or(Ok(()), |error| Err(EngineError::Storage(error)))
    }

    /// One maintenance pass: releases memory, settles write ids, closes idle tables, checkpoints
    /// some indexes of idle tables and those of all temporary tables, updates the read-only tables,
    /// and makes a round of checkpoints when one is due or `forced`. A round is due when its period
    /// is over and something changed, when the log is long and has grown, when the log stops a
    /// writer, or when idle tables must be flushed.
    ///
    /// # Errors
    /// Those of the log and the catalogue; if `forced`, also the first error of
    /// an index.
    pub(crate) fn run_maintenance(&self, forced: bool) -> EngineResult<()> {
        let mut state = self.state.lock();
        self.flush.transactions.prune();
        self.release_memory();
        self.report_aborted();
        let full_disks = self.flush.counts.full_disks.load(Ordering::Relaxed);
        self.catalogue
            .files
            .backup
            .enforce_limits(self.flush.log, self.flush.messages, full_disks);
        if self.settling.run_pass(&mut state.settling) {
            self.forget_aborted();
        }
        let open_trees = self.idle_tables.open_trees();
        if self.flush.signals.has_opened_many() || open_trees != OpenTrees::Few {
            state.idle_sweep.is_urgent = true;
            self.flush.signals.reset_opened();
            let count = self.idle_tables.close(open_trees);
            let are_many = count > self.options.open_tables_kept / 4;
            if are_many || (count > 0 && open_trees != OpenTrees::Few) {
                let sweep = &mut state.idle_sweep;
                self.idle_tables.queue_unflushed(sweep, count);
            }
        }
        let unused = self.idle_tables.sweep(&mut state.idle_sweep, open_trees);
        let unflushed = self.idle_tables.unflushed_of(&unused);
        self.flush_some(&mut state)?;
        self.checkpoint_temporary();
        self.flush.note_unflushable();
        self.failed_tables.try_again(&state.read_only);
        self.failed_tables.update(&mut state.read_only);
        let due = self.due(&mut state);
        let scope = match due {
            _ if forced => Scope::Changed,
            Some(scope) => scope,
            None if !unflushed.is_empty() => Scope::Due,
            None => return Ok(()),
        };
        let failed = self.run_round(&mut state, scope, unflushed, false)?;
        self.idle_tables.close(open_trees);
        for (id, slot) in unused {
            self.idle_tables.close_if_unused(id, &slot, SpaceGoal::Idle);
        }
        match failed {
            Some(error) if forced => Err(EngineError::Storage(error)),
            _ => Ok(()),
        }
    }

    /// Makes some indexes durable although the log does not require it.
    fn flush_some(&self, state: &mut MaintenanceState) -> EngineResult<()> {
        let is_urgent = self.flush.aborted.is_urgent(self.flush.transactions);
        let settled = &mut state.settling.settled;
        self.idle_tables
            .flush_some(&mut state.idle_sweep, settled, is_urgent)
    }

    /// Measures how fast aborted ids are forgotten, and warns when there are so
    /// many that writers are slowed.
    fn report_aborted(&self) {
        let transactions = self.flush.transactions;
        if self.flush.aborted.report(transactions) {
            let ranges = transactions.ids().aborted_ranges();
            let decided = transactions.ids().decided_below();
            let text = format!(
                "writers are slowed: {ranges} ranges of write ids of rolled back statements are \
                 registered. Those after id {decided} are needed until the oldest transaction \
                 with writes has ended"
            );
            self.flush.messages.warning(&text);
        }
    }

    /// Returns memory that is no longer used, and adapts the page cache.
    fn release_memory(&self) {
        self.flush.memtables().release_spare();
        if let Some(heap) = &self.options.heap {
            heap.release_unused();
        }
        self.flush.fit_budget();
    }

    /// Checkpoints the indexes of temporary tables, which syncs nothing. It frees
    /// the space of blocks that their merges have replaced. A failure is reported
    /// and kept in the index.
    fn checkpoint_temporary(&self) {
        let now = Instant::now();
        for index in self.flush.written.temporary() {
            if index.may_checkpoint(now) {
                let _ = self.flush.checkpoint_index(&index);
            }
        }
    }

    /// Called by a thread that has opened a table when too many were opened: closes
    /// idle tables. Does not wait for a round of checkpoints; tables that must be
    /// flushed are left to the maintenance thread. In an engine without threads, makes
    /// a maintenance pass.
    ///
    /// # Errors
    /// As [`CheckpointContext::run_maintenance`], in an engine without threads.
    pub(crate) fn close_idle_tables(&self) -> EngineResult<()> {
        let signals = self.flush.signals;
        if !signals.has_threads() {
            return self.run_maintenance(false);
        }
        if let Some(_closing) = self.closing_idle.try_lock() {
            let unflushed = self.idle_tables.close(self.idle_tables.open_trees());
            signals.note_closed(unflushed > 0);
        }
        Ok(())
    }

    /// Called by a thread that will open a table: while there are too many open trees, waits until
    /// maintenance has closed idle tables, for a short time. If more tables are in use, the number
    /// grows nevertheless, but slowly.
    ///
    /// # Errors
    /// As [`CheckpointContext::close_idle_tables`].
    pub(crate) fn await_closed_trees(&self, interrupted: &dyn Fn() -> bool) -> EngineResult<()> {
        let signals = self.flush.signals;
        let began = Instant::now();
        while self.idle_tables.open_trees() == OpenTrees::TooMany
            && began.elapsed() < OPENING_DELAY_MAX
            && !interrupted()
        {
            if !signals.has_threads() {
                return self.run_maintenance(false);
            }
            signals.wake_maintenance();
            signals.wait_for_space(OPENING_POLL_PERIOD);
        }
        Ok(())
    }

    /// What is due now, if anything is.
    fn due(&self, state: &mut MaintenanceState) -> Option<Scope> {
        let end = self.flush.log.end();
        let has_changed = || {
            let now = Instant::now();
            let is_changed = |index: &Arc<Index>| {
                !index.is_temporary() && index.tree.needs_checkpoint() && index.may_checkpoint(now)
            };
            end != state.last_end || self.flush.written.any(is_changed)
        };
        if state.last_period.elapsed() >= self.options.checkpoint_period {
            if has_changed() {
                return Some(Scope::Period);
            }
            // All indexes are examined at most once per period.
            state.last_period = Instant::now();
        }
        let replay_from = self.catalogue.replay_from.load(Ordering::Acquire);
        let replayed = end.0.saturating_sub(replay_from);
        let grown = end.0.saturating_sub(state.last_end.0);
        let log = self.flush.log.log_use();
        let bytes_max = log.bytes_max;
        let is_long = replayed.max(log.bytes) > bytes_max / 4 && grown > bytes_max / 32;
        (is_long || self.flush.log_stalls.is_stopped()).then_some(Scope::Due)
    }

    /// Checkpoints indexes, writes the catalogue, and trims the log. `unflushed`
    /// are checkpointed whether due or not. Returns the first error of an index.
    fn run_round(
        &self,
        state: &mut MaintenanceState,
        scope: Scope,
        unflushed: Vec<Arc<Index>>,
        closing: bool,
    ) -> EngineResult<Option<StorageError>> {
        self.flush.transactions.prune();
        let end = self.flush.log.end();
        // Memtables with log records before `keep` are flushed, so that these can be trimmed.
        let bytes_max = self.flush.log.log_use().bytes_max;
        let keep = Lsn(end.0.saturating_sub(bytes_max / 8));
        let planned = plan(&self.flush, scope, keep, &unflushed);
        drop(unflushed);
        self.flush.progress.begin(planned.len());
        let mut trimmed = self.trim_progress();
        let mut failed = None;
        let mut run = || {
            let mut rest = planned.as_slice();
            while !rest.is_empty() {
                let (batch, after) = rest.split_at(rest.len().min(BATCH_INDEXES));
                let error = self.flush.checkpoint_batch(batch, scope)?;
                failed = failed.take().or(error);
                self.flush.progress.add_done(batch.len());
                rest = after;
                let worth = bytes_max / 32;
                let replay_from = self.catalogue.replay_from.load(Ordering::Acquire);
                if rest
                    .first()
                    .is_some_and(|next| next.oldest.0.min(end.0) >= replay_from + worth)
                {
                    self.flush.progress.wait_for(Waiting::Catalogue);
                    self.catalogue.write_checkpoint(end, worth, false)?;
                    trimmed = self.report_trim(trimmed);
                }
            }
            self.failed_tables.update(&mut state.read_only);
            self.failed_tables.retain_records(&state.read_only);
            self.forget_aborted();
            self.flush.progress.wait_for(Waiting::Catalogue);
            let is_unchanged = self.flush.log.end() == state.last_end;
            let in_background = matches!(scope, Scope::Due | Scope::Period);
            let trimmed_min = u64::from(is_unchanged && in_background);
            self.catalogue.write_checkpoint(end, trimmed_min, closing)?;
            if !self.flush.signals.has_threads() {
                self.flush.log.prepare_segments()?;
            }
            Ok(())
        };
        let outcome = run();
        self.report_trim(trimmed);
        if scope != Scope::Due {
            state.last_period = Instant::now();
        }
        state.last_end = self.flush.log.end();
        self.flush.progress.end(outcome.is_ok());
        outcome.map(|()| failed)
    }

    fn trim_progress(&self) -> TrimProgress {
        TrimProgress {
            at: Instant::now(),
            position: self.catalogue.replay_from.load(Ordering::Acquire),
        }
    }

    /// Reports how much of the log was trimmed since `from`. Returns the progress
    /// now, for the next report.
    fn report_trim(&self, from: TrimProgress) -> TrimProgress {
        let now = self.trim_progress();
        let log = self.flush.log.log_use();
        let worth = log.bytes_max / 32;
        self.flush.log_stalls.report_trim(from, now, log, worth);
        now
    }

    /// Removes aborted ids that no file contains, and that no reader of an older version of a tree
    /// can find.
    fn forget_aborted(&self) {
        let ids = self.flush.transactions.ids();
        if ids.has_aborted() {
            let (below, kept) = self.catalogue.forgettable();
            ids.forget_aborted(below, &kept);
        }
    }
}
