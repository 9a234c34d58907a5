//! Checkpoints, and the maintenance pass that decides when one is due.
//!
//! A checkpoint writes the changes in the log to the index files, writes the
//! catalogue, and trims the log. Recovery relies on this order:
//! 1. Read the log's end, and the earliest position of a commit record of a
//!    transaction that is committing.
//! 2. Checkpoint the changed trees. A tree's checkpoint syncs the log first.
//! 3. Capture the catalogue: the active and aborted ids, and the position from which each index
//!    still needs the log. No position is later than those of step 1.
//! 4. Sync the log: commits that the catalogue treats as committed are durable.
//! 5. Write the catalogue.
//! 6. Trim the log.

use super::catalogue_writer::CatalogueContext;
use super::flusher::FlushContext;
use super::idle_tables::IdleTables;
use super::settling::Settling;
use crate::core::EngineCore;
use crate::core::counter_log::CounterLog;
use crate::core::index::Index;
use crate::core::log_stalls::LogStalls;
use crate::core::maintenance_state::MaintenanceState;
use crate::error::{EngineError, EngineResult};
use crate::options::EngineOptions;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::{Lsn, WriteId};

/// The parts of an engine that checkpoints and maintenance need.
pub(crate) struct CheckpointContext<'a> {
    flush: FlushContext<'a>,
    catalogue: CatalogueContext<'a>,
    idle_tables: IdleTables<'a>,
    settling: Settling<'a>,
    counter_log: &'a CounterLog,
    log_stalls: &'a LogStalls,
    state: &'a Mutex<MaintenanceState>,
    options: &'a EngineOptions,
}

impl<'a> From<&'a EngineCore> for CheckpointContext<'a> {
    fn from(core: &'a EngineCore) -> Self {
        Self {
            flush: core.into(),
            catalogue: core.into(),
            idle_tables: IdleTables {
                tables: &core.tables,
                flush: core.into(),
                kept: core.options.open_tables_kept,
            },
            settling: Settling {
                flush: core.into(),
                tables: &core.tables,
                files: &core.files,
            },
            counter_log: &core.counter_log,
            log_stalls: &core.log_stalls,
            state: &core.maintenance,
            options: &core.options,
        }
    }
}

