//! Tables with a file that fails: they become read-only, so that they do not
//! affect others.
//!
//! An index that cannot be flushed or checkpointed needs more and more of the
//! log. When a flush or checkpoint of an index has failed, maintenance makes its
//! table refuse writes if
//! - the file accepts no checkpoint until it is opened again, because a sync has
//!   failed or its blocks contradict each other; or
//! - the index needs more of the log than [`LOG_SHARE`].
//!
//! The next round of checkpoints retains the table's log records in a file of
//! their own, so that the log is trimmed: see `retained::read_only`.
//!
//! In the second case flushes and checkpoints are tried again. The table accepts
//! writes again when none of its indexes fails any more. If records are retained,
//! the index files must contain all of them first, and a catalogue without the note
//! that they are retained must be written. In the first case the table must be
//! repaired or truncated, or the engine opened again.
//!
//! A new index that an alteration is building is not part of the table yet. If it
//! fails in one of these ways, the alteration fails, and writers skip the index from
//! then on. So its log records can be trimmed before the caller ends the alteration.

use super::catalogue_writer::CatalogueContext;
use super::flusher::{FlushContext, FlushTargets, abandon_index};
use crate::core::index::Index;
use crate::core::maintenance_state::ReadOnlyTables;
use crate::core::opening::entry_of;
use crate::core::table::Table;
use crate::core::tables::{Slot, Tables};
use crate::core::work_kind::WorkKind;
use crate::error::EngineResult;
use crate::retained::RetainContext;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::{FileId, Lsn, StorageError};

/// Eighths of the log's bound that an index whose flushes or checkpoints fail may
/// need. More than the quarter from which a checkpoint is due, less than the half
/// from which writers are slowed.
pub(super) const LOG_SHARE: u64 = 3;

/// The parts of an engine that deal with failed tables.
pub(super) struct FailedTables<'a> {
    pub flush: FlushContext<'a>,
    pub tables: &'a Mutex<Tables>,
    pub catalogue: CatalogueContext<'a>,
    pub retain: RetainContext<'a>,
    pub log_bytes_max: u64,
}

/// The failure of the last checkpoint or flush of an index. Failed merges do not matter.
fn failure(index: &Index) -> Option<StorageError> {
    let checkpoint = index.checkpoint_retry.failure();
    checkpoint.or_else(|| index.attempts(WorkKind::Memtables).failure())
}

