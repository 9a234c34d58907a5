//! Makes an unavailable table whole: inserts its retained log records.
//!
//! On the thread that opens the table:
//! 1. Open its files, verify the retained records, and insert those that the
//!    files do not contain.
//! 2. Flush everything, checkpoint the indexes, and close the files. Their
//!    superblocks then say that they contain everything up to the position up to
//!    which the log was searched.
//! 3. Write a catalogue in which the table is whole.
//! 4. Allow the table to be opened, and remove the retained file.
//!
//! After a failure the table is as before: the next attempt begins again, with
//! the records that the files still do not contain.

use crate::catalogue::{IndexEntry, TableEntry};
use crate::core::EngineCore;
use crate::core::file_search::{FoundFiles, with_found_paths};
use crate::core::index::{Index, adopt_options};
use crate::core::opening::{entry_of, slot_of};
use crate::error::{EngineError, EngineResult};
use crate::maintenance::admission::MEMTABLE_BYTES_MAX;
use crate::maintenance::catalogue_writer::CatalogueContext;
use crate::maintenance::flusher::FlushContext;
use crate::name::retained_path;
use crate::retained::file::{RetainedPlace, read_retained};
use std::sync::Arc;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{FileId, Lsn, StorageError, StorageResult};
use teak_tree::JobKind;
use teak_write_ahead_log::Record;

/// Tables that are published with one catalogue at the start of the engine.
const TABLES_PER_BATCH: usize = 64;

/// Tables that messages at the start of the engine name.
const TABLES_NAMED: usize = 20;

/// Makes a table whole, unless it is already. If that is not possible, the reason is in the error
/// `TableUnavailable` and in the error log. Ends when `interrupted` returns true; the table then
/// remains unavailable.
///
/// # Errors
/// `TableUnavailable`; `Interrupted`; errors of the log and of the catalogue.
pub(crate) fn restore_table(
    core: &EngineCore,
    id: u64,
    interrupted: &dyn Fn() -> bool,
) -> EngineResult<()> {
    let _turn = core.retained.restoring.begin(id, interrupted)?;
    let Some(entry) = unavailable_entry(core, id) else {
        return Ok(());
    };
    let restored = apply_records(core, &mut FoundFiles::default(), entry, interrupted);
    let restored = restored.inspect_err(|error| report(core, id, error))?;
    publish(core, vec![restored])
}

/// Makes those unavailable tables whole whose files can be read now, and reports
/// the others. Called when the engine is opened.
///
/// # Errors
/// Those of the log and of the catalogue.
pub(crate) fn restore_all(core: &EngineCore) -> EngineResult<()> {
    let ids: Vec<u64> = {
        let tables = core.tables.lock();
        let states = tables.durable();
        let retained = states.filter(|(_, state)| state.entry.retained.is_some());
        retained.map(|(id, _)| *id).collect()
    };
    let (mut paths, mut failed) = (FoundFiles::default(), 0);
    for ids in ids.chunks(TABLES_PER_BATCH) {
        let mut found = Vec::new();
        for id in ids {
            let Some(entry) = unavailable_entry(core, *id) else {
                continue;
            };
            match apply_records(core, &mut paths, entry, &|| false) {
                Ok(restored) => found.push(restored),
                Err(error) => {
                    failed += 1;
                    if failed <= TABLES_NAMED {
                        report(core, *id, &error);
                    }
                }
            }
        }
        match publish(core, found) {
            Err(EngineError::Storage(error)) if error.is_no_space() => {
                let text = format!("the disk is full: tables remain unavailable: {error}");
                core.messages.error(&text);
            }
            published => published?,
        }
    }
    if failed > TABLES_NAMED {
        let text = format!("{failed} tables are unavailable in all");
        core.messages.error(&text);
    }
    Ok(())
}

/// Writes to the error log why a table is unavailable, unless the last message about
/// the table was the same: each use of the table tries to make it whole.
fn report(core: &EngineCore, id: u64, error: &EngineError) {
    if matches!(error, EngineError::Storage(StorageError::Interrupted)) {
        return;
    }
    let text = describe(id, error);
    let last = core.retained.reported.lock().insert(id, text.clone());
    if last.as_ref() != Some(&text) {
        core.messages.error(&text);
    }
}

fn describe(id: u64, error: &EngineError) -> String {
    let file = retained_path("".as_ref(), id);
    let file = file.display();
    format!(
        "{error}. Its log records are retained in {file}. The table is whole again when it is opened after its files can be read"
    )
}

fn unavailable_entry(core: &EngineCore, id: u64) -> Option<TableEntry> {
    let entry = entry_of(&core.tables, id)?;
    let is_unavailable = core.retained.is_unavailable(&entry);
    is_unavailable.then(|| TableEntry::clone(&entry))
}

