//! Copies the log records of some tables out of the log, one file for each table.
//!
//! Writes that are rolled back when they are copied are left out. The records store
//! write ids, so writes of active and prepared transactions get the outcome of their
//! transaction.

use super::file::{RetainedPlace, RetainedWriter, is_unfinished};
use crate::catalogue::RetainedIds;
use crate::core::EngineCore;
use crate::core::files::IndexFiles;
use crate::error::EngineResult;
use crate::name::retained_path;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use teak_base::{FileId, Lsn, StorageError, StorageResult, WriteId, WriteStatus};
use teak_transactions::WriteIdTable;
use teak_write_ahead_log::{Record, WriteOperation};

/// Bytes of records in memory, of all tables together, at which all are written.
const BUFFERED_BYTES_MAX: usize = 16 << 20;

/// A table whose records are copied.
pub(super) struct CopyRequest {
    pub table: u64,
    /// Its files, and for each a position: the file contains the effects of all records before it.
    pub files: Vec<(FileId, Lsn)>,
    /// The oldest aborted write id that the files may contain; settled if there is none.
    pub oldest: WriteId,
}

/// The copy of one table's records.
pub(super) struct Copied {
    pub table: u64,
    pub ids: RetainedIds,
    /// Length of the file.
    pub bytes: u64,
}

/// The records of one table.
struct Collected {
    writer: RetainedWriter,
    /// The oldest write id that its files or its records may contain.
    oldest: WriteId,
}

/// Where a file's records go.
#[derive(Clone, Copy)]
struct Target {
    /// The number of its table.
    number: usize,
    /// The position from which its records are needed.
    from: Lsn,
}

/// The tables by number, and the files that belong to them.
struct Collector<'a> {
    ids: &'a WriteIdTable,
    tables: Vec<Collected>,
    by_file: HashMap<FileId, Target>,
    buffered: usize,
}

/// Called with each log record and its position.
pub(super) type Visit<'a> = dyn FnMut(Lsn, Record<'_>) -> StorageResult<()> + 'a;

/// Where copies are written, and the status of write ids.
pub(super) struct CopyContext<'a> {
    pub instance: u64,
    pub files: &'a IndexFiles,
    pub ids: &'a WriteIdTable,
}

