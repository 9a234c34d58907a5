//! Replay of the log's records.

use super::id_parts::FoundParts;
use crate::catalogue::{Catalogue, PreparedEntry, UNNAMED_IDS_MAX};
use crate::core::budget::Budget;
use crate::core::files::IndexFiles;
use crate::core::index::Index;
use crate::core::tables::Tables;
use crate::error::{EngineError, EngineResult};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::bytes::Malformed;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{
    CommitSequence, FileId, Lsn, StorageError, StorageResult, WriteId, WriteIdRange, WriteIdRanges,
};
use teak_transactions::{TransactionId, TransactionSystem, WriteIdTable};
use teak_write_ahead_log::{IdParts, Operations, Record, WriteIds};

/// Replayed bytes after which the memory use is checked.
const CHECK_BYTES: u64 = 256 * 1024;

/// Memory of an entry in addition to key and value, approximately.
const ENTRY_BYTES: u64 = 48;

/// The owner of ids that were active when the engine stopped.
const NO_TRANSACTION: TransactionId = TransactionId(0);

/// Everything that the replay changes.
pub(super) struct Replay {
    pub files: IndexFiles,
    pub budget: Budget,
    pub transactions: TransactionSystem,
    pub tables: Tables,
    /// Table changes before this position are in the catalogue.
    tables_lsn: Lsn,
    /// By file; `None` for files that belong to no table or cannot be opened.
    pub(super) indexes: HashMap<FileId, Option<Arc<Index>>>,
    pub written: Vec<Arc<Index>>,
    /// The paths of all index files, if a search was necessary.
    pub(super) paths: Option<HashMap<FileId, PathBuf>>,
    /// Writes of prepared transactions by XID, including those that have ended since.
    prepared: BTreeMap<Vec<u8>, Arc<WriteIdRanges>>,
    /// Write ids of records that were not read yet.
    parts: FoundParts,
    /// Tables with a missing file, and its path.
    pub(super) missing: BTreeMap<u64, PathBuf>,
    pub records: u64,
    unchecked_bytes: u64,
    /// Tables that could not be opened, with a message.
    pub not_recovered: BTreeMap<u64, String>,
}

pub(super) fn malformed(lsn: Lsn) -> impl Fn(Malformed) -> EngineError {
    move |_| {
        EngineError::Storage(StorageError::corrupt(
            Path::new("teak.log"),
            lsn.0,
            "a record of the log is malformed",
        ))
    }
}

impl Replay {
    /// Restores the state of the catalogue.
    pub(super) fn new(files: IndexFiles, budget: Budget, catalogue: &mut Catalogue) -> Self {
        let ids = WriteIdTable::new(catalogue.next_write_id, &catalogue.aborted);
        ids.reactivate(catalogue.active.ranges(), NO_TRANSACTION);
        Self {
            files,
            budget,
            transactions: TransactionSystem::new(ids, 1),
            tables: Tables::restore(catalogue),
            tables_lsn: catalogue.tables_lsn,
            indexes: HashMap::new(),
            written: Vec::new(),
            paths: None,
            prepared: std::mem::take(&mut catalogue.prepared)
                .into_iter()
                .map(|entry| (entry.xid, entry.write_ids))
                .collect(),
            parts: FoundParts::new(catalogue.replay_from),
            missing: BTreeMap::new(),
            records: 0,
            unchecked_bytes: 0,
            not_recovered: BTreeMap::new(),
        }
    }

    /// Redoes one record of the log.
    pub(super) fn apply(&mut self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
        self.records += 1;
        match *record {
            Record::Write {
                write_id,
                operations,
            } => self.write(lsn, write_id, &operations),
            Record::DeleteRange {
                file,
                write_id,
                start,
                end,
            } => self.delete_range(lsn, file, write_id, start, end),
            Record::Commit {
                parts, write_ids, ..
            } => {
                if let Some(list) = self.take_ids(lsn, parts, &write_ids)? {
                    // There are no snapshots yet: every commit is visible to all.
                    let ids = self.transactions.ids();
                    ids.commit(list.ranges(), CommitSequence(0));
                }
                Ok(())
            }
            Record::Abort { parts, write_ids } => {
                if let Some(list) = self.take_ids(lsn, parts, &write_ids)? {
                    self.transactions.ids().abort(list.ranges());
                }
                Ok(())
            }
            Record::Prepare {
                xid,
                parts,
                write_ids,
                ..
            } => {
                if let Some(list) = self.take_ids(lsn, parts, &write_ids)? {
                    self.prepared.insert(xid.to_vec(), Arc::new(list));
                }
                Ok(())
            }
            Record::MoreWriteIds { owner, write_ids } => {
                self.parts.add(lsn, owner, &write_ids);
                Ok(())
            }
            Record::Void { .. } => Ok(()),
            Record::TableCreated { .. }
            | Record::TableDropped { .. }
            | Record::TableRenamed { .. }
            | Record::IndexesChanged { .. }
            | Record::TablesAltered { .. }
            | Record::Counter { .. } => {
                if lsn < self.tables_lsn {
                    return Ok(());
                }
                self.change_tables(lsn, record)
            }
        }
    }