impl FailedTables<'_> {
    /// Makes tables with failing files read-only, and lets those whose files work again
    /// accept writes.
    pub(super) fn update(&self, read_only: &mut ReadOnlyTables) {
        read_only.tables.retain(|table| {
            let table = table.upgrade();
            table.is_some_and(|table| !self.accept_again(&table))
        });
        let end = self.flush.log.end();
        for file in self.flush.failing.files() {
            // Before the failure is read: a later one adds the file again.
            self.flush.failing.remove(file);
            let Some(index) = self.flush.written.by_file(file) else {
                continue;
            };
            if failure(&index).is_none() {
                continue;
            }
            self.flush.failing.add(file);
            if index.is_temporary() || index.access.refusal().is_some() {
                continue;
            }
            let Some(cause) = self.reason(&index, end) else {
                continue;
            };
            if self.fail_build(&index, &cause) {
                continue;
            }
            if let Some(table) = self.table_of(index.entry.file) {
                self.refuse_writes(&table, &cause);
                read_only.tables.push(Arc::downgrade(&table));
            }
        }
        let count = read_only.tables.len() as u64;
        let counter = &self.retain.retained.read_only_tables;
        counter.store(count, Ordering::Relaxed);
    }

    /// Retains the log records of read-only tables in files of their own. A failure is reported,
    /// and the next round tries again.
    pub(super) fn retain_records(&self, read_only: &ReadOnlyTables) {
        let tables = read_only.existing();
        let retaining = &read_only.retaining;
        if tables.is_empty() || !retaining.may_try(Instant::now()) {
            return;
        }
        match self.retain.retain_read_only(&tables) {
            Ok(()) => {
                retaining.recover();
            }
            Err(error) => {
                if retaining.failure().is_none() {
                    let text = format!(
                        "the log records of read-only tables cannot be retained now, so the log is kept: {error}"
                    );
                    self.flush.messages.error(&text);
                }
                retaining.fail(error);
            }
        }
    }

    /// Tries again to flush and checkpoint indexes whose log records are retained.
    pub(super) fn try_again(&self, read_only: &ReadOnlyTables) {
        let now = Instant::now();
        for table in read_only.existing() {
            let open = table.open_indexes();
            let indexes = open.iter().flat_map(|indexes| indexes.iter());
            for index in indexes.filter(|index| index.is_log_retained()) {
                // The index keeps the failure.
                let _ = self.try_index(index, now);
            }
        }
    }

    fn try_index(&self, index: &Arc<Index>, now: Instant) -> EngineResult<()> {
        if index.tree.checkpoint_refusal().is_some() {
            return Ok(());
        }
        if index.tree.oldest_unflushed_lsn().is_some() {
            if !index.attempts(WorkKind::Memtables).may_try(now) {
                return Ok(());
            }
            // If there are flusher threads, they flush the memtable, and a later pass makes the
            // checkpoint.
            self.flush.freeze(index);
            if self.flush.signals.has_threads() {
                self.flush.signals.wake_flushers();
                return Ok(());
            }
            let mut targets = FlushTargets::new(false);
            targets.add(index);
            self.flush.flush(targets)?;
        }
        if index.tree.oldest_undurable_lsn().is_some() && index.may_checkpoint(now) {
            self.flush.checkpoint_index(index)?;
        }
        Ok(())
    }

    /// Why the table of an index must be read-only, if it must.
    fn reason(&self, index: &Index, end: Lsn) -> Option<StorageError> {
        let failure = failure(index)?;
        if let Some(cause) = index.tree.checkpoint_refusal() {
            return Some(cause);
        }
        let needed = index.log_needed_from(|| end)?;
        let share = self.log_bytes_max / 8 * LOG_SHARE;
        (end.0.saturating_sub(needed.0) > share).then_some(failure)
    }

    /// The slot of the table that an index file belongs to.
    fn slot_of(&self, file: FileId) -> Option<Slot> {
        let tables = self.tables.lock();
        let mut states = tables.durable();
        let (_, state) = states.find(|(_, state)| {
            let mut indexes = state.entry.indexes.iter();
            indexes.any(|index| index.file == file)
        })?;
        Some(Arc::clone(&state.slot))
    }

    /// The table that an index file belongs to, if it is in memory.
    fn table_of(&self, file: FileId) -> Option<Arc<Table>> {
        let slot = self.slot_of(file)?;
        let open = slot.lock();
        open.clone()
    }

    /// Called for an index whose file fails. If an alteration is building the index,
    /// makes the alteration fail, and returns true.
    fn fail_build(&self, index: &Arc<Index>, cause: &StorageError) -> bool {
        // While this mutex is held, no alteration is committed.
        let _changes = self.catalogue.table_changes.lock();
        if index.is_dropped() || self.slot_of(index.entry.file).is_some() {
            return false;
        }
        index.fail_build(cause);
        abandon_index(self.flush, index);
        let path = index.entry.path.display();
        let text = format!("ALTER TABLE fails, because its new file {path} fails: {cause}");
        self.flush.messages.error(&text);
        true
    }

    fn refuse_writes(&self, table: &Table, cause: &StorageError) {
        let Some(indexes) = table.open_indexes() else {
            return;
        };
        let mut were_accepted = false;
        for index in indexes.iter() {
            were_accepted |= index.access.refuse(cause);
        }
        for index in indexes.iter() {
            index.tree.wait_for_writers();
        }
        if were_accepted {
            let text = format!("table {} is read-only now: {cause}", table.name());
            self.flush.messages.error(&text);
        }
    }

    /// Lets a read-only table accept writes again if none of its indexes fails any more. Returns
    /// false if it remains read-only.
    fn accept_again(&self, table: &Table) -> bool {
        let Some(indexes) = table.open_indexes() else {
            return true;
        };
        let fails = |index: &Arc<Index>| {
            failure(index).is_some() || index.tree.checkpoint_refusal().is_some()
        };
        if indexes.iter().any(fails) || !self.release_records(table, &indexes) {
            return false;
        }
        if indexes.iter().any(|index| index.access.refusal().is_some()) {
            for index in indexes.iter() {
                index.access.allow();
            }
            let text = format!("table {} accepts writes again", table.name());
            self.flush.messages.note(&text);
        }
        true
    }

    /// Removes the retained records of a table that refuses writes, if its files contain all of
    /// them. Returns whether the table has no retained records now.
    fn release_records(&self, table: &Table, indexes: &[Arc<Index>]) -> bool {
        let _changes = self.catalogue.table_changes.lock();
        let entry = entry_of(self.tables, table.id);
        if entry.is_none_or(|entry| entry.retained.is_none()) {
            return true;
        }
        let is_durable = |index: &Arc<Index>| {
            let end = || self.flush.log.end();
            !index.is_log_retained() || index.log_needed_from(end).is_none()
        };
        if !indexes.iter().all(is_durable) {
            return false;
        }
        // From this catalogue on, recovery replays the log for the table. The log contains all
        // later records of the table.
        if let Err(error) = self.catalogue.write_without_note(table.id) {
            let text = format!("table {} remains read-only: {error}", table.name());
            self.flush.messages.warning(&text);
            return false;
        }
        if let Some(state) = self.tables.lock().by_id.get_mut(&table.id) {
            state.entry.retained = None;
        }
        for index in indexes {
            index.set_log_retained(false);
        }
        self.retain.retained.remove(self.retain.files, table.id);
        true
    }
}
