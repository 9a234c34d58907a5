//! Replay of the log's records.
//!
//! One thread reads them in order. It handles write ids, commits and table
//! changes. Other threads apply the entries, see `workers`; in an engine without
//! threads the reader applies them.

mod flushing;
mod workers;

use self::flushing::{Flushing, job_of};
use self::workers::{Action, ReplayEntry, Workers};
use super::id_parts::FoundParts;
use crate::catalogue::{Catalogue, PreparedEntry, UNNAMED_IDS_MAX};
use crate::core::budget::Budget;
use crate::core::file_search::FoundFiles;
use crate::core::files::IndexFiles;
use crate::core::index::Index;
use crate::core::tables::Tables;
use crate::error::{EngineError, EngineResult};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::bytes::Malformed;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{
    CommitSequence, FileId, Lsn, StorageError, StorageResult, WriteId, WriteIdRange, WriteIdRanges,
};
use teak_transactions::{TransactionId, TransactionSystem, WriteIdTable};
use teak_tree::MemtableUse;
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
    pub transactions: Arc<TransactionSystem>,
    pub tables: Tables,
    /// Table changes before this position are in the catalogue.
    tables_lsn: Lsn,
    /// By file; `None` for files whose records are skipped: they belong to no table, are missing,
    /// or belong to an unavailable table.
    pub(super) indexes: HashMap<FileId, Option<Arc<Index>>>,
    pub written: Vec<Arc<Index>>,
    /// The index files that searches have found.
    pub(super) paths: FoundFiles,
    /// Writes of prepared transactions by XID, including those that have ended since.
    prepared: BTreeMap<Vec<u8>, Arc<WriteIdRanges>>,
    /// Parts of the write ids of records that were not read yet.
    parts: FoundParts,
    /// Tables with a missing file, and its path.
    pub(super) missing: BTreeMap<u64, PathBuf>,
    pub records: u64,
    unchecked_bytes: u64,
    /// The last record with entries that were applied.
    last_write: Lsn,
    /// Number of threads that apply entries, and of those that flush; zero: this
    /// thread does both.
    threads: usize,
    workers: Option<Workers>,
    /// Tables whose files could not be used, and the reason.
    pub(super) unavailable: BTreeMap<u64, StorageError>,
    /// Tables with retained records that are no longer needed, because a repair has replaced all
    /// files.
    pub(super) repaired: BTreeSet<u64>,
    /// The same for tables whose files TRUNCATE or an alteration that is no repair has replaced.
    pub(super) replaced: BTreeSet<u64>,
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
    pub(super) fn new(
        files: IndexFiles,
        budget: Budget,
        catalogue: &mut Catalogue,
        threads: usize,
    ) -> Self {
        files.set_unowned(std::mem::take(&mut catalogue.unowned));
        let ids = WriteIdTable::new(catalogue.next_write_id, &catalogue.aborted);
        ids.reactivate(catalogue.active.ranges(), NO_TRANSACTION);
        Self {
            files,
            budget,
            transactions: Arc::new(TransactionSystem::new(ids, 1)),
            tables: Tables::restore(catalogue),
            tables_lsn: catalogue.tables_lsn,
            indexes: HashMap::new(),
            written: Vec::new(),
            paths: FoundFiles::default(),
            prepared: std::mem::take(&mut catalogue.prepared)
                .into_iter()
                .map(|entry| (entry.xid, entry.write_ids))
                .collect(),
            parts: FoundParts::new(catalogue.replay_from),
            missing: BTreeMap::new(),
            records: 0,
            unchecked_bytes: 0,
            last_write: Lsn(0),
            threads,
            workers: None,
            unavailable: BTreeMap::new(),
            repaired: BTreeSet::new(),
            replaced: BTreeSet::new(),
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
            Record::Load { file, write_id } => self.load(lsn, file, write_id),
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
            | Record::TablesAltered { .. } => {
                if lsn < self.tables_lsn {
                    return Ok(());
                }
                self.change_tables_exclusively(lsn, record)
            }
            Record::Counter { .. } => {
                if lsn < self.tables_lsn {
                    return Ok(());
                }
                self.change_tables(lsn, record)
            }
        }
    }

    /// The transactions that the catalogue or a prepare record names, including those that have
    /// ended since.
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
            let entry = ReplayEntry {
                lsn,
                write_id,
                action: Action::Write(operation.operation),
                key: operation.key,
                value: operation.value,
            };
            self.put(operation.file, &entry)?;
        }
        if self.unchecked_bytes >= CHECK_BYTES {
            self.unchecked_bytes = 0;
            self.limit_memory(lsn)?;
        }
        Ok(())
    }

    /// The files of the table may contain entries of the write, although no record says which.
    fn load(&mut self, lsn: Lsn, file: FileId, write_id: WriteId) -> EngineResult<()> {
        self.adopt(lsn, WriteIdRange::one(write_id))?;
        let owner = self.owner_of(file);
        let state = owner.and_then(|id| self.tables.by_id.get_mut(&id));
        for entry in state.into_iter().flat_map(|state| &mut state.entry.indexes) {
            entry.note_older_write(write_id);
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
        let entry = ReplayEntry {
            lsn,
            write_id,
            action: Action::DeleteRange,
            key: start,
            value: end,
        };
        self.put(file, &entry)
    }

    /// Puts an entry into the memtable of its index, if the index's file does not
    /// contain it.
    fn put(&mut self, file: FileId, entry: &ReplayEntry<'_>) -> EngineResult<()> {
        if !self.indexes.contains_key(&file) {
            self.open_table_of(file);
        }
        let Some(Some(index)) = self.indexes.get(&file) else {
            return Ok(());
        };
        if entry.lsn < index.replay_from {
            return Ok(());
        }
        self.last_write = entry.lsn;
        if self.workers.is_none() && self.threads > 0 {
            let debt_bytes = self.budget.debt_bytes();
            let flushing = Flushing::start(self.threads, &self.transactions, debt_bytes)?;
            self.workers = Some(Workers::start(self.threads, flushing)?);
        }
        if !index.registered.load(Ordering::Relaxed) {
            index.registered.store(true, Ordering::Release);
            self.written.push(Arc::clone(index));
            self.set_flushed_indexes();
        }
        match &mut self.workers {
            Some(workers) => workers.apply(index, entry)?,
            None => entry.apply(index),
        }
        self.unchecked_bytes += (entry.key.len() + entry.value.len()) as u64 + ENTRY_BYTES;
        Ok(())
    }

    /// Waits until everything read so far is applied, and no flush runs, and
    /// changes the tables.
    fn change_tables_exclusively(&mut self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
        if let Some(workers) = &mut self.workers {
            workers.wait()?;
            workers.flushing.pause();
        }
        let changed = self.change_tables(lsn, record);
        self.set_flushed_indexes();
        if let Some(workers) = &self.workers {
            workers.flushing.resume();
        }
        changed
    }

    /// Applies the rest, flushes frozen memtables until the others have little more than half of the quota, and ends the threads.
    /// Otherwise the first writers would be stopped while the memtables are flushed.
    pub(super) fn finish(&mut self) -> EngineResult<()> {
        if let Some(workers) = &mut self.workers {
            workers.wait()?;
            self.limit_memory(self.last_write)?;
        }
        self.wait_for_memory(self.budget.memtable_quota() / 2)?;
        if let Some(mut workers) = self.workers.take() {
            workers.stop()?;
            for (index, cause) in workers.flushing.take_failed() {
                self.exclude_index(&index, cause);
            }
        }
        Ok(())
    }

    /// Passes the written indexes to the flushing threads.
    fn set_flushed_indexes(&self) {
        if let Some(workers) = &self.workers {
            workers.flushing.set_indexes(&self.written);
        }
    }

    /// Leaves out the table of an index that cannot be flushed.
    fn exclude_index(&mut self, index: &Index, cause: StorageError) {
        if let Some(id) = self.owner_of(index.entry.file) {
            self.exclude(id, cause);
        }
    }

    fn fits_in_memory(&self) -> bool {
        self.memtable_use().live() <= self.budget.total()
    }

    fn memtable_use(&self) -> MemtableUse {
        let mut used = MemtableUse::default();
        for index in &self.written {
            used.active += index.tree.memtable_bytes();
            used.frozen += index.tree.frozen_bytes();
        }
        used
    }

    /// Freezes the largest memtables while active ones take more than half of the quota. Without
    /// threads flushes them; otherwise waits for the flushing threads while all memtables exceed
    /// the quota.
    fn limit_memory(&mut self, lsn: Lsn) -> StorageResult<()> {
        // After this record and before the next.
        let boundary = Lsn(lsn.0 + 1);
        while self.memtable_use().active > self.budget.memtable_quota() / 2 {
            let indexes = self.written.iter();
            let largest = indexes.max_by_key(|index| index.tree.memtable_bytes());
            let Some(index) = largest.cloned() else {
                return Ok(());
            };
            if let Some(workers) = &mut self.workers {
                workers.freeze(&index, boundary)?;
                workers.wait()?;
                workers.flushing.wake();
            } else {
                index.tree.freeze(|| boundary);
                match self.flush(&index) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) if error.is_no_space() => return Err(error),
                    Err(cause) => self.exclude_index(&index, cause),
                }
            }
        }
        self.wait_for_memory(self.budget.memtable_quota())
    }

    /// Flushes the frozen memtables of an index on this thread. False when the
    /// disk is full.
    fn flush(&self, index: &Arc<Index>) -> StorageResult<bool> {
        let horizon = self.transactions.horizon();
        while index.tree.frozen_memtables() > 0 {
            let Some(job) = job_of(index) else {
                break;
            };
            match job.run(&horizon) {
                // The engine must be able to open on a full disk, so that
                // tables can be dropped: continue while memory suffices.
                Err(error) if error.is_no_space() && self.fits_in_memory() => {
                    index.tree.truncate_free_tail();
                    return Ok(false);
                }
                run => drop(run?),
            }
        }
        Ok(true)
    }

    /// Waits for the flushing threads while the memtables have more bytes than this and some are frozen.
    fn wait_for_memory(&mut self, bytes_max: u64) -> StorageResult<()> {
        while let Some(workers) = &self.workers {
            let failed = workers.flushing.take_failed();
            if !failed.is_empty() {
                for (index, cause) in failed {
                    self.exclude_index(&index, cause);
                }
                self.set_flushed_indexes();
                continue;
            }
            let used = self.memtable_use();
            // Without frozen memtables no job would end the wait: the workers have inserted
            // records that they had before. The next record freezes these memtables.
            if used.live() <= bytes_max || used.frozen == 0 {
                return Ok(());
            }
            match workers.flushing.wait_for_job() {
                // As in `flush`: continues on a full disk while memory suffices.
                Some(_) if self.fits_in_memory() => return Ok(()),
                Some(error) => return Err(error),
                None => {}
            }
        }
        Ok(())
    }
}