    /// All transactions with a prepare record, including those that have ended since.
    pub(super) fn take_prepared(&mut self) -> Vec<PreparedEntry> {
        let prepared = std::mem::take(&mut self.prepared).into_iter();
        prepared
            .map(|(xid, write_ids)| PreparedEntry { xid, write_ids })
            .collect()
    }

    /// Records that write ids were allocated. Ids are allocated in order, and few are missing from
    /// the log. So an id far above all others is corrupt; accepting it would waste memory.
    fn adopt(&self, lsn: Lsn, range: WriteIdRange) -> EngineResult<()> {
        let next = self.transactions.ids().next();
        if range.last().0.saturating_sub(next.0) > UNNAMED_IDS_MAX {
            return Err(malformed(lsn)(Malformed));
        }
        self.transactions.adopt_found(range, NO_TRANSACTION);
        Ok(())
    }

    /// All ids of a record, with those of its parts. `None` if the replay began
    /// after the first part: then the catalogue contains the effect of the record.
    fn take_ids(
        &mut self,
        lsn: Lsn,
        parts: IdParts,
        own: &WriteIds<'_>,
    ) -> EngineResult<Option<WriteIdRanges>> {
        let found = self.parts.take(parts, own).map_err(malformed(lsn))?;
        for range in found.iter().flat_map(WriteIdRanges::ranges) {
            self.adopt(lsn, *range)?;
        }
        Ok(found)
    }

    fn write(
        &mut self,
        lsn: Lsn,
        write_id: WriteId,
        operations: &Operations<'_>,
    ) -> EngineResult<()> {
        self.adopt(lsn, WriteIdRange::one(write_id))?;
        for operation in operations {
            if operation.key.len() > KEY_BYTES_MAX || operation.value.len() > VALUE_BYTES_MAX {
                return Err(malformed(lsn)(Malformed));
            }
            let Some(index) = self.index_after(operation.file, lsn)? else {
                continue;
            };
            let guard = index.tree.write_guard();
            guard.set_lsn(lsn);
            guard.insert(
                write_id,
                operation.operation,
                operation.key,
                operation.value,
            );
            let bytes = operation.key.len() + operation.value.len();
            self.unchecked_bytes += bytes as u64 + ENTRY_BYTES;
        }
        if self.unchecked_bytes >= CHECK_BYTES {
            self.unchecked_bytes = 0;
            self.limit_memory(lsn)?;
        }
        Ok(())
    }

    fn delete_range(
        &mut self,
        lsn: Lsn,
        file: FileId,
        write_id: WriteId,
        start: &[u8],
        end: &[u8],
    ) -> EngineResult<()> {
        if start.len() > KEY_BYTES_MAX || end.len() > KEY_BYTES_MAX {
            return Err(malformed(lsn)(Malformed));
        }
        self.adopt(lsn, WriteIdRange::one(write_id))?;
        if let Some(index) = self.index_after(file, lsn)? {
            let guard = index.tree.write_guard();
            guard.set_lsn(lsn);
            guard.delete_range(write_id, start, end);
        }
        Ok(())
    }

    /// The index of a file, or `None` if the file already contains the record at `lsn`.
    fn index_after(&mut self, file: FileId, lsn: Lsn) -> EngineResult<Option<Arc<Index>>> {
        if !self.indexes.contains_key(&file) {
            self.open_table_of(file)?;
        }
        let index = self.indexes.get(&file).cloned().flatten();
        let index = index.filter(|index| lsn >= index.replay_from);
        if let Some(index) = &index
            && !index.registered.swap(true, Ordering::AcqRel)
        {
            self.written.push(Arc::clone(index));
        }
        Ok(index)
    }

    fn fits_in_memory(&self) -> bool {
        let trees = self.written.iter().map(|index| &index.tree);
        let held: u64 = trees
            .map(|tree| tree.memtable_bytes() + tree.frozen_bytes())
            .sum();
        held <= self.budget.total()
    }

    /// Flushes the largest memtables while they take more than half the quota.
    fn limit_memory(&mut self, lsn: Lsn) -> StorageResult<()> {
        // Any position after this record and not after the next one.
        let boundary = Lsn(lsn.0 + 1);
        loop {
            let sizes = self.written.iter().map(|index| index.tree.memtable_bytes());
            let total: u64 = sizes.sum();
            if total <= self.budget.memtable_quota() / 2 {
                return Ok(());
            }
            let indexes = self.written.iter();
            let largest = indexes.max_by_key(|index| index.tree.memtable_bytes());
            let Some(index) = largest.cloned() else {
                return Ok(());
            };
            index.tree.freeze(|| boundary);
            let horizon = self.transactions.horizon();
            while index.tree.frozen_memtables() > 0 {
                let Some(job) = index.tree.next_job() else {
                    break;
                };
                match job.run(&horizon) {
                    // The engine must open on a full disk, so that tables can be dropped. Continue
                    // while there is enough memory.
                    Err(error) if error.is_no_space() && self.fits_in_memory() => {
                        index.tree.give_back_tail();
                        return Ok(());
                    }
                    run => drop(run?),
                }
            }
        }
    }
}