impl CopyContext<'_> {
    /// Writes and syncs the files. `read` passes all log records before `end` that may be needed,
    /// in order.
    ///
    /// # Errors
    /// Those of `read`; `NoSpace`, `Io`. After an error the new files are removed.
    pub(super) fn copy(
        &self,
        wanted: &[CopyRequest],
        end: Lsn,
        read: impl FnOnce(&mut Visit<'_>) -> StorageResult<()>,
    ) -> StorageResult<Vec<Copied>> {
        let mut created = Vec::with_capacity(wanted.len());
        self.copy_into(&mut created, wanted, end, read)
            .inspect_err(|_| created.iter().for_each(|table| self.discard(*table)))
    }

    /// Removes a file that no catalogue needs. If that fails, the file is set aside before it is
    /// written again, or removed when the engine is opened next.
    pub(super) fn discard(&self, table: u64) {
        let path = retained_path(&self.files.directory, table);
        let _ = self.files.disk.remove(&path);
    }

    /// Makes the name of a table's file available. The catalogue does not need a file of this name,
    /// but it may have records of earlier files of the table that could not be set aside before. So
    /// it is not removed, unless its writer was interrupted.
    fn set_leftover_aside(&self, table: u64) -> StorageResult<()> {
        let files = self.files;
        let path = retained_path(&files.directory, table);
        if !files.disk.exists(&path)? {
            return Ok(());
        }
        if is_unfinished(files.disk.open(&path)?.as_ref())? {
            return files.disk.remove(&path);
        }
        let target = files.move_aside(&path)?;
        let (path, target) = (path.display(), target.display());
        let text = format!("earlier log records in {path} were moved to {target}");
        files.messages.warning(&text);
        Ok(())
    }

    /// As `copy`. Adds the tables whose files it creates to `created`.
    fn copy_into(
        &self,
        created: &mut Vec<u64>,
        wanted: &[CopyRequest],
        end: Lsn,
        read: impl FnOnce(&mut Visit<'_>) -> StorageResult<()>,
    ) -> StorageResult<Vec<Copied>> {
        let place = RetainedPlace::of(self.files, self.instance);
        let mut collector = Collector {
            ids: self.ids,
            tables: Vec::with_capacity(wanted.len()),
            by_file: HashMap::new(),
            buffered: 0,
        };
        for (number, table) in wanted.iter().enumerate() {
            self.set_leftover_aside(table.table)?;
            let writer = RetainedWriter::create(place, table.table)?;
            created.push(table.table);
            let oldest = match table.oldest.is_settled() {
                true => self.ids.next(),
                false => table.oldest,
            };
            collector.tables.push(Collected { writer, oldest });
            let targets = table.files.iter();
            let targets = targets.map(|(file, from)| {
                let from = *from;
                (*file, Target { number, from })
            });
            collector.by_file.extend(targets);
        }
        read(&mut |lsn, record| collector.visit(lsn, &record))?;
        let next = self.ids.next();
        let mut copied = Vec::with_capacity(wanted.len());
        for (wanted, collected) in wanted.iter().zip(collector.tables) {
            let oldest = collected.oldest.min(next);
            copied.push(Copied {
                table: wanted.table,
                ids: RetainedIds { oldest, next },
                bytes: collected.writer.finish(end)?,
            });
        }
        place.disk.sync_directory(place.directory)?;
        Ok(copied)
    }
}

/// Writes the log records of the `unavailable` tables to files of their own at the end of recovery,
/// when every write is committed, aborted or prepared, and notes in their catalogue entries that
/// they are retained. Called before anything is appended to the log.
///
/// # Errors
/// Those of reading the log; `NoSpace`, `Io`.
pub(crate) fn retain(
    core: &EngineCore,
    unavailable: &BTreeMap<u64, StorageError>,
) -> EngineResult<()> {
    let wanted: Vec<CopyRequest> = {
        let tables = core.tables.lock();
        let states = unavailable.keys().filter_map(|id| tables.by_id.get(id));
        let wanted = states.map(|state| {
            let indexes = &state.entry.indexes;
            let oldest = indexes.iter().map(|index| index.oldest_write_id);
            let oldest = oldest.filter(|id| !id.is_settled()).min();
            CopyRequest {
                table: state.entry.id,
                files: indexes.iter().map(|index| (index.file, Lsn(0))).collect(),
                oldest: oldest.unwrap_or(WriteId::SETTLED),
            }
        });
        wanted.collect()
    };
    if wanted.is_empty() {
        return Ok(());
    }
    let context = CopyContext {
        instance: core.instance,
        files: &core.files,
        ids: core.transactions.ids(),
    };
    let from = Lsn(core.replay_from.load(Ordering::Acquire));
    let copied = context.copy(&wanted, core.log.end(), |visit| {
        core.log.read_again(from, visit)
    })?;
    let mut tables = core.tables.lock();
    for Copied { table, ids, .. } in copied {
        if let Some(state) = tables.by_id.get_mut(&table) {
            state.entry.retained = Some(ids);
        }
    }
    Ok(())
}

impl Collector<'_> {
    /// The number of the table that needs the record at `lsn` of a file.
    fn number_of(&self, file: FileId, lsn: Lsn) -> Option<usize> {
        let target = self.by_file.get(&file)?;
        (lsn >= target.from).then_some(target.number)
    }

    fn visit(&mut self, lsn: Lsn, record: &Record<'_>) -> StorageResult<()> {
        match *record {
            Record::Write {
                write_id,
                operations,
            } => {
                let mut by_table: BTreeMap<usize, Vec<WriteOperation<'_>>> = BTreeMap::new();
                for operation in operations {
                    if let Some(table) = self.number_of(operation.file, lsn) {
                        by_table.entry(table).or_default().push(operation);
                    }
                }
                for (table, operations) in by_table {
                    let operations = operations.as_slice().into();
                    let record = Record::Write {
                        write_id,
                        operations,
                    };
                    self.push(table, lsn, write_id, &record)?;
                }
                Ok(())
            }
            Record::DeleteRange { file, write_id, .. } => match self.number_of(file, lsn) {
                Some(table) => self.push(table, lsn, write_id, record),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn push(
        &mut self,
        table: usize,
        lsn: Lsn,
        write_id: WriteId,
        record: &Record<'_>,
    ) -> StorageResult<()> {
        let Some(table) = self.tables.get_mut(table) else {
            return Ok(());
        };
        // Also for a rolled back write, because the index files may contain it.
        table.oldest = table.oldest.min(write_id);
        if self.ids.status(write_id) == WriteStatus::Aborted {
            return Ok(());
        }
        self.buffered += table.writer.push(lsn, record);
        if table.writer.is_batch_full() {
            self.buffered -= table.writer.write_batch()?;
        }
        if self.buffered >= BUFFERED_BYTES_MAX {
            for table in &mut self.tables {
                table.writer.write_batch()?;
            }
            self.buffered = 0;
        }
        Ok(())
    }
}
