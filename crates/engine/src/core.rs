//! The state of an open engine, in parts. The threads and handles of one engine
//! share it.
//!
//! Background work takes only the parts that it needs, in context structs such as `FlushContext`.
//! Public calls, the row path, recovery and the constructors of the contexts use the whole core.

pub(crate) mod aborted_load;
pub(crate) mod backup_files;
pub(crate) mod backup_history;
pub(crate) mod backup_job;
pub(crate) mod budget;
pub(crate) mod checkpoint_progress;
pub(crate) mod checkpoint_queue;
pub(crate) mod counter_log;
pub(crate) mod counters;
pub(crate) mod counts;
pub(crate) mod delays;
pub(crate) mod file_counts;
pub(crate) mod file_pace;
pub(crate) mod file_search;
pub(crate) mod file_set;
pub(crate) mod files;
pub(crate) mod id_records;
pub(crate) mod index;
pub(crate) mod index_load;
pub(crate) mod job_threads;
pub(crate) mod live_trees;
pub(crate) mod log_stalls;
pub(crate) mod log_sync;
pub(crate) mod maintenance_state;
pub(crate) mod memory;
pub(crate) mod memory_use;
pub(crate) mod messages;
pub(crate) mod opening;
pub(crate) mod pacer;
mod peak;
pub(crate) mod prepared;
pub(crate) mod restoring;
pub(crate) mod retained_files;
mod retry;
pub(crate) mod row_changes;
pub(crate) mod row_count;
pub(crate) mod running_jobs;
pub(crate) mod signals;
pub(crate) mod sorts;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod unique_build;
pub(crate) mod unlogged_ids;
pub(crate) mod work;
pub(crate) mod work_kind;
pub(crate) mod write_access;
pub(crate) mod written;

use self::aborted_load::AbortedLoad;
use self::backup_job::BackupJob;
use self::budget::Budget;
use self::checkpoint_progress::CheckpointProgress;
use self::checkpoint_queue::CheckpointQueue;
use self::counter_log::CounterLog;
use self::counts::EngineCounts;
use self::delays::Delays;
use self::file_set::FileSet;
use self::files::IndexFiles;
use self::index::Index;
use self::job_threads::JobThreadCounts;
use self::log_stalls::LogStalls;
use self::log_sync::LogSyncPolicy;
use self::maintenance_state::MaintenanceState;
use self::memory::{HeapMeter, MemoryContext};
use self::messages::Messages;
use self::prepared::PreparedList;
use self::retained_files::RetainedFiles;
use self::running_jobs::RunningJobs;
use self::signals::Signals;
use self::tables::Tables;
use self::unlogged_ids::UnloggedIds;
use self::work::WorkQueue;
use self::written::WrittenIndexes;
use crate::error::{EngineError, EngineResult};
use crate::options::EngineOptions;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use teak_base::{StorageError, StorageResult};
use teak_disk::{DiskLock, IoPacer};
use teak_transactions::TransactionSystem;
use teak_write_ahead_log::WriteAheadLog;

