//! Copies the log records of unavailable tables out of the log, at the end of
//! recovery, when the outcome of every write is known.
//!
//! Rolled back writes are left out. Those of prepared transactions keep their
//! write ids, and so get whatever outcome the transaction gets.

use super::file::RetainedWriter;
use crate::catalogue::RetainedIds;
use crate::core::EngineCore;
use crate::error::EngineResult;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{FileId, Lsn, StorageError, WriteId, WriteStatus};
use teak_disk::Disk;
use teak_transactions::WriteIdTable;
use teak_write_ahead_log::{Record, WriteOperation};

/// Bytes of records in memory, of all tables together, at which all are written.
const BUFFERED_BYTES_MAX: usize = 16 << 20;

/// The records of one table.
struct Collected {
    writer: RetainedWriter,
    /// The oldest write id that its files or its records may contain.
    oldest: WriteId,
}

/// The tables by number, and the files that belong to them.
struct Collector<'a> {
    disk: &'a Arc<dyn Disk>,
    ids: &'a WriteIdTable,
    tables: Vec<Collected>,
    by_file: HashMap<FileId, usize>,
    buffered: usize,
}

/// Writes the log records of the `unavailable` tables to files of their own, and
/// notes in their catalogue entries that they are retained. Nothing was
/// appended to the log yet.
///
/// # Errors
/// Those of reading the log; `NoSpace`, `Io`.
pub(crate) fn retain(
    core: &EngineCore,
    unavailable: &BTreeMap<u64, StorageError>,
) -> EngineResult<()> {
    let entries: Vec<_> = {
        let tables = core.tables.lock();
        let states = unavailable.keys().filter_map(|id| tables.by_id.get(id));
        states.map(|state| state.entry.clone()).collect()
    };
    if entries.is_empty() {
        return Ok(());
    }
    let (disk, directory) = (&core.files.disk, &core.files.directory);
    let ids = core.transactions.ids();
    let mut collector = Collector {
        disk,
        ids,
        tables: Vec::with_capacity(entries.len()),
        by_file: HashMap::new(),
        buffered: 0,
    };
    for (number, entry) in entries.iter().enumerate() {
        let writer = RetainedWriter::create(disk, directory, core.instance, entry.id)?;
        let oldest = entry.indexes.iter().map(|index| index.oldest_write_id);
        let oldest = oldest.filter(|id| !id.is_settled()).min();
        collector.tables.push(Collected {
            writer,
            oldest: oldest.unwrap_or(ids.next()),
        });
        let files = entry.indexes.iter().map(|index| index.file);
        collector.by_file.extend(files.map(|file| (file, number)));
    }
    let from = Lsn(core.replay_from.load(Ordering::Acquire));
    core.log
        .read_again(from, &mut |lsn, record| collector.visit(lsn, &record))?;
    let end = core.log.end();
    let mut retained = Vec::with_capacity(entries.len());
    for (entry, collected) in entries.iter().zip(collector.tables) {
        collected.writer.finish(disk, end)?;
        let next = ids.next();
        let ids = RetainedIds {
            oldest: collected.oldest.min(next),
            next,
        };
        retained.push((entry.id, ids));
    }
    disk.sync_directory(directory)?;
    let mut tables = core.tables.lock();
    for (id, ids) in retained {
        if let Some(state) = tables.by_id.get_mut(&id) {
            state.entry.retained = Some(ids);
        }
    }
    Ok(())
}

impl Collector<'_> {
    fn visit(&mut self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
        match *record {
            Record::Write {
                write_id,
                operations,
            } => {
                let mut by_table: BTreeMap<usize, Vec<WriteOperation<'_>>> = BTreeMap::new();
                for operation in operations {
                    if let Some(table) = self.by_file.get(&operation.file) {
                        by_table.entry(*table).or_default().push(operation);
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
            Record::DeleteRange { file, write_id, .. } => match self.by_file.get(&file).copied() {
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
    ) -> EngineResult<()> {
        let Some(table) = self.tables.get_mut(table) else {
            return Ok(());
        };
        // The index files may contain rolled back writes, too.
        table.oldest = table.oldest.min(write_id);
        if self.ids.status(write_id) == WriteStatus::Aborted {
            return Ok(());
        }
        self.buffered += table.writer.push(lsn, record);
        if table.writer.is_batch_full() {
            self.buffered -= table.writer.write_batch(self.disk)?;
        }
        if self.buffered >= BUFFERED_BYTES_MAX {
            for table in &mut self.tables {
                table.writer.write_batch(self.disk)?;
            }
            self.buffered = 0;
        }
        Ok(())
    }
}
