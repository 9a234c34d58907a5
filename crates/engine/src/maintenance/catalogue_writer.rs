//! Capturing and writing the catalogue.

use crate::catalogue::{Catalogue, RetainedIds, TEMPORARY_ID_MIN, TableEntry, write_catalogue};
use crate::core::EngineCore;
use crate::core::counters::{ROW_COUNT_COUNTER, TableCounters};
use crate::core::files::IndexFiles;
use crate::core::messages::Messages;
use crate::core::opening::entry_of;
use crate::core::prepared::PreparedList;
use crate::core::table::{OpenIndexes, Table};
use crate::core::tables::{SharedEntry, Slot, Tables};
use crate::core::written::WrittenIndexes;
use crate::error::EngineResult;
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{Lsn, WriteId, WriteIdRange, WriteIdRanges};
use teak_transactions::TransactionSystem;
use teak_write_ahead_log::WriteAheadLog;

/// Tables that are copied without releasing the mutex of their list.
const TABLES_PER_BATCH: usize = 256;

/// The open indexes of a table, unless it was opened to be salvaged: its trees then
/// lack parts, so the values in the catalogue's entry are used.
fn readable(open: &Option<Arc<Table>>) -> Option<OpenIndexes> {
    open.as_ref().and_then(|table| table.readable_indexes())
}

/// The parts of an engine that the catalogue is captured from.
#[derive(Clone, Copy)]
pub(crate) struct CatalogueContext<'a> {
    pub instance: u64,
    pub files: &'a IndexFiles,
    pub log: &'a WriteAheadLog,
    pub replay_from: &'a AtomicU64,
    pub transactions: &'a TransactionSystem,
    pub prepared: &'a PreparedList,
    pub tables: &'a Mutex<Tables>,
    pub table_changes: &'a Mutex<()>,
    pub catalogue_writes: &'a Mutex<()>,
    pub written: &'a WrittenIndexes,
    pub messages: &'a Messages,
}

impl<'a> From<&'a EngineCore> for CatalogueContext<'a> {
    fn from(core: &'a EngineCore) -> Self {
        Self {
            instance: core.instance,
            files: &core.files,
            log: &core.log,
            replay_from: &core.replay_from,
            transactions: &core.transactions,
            prepared: &core.prepared,
            tables: &core.tables,
            table_changes: &core.table_changes,
            catalogue_writes: &core.catalogue_writes,
            written: &core.written,
            messages: &core.messages,
        }
    }
}

/// The entry of a table, and the ids that its closed files may contain if they
/// cannot be opened.
fn state_of(tables: &Mutex<Tables>, id: u64) -> Option<(SharedEntry, Option<WriteIdRange>)> {
    let tables = tables.lock();
    let state = tables.by_id.get(&id)?;
    Some((state.entry.clone(), state.unreadable))
}