impl CheckpointContext<'_> {
    /// Flushes all memtables and checkpoints all indexes.
    pub(crate) fn checkpoint_all(&self, closing: bool) -> EngineResult<()> {
        let mut state = self.state.lock();
        self.counter_log.append_to(self.flush.log)?;
        for index in self.flush.written.live() {
            if !index.is_temporary() {
                self.flush.freeze(&index);
            }
        }
        self.flush.flush_frozen()?;
        self.checkpoint(&mut state, closing)
    }

    /// One maintenance pass: closes idle tables, and checkpoints when that is due or `forced`. A
    /// checkpoint is due when its period has passed and there were changes, when the log has grown
    /// too large, or when idle tables must be flushed.
    pub(crate) fn run_maintenance(&self, forced: bool) -> EngineResult<()> {
        let mut state = self.state.lock();
        self.flush.transactions.prune();
        self.settling.run_pass(&mut state.settling);
        let mut unflushed = 0;
        if self.flush.signals.has_opened_many() {
            self.flush.signals.reset_opened();
            unflushed = self.idle_tables.close();
        }
        let temporary = self.checkpoint_temporary();
        let end = self.flush.log.end();
        let many_unflushed = unflushed > self.options.open_tables_kept / 4;
        if !(forced || many_unflushed || self.is_due(&state, end)) {
            return temporary;
        }
        if many_unflushed {
            self.idle_tables.freeze(unflushed);
        }
        // Memtables that keep old log records from being trimmed.
        let keep = Lsn(end.0.saturating_sub(self.options.log_bytes_max / 8));
        for index in self.flush.written.live() {
            let oldest = index.tree.oldest_unflushed_lsn();
            if oldest.is_some_and(|oldest| oldest < keep) {
                self.flush.freeze(&index);
            }
        }
        self.flush.flush_frozen()?;
        self.checkpoint(&mut state, false)?;
        self.idle_tables.close();
        temporary
    }

    /// Checkpoints the indexes of temporary tables, which syncs nothing. It frees
    /// the space of blocks that their merges have replaced.
    fn checkpoint_temporary(&self) -> EngineResult<()> {
        let mut outcome = Ok(());
        for index in self.flush.written.live() {
            if index.is_temporary() {
                outcome = outcome.and(checkpoint_index(self.flush, &index));
            }
        }
        outcome
    }

    fn is_due(&self, state: &MaintenanceState, end: Lsn) -> bool {
        let replay_from = self.catalogue.replay_from.load(Ordering::Acquire);
        let replayed = end.0.saturating_sub(replay_from);
        let grown = end.0.saturating_sub(state.last_end.0);
        let log = self.flush.log.log_use();
        let bytes_max = self.options.log_bytes_max;
        let is_long = replayed.max(log.bytes) > bytes_max / 4 && grown > bytes_max / 32;
        if is_long || self.log_stalls.is_stopped() {
            return true;
        }
        let has_changed = || {
            let written = self.flush.written.read();
            let is_changed =
                |index: &Arc<Index>| !index.is_temporary() && index.tree.needs_checkpoint();
            end != state.last_end || written.iter().any(is_changed)
        };
        state.last_checkpoint.elapsed() >= self.options.checkpoint_period && has_changed()
    }

    /// Checkpoints the changed trees, writes the catalogue, and trims the log.
    fn checkpoint(&self, state: &mut MaintenanceState, closing: bool) -> EngineResult<()> {
        self.flush.transactions.prune();
        let forget = self.catalogue.forgettable();
        let end = self.flush.log.end();
        let mut failed = None;
        for index in self.flush.written.snapshot() {
            if index.is_temporary() {
                continue;
            }
            if let Err(error) = checkpoint_index(self.flush, &index) {
                let path = index.entry.path.display();
                let text = format!("checkpointing {path} failed: {error}");
                self.flush.messages.error(&text);
                failed.get_or_insert(error);
            }
        }
        if failed.is_none() {
            self.forget_aborted(state, forget);
        }
        self.catalogue.write_checkpoint(end, closing)?;
        if !self.flush.signals.has_threads() {
            self.flush.log.prepare_segments()?;
        }
        state.last_checkpoint = Instant::now();
        state.last_end = self.flush.log.end();
        self.flush
            .counts
            .checkpoints
            .fetch_add(1, Ordering::Relaxed);
        failed.map_or(Ok(()), Err)
    }

    /// Removes aborted ids that no file contains, in two passes. A reader of an
    /// old version of a tree may still find them, so every transaction that was
    /// running when the files stopped containing them must have ended.
    fn forget_aborted(&self, state: &mut MaintenanceState, oldest: WriteId) {
        let transactions = self.flush.transactions;
        if let Some((below, running)) = state.forget {
            if transactions.oldest_running() < running {
                return;
            }
            transactions.ids().forget_aborted(below);
            state.forget = None;
        }
        if transactions.ids().has_aborted() {
            state.forget = Some((oldest, transactions.next_transaction()));
        }
    }
}

/// Makes the flushed content of one index durable.
pub(crate) fn checkpoint_index(context: FlushContext<'_>, index: &Arc<Index>) -> EngineResult<()> {
    let _durable = index.checkpointing.lock();
    if index.is_dropped() || !index.tree.needs_checkpoint() {
        return Ok(());
    }
    // Must be read before the checkpoint: every write in the file is settled or not older than this
    // id.
    let settled = context.transactions.ids().settled_below();
    let oldest = index
        .tree
        .write_id_range()
        .map_or(settled, |(oldest, _)| oldest.min(settled));
    // Syncs the whole log, not only up to the position of the entries: merges settle committed
    // writes, whose commit records may be later.
    let durable = index.tree.checkpoint(&|_| {
        if index.is_temporary() {
            return Ok(());
        }
        context.log.sync(context.log.end())
    });
    if let Err(error) = durable {
        if error.is_no_space() {
            index.tree.give_back_tail();
        }
        context.messages.report_damage(index, &error);
        return Err(EngineError::Storage(error));
    }
    index.durable_oldest.store(oldest.0, Ordering::Release);
    Ok(())
}