/// Steps 1 and 2. Returns the entry that the table will have.
fn apply_records(
    core: &EngineCore,
    paths: &mut FoundFiles,
    entry: TableEntry,
    interrupted: &dyn Fn() -> bool,
) -> EngineResult<TableEntry> {
    let name = entry.name.clone();
    fill(core, paths, entry, interrupted).map_err(|error| match error {
        EngineError::Storage(StorageError::Interrupted) => error,
        EngineError::Storage(cause) => EngineError::TableUnavailable { name, cause },
        error => error,
    })
}

/// Inserts the records into the files that can be opened, even if others cannot, so
/// that a repair finds the records in these files.
fn fill(
    core: &EngineCore,
    paths: &mut FoundFiles,
    entry: TableEntry,
    interrupted: &dyn Fn() -> bool,
) -> EngineResult<TableEntry> {
    if let Some(cause) = salvaged(core, entry.id) {
        return Err(cause.into());
    }
    let files = &core.files;
    let mut entry = with_found_paths(&files.disk, &files.directory, paths, &entry)?;
    let damaged = Arc::default();
    let (mut indexes, mut failed) = (Vec::new(), None);
    for index in &entry.indexes {
        match files.open_tree(index) {
            Ok(tree) => {
                adopt_options(&tree, index);
                indexes.push(Arc::new(Index::new(index.clone(), tree, &damaged)));
            }
            Err(cause) => failed = failed.or(Some(cause)),
        }
    }
    let is_filled = |index: &Arc<Index>| core.retained.filled.lock().contains(&index.entry.file);
    if let Some(cause) = &failed
        && indexes.iter().all(is_filled)
    {
        return Err(cause.clone().into());
    }
    let target = Target {
        core,
        table: entry.id,
        indexes,
        interrupted,
    };
    if let Err(error) = target.apply() {
        if matches!(&error, EngineError::Storage(cause) if cause.is_no_space()) {
            target.free_unpublished();
        }
        return Err(error);
    }
    let filled = target.indexes.iter().map(|index| index.entry.file);
    core.retained.filled.lock().extend(filled);
    if let Some(cause) = failed {
        return Err(cause.into());
    }
    entry.retained = None;
    for (entry, index) in entry.indexes.iter_mut().zip(&target.indexes) {
        index.update(entry);
    }
    Ok(entry)
}

/// Why a table cannot be opened, if it is open to be salvaged.
fn salvaged(core: &EngineCore, id: u64) -> Option<StorageError> {
    let slot = slot_of(&core.tables, id)?;
    let table = slot.lock();
    table.as_ref()?.unreadable()
}

/// The indexes of a table that receive records.
struct Target<'a> {
    core: &'a EngineCore,
    table: u64,
    indexes: Vec<Arc<Index>>,
    interrupted: &'a dyn Fn() -> bool,
}

