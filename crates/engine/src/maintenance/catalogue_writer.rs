//! Capturing and writing the catalogue.

use crate::catalogue::{Catalogue, TEMPORARY_ID_MIN, TableEntry, write_catalogue};
use crate::core::EngineCore;
use crate::core::counters::TableCounters;
use crate::core::files::IndexFiles;
use crate::core::messages::Messages;
use crate::core::prepared::PreparedList;
use crate::core::tables::{Slot, Tables};
use crate::core::written::WrittenIndexes;
use crate::error::EngineResult;
use parking_lot::Mutex;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{Lsn, WriteId};
use teak_transactions::TransactionSystem;
use teak_write_ahead_log::WriteAheadLog;

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
            written: &core.written,
            messages: &core.messages,
        }
    }
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
        let catalogue = self.capture(self.log.end(), false);
        self.write(&catalogue)
    }

    /// Writes the catalogue of a checkpoint and trims the log. `end` is the
    /// log's end when the checkpoint began.
    pub(super) fn write_checkpoint(&self, end: Lsn, closing: bool) -> EngineResult<()> {
        let changes = self.table_changes.lock();
        let catalogue = self.capture(end, closing);
        self.write(&catalogue)?;
        let replay_from = catalogue.replay_from;
        // Set under the mutex: no later catalogue may need the log that is trimmed below.
        self.replay_from.store(replay_from.0, Ordering::Release);
        drop(changes);
        if let Err(error) = self.log.trim(replay_from) {
            // Not an error: the next checkpoint trims the old segments.
            let text = format!("the log was not trimmed: {error}");
            self.messages.warning(&text);
        }
        Ok(())
    }

    /// Captures the catalogue. `end` is the log's end as read earlier. The caller holds the mutex
    /// of table changes. The order of the reads matters; see `checkpoint`.
    fn capture(&self, end: Lsn, closing: bool) -> Catalogue {
        let replay_from = self.log_needed_from(end);
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
        let entries = self.table_slots(..TEMPORARY_ID_MIN).into_iter();
        let entries = entries.map(|(mut entry, counters, slot)| {
            entry.counters = counters.snapshot(closing);
            if let Some(table) = &*slot.lock() {
                let open = table.indexes.load();
                for (index, open) in entry.indexes.iter_mut().zip(open.iter()) {
                    index.oldest_write_id = open.oldest_write_id(|| self.log.end());
                }
            }
            (entry.id, entry)
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
        }
    }

    /// The position from which recovery needs the log, at most `end`: the minimum of the commits in
    /// progress and of the index files.
    fn log_needed_from(&self, end: Lsn) -> Lsn {
        let floor = self.transactions.commit_floor();
        let mut needed = floor.map_or(end, |floor| floor.min(end));
        for index in self.written.live() {
            if let Some(from) = index.log_needed_from(|| self.log.end()) {
                needed = needed.min(from);
            }
        }
        // The position must not decrease: older log segments may have been removed, and an index's
        // position is only a lower bound.
        needed.max(Lsn(self.replay_from.load(Ordering::Acquire)))
    }

    /// The tables with these ids. The caller locks their slots one at a time, after the mutex of
    /// the list was released.
    fn table_slots(
        &self,
        ids: impl RangeBounds<u64>,
    ) -> Vec<(TableEntry, Arc<TableCounters>, Slot)> {
        let tables = self.tables.lock();
        let states = tables.by_id.range(ids);
        states
            .map(|(_, state)| {
                let counters = Arc::clone(&state.counters);
                (state.entry.clone(), counters, Arc::clone(&state.slot))
            })
            .collect()
    }

    /// The id below which no index contains an unsettled write and no transaction can write. Must
    /// be read before trees are checkpointed.
    pub(super) fn forgettable(&self) -> WriteId {
        let mut oldest = self.transactions.ids().settled_below();
        for (entry, _, slot) in self.table_slots(..) {
            match &*slot.lock() {
                Some(table) => {
                    for index in table.indexes.load().iter() {
                        if let Some((min, _)) = index.tree.write_id_range() {
                            oldest = oldest.min(min);
                        }
                    }
                }
                None => {
                    for index in &entry.indexes {
                        if !index.oldest_write_id.is_settled() {
                            oldest = oldest.min(index.oldest_write_id);
                        }
                    }
                }
            }
        }
        oldest
    }
}
