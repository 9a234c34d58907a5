//! Retains the log records of read-only tables while the engine is open. Their files
//! fail, so the log would otherwise have to keep the records until it is full.
//!
//! 1. The tables refuse writes, so the log gets no more records of them.
//! 2. Copy the records that their files lack to files of their own, see
//!    `collect`. No lock of a table is held.
//! 3. With table changes locked: note in their entries that the records are
//!    retained, and in their indexes that the log is not needed for them.
//! 4. The next catalogue contains the notes. Then the log can be trimmed.
//!
//! The memtables remain, so the tables can be read. When all of a table's files
//! work again and contain everything, a catalogue without the note is written
//! before the table accepts writes, see `maintenance::failed_tables`. If the
//! engine is closed or crashes before that, the next open makes the table whole
//! like an unavailable one, see `restore`.

use super::collect::{Copied, CopyContext, CopyRequest, Visit};
use crate::core::EngineCore;
use crate::core::files::IndexFiles;
use crate::core::index::Index;
use crate::core::opening::entry_of;
use crate::core::retained_files::{RetainedFiles, RetainedFor};
use crate::core::table::Table;
use crate::core::tables::Tables;
use crate::name::retained_path;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{FileId, Lsn, StorageResult, WriteId};
use teak_transactions::TransactionSystem;
use teak_write_ahead_log::WriteAheadLog;

/// The parts of an engine that retaining records needs.
pub(crate) struct RetainContext<'a> {
    pub instance: u64,
    pub files: &'a IndexFiles,
    pub log: &'a WriteAheadLog,
    pub replay_from: &'a AtomicU64,
    pub transactions: &'a TransactionSystem,
    pub tables: &'a Mutex<Tables>,
    pub table_changes: &'a Mutex<()>,
    pub retained: &'a RetainedFiles,
}

impl<'a> From<&'a EngineCore> for RetainContext<'a> {
    fn from(core: &'a EngineCore) -> Self {
        Self {
            instance: core.instance,
            files: &core.files,
            log: &core.log,
            replay_from: &core.replay_from,
            transactions: &core.transactions,
            tables: &core.tables,
            table_changes: &core.table_changes,
            retained: &core.retained,
        }
    }
}

/// A read-only table and its indexes, without those that are being built.
struct ReadOnly<'a> {
    table: &'a Arc<Table>,
    indexes: Vec<Arc<Index>>,
}

fn files_of(indexes: &[Arc<Index>]) -> impl Iterator<Item = FileId> + '_ {
    indexes.iter().map(|index| index.entry.file)
}

impl RetainContext<'_> {
    /// Retains the records of tables that refuse writes, except tables whose records are retained
    /// already and those that need no log. The caller prevents the log from being trimmed.
    ///
    /// # Errors
    /// Those of the log; `NoSpace`, `Io`. After an error no table has changed.
    pub(crate) fn retain_read_only(&self, tables: &[Arc<Table>]) -> StorageResult<()> {
        let end = self.log.end();
        let (mut found, mut wanted) = (Vec::new(), Vec::new());
        for table in tables {
            let Some(read_only) = self.read_only(table) else {
                continue;
            };
            let needed = |index: &Arc<Index>| index.log_needed_from(|| end);
            let files = read_only.indexes.iter();
            let files = files.map(|index| (index.entry.file, needed(index).unwrap_or(end)));
            let files: Vec<(FileId, Lsn)> = files.collect();
            if files.iter().all(|(_, from)| *from == end) {
                continue;
            }
            let oldest = read_only.indexes.iter();
            let oldest = oldest.map(|index| index.oldest_recoverable_write_id());
            let oldest = oldest.filter(|id| !id.is_settled()).min();
            wanted.push(CopyRequest {
                table: table.id,
                files,
                oldest: oldest.unwrap_or(WriteId::SETTLED),
            });
            found.push(read_only);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        for (read_only, copied) in found.iter().zip(self.copy(&wanted, end)?) {
            self.note(read_only, &copied);
        }
        Ok(())
    }

    /// The table with its own indexes, if it refuses writes and its records are not retained yet.
    fn read_only<'t>(&self, table: &'t Arc<Table>) -> Option<ReadOnly<'t>> {
        let entry = entry_of(self.tables, table.id)?;
        if entry.retained.is_some() {
            return None;
        }
        let open = table.readable_indexes()?;
        let is_own = |index: &&Arc<Index>| {
            let file = index.entry.file;
            entry.indexes.iter().any(|own| own.file == file)
        };
        let indexes: Vec<Arc<Index>> = open.iter().filter(is_own).cloned().collect();
        let refuse = indexes.iter().all(|index| index.access.refusal().is_some());
        (refuse && indexes.len() == entry.indexes.len()).then_some(ReadOnly { table, indexes })
    }

    fn copy(&self, wanted: &[CopyRequest], end: Lsn) -> StorageResult<Vec<Copied>> {
        self.log.sync(end)?;
        let files = wanted.iter().flat_map(|wanted| &wanted.files);
        let from = files.map(|(_, from)| *from).min().unwrap_or(end);
        // An index's position is only a lower bound.
        let from = from.max(Lsn(self.replay_from.load(Ordering::Acquire)));
        let read = |visit: &mut Visit<'_>| self.log.read_between(from, end, visit);
        self.files_of_records().copy(wanted, end, read)
    }

    fn files_of_records(&self) -> CopyContext<'_> {
        CopyContext {
            instance: self.instance,
            files: self.files,
            ids: self.transactions.ids(),
        }
    }

    /// Step 3. If the table's indexes were replaced since step 1, removes the copy.
    fn note(&self, read_only: &ReadOnly<'_>, copied: &Copied) {
        let id = copied.table;
        let _changes = self.table_changes.lock();
        let noted = {
            let mut tables = self.tables.lock();
            let state = tables.by_id.get_mut(&id).filter(|state| {
                let own = state.entry.indexes.iter().map(|own| own.file);
                own.eq(files_of(&read_only.indexes))
            });
            match state {
                Some(state) => {
                    state.entry.retained = Some(copied.ids);
                    true
                }
                None => false,
            }
        };
        if !noted {
            return self.files_of_records().discard(id);
        }
        for index in &read_only.indexes {
            index.set_log_retained(true);
        }
        self.retained
            .add(id, copied.bytes, RetainedFor::ReadOnlyTable);
        let name = read_only.table.name();
        let file = retained_path("".as_ref(), id);
        let text = format!(
            "the log records of read-only table {name} are retained in {} ({} bytes): the log is not kept for it",
            file.display(),
            copied.bytes
        );
        self.files.messages.note(&text);
    }
}