impl CatalogueContext<'_> {
    fn write(&self, catalogue: &Catalogue) -> EngineResult<()> {
        self.log.sync(self.log.end())?;
        write_catalogue(&self.files.disk, &self.files.directory, catalogue)?;
        Ok(())
    }

    /// Captures and writes the catalogue outside a checkpoint. The caller holds
    /// the mutex of table changes.
    pub(crate) fn write_now(&self) -> EngineResult<()> {
        let _writes = self.catalogue_writes.lock();
        let replay_from = self.log_needed_from(self.log.end());
        self.write(&self.capture(replay_from, false))
    }

    /// Captures the catalogue for a backup. The caller holds the mutex of table changes, and retains
    /// the log.
    pub(crate) fn capture_for_backup(&self) -> Catalogue {
        let replay_from = self.log_needed_from(self.log.end());
        self.capture(replay_from, false)
    }

    /// Captures and writes the catalogue outside a checkpoint, with the indexes and
    /// retained ids in `entries` instead of the current ones. The caller holds the mutex
    /// of table changes.
    pub(crate) fn write_with(&self, entries: &[TableEntry]) -> EngineResult<()> {
        self.write_changed(|catalogue| {
            for entry in entries {
                if let Some(captured) = catalogue.tables.get_mut(&entry.id) {
                    captured.indexes.clone_from(&entry.indexes);
                    captured.retained = entry.retained;
                }
            }
        })
    }

    /// Captures and writes the catalogue outside a checkpoint, without the note that log records of
    /// a table are retained. The caller holds the mutex of table changes.
    pub(super) fn write_without_note(&self, table: u64) -> EngineResult<()> {
        self.write_changed(|catalogue| {
            if let Some(captured) = catalogue.tables.get_mut(&table) {
                captured.retained = None;
            }
        })
    }

    fn write_changed(&self, change: impl FnOnce(&mut Catalogue)) -> EngineResult<()> {
        let _writes = self.catalogue_writes.lock();
        let replay_from = self.log_needed_from(self.log.end());
        let mut catalogue = self.capture(replay_from, false);
        change(&mut catalogue);
        self.write(&catalogue)
    }

    /// Captures and writes the catalogue after all background work has ended.
    pub(crate) fn write_closing(&self) -> EngineResult<()> {
        let _changes = self.table_changes.lock();
        let _writes = self.catalogue_writes.lock();
        let replay_from = self.log_needed_from(self.log.end());
        self.write(&self.capture(replay_from, true))
    }

    /// Writes the catalogue of a checkpoint and trims the log, unless less than
    /// `trimmed_min` bytes of it can be trimmed. `end` is the log's end when the
    /// round of checkpoints began. Tables may change while the catalogue is written:
    /// the records of these changes are not trimmed.
    pub(super) fn write_checkpoint(
        &self,
        end: Lsn,
        trimmed_min: u64,
        closing: bool,
    ) -> EngineResult<()> {
        let changes = self.table_changes.lock();
        // Taken while table changes are locked, so that catalogues are written in the order in
        // which they are captured.
        let writes = self.catalogue_writes.lock();
        let replay_from = self.log_needed_from(end);
        let before = self.replay_from.load(Ordering::Acquire);
        if replay_from.0.saturating_sub(before) < trimmed_min {
            return Ok(());
        }
        let catalogue = self.capture(replay_from, closing);
        drop(changes);
        self.write(&catalogue)?;
        // Stored before the mutex is released, so that no later catalogue has an older position:
        // the log before this position is trimmed next.
        self.replay_from.store(replay_from.0, Ordering::Release);
        drop(writes);
        if let Err(error) = self.log.trim(replay_from) {
            // Not an error: the next checkpoint trims the old segments.
            let text = format!("the log was not trimmed: {error}");
            self.messages.warning(&text);
        }
        Ok(())
    }

    /// The catalogue at this moment. `replay_from` was read before. The caller
    /// holds the mutex of table changes. The order of the reads matters; see
    /// `checkpoint`.
    fn capture(&self, replay_from: Lsn, closing: bool) -> Catalogue {
        self.files.settle_removed();
        let tables_lsn = self.log.end();
        let ids = self.transactions.ids();
        let next_write_id = ids.next();
        let active = ids.active_below(next_write_id);
        let aborted = ids.aborted_below(next_write_id);
        let prepared = self.prepared.entries();
        let (next_table, next_file) = {
            let tables = self.tables.lock();
            let next_file = tables.next_file.max(tables.reserved_files);
            (tables.next_table, next_file)
        };
        let entries = self.table_slots(TEMPORARY_ID_MIN).into_iter();
        let entries = entries.filter_map(|(id, counters, slot)| {
            let open = slot.lock();
            let mut entry = TableEntry::clone(&*entry_of(self.tables, id)?);
            entry.counters = counters.snapshot(closing);
            if closing
                && let Some(index) = entry.indexes.first()
                && let Some(rows) = counters
                    .rows
                    .newest(index.file, self.prepared.untracked_commit())
            {
                entry.counters.insert(ROW_COUNT_COUNTER, rows + 1);
            }
            entry.written_at = counters.written_at.load(Ordering::Relaxed);
            if let Some(open) = readable(&open) {
                for (entry, index) in entry.indexes.iter_mut().zip(open.iter()) {
                    index.update(entry);
                }
            }
            Some((id, entry))
        });
        Catalogue {
            instance: self.instance,
            replay_from,
            tables_lsn,
            next_table,
            next_file,
            next_write_id,
            active,
            aborted,
            prepared,
            tables: entries.collect(),
            unowned: self.files.unowned(),
        }
    }

    /// The position from which recovery needs the log, at most `end`: the oldest one that a commit
    /// in progress or an index file needs.
    fn log_needed_from(&self, end: Lsn) -> Lsn {
        let floor = self.transactions.commit_floor();
        let mut needed = floor.map_or(end, |floor| floor.min(end));
        for index in self.written.live() {
            if index.is_log_retained() {
                continue;
            }
            if let Some(from) = index.log_needed_from(|| self.log.end()) {
                needed = needed.min(from);
            }
        }
        // The position must not decrease: older log segments may have been removed, and an index's
        // position is only a lower bound.
        needed.max(Lsn(self.replay_from.load(Ordering::Acquire)))
    }

    /// The tables whose ids are less than `end`. Releases the mutex of the list after
    /// every `TABLES_PER_BATCH` tables, because statements need it. The caller locks the
    /// slots one at a time, without that mutex.
    fn table_slots(&self, end: u64) -> Vec<(u64, Arc<TableCounters>, Slot)> {
        let mut slots = Vec::new();
        let mut last = None;
        loop {
            let tables = self.tables.lock();
            let after = last.map_or(Bound::Unbounded, Bound::Excluded);
            let states = tables.by_id.range((after, Bound::Excluded(end)));
            let before = slots.len();
            slots.extend(states.take(TABLES_PER_BATCH).map(|(id, state)| {
                last = Some(*id);
                (*id, Arc::clone(&state.counters), Arc::clone(&state.slot))
            }));
            if slots.len() - before < TABLES_PER_BATCH {
                return slots;
            }
        }
    }

    /// The aborted ids that may be forgotten: those below the first value, except those
    /// in the second. The second contains the ids in tables whose log records are
    /// retained or whose files cannot be opened, and those in any version of a tree that a
    /// reader may use. No other index has an entry of an aborted write below the first
    /// value, not even after a crash, and all ids below it are decided.
    pub(super) fn forgettable(&self) -> (WriteId, WriteIdRanges) {
        // Read first: no entry with an id below is added any more.
        let mut oldest = self.transactions.ids().decided_below();
        let mut retained = self.files.live_trees.write_ids();
        let mut note = |id: WriteId| {
            if !id.is_settled() {
                oldest = oldest.min(id);
            }
        };
        for (id, _, slot) in self.table_slots(u64::MAX) {
            let open = slot.lock();
            let Some((entry, unreadable)) = state_of(self.tables, id) else {
                continue;
            };
            retained.extend(entry.retained.map(RetainedIds::range));
            if let Some(open) = readable(&open) {
                for index in open.iter().filter(|index| !index.is_log_retained()) {
                    note(index.oldest_recoverable_write_id());
                }
            } else if let Some(ids) = unreadable {
                retained.push(ids);
            } else if entry.retained.is_none() {
                for index in &entry.indexes {
                    note(index.oldest_write_id);
                }
            }
        }
        (oldest, WriteIdRanges::union(retained))
    }
}