/// The state of one open engine.
pub(crate) struct EngineCore {
    pub options: EngineOptions,
    /// Identifies the data directory. The log contains the same value.
    pub instance: u64,
    pub files: IndexFiles,
    pub log: WriteAheadLog,
    pub log_sync: LogSyncPolicy,
    pub log_stalls: LogStalls,
    pub counter_log: CounterLog,
    /// The position from which recovery would read the log now.
    pub replay_from: AtomicU64,
    pub transactions: TransactionSystem,
    pub aborted: AbortedLoad,
    pub prepared: PreparedList,
    /// The backup that the server has requested.
    pub backup_job: BackupJob,
    pub tables: Mutex<Tables>,
    /// Serialises table changes and the capture of the catalogue.
    pub table_changes: Mutex<()>,
    /// Serialises writes of the catalogue file.
    pub catalogue_writes: Mutex<()>,
    /// Serialises changes of temporary tables. No thread syncs a file while it holds this mutex.
    pub temporary_changes: Mutex<()>,
    pub unlogged_ids: UnloggedIds,
    pub written: WrittenIndexes,
    /// The indexes with background work.
    pub work: WorkQueue,
    /// Files that a job has left too large for their live bytes. The thread `teak-space` makes
    /// them smaller.
    pub too_large: FileSet,
    /// Files to which jobs have written since the thread `teak-space` has last looked.
    pub changed: FileSet,
    /// The files of which a flush, a merge or a checkpoint has failed. Maintenance removes those
    /// whose flushes and checkpoints work.
    pub failing: FileSet,
    pub delays: Delays,
    pub job_threads: Arc<JobThreadCounts>,
    pub running_jobs: RunningJobs,
    /// Limits the I/O of background jobs.
    pub pacer: Arc<IoPacer>,
    pub budget: Budget,
    pub heap_meter: HeapMeter,
    pub signals: Signals,
    /// Held during a maintenance pass and during a checkpoint of all indexes, so that there is one
    /// round of checkpoints at a time.
    pub maintenance: Mutex<MaintenanceState>,
    /// Held by a thread that has opened more tables than the limit, while it closes idle ones.
    /// Other threads that open tables do not wait for it.
    pub closing_idle: Mutex<()>,
    pub checkpoint_queue: CheckpointQueue,
    pub checkpoints: CheckpointProgress,
    /// Numbers the spill files of sorts.
    pub next_spill: Arc<AtomicU64>,
    pub retained: RetainedFiles,
    pub counts: EngineCounts,
    pub messages: Messages,
    /// Prevents other processes from opening the data directory.
    pub _lock: DiskLock,
}

impl EngineCore {
    /// The parts that use memory.
    pub(crate) fn memory(&self) -> MemoryContext<'_> {
        MemoryContext {
            cache: &self.files.cache,
            transactions: &self.transactions,
            log: &self.log,
            budget: &self.budget,
            heap: self.options.heap.as_deref(),
            meter: &self.heap_meter,
        }
    }

    /// Applies the shares of the memory budget.
    pub(crate) fn apply_budget(&self) {
        let spare = self.budget.memtable_quota() / 2;
        self.files.cache.memtables().set_spare_bytes_max(spare);
        let nodes = self.files.cache.nodes();
        nodes.set_bytes_max(self.budget.node_bytes_max());
        let pages = self.budget.page_cache_bytes_with(&self.memory().measure());
        self.files.cache.set_capacity(pages);
        let lock_bytes = self.budget.lock_bytes();
        self.transactions.set_lock_bytes_max(lock_bytes);
    }

    /// Converts the result of an index operation; reports damage.
    #[inline]
    pub(crate) fn checked<T>(&self, index: &Index, result: StorageResult<T>) -> EngineResult<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.damage(index, error)),
        }
    }

    #[cold]
    fn damage(&self, index: &Index, error: StorageError) -> EngineError {
        self.messages.report_damage(index, &error);
        EngineError::Storage(error)
    }

    /// Called by a write that finds the index's `WriteAccess` not open: it is the first write since
    /// the index was opened or since a refusal ended, or writes are refused. Returns false if the
    /// index must be skipped: the alteration that was building it has failed.
    ///
    /// # Errors
    /// `TableReadOnly`.
    #[cold]
    pub(crate) fn begin_writes(&self, index: &Arc<Index>) -> EngineResult<bool> {
        let refused = |cause| match index.build_failure() {
            Some(_) => Ok(false),
            None => Err(EngineError::TableReadOnly {
                path: index.entry.path.clone(),
                cause,
            }),
        };
        if index.build_failure().is_some() {
            return Ok(false);
        }
        if let Some(cause) = index.access.refusal() {
            return refused(cause);
        }
        self.written.register(index);
        match index.access.open() {
            Ok(()) => Ok(true),
            Err(cause) => refused(cause),
        }
    }

    /// Locks the mutex that serialises changes of temporary tables, or of all others.
    pub(crate) fn lock_changes(&self, is_temporary: bool) -> MutexGuard<'_, ()> {
        if is_temporary {
            self.temporary_changes.lock()
        } else {
            self.table_changes.lock()
        }
    }

    /// Appends the counters that changed since they were last logged.
    pub(crate) fn log_counters(&self) -> StorageResult<()> {
        self.counter_log.append_to(&self.log)
    }
}