impl Target<'_> {
    /// Inserts the records and makes the files durable.
    fn apply(&self) -> EngineResult<()> {
        let core = self.core;
        let end = read_retained(
            RetainedPlace::of(&core.files, core.instance),
            self.table,
            &mut |lsn, record| self.insert(lsn, record),
        )?;
        self.flush(end)?;
        for index in &self.indexes {
            // Also if no record was inserted. The log may contain rolled back writes of the table
            // before `end`, and recovery must not insert them: their ids may be forgotten.
            index.tree.require_durable(end);
            FlushContext::from(core).checkpoint_index(index)?;
            if index.tree.durable_lsn() < end {
                let path = index.entry.path.display();
                let text = format!("{path} was not checkpointed up to {end}");
                return Err(EngineError::Internal(text));
            }
        }
        Ok(())
    }

    /// Frees the space of everything that a failed attempt has flushed and not
    /// checkpointed, because the next attempt writes it again.
    fn free_unpublished(self) {
        let files = &self.core.files;
        let indexes = self.indexes.into_iter();
        let entries: Vec<IndexEntry> = indexes.map(|index| index.entry.clone()).collect();
        for entry in &entries {
            // Opened again, because the first tree used the space. If the file cannot be opened
            // now, its next checkpoint truncates it.
            if let Ok(tree) = files.open_tree(entry) {
                tree.truncate_free_tail();
            }
        }
    }

    fn insert(&self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
        let malformed = || {
            let path = retained_path("".as_ref(), self.table);
            StorageError::corrupt(&path, 0, "a record is not valid")
        };
        match *record {
            Record::Write {
                write_id,
                operations,
            } => {
                for operation in operations {
                    let (key, value) = (operation.key, operation.value);
                    if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
                        return Err(malformed().into());
                    }
                    if let Some(index) = self.index(lsn, operation.file) {
                        let guard = index.tree.write_guard();
                        guard.set_lsn(lsn);
                        guard.insert(write_id, operation.operation, key, value);
                    }
                }
            }
            Record::DeleteRange {
                file,
                write_id,
                start,
                end,
            } => {
                if start.len() > KEY_BYTES_MAX || end.len() > KEY_BYTES_MAX {
                    return Err(malformed().into());
                }
                if let Some(index) = self.index(lsn, file) {
                    let guard = index.tree.write_guard();
                    guard.set_lsn(lsn);
                    guard.delete_range(write_id, start, end);
                }
            }
            _ => return Err(malformed().into()),
        }
        let memtables = self.indexes.iter();
        let bytes: u64 = memtables.map(|index| index.tree.memtable_bytes()).sum();
        let quota = self.core.budget.memtable_quota();
        if bytes > MEMTABLE_BYTES_MAX.min(quota / 8) {
            if (self.interrupted)() {
                return Err(StorageError::Interrupted.into());
            }
            // After this record and before the next.
            self.flush(Lsn(lsn.0 + 1))?;
        }
        Ok(())
    }

    /// The index of a file, if the file does not contain the records at `lsn`.
    fn index(&self, lsn: Lsn, file: FileId) -> Option<&Arc<Index>> {
        let mut indexes = self.indexes.iter();
        let index = indexes.find(|index| index.entry.file == file)?;
        (lsn >= index.replay_from).then_some(index)
    }

    /// Flushes all memtables. They contain exactly the records before `boundary`
    /// that the files lack.
    fn flush(&self, boundary: Lsn) -> StorageResult<()> {
        for index in &self.indexes {
            index.tree.freeze(|| boundary);
            flush_frozen(self.core, index)?;
        }
        Ok(())
    }
}

/// Flushes the frozen memtables of an index. Jobs that the tree considers more
/// urgent run first, so that the number of runs is bounded. If a merge fails because
/// a leaf is damaged, only memtables are flushed: statements that read the leaf
/// report the damage.
fn flush_frozen(core: &EngineCore, index: &Index) -> StorageResult<()> {
    let horizon = core.transactions.horizon();
    let mut merges = true;
    while index.tree.frozen_memtables() > 0 {
        let job = match merges {
            true => index.tree.next_job(),
            false => Ok(index.tree.next_memtable_job()),
        };
        let job = match job {
            Ok(Some(job)) => job,
            Ok(None) => break,
            Err(error) if error.is_corrupt() => {
                core.messages.report_damage(index, &error);
                merges = false;
                continue;
            }
            Err(error) => return Err(error),
        };
        let kind = job.kind();
        if let Err(error) = job.run(&horizon) {
            if kind == JobKind::Memtable || !error.is_corrupt() {
                return Err(error);
            }
            core.messages.report_damage(index, &error);
            merges = false;
        }
    }
    Ok(())
}

/// Steps 3 and 4, for several tables. Leaves out tables whose files were dropped or
/// replaced since step 1. The tables' files are closed, and are opened like those of
/// other tables.
fn publish(core: &EngineCore, mut found: Vec<TableEntry>) -> EngineResult<()> {
    let changes = core.table_changes.lock();
    found.retain(|whole| {
        let files = |entry: &TableEntry| {
            let indexes = entry.indexes.iter();
            indexes.map(|index| index.file).collect::<Vec<FileId>>()
        };
        let entry = unavailable_entry(core, whole.id);
        entry.is_some_and(|entry| files(&entry) == files(whole))
    });
    if found.is_empty() {
        return Ok(());
    }
    CatalogueContext::from(core).write_with(&found)?;
    for entry in &found {
        let Some(slot) = slot_of(&core.tables, entry.id) else {
            continue;
        };
        let _slot = slot.lock();
        let mut tables = core.tables.lock();
        if let Some(state) = tables.by_id.get_mut(&entry.id) {
            state.entry.retained = None;
            state.entry.indexes.clone_from(&entry.indexes);
        }
    }
    // While table changes are locked: the table may be used from now on, and if it becomes
    // read-only, its new records are retained in a file of the same name.
    for entry in &found {
        core.retained.remove(&core.files, entry.id);
    }
    drop(changes);
    for entry in &found {
        let mut filled = core.retained.filled.lock();
        for index in &entry.indexes {
            filled.remove(&index.file);
        }
        drop(filled);
        let name = &entry.name;
        let text = format!("table {name} is whole again: its retained log records were applied");
        core.messages.note(&text);
    }
    Ok(())
}
